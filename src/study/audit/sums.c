/* sums.c - judge arithmetic that a text writes out: 2 × 28 layers × 8 heads × 128 = 57,344. It is read if every term is a number and
 * only words come between. The model that it is about does not matter. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "study/audit/reading.h"
#include "base/error.h"
#include "base/number.h"

enum { LM_MOST_TERMS = 8 };

typedef struct side {
    double         value, binary;    /* binary: with byte prefixes as powers of 1,024 */
    double         slack;            /* uncertainty from rounded terms, relative to the value */
    bool           calculated, divided;
    double         begin;            /* the value of the first factor */
    const lm_item *first, *number;   /* the first item and the last number */
    double         mended;           /* the value with the right figures in place of wrong ones */
    double         exact;            /* the value with the exact figures in place of rounded ones */
    size_t         digits;           /* the fewest digits of a rounded figure; 0: there is none */
    size_t         n_terms;          /* of the outermost sum */
    double         terms[LM_MOST_TERMS];
    const lm_item *plain[LM_MOST_TERMS];                 /* the number that is the whole term, or NULL */
} side;

typedef struct reader {
    const lm_audit_document *d;
    const lm_item           *items;
    size_t                   n, at;
    int                      depth;
    bool                     failed;
} reader;

enum { DEEPEST = 8 };

/* "H²", "√2": a symbol, which cannot be evaluated. */
static bool is_symbol(const lm_item *x)
{
    static const char *const signs[] = { "²", "³", "√", "^", "_", "!", NULL };

    for (size_t i = 0; x->role == LM_UNKNOWN && !x->exponent && signs[i]; i++)
        if (memmem(x->at.s, x->at.n, signs[i], strlen(signs[i])))
            return true;
    return false;
}

/* Return '*', '/', '+', or 0 for none; '?': a sign that makes the calculation unreadable. */
static char operator_at(const lm_item *x)
{
    if (x->role == LM_TIMES)
        return lm_text_is(x->at, "→") || lm_text_is(x->at, "->") ? '?' : '*';
    if (x->role == LM_SLASH)
        return '/';
    if (is_symbol(x))
        return '?';
    if (x->role == LM_UNKNOWN && x->at.n == 1 && !isalnum((unsigned char)*x->at.s))
        return *x->at.s == '+' ? '+' : '?';
    return lm_text_is(x->at, "-") || lm_text_is(x->at, "–") || lm_text_is(x->at, "(") ? '?' : 0;
}

static bool is_term(const lm_item *x)
{
    return (x->role == LM_NUMBER && !x->last.n) || x->exponent;
}

/* Return the end of a remark in parentheses, such as "(~263M)", "(FP16)" or "(K+V)", which is no factor: it begins with a word and has no
 * signs, or only letters of keys and values. 0: it may be a factor. */
static size_t behind_remark(const lm_item *items, size_t n, size_t i)
{
    size_t k = i + 1;
    bool   letters = true, signs = false;

    if (k >= n || items[k].role == LM_NUMBER || is_term(&items[k]))
        return 0;
    for (; k < n && !lm_text_is(items[k].at, ")"); k++) {
        letters &= items[k].at.n == 1 && strchr("KQV+&/", *items[k].at.s);
        signs |= operator_at(&items[k]) != 0;
    }
    return k < n && (letters || !signs) ? k + 1 : 0;
}

/* Skip words that say what a number counts: "28 layers", "2 (keys and values)". */
static size_t skip_words(const lm_item *items, size_t n, size_t i)
{
    for (size_t k = i; k < n; k++) {
        if (lm_text_is(items[k].at, "(")) {
            size_t behind = behind_remark(items, n, k);
            if (!behind)
                return i;
            k = behind - 1;
        } else if (is_term(&items[k]) || items[k].role == LM_NUMBER || items[k].role == LM_BREAK || items[k].role == LM_LEAD ||
                   items[k].role == LM_LINK || operator_at(&items[k])) {
            return k;
        }
        i = k + 1;
    }
    return i;
}

/* Return what a figure should have been that the document calculated wrongly before; else its value. */
static double mended(const lm_audit_document *d, const lm_item *x, double value)
{
    for (size_t i = d->n_mended; i-- > 0;)
        if (lm_same_text(d->mended[i].at, x->at))
            return d->mended[i].truth;
    return value;
}

