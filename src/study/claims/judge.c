/* judge.c - compare a written statement about a model with its fact.
 *
 * A number is confirmed if it equals the fact, rounded if the fact rounds to it, wrong otherwise. Documents
 * write sizes in both decimal and binary units; parameter counts are decimal (IEC 80000-13). */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "study/claims/claim.h"
#include "study/facts/fact.h"
#include "study/claims/meaning.h"
#include "study/facts/traits.h"
#include "arch/config.h"

static double power_of(double base, int n)
{
    double x = 1;

    while (n-- > 0)
        x *= base;
    return x;
}

/* ---- verdicts ---- */

static bool near(double claimed, double truth, double half)
{
    return fabs(claimed - truth) <= half * (1 + 1e-9) || fabs(claimed - truth) <= fabs(truth) * 1e-12;
}

static bool is_twice_tied(lm_facts *f, const lm_fact *x, const lm_claimed *c, double truth)
{
    double untied = lm_facts_number(f, "parameters.untied_total"),
           total = lm_facts_number(f, "parameters.total");
    double twice = truth + untied - total;

    if (untied == total)
        return false;
    return (x->unit == LM_UNIT_PARAMETERS &&
            (near(c->is.value, twice, c->is.half) || near(c->is.binary, twice, c->is.half))) ||
           (x->unit == LM_UNIT_BYTES && near(c->is.value, truth * untied / total, c->is.half));
}

static bool is_binary_count(const lm_fact *x, const lm_claimed *c, double truth)
{
    return x->unit != LM_UNIT_BYTES && c->is.power && c->is.half < 0.02 * c->is.value &&
           near(c->is.binary, truth, c->is.half * power_of(1.024, c->is.power));
}

/* Return the reason why a size or count is a half, a quarter or twice the fact. */
static const char *reason_of_factor(const lm_fact *x, const lm_claimed *c, double truth)
{
    bool sized = x->unit == LM_UNIT_BYTES || x->unit == LM_UNIT_ELEMENTS || x->unit == LM_UNIT_FLOPS ||
                 x->unit == LM_UNIT_PARAMETERS;

    if (sized && near(c->is.value * 2, truth, 2 * c->is.half))
        return N_("half: keys or values only, or another precision");
    if (sized && near(c->is.value / 2, truth, c->is.half / 2))
        return N_("twice: another precision, or counted twice");
    if (x->unit == LM_UNIT_BYTES && near(c->is.value * 4, truth, 4 * c->is.half))
        return N_("a quarter: another precision");
    return NULL;
}

/* Return what could have gone wrong, most likely reason first. */
static const char *reason(lm_facts *f, const lm_fact *x, const lm_claimed *c, double truth)
{
    const char *factor;

    if (is_twice_tied(f, x, c, truth))
        return N_("a tied head counted twice");
    if (is_binary_count(x, c, truth))
        return N_("a binary prefix (2^10, 2^20, 2^30) on a count, which is decimal");
    if (near(c->is.value / 1000, truth, c->is.half / 1000) ||
        near(c->is.value * 1000, truth, c->is.half * 1000))
        return N_("a thousand times too large or small: another prefix");
    if ((factor = reason_of_factor(x, c, truth)))
        return factor;
    if (x->unit == LM_UNIT_MULT_ADDS)
        return truth == 0            ? N_("a look-up has no multiplications")
               : c->is.value < truth ? N_("sequence length ignored, as in torchinfo")
                                     : "";
    if (truth != 0 && fabs(c->is.value / truth - 1) < 0.05)
        return N_("close to the value, but does not round to it");
    return "";
}

/* Return whether the claim counts something other than the fact does, or is more than a number. */
static bool of_another_kind(const lm_fact *x, const lm_claimed *c)
{
    bool bytes = x->unit == LM_UNIT_BYTES, percent = x->unit == LM_UNIT_PERCENT;

    return c->other || (c->is.unit == LM_NUMERAL_BYTES && !bytes) ||
           (c->is.unit == LM_NUMERAL_PERCENT && !percent) ||
           (c->is.unit == LM_NUMERAL_TIMES && (bytes || percent)) ||
           (c->is.unit == LM_NUMERAL_OPERATIONS && x->unit != LM_UNIT_FLOPS && x->unit != LM_UNIT_MULT_ADDS);
}

/* Return whether an embedding table may have more rows than the tokenizer has tokens: tables are padded to
 * whole blocks. */
static bool may_be_padded(const lm_fact *x, double claimed, double truth)
{
    const char *name = x->name ? x->name : "";

    return (strncmp(name, "vocab", 5) == 0 || strcmp(name, "num_embeddings") == 0) && claimed < truth &&
           claimed > 0.99 * truth && fmod(truth, 64) == 0;
}

