/* view_tree.c - layers, one by one or folded, and the module tree as PyTorch prints it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/ledger.h"
#include "analysis/page.h"
#include "analysis/traits.h"

/* ---- one layer, operation by operation ---- */

static bool inside(const lm_program *p, uint32_t module, uint32_t of)
{
    for (; module != LM_NONE; module = p->modules[module].parent)
        if (module == of)
            return true;
    return false;
}

static uint32_t child_holding(const lm_facts *f, uint32_t of, uint32_t op)
{
    for (uint32_t m = f->ledger->child[of]; m != LM_NONE; m = f->ledger->sibling[m])
        if (f->s.program->modules[m].end_op > f->s.program->modules[m].first_op && inside(f->s.program,
                                                                                          f->s.program->nodes[op].module, m))
            return m;
    return LM_NONE;
}

static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static void describe_attention(const lm_attention_spec *s, lm_buf *out)
{
    double square = 1 / ((double)s->scale * (double)s->scale);

    if (square > 0.99 && square - (double)(uint64_t)(square + 0.5) < 1e-3 && (double)(uint64_t)(square + 0.5) - square < 1e-3)
        lm_buf_printf(out, "softmax(q·kᵀ / √%" PRIu64 ")", (uint64_t)(square + 0.5));
    else
        lm_buf_printf(out, "softmax(%g q·kᵀ)", lm_decimal(s->scale));
    if (s->softcap > 0)
        lm_buf_printf(out, _(", soft cap %g"), lm_decimal(s->softcap));
    if (s->alibi > 0)
        lm_buf_add_str(out, ", ALiBi");
    if (s->sinks)
        lm_buf_add_str(out, _(", sinks"));
    if (s->window)
        lm_buf_printf(out, _(", keys i-%u … i"), s->window - 1);
    else
        lm_buf_add_str(out, _(", keys 0 … i"));
}

static void describe_linear(const lm_facts *f, uint32_t i, lm_buf *out)
{
    const lm_program *p  = f->s.program;
    const lm_node    *n  = &p->nodes[i];
    uint32_t          to = p->values[n->out].width;

    lm_buf_printf(out, "%u → %u", p->values[n->in[0]].width, to);
    if (n->weights[1] != LM_NONE)
        lm_buf_add_str(out, _(" + bias"));
    for (uint32_t k = i; k < p->n_nodes && p->nodes[k].layer == n->layer; k++) {
        if (p->nodes[k].code != LM_OP_ATTENTION)
            continue;
        const lm_attention_spec *s = &p->nodes[k].attention.spec;
        uint16_t role = f->ledger->roles[i];
        if (role == LM_ROLE_QUERY && to == s->n_heads * s->k_dim)
            lm_buf_printf(out, "  = %u × %u", s->n_heads, s->k_dim);
        else if (role == LM_ROLE_KEY && to == s->n_kv_heads * s->k_dim)
            lm_buf_printf(out, "  = %u × %u", s->n_kv_heads, s->k_dim);
        else if (role == LM_ROLE_VALUE && to == s->n_kv_heads * s->v_dim)
            lm_buf_printf(out, "  = %u × %u", s->n_kv_heads, s->v_dim);
        break;
    }
}

static void describe_op(const lm_facts *f, uint32_t i, lm_buf *out)
{
    const lm_node *n = &f->s.program->nodes[i];

    if (n->code == LM_OP_ATTENTION)
        describe_attention(&n->attention.spec, out);
    else if (n->code == LM_OP_LINEAR)
        describe_linear(f, i, out);
    else if (lm_op_of(n->code)->describe)
        lm_op_of(n->code)->describe(f->s.program, n, out);
}