static void mend(lm_audit_document *d, const lm_item *x, double truth)
{
    bool large = x->number.power > 1 || x->at.n > 5;

    if (large && x->number.unit == LM_NUMERAL_PLAIN && d->n_mended < LM_MOST_MENDED)
        d->mended[d->n_mended++] = (lm_mended){ x->at, truth };
}

/* ---- rounded figures ---- */

static lm_extent digits_of(const lm_item *x, size_t *n)
{
    lm_extent s = { x->at.s, 0 };

    *n = 0;
    for (; s.n < x->at.n && (isdigit((unsigned char)s.s[s.n]) || (strchr(".,", s.s[s.n]) && s.n + 1 < x->at.n)); s.n++)
        *n += isdigit((unsigned char)s.s[s.n]) != 0;
    return s;
}

/* Keep what the digits of a calculated figure are exactly: 7.4942 for "7.5B", if it is 7.4942 × 2^30. */
static void keep_rounded(lm_audit_document *d, const lm_item *x, double truth)
{
    size_t    n;
    lm_extent digits = digits_of(x, &n);
    double    unit = pow(1000, x->number.power), value = x->number.value / unit, half = x->number.half / unit * (1 + 1e-9);

    unit = fabs(truth / unit - value) <= half ? unit : pow(1024, x->number.power);
    if (fabs(truth / unit - value) <= half && memchr(digits.s, '.', digits.n) && d->n_rounded < LM_MOST_MENDED)
        d->rounded[d->n_rounded++] = (lm_rounded){ digits, truth / unit, n };
}

/* Take the exact value of a number without a unit that repeats the digits of a rounded figure. */
static void take_exact(const lm_audit_document *d, const lm_item *x, side *s)
{
    s->exact = x->number.value;
    for (size_t i = d->n_rounded; i-- > 0 && !x->number.power && x->number.unit == LM_NUMERAL_PLAIN;)
        if (lm_same_text(d->rounded[i].digits, x->at)) {
            s->exact  = d->rounded[i].exact;
            s->digits = d->rounded[i].n_digits;
            return;
        }
}

static size_t fewest(size_t a, size_t b)
{
    return a && b ? (a < b ? a : b) : a + b;
}

static side read_sum(reader *r);

/* Read a number with its exponent, or a sum in parentheses, and the words after it. */
static side read_factor(reader *r)
{
    const lm_item *x = r->at < r->n ? &r->items[r->at] : NULL;
    side           s = { .first = x };

    if (x && lm_text_is(x->at, "(") && r->depth < DEEPEST) {
        r->at++;
        r->depth++;
        s = read_sum(r);
        r->depth--;
        r->failed |= r->at >= r->n || !lm_text_is(r->items[r->at].at, ")");
        s.first = x;
    } else if (x && is_term(x)) {
        double power = x->exponent ? x->exponent : 1;
        double v = x->number.unit == LM_NUMERAL_PERCENT ? x->number.value / 100 : x->number.value;
        s.value  = pow(v, power);
        s.mended = pow(mended(r->d, x, v), power);
        take_exact(r->d, x, &s);
        s.exact  = pow(x->number.unit == LM_NUMERAL_PERCENT ? v : s.exact, power);
        s.binary = pow(x->number.unit == LM_NUMERAL_BYTES ? x->number.binary : v, power);
        s.slack  = v != 0 ? power * fabs(x->number.half / x->number.value) : 0;
        s.number = x;
        s.calculated = x->exponent != 0;
    } else {
        r->failed = true;
    }
    s.begin = s.value;
    r->at += !r->failed;
    r->at  = skip_words(r->items, r->n, r->at);
    return s;
}

static char next_operator(const reader *r)
{
    return r->at < r->n ? operator_at(&r->items[r->at]) : 0;
}

static side read_product(reader *r)
{
    side s = read_factor(r);

    for (char op; !r->failed && ((op = next_operator(r)) == '*' || op == '/');) {
        r->at++;
        side f = read_factor(r);
        r->failed |= op == '/' && (f.value == 0 || f.binary == 0);
        if (r->failed)
            break;
        s.value  = op == '/' ? s.value / f.value : s.value * f.value;
        s.mended = op == '/' ? s.mended / f.mended : s.mended * f.mended;
        s.exact  = op == '/' ? s.exact / f.exact : s.exact * f.exact;
        s.digits = fewest(s.digits, f.digits);
        s.binary = op == '/' ? s.binary / f.binary : s.binary * f.binary;
        s.slack += f.slack;
        s.number = f.number;
        s.calculated = true;
        s.divided |= op == '/';
    }
    return s;
}