static void not_checkable(lm_judgement *out, const char *why)
{
    out->verdict = LM_CLAIM_NOT_CHECKABLE;
    snprintf(out->why, sizeof out->why, "%s", why);
}

/* Judge a bound or an approximation: "about 30", "150K+", "< 0.1 %". */
static lm_claim verdict_loosely(const lm_claimed *c, double truth)
{
    bool within = c->bound < 0 ? truth <= c->is.value + c->is.half : truth >= c->is.value - c->is.half;
    bool close  = near(c->is.value, truth, c->is.half) || fabs(c->is.value - truth) <= 0.1 * fabs(truth);

    if (c->bound)
        return within ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG;
    return close ? LM_CLAIM_ROUNDED : LM_CLAIM_WRONG;
}

/* A percentage may be written as a fraction of one, or in whole numbers. */
static void fit_to_fact(const lm_fact *x, double truth, lm_claimed *c)
{
    if (x->unit == LM_UNIT_PERCENT && c->is.unit == LM_NUMERAL_PLAIN && !c->is.whole && c->is.value > 0 &&
        c->is.value <= 1 && truth > 1) {
        c->is.value *= 100;
        c->is.half *= 100;
    }
    if (c->is.whole && x->kind == LM_FACT_NUMBER && truth != nearbyint(truth))
        c->is.half = 0.5;                       /* "67" for a percentage */
}

/* Return whether the claim is exact in binary units: sizes, and contexts, which are powers of two ("32K"). */
static bool is_exact_binary(const lm_fact *x, const lm_claimed *c, double truth)
{
    bool of_power = x->unit == LM_UNIT_TOKENS
                        ? c->is.power == 1
                        : x->unit == LM_UNIT_BYTES && c->is.power && !near(c->is.value, truth, 0);

    return of_power && near(c->is.binary, truth, 0);
}

static lm_claim verdict_of(const lm_fact *x, const lm_claimed *c, double truth)
{
    bool bytes = x->unit == LM_UNIT_BYTES;

    if (near(c->is.value, truth, 0) || (bytes && near(c->is.binary, truth, 0)))
        return LM_CLAIM_CONFIRMED;
    if (!c->bound && (near(c->is.value, truth, c->is.half) ||
                      (bytes && near(c->is.binary, truth, c->is.half * power_of(1.024, c->is.power)))))
        return LM_CLAIM_ROUNDED;
    return c->bound || c->about ? verdict_loosely(c, truth) : LM_CLAIM_WRONG;
}

static void judge_number(lm_facts *f, const lm_fact *x, const char *text, lm_judgement *out)
{
    double     truth = x->kind == LM_FACT_COUNT ? (double)x->count : x->number;
    lm_claimed c;

    if (!lm_read_claim(text, x->unit == LM_UNIT_BYTES, &c)) {
        not_checkable(out, N_("no number"));
        return;
    }
    if (of_another_kind(x, &c)) {
        not_checkable(out, N_("different wording, not comparable"));
        return;
    }
    fit_to_fact(x, truth, &c);
    if (is_exact_binary(x, &c, truth)) {
        out->verdict = LM_CLAIM_CONFIRMED;
        snprintf(out->why, sizeof out->why, "%s", N_("in binary units"));
        return;
    }
    out->verdict = verdict_of(x, &c, truth);
    if (out->verdict == LM_CLAIM_WRONG && may_be_padded(x, c.is.value, truth))
        not_checkable(out, N_("different wording, not comparable"));
    else if (out->verdict == LM_CLAIM_WRONG)
        snprintf(out->why, sizeof out->why, "%s", reason(f, x, &c, truth));
}

/* Copy letters and digits in lower case: "(3072,)" becomes "3072", "Q, K" equals "Q and K". */
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

static bool starts(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strncasecmp(text, *words, strlen(*words)) == 0 && !isalpha((unsigned char)text[strlen(*words)]))
            return true;
    return false;
}

static void judge_truth(const lm_fact *x, const char *text, lm_judgement *out)
{
    static const char *const yes_words[] = {
        "yes", "true", "tied", "shared", "enabled", "✓", "✔", "✅", NULL
    };
    static const char *const no_words[] = { "no",       "not", "false", "untied", "separate", "none",
                                            "disabled", "✗",   "✘",     "❌",     NULL };
    bool yes = starts(text, yes_words), no = starts(text, no_words);

    out->verdict = !yes && !no       ? LM_CLAIM_NOT_CHECKABLE
                   : yes == x->truth ? LM_CLAIM_CONFIRMED
                                     : LM_CLAIM_WRONG;
    if (!yes && !no)
        snprintf(out->why, sizeof out->why, "%s", N_("neither true nor false"));
}

