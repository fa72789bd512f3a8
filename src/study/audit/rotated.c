/* rotated.c - what a text about rotary positions says of them: "applied to Q and K", "no learned parameters". */
#include <string.h>

#include "study/audit/reading.h"

bool lm_names_rotary(const lm_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lm_vocable_is(items[i].word, "kind") && (lm_word_begins(items[i].at, "rope") || lm_word_begins(items[i].at, "rotary")))
            return true;
    return false;
}

/* Return 'Q', 'K' or 'V' if the item names queries, keys or values; ',' if it joins two of them; 0: neither. */
static char letter_of(const lm_item *x)
{
    static const struct { const char *word; char letter; } words[] = {
        { "quer", 'Q' }, { "key", 'K' }, { "value", 'V' }, { "查询", 'Q' }, { "键", 'K' }, { "值", 'V' },
    };

    if (strchr("QKVqkv", *x->at.s) && (x->at.n == 1 || (x->role == LM_PART && strchr(" -_", x->at.s[1]))))        /* "K", "k_proj" */
        return (char)(*x->at.s & ~0x20);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_word_begins(x->at, words[i].word))
            return words[i].letter;
    bool joins = strchr(",&:", *x->at.s) || x->role == LM_NEUTRAL || lm_word_begins(x->at, "and") || lm_word_begins(x->at, "和");
    return joins ? ',' : 0;
}

/* Add what the text after i is applied to, if it is queries and keys and nothing else. */
static bool add_application(lm_audit_document *d, const lm_item *items, size_t n, size_t i, int model)
{
    bool        q = false, k = false;
    const char *from = NULL, *to = NULL;
    char        letter;

    for (i++; i < n && (letter = letter_of(&items[i])); i++) {
        if (letter == 'V')
            return false;
        q |= letter == 'Q';
        k |= letter == 'K';
        if (letter == ',')
            continue;
        from = from ? from : items[i].at.s;
        to   = items[i].at.s + items[i].at.n;
    }
    if (!q || !k)
        return false;
    lm_add_statement(d, (lm_extent){ from, (size_t)(to - from) }, model, "rope.applied_to", "Q and K", true);
    return true;
}

/* What a sentence about a place consists of, in the order in which it is said. */
static char place_of(const lm_item *x)
{
    static const struct { const char *word; char letter; } words[] = {
        { "after", '>' }, { "before", '<' }, { "attention score", 's' }, { "score", 's' },
    };
    char letter = letter_of(x);

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_word_begins(x->at, words[i].word))
            return words[i].letter;
    if (memmem(x->at.s, x->at.n, "後", 3) || memmem(x->at.s, x->at.n, "后", 3))
        return '>';
    return letter && letter != ',' ? letter : 0;
}

/* "after the Q and K projections, before the scores", "在 Q, K 计算后、Attention Score 计算前". */
static bool add_place(lm_audit_document *d, const lm_item *items, size_t n, int model)
{
    char   said[8];
    size_t m = 0, first = 0, last = 0;

    for (size_t i = 0; i < n && m + 1 < sizeof said; i++) {
        char letter = place_of(&items[i]);
        first = letter && !m ? i : first;
        last  = letter ? i : last;
        if (letter)
            said[m++] = letter;
    }
    said[m] = '\0';
    if (strcmp(said, ">QK<s") != 0 && strcmp(said, "QK>s") != 0)
        return false;
    lm_extent at = { items[first].at.s, (size_t)(items[last].at.s + items[last].at.n - items[first].at.s) };
    lm_add_statement(d, at, model, "rope.placement", "after the projections of Q and K, before the scores", true);
    return true;
}

static bool denies(const lm_item *items, size_t n)
{
    static const char *const words[] = { "not", "no", "without", "never", "cannot", "不", "没", "無", "无" };

    for (size_t i = 0; i < n; i++)
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            if (lm_word_begins(items[i].at, words[w]) && ((*words[w] & 0x80) || items[i].at.n == strlen(words[w])))
                return true;
    return false;
}

bool lm_audit_rotary(lm_audit_document *d, lm_extent line, int model)
{
    size_t n = lm_scan(d, line, d->items, LM_MOST_ITEMS);
    bool   found = false;

    if (n == LM_MOST_ITEMS || model < 0 || !(d->rotary || lm_names_rotary(d->items, n)))
        return false;
    found = add_place(d, d->items, n, model);
    for (size_t i = 0; i < n; i++) {
        if (lm_vocable_is(d->items[i].word, "relative") && !denies(d->items, n)) {
            lm_add_rule(d, d->items[i].at, "relative positions of RoPE");
            found = true;
        }
        if (lm_vocable_is(d->items[i].word, "applied"))
            found |= add_application(d, d->items, n, i, model);
        if (!lm_vocable_is(d->items[i].word, "unlearned"))
            continue;
        lm_add_statement(d, d->items[i].at, model, "rope.parameters", "zero", true);
        found = true;
    }
    return found;
}
