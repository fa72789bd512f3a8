/* draw_pattern.c - draw the order of the kinds of layers: one cell per layer, one letter per kind. */
#include <stdio.h>

#include "study/draw/draw.h"
#include "study/draw/svg_parts.h"
#include "study/facts/flow.h"

enum { COLUMNS = 16 };

/* Number the kinds in the order of their first layers; of [n_layers] receives the kind of each layer. Returns
 * how many there are. */
static uint32_t number_kinds(const lm_ledger *l, uint32_t *of)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->program->n_layers; i++)
        of[i] = l->twin[i] == i ? n++ : of[l->twin[i]];
    return n;
}

/* Return the window of the attention of a layer; 0: it has none. *chunked: whether it is a chunk. */
static uint32_t window_of(const lm_ledger *l, uint32_t layer, bool *chunked)
{
    const lm_program *p = l->program;
    const lm_module  *m = &p->modules[l->layer[layer]];

    for (uint32_t i = m->first_op; i < m->end_op; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION) {
            *chunked = p->nodes[i].attention.spec.chunked;
            return lm_acting_window(p, p->nodes[i].attention.spec.window);
        }
    return 0;
}

/* Return whether a layer attends to keys and values that an earlier one stores. */
static bool reads_earlier(const lm_ledger *l, uint32_t layer)
{
    const lm_module *m = &l->program->modules[l->layer[layer]];

    for (uint32_t i = m->first_op; i < m->end_op; i++)
        if (l->program->nodes[i].code == LM_OP_ATTENTION)
            return l->program->nodes[i].attention.stored;
    return false;
}

/* Return the operation of a layer that sets most of its gates to zero, or NULL. */
static const lm_node *cut_of(const lm_ledger *l, uint32_t layer)
{
    const lm_module *m = &l->program->modules[l->layer[layer]];

    for (uint32_t i = m->first_op; i < m->end_op; i++)
        if (l->program->nodes[i].code == LM_OP_GAUSSIAN_TOP)
            return &l->program->nodes[i];
    return NULL;
}

/* Write the legend: letter, number of layers, the operations of a layer, its window, which gates it keeps,
 * whose cache it reads. */
static const char *legend_of(lm_drawing *d, const uint32_t *of, uint32_t kind)
{
    lm_text  flow  = { 0 };
    uint32_t first = LM_NONE, count = 0;

    for (uint32_t i = 0; i < d->f->s.program->n_layers; i++) {
        count += of[i] == kind;
        first  = of[i] == kind && first == LM_NONE ? i : first;
    }
    lm_put_layer_flow(d->f, first, &flow);
    bool     chunked = false;
    uint32_t window  = window_of(d->f->ledger, first, &chunked);
    if (window) {
        lm_text_add_str(&flow, " · ");
        lm_text_printf(&flow, chunked ? _("chunks of %s") : _("window %s"), lm_grouped(d->f, window));
    }
    const lm_node *cut = cut_of(d->f->ledger, first);
    if (cut) {
        lm_text_add_str(&flow, " · ");
        lm_text_printf(&flow, _("gates above mean + %g deviations"), lm_decimal(cut->scale.factor));
    }
    if (reads_earlier(d->f->ledger, first)) {
        lm_text_add_str(&flow, " · ");
        lm_text_add_str(&flow, _("reads an earlier cache"));
    }
    const char *text = lm_arena_printf(&d->f->arena, "%c ×%u  %s", (int)('A' + kind), count,
                                       flow.data ? flow.data : "");
    d->f->failed |= flow.failed || !text;
    lm_text_free(&flow);
    return text ? text : "";
}

static void pattern_text(lm_drawing *d, const uint32_t *of, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i % COLUMNS == 0)
            lm_text_printf(d->out, "%s%4u ", i ? "\n" : "", i);
        lm_text_printf(d->out, " %c", (int)('A' + of[i]));
    }
    lm_text_add_str(d->out, "\n\n");
}

static void pattern_mermaid(lm_drawing *d, const uint32_t *of, uint32_t n)
{
    lm_text_printf(d->out, "block-beta\n  columns %d\n", COLUMNS);
    for (uint32_t i = 0; i < n; i++)
        lm_text_printf(d->out, "%sl%u[\"%c\"]%s", i % COLUMNS ? " " : "  ", i, (int)('A' + of[i]),
                       i % COLUMNS == COLUMNS - 1 || i + 1 == n ? "\n" : "");
}

void lm_draw_pattern(lm_drawing *d)
{
    const lm_program *p  = d->f->s.program;
    uint32_t         *of = lm_arena_new(&d->f->arena, p->n_layers + 1, uint32_t);

    d->f->failed |= !of;
    if (!of)
        return;
    uint32_t kinds = number_kinds(d->f->ledger, of);
    if (kinds < 2 || kinds > LM_PATTERN_KINDS) {
        d->missing = kinds < 2 ? "all layers have the same structure" : "the layers have too many kinds";
        return;
    }
    const char *legend[LM_PATTERN_KINDS];
    for (uint32_t k = 0; k < kinds; k++)
        legend[k] = legend_of(d, of, k);
    if (d->svg) {
        lm_svg_pattern(of, p->n_layers, legend, kinds, d->name, d->alone, d->out);
        return;
    }
    if (d->mermaid)
        pattern_mermaid(d, of, p->n_layers);
    else
        pattern_text(d, of, p->n_layers);
    for (uint32_t k = 0; k < kinds; k++)
        if (d->mermaid)
            lm_text_printf(d->out, "  k%u[\"%s\"]:%d\n", k, legend[k], COLUMNS);
        else
            lm_text_printf(d->out, "%s\n", legend[k]);
}
