/* widths.c - matrices in a table of kinds of attention: "K/V: 4096×1024" in a row "GQA". */
#include "study/audit/reading.h"

/* Return the facts of the width of queries, or of keys and values, in a kind of attention; NULL: another word. */
static const char *width_of(const lm_item *kind, bool keys)
{
    static const struct { const char *kind, *queries, *keys; } kinds[] = {
        { "mha", "what_if.widths.query", "what_if.widths.key_mha" },
        { "gqa", "what_if.widths.query", "what_if.widths.key" },
        { "mqa", "what_if.widths.query", "what_if.widths.key_mqa" },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (lm_word_is(kind->at, kinds[i].kind))
            return keys ? kinds[i].keys : kinds[i].queries;
    return NULL;
}

bool lm_audit_widths(lm_audit_document *d, lm_extent label, lm_extent cell, int model)
{
    static const char *const names[] = { "Q", "K", "V", "KV", "K/V", NULL };
    lm_item kind[2], items[24];
    size_t  n = lm_scan(d, cell, items, 24);
    bool    found = false, keys = false;

    if (model < 0 || lm_scan(d, label, kind, 2) != 1 || n == 24)
        return false;
    for (size_t i = 0; i + 3 < n; i++) {
        const lm_item *x = &items[i];
        bool           named = lm_word_among(x->at, names);
        keys = named ? !lm_word_is(x->at, "Q") : keys;
        if (!named || *x[1].at.s != ':' || x[2].role != LM_NUMBER || x[3].role != LM_TIMES || i + 4 >= n || x[4].role != LM_NUMBER)
            continue;
        const char *path = width_of(&kind[0], keys);
        if (!path)
            return false;
        lm_add_value(d, x[4].at, model, path, true);
        found = true;
    }
    return found;
}
