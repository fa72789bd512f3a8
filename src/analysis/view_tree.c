/* view_tree.c - layers, one by one or folded, and the module tree as PyTorch prints it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/chapters.h"
#include "analysis/ledger.h"
#include "analysis/page.h"

/* ---- layers ---- */

static void put_layer_head(lm_page *v, uint32_t layer)
{
    const lm_module *m = &v->f->s.program->modules[v->f->ledger->layer[layer]];
    uint32_t         id = v->f->ledger->layer[layer];
    char             a[LM_FIG], b[LM_FIG];

    lm_buf_printf(v->out, _("%s  %s   [T, %u] → [T, %u]   %s parameters   %s per token\n"), m->path, m->class_name,
                  v->f->s.program->values[m->in].width,
                  v->f->s.program->values[m->out].width, lm_fig_count(a,
                          lm_facts_count(v->f, "modules[%u].parameters", id)),
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
        lm_buf_add_str(v->out, _("the last layer; next: "));
        for (uint32_t i = p->modules[v->f->ledger->layer[layer]].end_op; i < p->n_nodes; i++)
            lm_buf_printf(v->out, "%s%s", i == p->modules[v->f->ledger->layer[layer]].end_op ? "" : " → ", p->nodes[i].path);
    } else {
        lm_buf_printf(v->out, _("next: %s"), p->modules[v->f->ledger->layer[layer + 1]].path);
    }
    uint32_t n = twins_of(v, layer);
    if (n == p->n_layers && n > 1)
        lm_buf_printf(v->out, _("; all %u layers are made alike"), n);
    else if (n > 1)
        lm_buf_printf(v->out,
                      layer + 1 < p->n_layers && twin[layer + 1] != twin[layer]
                          ? _("; %u of %u layers are made like this one, the next is not")
                          : _("; %u of %u layers are made like this one"), n, p->n_layers);
    lm_buf_add_char(v->out, '\n');
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

/* Every layer; those that repeat an earlier one in a line. */
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
            lm_buf_printf(v->out, "%s", i ? "\n" : "");
            put_layer(v, i);
            continue;
        }
        char in[LM_FIG];
        lm_buf_printf(v->out, _("%s  like %s: [T, %u] → [T, %u], %s parameters%s\n"), p->modules[v->f->ledger->layer[i]].path,
                      p->modules[v->f->ledger->layer[twin]].path, p->values[p->modules[v->f->ledger->layer[i]].in].width,
                      p->values[p->modules[v->f->ledger->layer[i]].out].width,
                      lm_fig_count(in, lm_facts_count(v->f, "parameters.per_layer[%u]", i)), place);
    }
}

/* ---- the tree as a framework prints it ---- */

static void put_arguments(lm_page *v, uint32_t m)
{
    lm_facts         *f = v->f;
    const lm_program *p = f->s.program;
    const lm_module  *x = &p->modules[m];
    const lm_node    *n = &p->nodes[x->first_op];
    char              text[32];
    lm_linear_form    linear;

    if (lm_module_linear(p, m, &linear) && strcmp(x->class_name, "Conv1D") != 0) {
        lm_buf_printf(v->out, "in_features=%" PRIu64 ", out_features=%" PRIu64 ", bias=%s", linear.in, linear.out,
                      linear.bias ? "True" : "False");
        return;
    }
    if (x->end_op != x->first_op + 1)
        return;
    switch (n->code) {
    case LM_OP_LINEAR:
        lm_buf_printf(v->out, "nf=%u, nx=%u", p->values[n->out].width, p->values[n->in[0]].width);
        break;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_buf_printf(v->out, "%" PRIu64 ", %u", p->weights[n->weights[0]].dims[0], p->values[n->out].width);
        break;
    case LM_OP_RMS_NORM:
        lm_buf_printf(v->out, "(%" PRIu64 ",), eps=%s", p->weights[n->weights[0]].elements,
                      lm_number_text(text, lm_decimal(n->norm.eps)));
        break;
    case LM_OP_LAYER_NORM:
        lm_buf_printf(v->out, "(%u,), eps=%s, elementwise_affine=True", p->values[n->out].width,
                      lm_number_text(text, lm_decimal(n->norm.eps)));
        break;
    default:
        break;
    }
}

static void put_repr(lm_page *v, uint32_t m, const char *name, unsigned indent, unsigned depth)
{
    const lm_ledger *l = v->f->ledger;
    const lm_module *x = &v->f->s.program->modules[m];

    lm_buf_printf(v->out, "%*s%s%s(", (int)indent, "", name, x->class_name);
    if (l->child[m] == LM_NONE || depth == 0) {
        put_arguments(v, m);
        lm_buf_printf(v->out, "%s)\n", l->child[m] != LM_NONE ? "…" : "");
        return;
    }
    lm_buf_add_char(v->out, '\n');
    for (uint32_t c = l->child[m], next; c != LM_NONE; c = next) {
        const lm_module *y = &v->f->s.program->modules[c];
        char             label[128];
        uint32_t         last = c;
        next                  = l->sibling[c];
        /* layers that are made alike are one line: "(0-27): 28 x " */
        while (m == l->stack && next != LM_NONE && l->twin[v->f->s.program->modules[next].layer] == l->twin[y->layer]) {
            last = next;
            next = l->sibling[next];
        }
        if (last != c)
            snprintf(label, sizeof label, "(%s-%s): %u x ", y->name, v->f->s.program->modules[last].name,
                     (unsigned)(v->f->s.program->modules[last].layer - y->layer + 1));
        else
            snprintf(label, sizeof label, "(%s): ", y->name);
        put_repr(v, c, label, indent + 2, depth - 1);
    }
    lm_buf_printf(v->out, "%*s)\n", (int)indent, "");
}

void lm_view_tree(lm_page *v)
{
    put_repr(v, 0, "", 0, v->o->depth ? v->o->depth : 16);
}
