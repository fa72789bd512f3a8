/* judge.c - is what somebody wrote about a model so?
 *
 * A number is confirmed when it is the fact, rounded when the fact rounds to it, wrong otherwise. Documents write sizes in
 * decimal and in binary units alike; counts of parameters are decimal (IEC 80000-13). */
#include "analysis/judge.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/fact.h"

/* "394M": 394 million, known to half a million. Binary: what it is if M is 2^20. */
typedef struct claim { double value, binary, half; int power; bool whole, below; } claim;

/* ---- reading ---- */

static double power_of(double base, int n)
{
    double x = 1;

    while (n-- > 0)
        x *= base;
    return x;
}

/* k M G T (also B for a billion, where it counts and does not measure) after a number. */
static int prefix_of(const char *s, bool bytes, const char **after)
{
    static const char letters[] = "kmgt";

    while (*s == ' ')
        s++;
    *after = s;
    if (strncasecmp(s, "thousand", 8) == 0 || strncasecmp(s, "million", 7) == 0 || strncasecmp(s, "billion", 7) == 0) {
        *after = s + strcspn(s, " ");
        return tolower((unsigned char)*s) == 't' ? 1 : tolower((unsigned char)*s) == 'm' ? 2 : 3;
    }
    if (!bytes && (*s == 'B' || *s == 'b')) {
        *after = s + 1;
        return 3;
    }
    const char *at = *s ? strchr(letters, tolower((unsigned char)*s)) : NULL;
    if (!at)
        return 0;
    *after = s + 1;
    return (int)(at - letters) + 1;
}

static bool read_claim(const char *text, bool bytes, claim *out)
{
    char        digits[64];
    size_t      n = 0, decimals = 0;
    bool        point = false, exponent = false;
    const char *p = text, *after;

    for (out->below = false; *p && (strchr("~<= ", *p) || (unsigned char)*p >= 0x80); p++)
        out->below |= *p == '<';
    for (; *p && n + 1 < sizeof digits; p++) {
        if (*p == ',' && isdigit((unsigned char)p[1]))
            continue;
        bool sign  = (*p == '-' || *p == '+') && (n == 0 || exponent);
        bool power = tolower((unsigned char)*p) == 'e' && n && (isdigit((unsigned char)p[1]) || p[1] == '-');
        if (!isdigit((unsigned char)*p) && *p != '.' && !sign && !power)
            break;
        exponent = tolower((unsigned char)*p) == 'e';
        point |= *p == '.';
        decimals += point && isdigit((unsigned char)*p);
        digits[n++] = *p;
    }
    digits[n] = '\0';
    if (!n || !strpbrk(digits, "0123456789"))
        return false;
    double x   = strtod(digits, NULL);
    int power  = prefix_of(p, bytes, &after);
    bool unit  = strncasecmp(after, "flop", 4) == 0 || strncasecmp(after, "param", 5) == 0;
    if (power && !bytes && isalpha((unsigned char)*after) && !unit)
        power = 0;                           /* a word, not a unit */
    out->power  = power;
    out->value  = x * power_of(1000, power);
    out->binary = x * power_of(1024, power);
    out->whole  = power == 0 && !point && !strpbrk(digits, "eE");
    out->half   = out->whole ? 0 : 0.5 * pow(10, -(double)decimals) * power_of(1000, power);
    if (strpbrk(digits, "eE"))
        out->half = fabs(x) * 1e-9;
    return true;
}

/* ---- judging ---- */

static bool near(double claimed, double truth, double half)
{
    return fabs(claimed - truth) <= half * (1 + 1e-9) || fabs(claimed - truth) <= fabs(truth) * 1e-12;
}