/* What a container is, in a few words: its heads, or its kind of MLP. */
static void describe_container(lm_facts *f, uint32_t m, lm_buf *out)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = p->modules[m].first_op; i < p->modules[m].end_op; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_ATTENTION) {
            lm_buf_printf(out, _("%u query heads on %u key/value heads, %u wide"), n->attention.spec.n_heads,
                          n->attention.spec.n_kv_heads,
                          n->attention.spec.k_dim);
            return;
        }
        if (n->code == LM_OP_EXPERTS) {
            lm_buf_printf(out, _("%u experts, %u for each token"), n->experts.n_experts, n->experts.top_k);
            return;
        }
        if (n->code == LM_OP_GLU) {
            char word[32];
            lm_traits t = { .has_act = true, .act = n->glu.act, .glu = n };
            lm_buf_add_str(out, lm_mlp_name(&t, word, sizeof word));
            return;
        }
    }
}

typedef struct branch {
    lm_page *v;
    lm_table table;
    char     stem[96];
    unsigned depth;              /* levels that may still be opened */
} branch;

static void put_branch(branch *b, const char *name, const char *kind, const lm_buf *what, uint64_t params, bool last)
{
    char line[256], figure[LM_FIG];

    snprintf(line, sizeof line, "%s%s%s", b->stem, b->v->lines ? (last ? "└─ " : "├─ ") : "   ", name);
    lm_table_row(&b->table, line, kind, what->data ? what->data : "", params ? lm_fig_count(figure, params) : "");
}

static void put_operation(branch *b, uint32_t i, bool last)
{
    const lm_node *n = &b->v->f->s.program->nodes[i];
    const char    *word = n->code == LM_OP_ADD ? _("+ residual") : last_word(n->path), *kind = "";
    uint64_t       params = 0;
    char           apart[96];
    lm_buf         what = { 0 };

    if (n->code == LM_OP_HEAD_LINEAR) {      /* part of a module whose parts stand apart */
        const lm_module *m = &b->v->f->s.program->modules[n->module];
        snprintf(apart, sizeof apart, "%s.%s", m->name, word);
        word   = apart;
        kind   = m->class_name;
        params = b->v->f->s.program->weights[n->weights[0]].elements;
    }
    describe_op(b->v->f, i, &what);
    put_branch(b, word, kind, &what, params, last);
    lm_buf_free(&what);
}

static void put_inner(branch *b, uint32_t m);

static void put_child(branch *b, uint32_t m, bool last)
{
    lm_facts        *f    = b->v->f;
    const lm_module *x    = &f->s.program->modules[m];
    bool             leaf = x->end_op == x->first_op + 1;
    lm_buf           what = { 0 };
    char             stem[sizeof b->stem];

    if (leaf)
        describe_op(f, x->first_op, &what);
    else
        describe_container(f, m, &what);
    put_branch(b, x->name, x->class_name, &what, leaf || b->depth <= 1 ? lm_facts_count(f, "modules[%u].parameters", m) : 0,
               last);
    lm_buf_free(&what);
    if (leaf || b->depth <= 1)
        return;
    memcpy(stem, b->stem, sizeof stem);
    snprintf(b->stem + strlen(b->stem), sizeof b->stem - strlen(b->stem), "%s", b->v->lines && !last ? "│  " : "   ");
    b->depth--;
    put_inner(b, m);
    b->depth++;
    memcpy(b->stem, stem, sizeof stem);
}

static void put_inner(branch *b, uint32_t m)
{
    lm_facts        *f = b->v->f;
    const lm_module *x = &f->s.program->modules[m];

    for (uint32_t i = x->first_op, next; i < x->end_op; i = next) {
        uint32_t c = child_holding(f, m, i);
        next       = c == LM_NONE ? i + 1 : f->s.program->modules[c].end_op;
        if (c == LM_NONE)
            put_operation(b, i, next >= x->end_op);
        else
            put_child(b, c, next >= x->end_op);
    }
}

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
    branch b = { .v = v, .table = lm_table_new(v->f, "lllr", 0), .depth = v->o->depth ? v->o->depth : 8 };

    put_layer_head(v, layer);
    put_inner(&b, v->f->ledger->layer[layer]);
    lm_table_print(&b.table, v->out);
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
