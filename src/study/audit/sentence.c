/* sentence.c - split a text into sentences and clauses; find the model of each, and whether it is certain. */
#include <ctype.h>
#include <string.h>

#include "study/audit/reading.h"

static bool is_question(const lm_item *x)
{
    return x->role == LM_DOUBT && (*x->at.s == '?' || (x->at.n == 3 && memcmp(x->at.s, "？", 3) == 0));
}

/* Return whether a sentence ends at the item: a point followed by a space or nothing. */
static bool ends_sentence(const lm_audit_document *d, const lm_item *x)
{
    const char *after = x->at.s + x->at.n;

    bool        last = after >= d->text + d->size || isspace((unsigned char)*after) || *after == ')';

    return (x->role == LM_BREAK && x->at.n == 1 && strchr(".!", *x->at.s) && last) ||
           (x->role == LM_BREAK && x->at.n == 3 && memcmp(x->at.s, "。", 3) == 0) || is_question(x);
}

static bool is_colon(const lm_item *x)
{
    return x->role == LM_LINK && *x->at.s == ':';
}

static bool is_letter(const lm_item *x)
{
    return x->role == LM_UNKNOWN && x->at.n == 1 && isalpha((unsigned char)*x->at.s);
}

/* "Hidden size H: 4096", "Layers: L = 16": ignore the letter that a label introduces. */
static void pass_letters(lm_item *items, size_t n)
{
    size_t i = 0;

    while (i < n && items[i].role == LM_NEUTRAL && !items[i].word)
        i++;
    if (i + 3 >= n || items[i].role != LM_QUANTITY)
        return;
    if (is_letter(&items[i + 1]) && is_colon(&items[i + 2]) && items[i + 3].role == LM_NUMBER)
        items[i + 1].role = LM_NEUTRAL;
    else if (is_colon(&items[i + 1]) && is_letter(&items[i + 2]) && items[i + 3].role == LM_LINK && *items[i + 3].at.s == '=')
        items[i + 2].role = LM_NEUTRAL;
}

/* "KV cache at 8,192 tokens, FP16: 1 GiB": treat a label as one clause, whatever punctuation it contains. Returns true if it has unknown
 * words: then everything after it may be about something else ("Vision encoder: 27 layers"). */
static bool join_label(lm_item *items, size_t n)
{
    bool   unknown = false;
    size_t colon = 0, models = 0;

    while (colon < n && colon < 14 && !is_colon(&items[colon])) {
        models  += items[colon].role == LM_MODEL;
        unknown |= items[colon].role == LM_UNKNOWN;
        colon++;
    }
    if (colon == n || colon == 14 || models > 1)
        return false;
    for (size_t i = 0; i < colon; i++)
        if (items[i].role == LM_BREAK)
            items[i].role = LM_NEUTRAL;
    if (colon + 1 < n && items[colon + 1].role == LM_BREAK)              /* "**Layers:** 36" needs no break; "Layers (all): (36)" */
        items[colon + 1].role = LM_NEUTRAL;
    return unknown;
}

/* Return whether a sentence that names no model begins with unknown words: "Our student has …". */
static bool of_another(const lm_item *items, size_t n)
{
    size_t i = 0;

    while (i < n && (items[i].role == LM_NEUTRAL || items[i].role == LM_BREAK || items[i].role == LM_LINK))
        i++;
    return i < n && (items[i].role == LM_UNKNOWN || (items[i].role == LM_DOUBT && !is_question(&items[i])));
}

/* "3 GB (FP16)": the type applies to this number only, and a new clause begins after it. */
static void attach_types(lm_item *items, size_t n)
{
    for (size_t i = 0; i + 3 < n; i++) {
        lm_item *x = &items[i];
        bool     in = x[1].role == LM_BREAK && *x[1].at.s == '(' && x[2].role == LM_TYPE && x[3].role == LM_BREAK && *x[3].at.s == ')';
        if (x->role != LM_NUMBER || x->number.unit != LM_NUMERAL_BYTES || !in)
            continue;
        x->type = x[2].word;
        x[1].role = x[2].role = x[3].role = LM_NEUTRAL;
        if (i + 4 < n && x[4].at.n == 2 && memcmp(x[4].at.s, "or", 2) == 0)
            x[4].role = LM_BREAK;
    }
}

/* The models of a sentence, and what makes the whole sentence uncertain. */
typedef struct sentence { int model; bool many, doubt, foreign; } sentence;

static sentence survey(const lm_item *items, size_t n)
{
    sentence s = { .model = LM_NO_MODEL };

    for (size_t i = 0; i < n; i++) {
        if (items[i].role == LM_MODEL) {
            s.many |= s.model != LM_NO_MODEL && s.model != items[i].model;
            s.model = items[i].model;
        }
        s.doubt |= items[i].role == LM_DOUBT;
        s.foreign |= items[i].foreign;
    }
    return s;
}

/* Read a sentence of n items. A clause without a model is about the only model that the sentence names, or about `carry`. */
static bool read_sentence(lm_audit_document *d, lm_item *items, size_t n, int *carry)
{
    pass_letters(items, n);
    sentence s = survey(items, n);
    bool     found = false, cached = false, strange = false;

    s.doubt |= join_label(items, n);
    attach_types(items, n);
    d->uncertain = s.model == LM_NO_MODEL && (d->uncertain || of_another(items, n));
    int  subject = s.many ? LM_NO_MODEL : s.model == LM_NO_MODEL ? *carry : s.model;
    bool doubt = s.doubt || s.foreign || s.many || d->uncertain;
    for (size_t i = 0, begin = 0; i <= n; i++) {
        if (i < n && items[i].role != LM_BREAK)
            continue;
        bool own = false, unknown = false;
        for (size_t k = begin; k < i; k++) {
            subject = s.many && items[k].role == LM_MODEL ? items[k].model : subject;
            own |= items[k].role == LM_MODEL;
            unknown |= items[k].role == LM_UNKNOWN;
        }
        strange &= !own;
        found |= i > begin && lm_read_clause(d, items + begin, i - begin, subject, doubt || strange, &cached);
        strange |= unknown;
        begin = i + 1;
    }
    *carry = s.many || (s.foreign && s.model == LM_NO_MODEL) ? LM_OTHER_MODEL : subject;
    return found;
}

bool lm_audit_text(lm_audit_document *d, lm_extent text, int *carry)
{
    size_t n = lm_scan(d, text, d->items, LM_MOST_ITEMS), begin = 0;
    bool   found = false;

    if (n == LM_MOST_ITEMS)
        return false;
    lm_read_symbols(d, d->items, n);
    found = lm_audit_sums(d, d->items, n);
    found |= lm_audit_substitution(d, d->items, n);
    for (size_t i = 0; i <= n; i++) {
        if (i < n && !ends_sentence(d, &d->items[i]))
            continue;
        if (i > begin)
            found |= read_sentence(d, d->items + begin, i - begin + (i < n && is_question(&d->items[i])), carry);
        begin = i + 1;
    }
    return found;
}
