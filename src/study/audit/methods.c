/* methods.c - cells of tables that compare kinds of attention: widths of projections, and what each kind caches. */
#include <string.h>

#include "study/audit/reading.h"

/* "2,048 × 512" in a row about a projection. If nothing is shared, keys and values are as wide as queries. */
bool lm_audit_shape_cell(lm_audit_document *d, lm_extent cell, const lm_about *a)
{
    lm_extent name = lm_projection_in(a->part ? a->part->value : "");
    lm_item   x[4];
    bool      two = name.n && lm_scan(d, cell, x, 4) == 3 && x[0].role == LM_NUMBER && x[1].role == LM_TIMES && x[2].role == LM_NUMBER;

    if (!two || !x[0].number.whole || !x[2].number.whole || a->model < 0)
        return false;
    bool        query = a->unshared && (*name.s == 'k' || *name.s == 'v');
    lm_extent   at = { x[0].at.s, (size_t)(x[2].at.s + x[2].at.n - x[0].at.s) };
    const char *quantity = query ? "q_proj.shape" : lm_arena_printf(&d->arena, "%.*s.shape", (int)name.n, name.s);
    lm_add_value(d, at, a->model, quantity, a->unsure || a->unshared);
    return true;
}

/* Return whether the label of a column is what is cached for each token. */
static bool names_cache(const lm_audit_document *d, lm_extent label)
{
    lm_about a = lm_label_of(d, label);

    return lm_vocable_is(a.quantity, "@cache") && (a.forms & LM_FORM_TOKEN);
}

static bool has_cache(const lm_audit_document *d, const lm_cells *head)
{
    for (size_t i = 0; i < head->n; i++)
        if (names_cache(d, head->cell[i]))
            return true;
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
        if (lm_word_is(name[0].at, methods[i].name)) {
            lm_add_value(d, x[0].at, model, methods[i].paths, false);
            return true;
        }
    return false;
}

/* ---- letters ---- */

/* Return whether a text names the key that RoPE rotates. */
static bool names_rotated_key(lm_extent s)
{
    static const char *const names[] = { "rope", "RoPE", "rotary", "Rotary", "rotat", "^R", "^{R}", "k_R", "position", "Position",
                                         "decoupled" };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (memmem(s.s, s.n, names[k], strlen(names[k])))
            return true;
    return false;
}

/* Return whether a line of the document about d_c names the rotated key; searched once. */
static bool is_width_of_both(lm_audit_document *d)
{
    if (d->width_of_both)
        return d->width_of_both > 0;
    d->width_of_both = -1;
    for (const char *p = d->text; (p = strstr(p, "d_c"));) {
        const char *from = lm_line_start(d, p), *end = p + strcspn(p, "\n");
        if (names_rotated_key((lm_extent){ from, (size_t)(end - from) }))
            d->width_of_both = 1;
        p = end;
    }
    return d->width_of_both > 0;
}

static bool has_rotated_key(const lm_cells *head, const lm_cells *row, size_t cell)
{
    for (size_t i = 0; i < head->n || i < row->n; i++)
        if ((i < head->n && names_rotated_key(head->cell[i])) || (i < row->n && i != cell && names_rotated_key(row->cell[i])))
            return true;
    return false;
}

/* "| MLA | $d_c$ |" below "Cache per token": the latent vector alone; the rotated key is cached, too. False: another cell. */
bool lm_audit_cached(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t first, size_t i)
{
    static const char *const latents[] = { "d_c", "d_cL", "d_cl", "c_KV", "c^KV", "c_t^KV", "d_latent", "r_kv", "kv_lora_rank", NULL };
    static const char *const keys[] = { "d_h^R", "d_h^RL", "d_h^Rl", "d_R", "d_r", "d_rope", "k_R", "k^R", "k_t^R", "qk_rope_head_dim",
                                        NULL };
    static const lm_spelling left_out[] = {
        { "\\text", "" }, { "\\mathrm", "" }, { "\\cdot", "" }, { "\\times", "" }, { "\\left", "" }, { "\\right", "" },
        { "×", "" }, { "·", "" }, { "*", "" }, { "{", "" }, { "}", "" }, { "(", "" }, { ")", "" }, { "$", "" }, { "`", "" }, { NULL, NULL },
    };
    lm_item name[2];
    char    text[LM_LONGEST_FORM];          /* "$d_c + d_h^{R}$" is "d_c+d_h^R" */

    if (i >= head->n || lm_scan(d, row->cell[first], name, 2) != 1 || !lm_vocable_is(name[0].word, "kind") ||
        !lm_word_is(name[0].at, "mla"))
        return false;
    if (!names_cache(d, head->cell[i]) || lm_has_note(row->cell[i]))
        return false;
    lm_write_form(row->cell[i], left_out, text);
    char *plus = strchr(text, '+');
    if (plus)
        *plus = '\0';
    const char *one = text + (*text == 'L'), *two = plus ? plus + 1 : "";
    bool latent = lm_text_among((lm_extent){ one, strlen(one) }, latents), key = lm_text_among((lm_extent){ two, strlen(two) }, keys);
    if (latent && key)
        lm_add_rule(d, row->cell[i], "MLA caches a latent vector and a rotated key");
    else if (latent && !plus && !d->aside && !has_rotated_key(head, row, i) && !is_width_of_both(d))
        lm_add_judged(d, row->cell[i], "d_c + d_h^R", N_("the key that RoPE rotates is cached, too"));
    else
        return false;
    return true;
}