/* Return whether the text is a standard term for a kind of attention, position encoding, MLP or norm: only
 * these can be wrong. A sentence that says the same in other words is not. */
static bool names_a_kind(const char *text)
{
    static const char *const words[] = { "mha",     "gqa",        "mqa",       "mla",     "swa",   "rope",
                                         "learned", "sinusoidal", "alibi",     "swiglu",  "geglu", "gelu",
                                         "relu",    "silu",       "layernorm", "rmsnorm", "pre",   "post" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            return strlen(text) < 20;
    return false;
}

/* Replace long forms by their usual abbreviations. */
static void shorten(char text[160])
{
    static const char *const names[][2] = {
        { "multiheadlatentattention", "mla" }, { "multiheadattention", "mha" }, { "groupedqueryattention", "gqa" },
        { "multiqueryattention", "mqa" },      { "slidingwindowattention", "swa" }, { "multihead", "mha" }, { "groupedquery", "gqa" },
        { "multiquery", "mqa" },               { "rotarypositionembeddings", "rope" }, { "rotarypositionembedding", "rope" },
        { "rotarypositionalembeddings", "rope" }, { "rotarypositionalembedding", "rope" }, { "rotary", "rope" },
        { "rootmeansquarenorm", "rmsnorm" },   { "layernormalization", "layernorm" },
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *at = strstr(text, names[i][0]);
        if (!at)
            continue;
        size_t n = strlen(names[i][0]), m = strlen(names[i][1]);
        memmove(at + m, at + n, strlen(at + n) + 1);
        memcpy(at, names[i][1], m);
    }
}

/* Read "3,072" and move behind it. In "[512,2048]" the comma divides two numbers. */
static uint64_t whole_number(const char **text)
{
    char    *end;
    uint64_t x = strtoull(*text, &end, 10);

    for (; *end == ',' && strspn(end + 1, "0123456789") == 3; end += 4)
        x = 1000 * x + strtoull(end + 1, NULL, 10);
    *text = end;
    return x;
}

/* Compare numbers in the order of the list. An arrow goes from in to out, of a matrix [out, in]; the order of
 * "a × b" is not defined. */
static void judge_list(const lm_fact *list, const char *text, lm_judgement *out)
{
    bool arrow = strstr(text, "->") || strstr(text, "→"),
         product = arrow || strstr(text, "×") || strchr(text, 'x');
    bool     same = true, reversed = product;
    uint64_t i = 0;

    for (; *(text += strcspn(text, "0123456789")) && i < list->size; i++) {
        uint64_t x = whole_number(&text);
        same &= x == lm_fact_item(list, i)->count;
        reversed &= x == lm_fact_item(list, list->size - 1 - i)->count;
    }
    bool whole   = i == list->size && !*text;
    out->verdict = whole && ((same && !arrow) || reversed) ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG;
}

/* Judge a spelling such as "gelu_new" for GELU (tanh). False: `text` is not such a spelling, or the fact is
 * not an activation. "gelu" alone stands for all of its forms. */
static bool judge_activation(const lm_fact *x, const char *text, lm_judgement *out)
{
    char   word[32];
    lm_act act, ours = 0;
    size_t n = strlen(text);

    for (size_t i = 0; i <= n && n < sizeof word; i++)
        word[i] = (char)tolower((unsigned char)text[i]);
    while (x->id && ours < LM_ACT_COUNT && strcmp(x->id, lm_act_id(ours)) != 0)
        ours++;
    if (!x->id || n >= sizeof word || ours == LM_ACT_COUNT || !lm_act_spelled(word, &act) ||
        (act != ours && strcmp(word, "gelu") == 0))
        return false;
    out->verdict = act == ours ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG;
    return true;
}

static void judge_text(const lm_fact *x, const char *truth, const char *text, lm_judgement *out)
{
    char a[160], b[160];

    if (judge_activation(x, text, out))
        return;
    essence(truth, a);
    essence(text, b);
    shorten(a);
    shorten(b);
    bool part    = *a && *b && (strstr(a, b) || strstr(b, a));
    out->verdict = strcmp(a, b) == 0                    ? LM_CLAIM_CONFIRMED
                   : part                               ? LM_CLAIM_ROUNDED
                   : names_a_kind(a) && names_a_kind(b) ? LM_CLAIM_WRONG
                                                        : LM_CLAIM_NOT_CHECKABLE;
    if (out->verdict == LM_CLAIM_ROUNDED)
        snprintf(out->why, sizeof out->why, "%s", N_("in part"));
    if (out->verdict == LM_CLAIM_NOT_CHECKABLE)
        snprintf(out->why, sizeof out->why, "%s", N_("different wording, not comparable"));
}

static bool has_value(const lm_fact *x)
{
    return x && x->kind != LM_FACT_NONE && x->kind != LM_FACT_GROUP && x->kind != LM_FACT_TABLE;
}

/* Return where the fact comes from, and how: "config: rope_theta". */
static const char *derivation_of(lm_facts *f, const lm_fact *x)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s%s%s", lm_origin_name(x->origin), x->how ? ": " : "",
                     x->how ? x->how : "");

    return lm_facts_strndup(f, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void judge_by(lm_facts *f, const lm_fact *x, const char *text, lm_judgement *out)
{
    lm_text  true_value = { 0 };
    lm_text path = { 0 };

    *out = (lm_judgement){ .verdict = LM_CLAIM_NOT_CHECKABLE, .derivation = derivation_of(f, x) };
    lm_fact_path(x, &path);
    snprintf(out->path, sizeof out->path, "%s", path.data ? path.data : "");
    lm_text_free(&path);
    if (x->kind == LM_FACT_TEXT)
        lm_text_add_str(&true_value, x->text);
    else
        lm_fact_json(x, 0, &true_value);
    snprintf(out->truth, sizeof out->truth, "%s", true_value.data ? true_value.data : "");
    lm_text_free(&true_value);
    if (x->kind == LM_FACT_BOOL)
        judge_truth(x, text, out);
    else if (x->kind == LM_FACT_COUNT || x->kind == LM_FACT_NUMBER)
        judge_number(f, x, text, out);
    else if (x->kind == LM_FACT_LIST && lm_fact_first(x) && lm_fact_first(x)->kind == LM_FACT_COUNT)
        judge_list(x, text, out);
    else
        judge_text(x, out->truth, text, out);
}

/* The engine's facts decide, but repeating the description verbatim is also right: it counts the heads of
 * latent attention before they are absorbed, and has its own names for activations. */
/* Active parameters are published with the embedding or without it, and often cut off: 2.4B for
 * 2,451,435,008. */
static lm_status judge_active(lm_facts *f, const char *text, lm_judgement *out, lm_error *e)
{
    static const char *const paths[] = { "parameters.active", "parameters.active_without_embedding" };
    const lm_fact *x;
    lm_judgement   other;
    lm_claimed     c;

    if (out->verdict != LM_CLAIM_WRONG || strcmp(out->path, paths[0]) != 0 || !lm_read_claim(text, false, &c))
        return LM_OK;
    for (size_t i = 0; i < 2 && out->verdict == LM_CLAIM_WRONG; i++) {
        LM_TRY(lm_facts_find(f, paths[i], &x, e));
        double cut = (double)x->count - c.is.value;
        judge_by(f, x, text, &other);
        if (other.verdict == LM_CLAIM_WRONG && cut > 0 && cut < 2 * c.is.half && cut < 0.05 * c.is.value) {
            other.verdict = LM_CLAIM_ROUNDED;
            snprintf(other.why, sizeof other.why, "%s", N_("cut off"));
        }
        if (other.verdict <= LM_CLAIM_ROUNDED)
            *out = other;
    }
    return LM_OK;
}

lm_status lm_facts_judge(lm_facts *f, const char *quantity, const char *text, lm_judgement *out, lm_error *e)
{
    LM_REQUIRE(e, f && quantity && text && out);
    lm_meanings  m = lm_meanings_of(f, quantity);
    lm_judgement described;

    *out = (lm_judgement){ .verdict = LM_CLAIM_NOT_CHECKABLE };
    if (!has_value(m.ours) && !has_value(m.described)) {
        bool found = m.ours || m.described;
        bool known = lm_quantity_known(quantity);
        not_checkable(out, found   ? N_("no single value")
                           : known ? N_("this model does not have this quantity")
                                   : N_("unknown quantity"));
        out->nearest = found ? NULL : lm_nearest_meaning(f, quantity);
        return lm_facts_check(f, e);
    }
    judge_by(f, has_value(m.ours) ? m.ours : m.described, text, out);
    if (has_value(m.ours) && has_value(m.described) && out->verdict != LM_CLAIM_CONFIRMED) {
        judge_by(f, m.described, text, &described);
        bool better = described.verdict <= LM_CLAIM_ROUNDED && described.verdict < out->verdict;
        bool both   = described.verdict == LM_CLAIM_WRONG && out->verdict == LM_CLAIM_WRONG;
        if (better || (both && strcmp(described.truth, out->truth) != 0))
            *out = described;
    }
    LM_TRY(judge_active(f, text, out, e));
    return lm_facts_check(f, e);
}

const char *lm_claim_word(lm_claim c)
{
    static const char *const words[] = { N_("confirmed"), N_("rounded"), N_("wrong"), N_("not checkable") };

    return (unsigned)c < 4 ? words[c] : "";
}
