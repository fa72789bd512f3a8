/* methods.c - cells of tables that compare kinds of attention: widths of projections, and what each kind caches. */
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

/* "2,048 × 512" in a row about a projection. If nothing is shared, keys and values are as wide as queries. */
bool lm_audit_shape_cell(lm_audit_document *d, lm_extent cell, const lm_about *a)
{
    const char *path = a->part ? a->part->value : "", *end = strstr(path, "_proj.parameters"), *name = end;
    lm_item     x[4];
    bool        two = end && lm_scan(d, cell, x, 4) == 3 && x[0].role == LM_NUMBER && x[1].role == LM_TIMES && x[2].role == LM_NUMBER;

    if (!two || !x[0].number.whole || !x[2].number.whole || a->model < 0)
        return false;
    while (name > path && name[-1] != '.')
        name--;
    bool        query = a->unshared && (*name == 'k' || *name == 'v');
    lm_extent   at = { x[0].at.s, (size_t)(x[2].at.s + x[2].at.n - x[0].at.s) };
    const char *quantity = query ? "q_proj.shape" : lm_arena_printf(&d->arena, "%.*s.shape", (int)(end + 5 - name), name);
    lm_add_statement(d, at, a->model, quantity, lm_arena_strndup(&d->arena, at.s, at.n), a->unsure || a->unshared);
    return true;
}

/* Return whether a column contains what is cached for each token. */
static bool has_cache(const lm_audit_document *d, const lm_cells *head)
{
    for (size_t i = 0; i < head->n; i++) {
        lm_about a = { .model = LM_NO_MODEL };
        lm_read_label(d, head->cell[i], &a);
        if (lm_vocable_is(a.quantity, "@cache") && (a.forms & LM_FORM_TOKEN))
            return true;
    }
    return false;
}

/* "| MLA | 576 |" below "Cache per token" and a model: the numbers that the method caches for each token. */
bool lm_audit_method(lm_audit_document *d, const lm_cells *head, lm_extent method, lm_extent cell, int model)
{
    static const struct { const char *name, *paths; } methods[] = {
        { "mha", "kv.by_method.mha|kv.mha.elements_per_token" },
        { "gqa", "kv.by_method.gqa|kv.elements_per_token" },
        { "mqa", "kv.by_method.mqa" },
        { "mla", "kv.by_method.mla|kv.elements_per_token" },
    };
    lm_item name[2], x[2];

    if (model < 0 || lm_scan(d, method, name, 2) != 1 || !lm_vocable_is(name[0].word, "kind") || !has_cache(d, head) ||
        lm_scan(d, cell, x, 2) != 1 || x[0].role != LM_NUMBER || x[0].last.n || !x[0].number.whole || x[0].number.power ||
        x[0].number.unit != LM_NUMERAL_PLAIN)
        return false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (name[0].at.n == 3 && strncasecmp(name[0].at.s, methods[i].name, 3) == 0) {
            lm_add_statement(d, x[0].at, model, methods[i].paths, lm_arena_strndup(&d->arena, x[0].at.s, x[0].at.n), false);
            return true;
        }
    return false;
}