/* What could have gone wrong, from the likeliest on. */
static const char *reason(lm_facts *f, const lm_fact *x, const claim *c, double truth)
{
    double untied = lm_facts_number(f, "parameters.untied_total"), total = lm_facts_number(f, "parameters.total");

    double twice = truth + untied - total;

    if (x->unit == LM_UNIT_PARAMETERS && untied != total && (near(c->value, twice, c->half) || near(c->binary, twice, c->half)))
        return N_("a tied head counted twice");
    if (x->unit == LM_UNIT_BYTES && untied != total && near(c->value, truth * untied / total, c->half))
        return N_("a tied head counted twice");
    if (x->unit != LM_UNIT_BYTES && c->power && near(c->binary, truth, c->half * power_of(1.024, c->power)))
        return N_("a binary prefix (2^10, 2^20, 2^30) on a count, which is decimal");
    if (near(c->value / 1000, truth, c->half / 1000) || near(c->value * 1000, truth, c->half * 1000))
        return N_("a thousand times off: another prefix");
    if (near(c->value * 2, truth, 2 * c->half))
        return N_("half: keys or values only, or another precision");
    if (near(c->value / 2, truth, c->half / 2))
        return N_("twice: another precision, or counted twice");
    if (x->unit == LM_UNIT_BYTES && near(c->value * 4, truth, 4 * c->half))
        return N_("a quarter: another precision");
    if (x->unit == LM_UNIT_MULT_ADDS)
        return truth == 0         ? N_("a look-up multiplies nothing")
               : c->value < truth ? N_("the length of the sequence ignored, as torchinfo does")
                                  : "";
    if (truth != 0 && fabs(c->value / truth - 1) < 0.05)
        return N_("close, but not what it rounds to");
    return "";
}

static void judge_number(lm_facts *f, const lm_fact *x, const char *text, lm_judgement *out)
{
    double truth = x->kind == LM_FACT_COUNT ? (double)x->count : x->number;
    bool   bytes = x->unit == LM_UNIT_BYTES;
    claim  c;

    if (!read_claim(text, bytes, &c)) {
        out->verdict = LM_CLAIM_NOT_CHECKABLE;
        snprintf(out->why, sizeof out->why, "%s", N_("no number"));
        return;
    }
    if (c.whole && x->kind == LM_FACT_NUMBER && truth != nearbyint(truth))
        c.half = 0.5;                        /* "67" of a percentage */
    if (c.below) {
        out->verdict = truth < c.value ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG;
        return;
    }
    if (x->unit == LM_UNIT_TOKENS && c.power == 1 && near(c.binary, truth, 0)) {
        out->verdict = LM_CLAIM_CONFIRMED;   /* contexts are powers of two: 32K */
        snprintf(out->why, sizeof out->why, "%s", N_("in binary units"));
        return;
    }
    if (near(c.value, truth, 0) || (bytes && near(c.binary, truth, 0)) || (c.power && near(c.value, truth, 0))) {
        out->verdict = LM_CLAIM_CONFIRMED;
        if (bytes && c.power && !near(c.value, truth, 0))
            snprintf(out->why, sizeof out->why, "%s", N_("in binary units"));
    } else if (near(c.value, truth, c.half) || (bytes && near(c.binary, truth, c.half * power_of(1.024, c.power)))) {
        out->verdict = LM_CLAIM_ROUNDED;
    } else {
        out->verdict = LM_CLAIM_WRONG;
        snprintf(out->why, sizeof out->why, "%s", reason(f, x, &c, truth));
    }
}

/* Letters and digits in lower case: "(3072,)" is "3072", "Q, K" is "Q and K". */
static void essence(const char *text, char out[160])
{
    size_t n = 0;

    for (; *text && n + 1 < 160; text++) {
        if (strncmp(text, " and ", 5) == 0)
            text += 4;
        else if (isalnum((unsigned char)*text))
            out[n++] = (char)tolower((unsigned char)*text);
    }
    out[n] = '\0';
}

static void judge_truth(const lm_fact *x, const char *text, lm_judgement *out)
{
    bool yes = strcasecmp(text, "yes") == 0 || strcasecmp(text, "true") == 0;
    bool no  = strcasecmp(text, "no") == 0 || strcasecmp(text, "false") == 0;

    out->verdict = !yes && !no ? LM_CLAIM_NOT_CHECKABLE : yes == x->truth ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG;
    if (!yes && !no)
        snprintf(out->why, sizeof out->why, "%s", N_("neither yes nor no"));
}

/* The field's words for kinds of attention, positions, MLPs and norms: only these can be wrong. A sentence that says the
 * same otherwise is not. */
