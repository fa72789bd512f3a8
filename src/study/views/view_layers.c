/* view_layers.c - write layers one by one, or folded. */
#include <inttypes.h>

#include "study/facts/ledger.h"
#include "study/report/chapters.h"
#include "study/views/view.h"

static void put_layer_head(lm_page *v, uint32_t layer)
{
    const lm_module *m = &v->f->s.program->modules[v->f->ledger->layer[layer]];
    uint32_t         id = v->f->ledger->layer[layer];
    char             a[LM_FIG], b[LM_FIG];

    lm_text_printf(v->out, _("%s  %s   [T, %u] → [T, %u]   %s parameters   %s per token\n"), m->path,
                   m->class_name, v->f->s.program->values[m->in].width, v->f->s.program->values[m->out].width,
                   lm_fig_count(a, lm_facts_count(v->f, "modules[%u].parameters", id)),
                   lm_fig_flops(b, 2 * (double)lm_facts_count(v->f, "modules[%u].mult_adds", id)));
}

static uint32_t twins_of(lm_page *v, uint32_t layer)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->f->s.program->n_layers; i++)
        n += v->f->ledger->twin[i] == v->f->ledger->twin[layer];
    return n;
}

static void put_next(lm_page *v, uint32_t layer)
{
    const lm_program *p    = v->f->s.program;
    const uint32_t   *twin = v->f->ledger->twin;

    if (layer + 1 == p->n_layers) {
        lm_text_add_str(v->out, _("the last layer; next: "));
        for (uint32_t i = p->modules[v->f->ledger->layer[layer]].end_op; i < p->n_nodes; i++)
            lm_text_printf(v->out, "%s%s", i == p->modules[v->f->ledger->layer[layer]].end_op ? "" : " → ",
                           p->nodes[i].path);
    } else {
        lm_text_printf(v->out, _("next: %s"), p->modules[v->f->ledger->layer[layer + 1]].path);
    }
    uint32_t n = twins_of(v, layer);
    if (n == p->n_layers && n > 1)
        lm_text_printf(v->out, _("; all %u layers have this structure"), n);
    else if (n > 1)
        lm_text_printf(v->out,
                       layer + 1 < p->n_layers && twin[layer + 1] != twin[layer]
                           ? _("; %u of %u layers have this structure, the next has another")
                           : _("; %u of %u layers have this structure"),
                       n, p->n_layers);
    lm_text_add_char(v->out, '\n');
}

static void put_layer(lm_page *v, uint32_t layer)
{
    lm_document d;

    lm_document_init(&d, &v->f, 1);
    put_layer_head(v, layer);
    lm_doc_table_text(lm_layer_table(&d, layer, v->o->depth ? v->o->depth : 8, false), 0, v->lines, v->out);
    v->f->failed |= d.failed;
    lm_document_free(&d);
    put_next(v, layer);
}

/* Write every layer; a layer that repeats an earlier one takes one line. */
void lm_view_layers(lm_page *v)
{
    const lm_program *p = v->f->s.program;

    if (v->o->layer >= 0) {
        put_layer(v, (uint32_t)v->o->layer);
        return;
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint32_t twin = v->f->ledger->twin[i];
        const char *place = i == 0 ? _("  (first layer)") : i + 1 == p->n_layers ? _("  (last layer)") : "";
        if (twin == i) {
            lm_text_printf(v->out, "%s", i ? "\n" : "");
            put_layer(v, i);
            continue;
        }
        char in[LM_FIG];
        lm_text_printf(v->out, _("%s  like %s: [T, %u] → [T, %u], %s parameters%s\n"),
                       p->modules[v->f->ledger->layer[i]].path, p->modules[v->f->ledger->layer[twin]].path,
                       p->values[p->modules[v->f->ledger->layer[i]].in].width,
                       p->values[p->modules[v->f->ledger->layer[i]].out].width,
                       lm_fig_count(in, lm_facts_count(v->f, "parameters.per_layer[%u]", i)), place);
    }
}
