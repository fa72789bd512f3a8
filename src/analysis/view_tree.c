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

/* ---- the tree as transformers prints it ---- */

/* Whether the first word, of n letters, is `name`. */
static bool is_word(const char *words, size_t n, const char *name)
{
    return strncmp(words, name, n) == 0 && name[n] == '\0';
}

static bool in_list(const char *words, const char *name)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (is_word(words, n, name))
            return true;
    }
    return false;
}

static void put_sizes(const lm_facts *f, uint32_t m, lm_buf *out)
{
    const lm_program *p = f->s.program;
    const lm_module  *x = &p->modules[m];
    const lm_node    *n = &p->nodes[x->first_op];
    char              text[32];
    lm_linear_form    linear;

    if (lm_module_linear(p, m, &linear) && strcmp(x->class_name, "Conv1D") != 0) {
        lm_buf_printf(out, "in_features=%" PRIu64 ", out_features=%" PRIu64 ", bias=%s", linear.in, linear.out,
                      linear.bias ? "True" : "False");
        return;
    }
    if (x->end_op == x->first_op || (x->end_op != x->first_op + 1 && n->code != LM_OP_EMBED))
        return;
    switch (n->code) {
    case LM_OP_LINEAR:
        lm_buf_printf(out, "nf=%u, nx=%u", p->values[n->out].width, p->values[n->in[0]].width);
        break;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_buf_printf(out, "%" PRIu64 ", %u", p->weights[n->weights[0]].dims[0], p->values[n->out].width);
        break;
    case LM_OP_RMS_NORM:
        lm_buf_printf(out, "(%" PRIu64 ",), eps=%s", p->weights[n->weights[0]].elements, lm_number_text(text, lm_decimal(n->norm.eps)));
        break;
    case LM_OP_LAYER_NORM:
        if (strcmp(x->class_name, "LayerNorm") == 0)
            lm_buf_printf(out, "(%u,), eps=%s, elementwise_affine=True, bias=%s", p->values[n->out].width,
                          lm_number_text(text, lm_decimal(n->norm.eps)), n->weights[1] != LM_NONE ? "True" : "False");
        break;
    default:
        break;
    }
}

static void put_repr(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_buf *out);

static void put_child(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_buf *out)
{
    lm_buf_printf(out, "%*s(%s): ", (int)indent, "", f->s.program->modules[m].name);
    put_repr(f, m, indent, depth, out);
}

static void put_children(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_buf *out)
{
    const lm_module *modules = f->s.program->modules;
    const char      *order   = modules[m].order;

    for (size_t n, at = 0; order[at]; at += n + (order[at + n] == ' ')) {
        n = strcspn(order + at, " ");
        for (uint32_t c = f->ledger->child[m]; c != LM_NONE; c = f->ledger->sibling[c])
            if (order[at] == '*' ? !in_list(order, modules[c].name) : is_word(order + at, n, modules[c].name))
                put_child(f, c, indent, depth, out);
    }
}

/* Neighbours that print alike are one: "(0-27): 28 x ". */
static void put_list(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_buf *out)
{
    const lm_module *modules = f->s.program->modules;
    lm_buf           one = { 0 }, other = { 0 };

    for (uint32_t c = f->ledger->child[m], next; c != LM_NONE; c = next) {
        uint32_t last = c, n = 1;
        one.size = 0;
        put_repr(f, c, indent, depth, &one);
        for (next = f->ledger->sibling[c]; next != LM_NONE; next = f->ledger->sibling[next], n++) {
            other.size = 0;
            put_repr(f, next, indent, depth, &other);
            if (one.size != other.size || memcmp(one.data, other.data, one.size) != 0)
                break;
            last = next;
        }
        if (n > 1)
            lm_buf_printf(out, "%*s(%s-%s): %u x ", (int)indent, "", modules[c].name, modules[last].name, n);
        else
            lm_buf_printf(out, "%*s(%s): ", (int)indent, "", modules[c].name);
        lm_buf_add(out, one.data, one.size);
    }
    out->failed |= one.failed || other.failed;
    lm_buf_free(&one);
    lm_buf_free(&other);
}

static void put_repr(const lm_facts *f, uint32_t m, unsigned indent, unsigned depth, lm_buf *out)
{
    const lm_module *x    = &f->s.program->modules[m];
    bool             leaf = f->ledger->child[m] == LM_NONE;
    size_t           from;

    lm_buf_printf(out, "%s(", x->class_name);
    from = out->size;
    if (leaf || depth == 0) {
        put_sizes(f, m, out);
        if (x->says)
            lm_buf_printf(out, "%s%s", out->size > from ? ", " : "", x->says);
        lm_buf_printf(out, "%s)\n", leaf ? "" : "…");
        return;
    }
    lm_buf_add_char(out, '\n');
    (strcmp(x->class_name, "ModuleList") == 0 ? put_list : put_children)(f, m, indent + 2, depth - 1, out);
    lm_buf_printf(out, "%*s)\n", (int)indent, "");
}

void lm_view_tree(lm_page *v)
{
    put_repr(v->f, 0, 0, v->o->depth ? v->o->depth : 16, v->out);
}