static bool names_a_kind(const char *text)
{
    static const char *const words[] = { "mha", "gqa", "mqa", "mla", "swa", "rope", "learned", "sinusoidal", "alibi", "swiglu", "geglu",
                                         "gelu", "relu", "silu", "layernorm", "rmsnorm", "pre", "post" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            return strlen(text) < 20;
    return false;
}

/* Numbers in the order of the list; in -> out is how people write a matrix [out, in]. */
static void judge_list(const lm_fact *list, const char *text, lm_judgement *out)
{
    bool reversed = strstr(text, "->") || strstr(text, "→");
    char wanted[160] = "", said[160];
    size_t n = 0;

    for (const lm_fact *x = lm_fact_first(list); x && n < 140; x = lm_fact_next(x))
        if (x->kind == LM_FACT_COUNT && !reversed)
            n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%" PRIu64, x->count);
    for (uint64_t i = list->size; reversed && i-- > 0 && n < 140;)
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%" PRIu64, lm_fact_item(list, i)->count);
    essence(text, said);
    out->verdict = strcmp(wanted, said) == 0 ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG;
}

static void judge_text(const char *truth, const char *text, lm_judgement *out)
{
    char a[160], b[160];

    essence(truth, a);
    essence(text, b);
    bool part    = *a && *b && (strstr(a, b) || strstr(b, a));
    out->verdict = strcmp(a, b) == 0 ? LM_CLAIM_CONFIRMED : part ? LM_CLAIM_ROUNDED : names_a_kind(a) && names_a_kind(b) ? LM_CLAIM_WRONG
                                                                                    : LM_CLAIM_NOT_CHECKABLE;
    if (out->verdict == LM_CLAIM_ROUNDED)
        snprintf(out->why, sizeof out->why, "%s", N_("in part"));
    if (out->verdict == LM_CLAIM_NOT_CHECKABLE)
        snprintf(out->why, sizeof out->why, "%s", N_("said in other words"));
}

static const lm_fact *fact_of(lm_facts *f, const char *quantity)
{
    const lm_fact *x = NULL;

    for (const lm_quantity *q = lm_quantities; q->name; q++)
        if (strcasecmp(q->name, quantity) == 0)
            return lm_facts_find(f, q->path, &x, NULL) == LM_OK ? x : NULL;
    return lm_facts_find(f, quantity, &x, NULL) == LM_OK ? x : NULL;
}

lm_status lm_facts_judge(lm_facts *f, const char *quantity, const char *text, lm_judgement *out, lm_error *e)
{
    const lm_fact *x    = fact_of(f, quantity);
    lm_buf         true_value = { 0 };
    lm_text        path = { 0 };

    *out = (lm_judgement){ .verdict = LM_CLAIM_NOT_CHECKABLE };
    if (!x || x->kind == LM_FACT_NONE || x->kind == LM_FACT_GROUP || x->kind == LM_FACT_TABLE) {
        snprintf(out->why, sizeof out->why, "%s", x ? N_("no single value") : N_("no fact of this name"));
        return lm_facts_check(f, e);
    }
    lm_fact_path(x, &path);
    snprintf(out->path, sizeof out->path, "%s", path.data ? path.data : "");
    lm_text_free(&path);
    if (x->kind == LM_FACT_TEXT)
        lm_buf_add_str(&true_value, x->text);
    else
        lm_fact_json(x, 0, &true_value);
    snprintf(out->truth, sizeof out->truth, "%s", true_value.data ? true_value.data : "");
    lm_buf_free(&true_value);
    if (x->kind == LM_FACT_BOOL)
        judge_truth(x, text, out);
    else if (x->kind == LM_FACT_COUNT || x->kind == LM_FACT_NUMBER)
        judge_number(f, x, text, out);
    else if (x->kind == LM_FACT_LIST && lm_fact_first(x) && lm_fact_first(x)->kind == LM_FACT_COUNT)
        judge_list(x, text, out);
    else
        judge_text(out->truth, text, out);
    return lm_facts_check(f, e);
}

const char *lm_claim_word(lm_claim c)
{
    static const char *const words[] = { N_("confirmed"), N_("rounded"), N_("wrong"), N_("not checkable") };

    return (unsigned)c < 4 ? words[c] : "";
}
