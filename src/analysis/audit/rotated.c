/* rotated.c - what a text about rotary positions says of them: "applied to Q and K", "no learned parameters". */
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

static bool begins_with(const lm_item *x, const char *word)
{
    size_t n = strlen(word);

    return x->at.n >= n && strncasecmp(x->at.s, word, n) == 0;
}

bool lm_names_rotary(const lm_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lm_vocable_is(items[i].word, "kind") && (begins_with(&items[i], "rope") || begins_with(&items[i], "rotary")))
            return true;
    return false;
}

/* Return 'Q', 'K' or 'V' if the item names queries, keys or values; ',' if it joins two of them; 0: neither. */
static char letter_of(const lm_item *x)
{
    static const struct { const char *word; char letter; } words[] = {
        { "quer", 'Q' }, { "key", 'K' }, { "value", 'V' }, { "查询", 'Q' }, { "键", 'K' }, { "值", 'V' },
    };

    if (x->at.n == 1 && strchr("QKVqkv", *x->at.s))
        return (char)(*x->at.s & ~0x20);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (begins_with(x, words[i].word))
            return words[i].letter;
    bool joins = strchr(",&:", *x->at.s) || x->role == LM_NEUTRAL || begins_with(x, "and") || begins_with(x, "和");
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

bool lm_audit_rotary(lm_audit_document *d, lm_extent line, int model)
{
    size_t n = lm_scan(d, line, d->items, LM_MOST_ITEMS);
    bool   found = false;

    if (n == LM_MOST_ITEMS || model < 0 || !(d->rotary || lm_names_rotary(d->items, n)))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (lm_vocable_is(d->items[i].word, "applied"))
            found |= add_application(d, d->items, n, i, model);
        if (!lm_vocable_is(d->items[i].word, "unlearned"))
            continue;
        lm_add_statement(d, d->items[i].at, model, "rope.parameters", "zero", true);
        found = true;
    }
    return found;
}