static void add_term(side *s, const side *term)
{
    if (s->n_terms < LM_MOST_TERMS) {
        s->terms[s->n_terms] = term->mended;
        s->plain[s->n_terms] = term->calculated ? NULL : term->number;
    }
    s->n_terms++;
}

static side read_sum(reader *r)
{
    side s = read_product(r), first = s;

    s.n_terms = 0;
    add_term(&s, &first);
    while (!r->failed && next_operator(r) == '+') {
        r->at++;
        side f = read_product(r);
        add_term(&s, &f);
        s.value += f.value;
        s.mended += f.mended;
        s.exact += f.exact;
        s.digits = fewest(s.digits, f.digits);
        s.binary += f.binary;
        s.slack  = s.slack > f.slack ? s.slack : f.slack;
        s.number = f.number;
        s.calculated = true;
    }
    return s;
}

/* Read terms from *i on; false: they are not all numbers. */
static bool read_side(const lm_audit_document *d, const lm_item *items, size_t n, size_t *i, side *out)
{
    reader r = { .d = d, .items = items, .n = n, .at = *i };

    *out = read_sum(&r);
    *i   = r.at;
    return !r.failed && next_operator(&r) != '?' && isfinite(out->value);
}

/* Return whether `truth` may have been written as x, given its digits and any meaning of its unit. */
static bool may_be(const lm_item *x, double written, double slack, double truth, bool about)
{
    const lm_numeral *w = &x->number;
    double            value = written;
    double            half = w->whole ? (truth != nearbyint(truth) ? 0.5 : 0) : w->half;
    double            binary = w->value != 0 ? value * w->binary / w->value : 0, units = w->power == 3 ? value / 1e9 : value;
    bool              megas  = w->power > 1 && w->unit == LM_NUMERAL_PLAIN && fabs(binary - truth) <= fabs(truth) * 1e-9;

    half = w->power && w->zeros && !megas ? 0.5 * pow(10, w->zeros) * pow(1000, w->power) : half;
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

static void add_statement(lm_audit_document *d, const side *written, double truth, bool right, const char *why)
{
    const lm_item *x = written->number, *first = written->calculated ? written->first : x;
    lm_extent      at = { first->at.s, (size_t)(x->at.s + x->at.n - first->at.s) };
    bool           same = fabs(written->value - truth) <= fabs(truth) * 1e-12;
    size_t         before = d->n_statements;
    char           number[32];

    lm_number_text(number, truth);
    lm_add_judged(d, at, number, right ? "" : why ? why : reason(x, truth));
    if (d->n_statements == before)
        return;
    d->statements[before].judged.verdict = !right ? LM_CLAIM_WRONG : same ? LM_CLAIM_CONFIRMED : LM_CLAIM_ROUNDED;
    if (!right)
        mend(d, x, truth);
    if (!same)
        keep_rounded(d, x, truth);
}

/* Return whether `right` may be the result of `left`. "100 / 6 = 16": a whole number may be rounded down. */
static bool comes_to(const side *left, const side *right, bool about)
{
    double open = fabs(left->value) * (left->slack + (right->calculated ? right->slack : 0));

    return may_be(right->number, right->value, open, left->value, about) ||
           (left->binary != left->value && may_be(right->number, right->value, open, left->binary, about)) ||
           (left->divided && !right->calculated && right->number->number.whole && floor(left->value) == right->value);
}

/* Return whether the result follows from wrong figures only: with the right ones it would be another. */
static bool rests_on_wrong(const side *left, const side *right, bool about)
{
    side whole = *left;

    whole.value = whole.binary = left->mended;
    return left->mended != left->value && !comes_to(&whole, right, about);
}

/* Return whether the result is written with more digits than the rounded figure that it is calculated from, and they are other ones. */
static bool rests_on_rounded(const side *left, const side *right)
{
    side   whole = *left;
    size_t n;

    whole.value = whole.binary = left->exact;
    whole.slack = 0;
    digits_of(right->number, &n);
    n -= n > (size_t)right->number->number.zeros ? (size_t)right->number->number.zeros : 0;          /* they may be rounding */
    return left->digits && !right->calculated && n > left->digits + 1 && !comes_to(&whole, right, false);
}

/* "2 × 131M + 32 × 243M = 250M + 7.25B": judge each term of the result by its own term, if there are as many. False: not possible. */
static bool judge_terms(lm_audit_document *d, const side *left, const side *right, bool about)
{
    bool possible = left->n_terms > 1 && left->n_terms == right->n_terms && left->n_terms <= LM_MOST_TERMS;

    for (size_t i = 0; possible && i < left->n_terms; i++)
        possible = right->plain[i] != NULL;
    for (size_t i = 0; possible && i < left->n_terms; i++) {
        side one = { .value = right->plain[i]->number.value, .first = right->plain[i], .number = right->plain[i] };
        add_statement(d, &one, left->terms[i], may_be(one.number, one.value, 0, left->terms[i], about), NULL);
    }
    return possible;
}

/* Judge a result that does not contradict the terms as they are written, or does. */
static void judge_result(lm_audit_document *d, const side *left, const side *right, bool about, bool right_one)
{
    if (right_one && rests_on_wrong(left, right, about))
        add_statement(d, right, left->mended, false, N_("calculated from a wrong figure"));
    else if (right_one && rests_on_rounded(left, right))
        add_statement(d, right, left->exact * (left->exact < 1e6 ? pow(1000, right->number->number.power) : 1), false,
                      N_("calculated from a rounded figure"));
    else if (right_one || !judge_terms(d, left, right, about))
        add_statement(d, right, left->mended, right_one, NULL);
}

/* Judge the result after each "=" that follows a calculation. "2 × 8 = 16 × 4 = 64" continues from an intermediate result. Returns the
 * index where it ends. */
static size_t judge_results(lm_audit_document *d, const lm_item *items, size_t n, size_t k, side left, bool *found)
{
    side right;

    while (k + 1 < n && (lm_text_is(items[k].at, "=") || lm_text_is(items[k].at, "≈"))) {
        bool about = lm_text_is(items[k].at, "≈");
        for (k++; k < n && items[k].role == LM_LEAD; k++)
            about = true;
        if (!read_side(d, items, n, &k, &right))
            break;
        bool right_one = comes_to(&left, &right, about);
        if (!right_one && right.calculated && fabs(right.begin - left.value) <= fabs(left.value) * (left.slack + 0.01)) {
            left = right;
            continue;
        }
        judge_result(d, &left, &right, about, right_one);
        *found = true;
    }
    return k;
}

/* Return whether a calculation may begin at i: nothing before it belongs to it. */
static bool begins(const lm_item *items, size_t i)
{
    const lm_item *before = i ? &items[i - 1] : NULL;

    if (lm_text_is(items[i].at, "("))     /* "f(2 + 3)" is not a calculation */
        return !before || before->role == LM_LINK || before->role == LM_LEAD;
    return is_term(&items[i]) && !(before && (operator_at(before) || lm_text_is(before->at, ")")));
}

/* "262,668,288 (~263M)": a number and how it is rounded. */
static bool add_rounded(lm_audit_document *d, const lm_item *items, size_t n)
{
    bool found = false;

    for (size_t i = 0; i + 4 < n; i++) {
        const lm_item *x = &items[i], *y = x + 3;
        bool form = is_term(x) && lm_text_is(x[1].at, "(") && x[2].role == LM_LEAD && is_term(y) && lm_text_is(x[4].at, ")");
        if (!form || !x->number.whole || x->number.power || y->number.power < 2 || !may_be(y, y->number.value, 0, x->number.value, false))
            continue;
        side written = { .value = y->number.value, .first = y, .number = y };
        add_statement(d, &written, x->number.value, true, NULL);
        found = true;
    }
    return found;
}

bool lm_audit_sums(lm_audit_document *d, const lm_item *items, size_t n)
{
    bool found = add_rounded(d, items, n);

    for (size_t i = 0; i < n; i++) {
        side   left;
        size_t k = i;
        if (!begins(items, i) || !read_side(d, items, n, &k, &left) || !left.calculated)
            continue;
        k = judge_results(d, items, n, k, left, &found);
        i = k > i ? k - 1 : i;
    }
    return found;
}
