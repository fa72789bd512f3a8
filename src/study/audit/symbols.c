/* symbols.c - letters that a document defines ("H: hidden size"), and formulas whose letters the next line replaces by numbers. */
#include <ctype.h>
#include <string.h>

#include "study/audit/reading.h"

static bool is_letter(const lm_item *x)
{
    return (x->role == LM_UNKNOWN || x->role == LM_UNIT) && x->at.n == 1 && isupper((unsigned char)*x->at.s);
}

const lm_vocable *lm_symbol(const lm_audit_document *d, const lm_item *x)
{
    if (lm_is_single_fact(x))
        return x->word;
    const lm_vocable *v = is_letter(x) ? d->symbols[*x->at.s - 'A'] : NULL;
    return v && *v->value ? v : NULL;
}

static bool is_sign(const lm_item *x)
{
    return x->role == LM_TIMES || x->role == LM_SLASH || *x->at.s == '+' || *x->at.s == '^';
}

/* A letter with two meanings has none. */
static void define(lm_audit_document *d, char letter, const lm_vocable *word)
{
    static const lm_vocable     none = { "", LM_UNKNOWN, "" };
    const lm_vocable          **place = &d->symbols[letter - 'A'];

    *place = !*place || strcmp((*place)->value, word->value) == 0 ? word : &none;
}

void lm_read_symbols(lm_audit_document *d, lm_item *items, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++) {
        bool inside = i && items[i - 1].role != LM_BREAK && items[i - 1].role != LM_NEUTRAL;
        if (!is_letter(&items[i]) || items[i + 1].role != LM_LINK || inside)
            continue;
        if (lm_is_single_fact(&items[i + 2]) && !(i + 3 < n && is_sign(&items[i + 3]))) {
            define(d, *items[i].at.s, items[i + 2].word);
        } else if (items[i + 2].role == LM_NUMBER && lm_symbol(d, &items[i])) {
            items[i].word    = lm_symbol(d, &items[i]);
            items[i].role    = LM_QUANTITY;
            items[i].foreign = true;             /* it may stand for something else here: uncertain */
        }
    }
}

/* ---- formulas with numbers for letters ---- */

enum { MOST_TERMS = 32 };

/* Collect the terms and signs from *i to the next "=", without signs of multiplication, which may be left out. */
static size_t terms_at(const lm_item *items, size_t n, size_t *i, const lm_item *out[MOST_TERMS])
{
    size_t m = 0;

    for (; *i < n && !(items[*i].role == LM_LINK && *items[*i].at.s == '='); ++*i)
        if (*items[*i].at.s == '^' && items[*i].role == LM_UNKNOWN)
            *i += items[*i].at.n == 1;           /* the exponent of a letter */
        else if (items[*i].role != LM_TIMES && m < MOST_TERMS)
            out[m++] = &items[*i];
    return m;
}

/* Return whether the items are a symbol and a number that may stand for it: "H" and 4096. */
static bool stands_for(const lm_audit_document *d, const lm_item *symbol, const lm_item *number)
{
    return lm_symbol(d, symbol) && number->role == LM_NUMBER && number->number.whole && !number->last.n;
}

/* "H² × (2 + 2/group)" and "4096² × (2 + 2/4)": terms that are no numbers may be anything, the others must be the same. */
static bool corresponds(const lm_audit_document *d, const lm_item *a, const lm_item *b)
{
    bool square = b->exponent && (lm_symbol(d, a) || (a->role == LM_UNKNOWN && isalpha((unsigned char)*a->at.s)));

    return lm_same_text(a->at, b->at) || stands_for(d, a, b) || square || (is_letter(a) && b->role == LM_NUMBER);
}

bool lm_audit_substitution(lm_audit_document *d, const lm_item *items, size_t n)
{
    const lm_item *a[MOST_TERMS], *b[MOST_TERMS];
    size_t         i = 0, m, k, same = 0, replaced = 0;

    while (i < n && items[i].role != LM_LINK)            /* "Attention: L × H …" */
        i++;
    i = i < n && *items[i].at.s == ':' ? i + 1 : 0;
    m = terms_at(items, n, &i, a);
    if (i++ >= n || m < 3 || m == MOST_TERMS || terms_at(items, n, &i, b) != m || d->scope < 0)
        return false;
    for (k = 0; k < m && corresponds(d, a[k], b[k]); k++) {
        same += lm_same_text(a[k]->at, b[k]->at);
        replaced += stands_for(d, a[k], b[k]);
    }
    for (size_t t = 0; k == m && same && t < m; t++) {
        lm_about about = { .model = d->scope, .quantity = lm_symbol(d, a[t]), .unsure = d->uncertain };
        if (stands_for(d, a[t], b[t]) && !lm_same_text(a[t]->at, b[t]->at))
            lm_audit_number(d, b[t], NULL, &about);
    }
    return k == m && replaced;
}
