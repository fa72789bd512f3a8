/* sums.c - arithmetic that a text writes out: 2 × 28 layers × 8 heads × 128 = 57,344. It is read where every term is a number and nothing
 * but words stands between, and judged by itself: of what model it is does not matter. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/audit/reading.h"
#include "base/error.h"
#include "base/number.h"

#define N_(text) text                /* marked for translation; the program translates it when it is shown */

typedef struct side {
    double         value, binary;    /* binary: with prefixes of bytes as powers of 1,024 */
    double         slack;            /* what its rounded terms leave open */
    bool           calculated;
    const lm_item *number;           /* the last */
} side;

static bool sign_is(const lm_item *x, const char *sign)
{
    return x->at.n == strlen(sign) && memcmp(x->at.s, sign, x->at.n) == 0;
}

/* '*', '/', '+' or 0. */
static char operator_at(const lm_item *x)
{
    if (x->role == LM_TIMES)
        return sign_is(x, "→") || sign_is(x, "->") ? '?' : '*';
    if (x->role == LM_SLASH)
        return '/';
    if (x->role == LM_UNKNOWN && x->at.n == 1 && !isalnum((unsigned char)*x->at.s))
        return *x->at.s == '+' ? '+' : '?';
    return sign_is(x, "-") || sign_is(x, "–") || sign_is(x, "(") ? '?' : 0;
}

/* Words that say what a number counts: "28 layers", "2 (keys and values)". */
static size_t skip_words(const lm_item *items, size_t n, size_t i)
{
    for (size_t k = i; k < n; k++) {
        if (sign_is(&items[k], "(")) {
            while (k < n && items[k].role != LM_NUMBER && !sign_is(&items[k], ")"))
                k++;
            if (k >= n || items[k].role == LM_NUMBER)
                return i;
        } else if (items[k].role == LM_NUMBER || items[k].role == LM_BREAK || items[k].role == LM_LEAD || items[k].role == LM_LINK ||
                   operator_at(&items[k])) {
            return k;
        }
        i = k + 1;
    }
    return i;
}

/* Terms from *i on; false: what stands there is not only numbers. */
static bool read_side(const lm_item *items, size_t n, size_t *i, side *out)
{
    double sum = 0, product = 1, open = 0, sum2 = 0, product2 = 1;
    char   op  = '*';

    *out = (side){ .calculated = false };
    for (size_t k = *i; k < n; k++) {
        const lm_item *x = &items[k];
        if (x->role != LM_NUMBER || x->last.n || (op == '/' && x->number.value == 0))
            return false;
        double v = x->number.unit == LM_NUMERAL_PERCENT ? x->number.value / 100 : x->number.value;
        double b = x->number.unit == LM_NUMERAL_BYTES ? x->number.binary : v;
        product  = op == '/' ? product / v : product * v;
        product2 = op == '/' ? product2 / b : product2 * b;
        open += x->number.value != 0 ? x->number.half / fabs(x->number.value) : 0;
        out->number = x;
        k  = skip_words(items, n, k + 1);
        *i = k;
        op = k < n ? operator_at(&items[k]) : 0;
        if (op == '?')
            return false;
        if (op == '+' || !op) {
            sum += product;
            sum2 += product2;
            product = product2 = 1;
        }
        if (!op) {
            out->value  = sum;
            out->binary = sum2;
            out->slack = fabs(sum) * open;
            return true;
        }
        out->calculated = true;
        op = op == '+' ? '*' : op;
    }
    return false;
}

/* Whether x may be what is written, by its digits and any meaning of its unit. */
static bool may_be(const lm_item *x, double written, double slack, double truth, bool about)
{
    const lm_numeral *w = &x->number;
    double            value = w->unit == LM_NUMERAL_PERCENT ? written / 100 : written;
    double            half = w->whole ? (truth != nearbyint(truth) ? 0.5 : 0) : w->half;
    double            binary = w->value != 0 ? value * w->binary / w->value : 0, units = w->power == 3 ? value / 1e9 : value;

    half = w->power && w->zeros ? 0.5 * pow(10, w->zeros) * pow(1000, w->power) : half;
    half = w->unit == LM_NUMERAL_PERCENT ? 0.01 * (w->whole ? 0.5 : w->half) : half;
    half = (about && half < 0.05 * value ? 0.05 * value : half) * (1 + 1e-9) + slack + fabs(truth) * 1e-12;
    return fabs(value - truth) <= half || fabs(units - truth) <= half / 1e9 * (w->power == 3) ||
           ((w->unit == LM_NUMERAL_BYTES || w->power == 1) && fabs(binary - truth) <= half * 1.1);
}

static const char *reason(const lm_item *x, double truth)
{
    double near = 0.01 * fabs(truth);

    if (x->number.power > 1 && x->number.unit == LM_NUMERAL_PLAIN && fabs(x->number.binary - truth) <= near)
        return N_("a binary prefix where counts are decimal");
    if (fabs(x->number.value * 1000 - truth) <= near || fabs(x->number.value / 1000 - truth) <= near)
        return N_("a thousand times off");
    return N_("the arithmetic of the line");
}

static void say(lm_reading *d, const lm_item *x, double truth, bool right)
{
    char     number[32];
    size_t   before = d->n_said;
    lm_said *s;

    lm_say(d, x->at, 0, "", lm_arena_strndup(&d->arena, x->at.s, x->at.n), false);
    if (d->n_said == before)
        return;
    s = &d->said[before];
    s->model = "";
    bool same = fabs(x->number.value - truth) <= fabs(truth) * 1e-12;
    s->judged.verdict = !right ? LM_CLAIM_WRONG : same ? LM_CLAIM_CONFIRMED : LM_CLAIM_ROUNDED;
    lm_number_text(number, truth);
    snprintf(s->judged.truth, sizeof s->judged.truth, "%s", number);
    snprintf(s->judged.why, sizeof s->judged.why, "%s", right ? "" : reason(x, truth));
}

bool lm_audit_sums(lm_reading *d, const lm_item *items, size_t n)
{
    bool said = false;

    for (size_t i = 0; i < n; i++) {
        side   left, right;
        size_t k = i;
        bool   begins = items[i].role == LM_NUMBER && (!i || !operator_at(&items[i - 1])) && (i < 2 || !sign_is(&items[i - 1], ")"));
        if (!begins || !read_side(items, n, &k, &left) || !left.calculated)
            continue;
        while (k + 1 < n && (sign_is(&items[k], "=") || sign_is(&items[k], "≈"))) {
            bool about = sign_is(&items[k], "≈");
            for (k++; k < n && items[k].role == LM_LEAD; k++)
                about = true;
            if (!read_side(items, n, &k, &right))
                break;
            double open = left.slack + (right.calculated ? right.slack : 0);
            say(d, right.number, left.value, may_be(right.number, right.value, open, left.value, about) ||
                (left.binary != left.value && may_be(right.number, right.value, open, left.binary, about)));
            said = true;
        }
        i = k > i ? k - 1 : i;
    }
    return said;
}
