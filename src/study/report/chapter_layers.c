/* chapter_layers.c - every decoder layer, operation by operation. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "program/op.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "study/report/chapters.h"

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
        if (f->s.program->modules[m].end_op > f->s.program->modules[m].first_op &&
            inside(f->s.program, f->s.program->nodes[op].module, m))
            return m;
    return LM_NONE;
}

static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static void describe_attention(const lm_program *p, const lm_attention_spec *s, lm_text *out)
{
    uint32_t window = lm_acting_window(p, s->window);
    double   square = 1 / ((double)s->scale * (double)s->scale);

    if (s->scale == 1)
        lm_text_add_str(out, "softmax(q·kᵀ)");
    else if (square > 0.99 && square - (double)(uint64_t)(square + 0.5) < 1e-3 &&
        (double)(uint64_t)(square + 0.5) - square < 1e-3)
        lm_text_printf(out, "softmax(q·kᵀ / √%" PRIu64 ")", (uint64_t)(square + 0.5));
    else
        lm_text_printf(out, "softmax(%g q·kᵀ)", lm_decimal(s->scale));
    if (s->softcap > 0)
        lm_text_printf(out, _(", soft cap %g"), lm_decimal(s->softcap));
    if (s->alibi > 0)
        lm_text_add_str(out, ", ALiBi");
    if (s->sinks)
        lm_text_add_str(out, _(", sinks"));
    if (window && s->chunked)
        lm_text_printf(out, _(", keys i - i mod %u … i"), window);
    else if (window)
        lm_text_printf(out, _(", keys i-%u … i"), window - 1);
    else if (s->block)
        lm_text_printf(out, _(", %u chosen keys of 0 … i, in blocks of %u"), s->top_k, s->block);
    else if (s->top_k)
        lm_text_printf(out, _(", %u chosen keys of 0 … i"), s->top_k);
    else
        lm_text_add_str(out, _(", keys 0 … i"));
}

static void describe_linear(const lm_facts *f, uint32_t i, lm_text *out)
{
    const lm_program *p  = f->s.program;
    const lm_node    *n  = &p->nodes[i];
    uint32_t          to = p->values[n->out].width;

    lm_text_printf(out, "%u → %u", p->values[n->in[0]].width, to);
    if (n->weights[1] != LM_NONE)
        lm_text_add_str(out, _(" + bias"));
    for (uint32_t k = i; k < p->n_nodes && p->nodes[k].layer == n->layer; k++) {
        if (p->nodes[k].code != LM_OP_ATTENTION)
            continue;
        const lm_attention_spec *s = &p->nodes[k].attention.spec;
        uint16_t role = f->ledger->roles[i];
        if (role == LM_PRODUCT_QUERY && to == s->n_heads * s->k_dim)
            lm_text_printf(out, "  = %u × %u", s->n_heads, s->k_dim);
        else if (role == LM_PRODUCT_KEY && to == s->n_kv_heads * s->k_dim)
            lm_text_printf(out, "  = %u × %u", s->n_kv_heads, s->k_dim);
        else if (role == LM_PRODUCT_VALUE && to == s->n_kv_heads * s->v_dim)
            lm_text_printf(out, "  = %u × %u", s->n_kv_heads, s->v_dim);
        break;
    }
}

static void describe_op(const lm_facts *f, uint32_t i, lm_text *out)
{
    const lm_node *n = &f->s.program->nodes[i];

    if (n->code == LM_OP_ATTENTION)
        describe_attention(f->s.program, &n->attention.spec, out);
    else if (n->code == LM_OP_LINEAR)
        describe_linear(f, i, out);
    else if (lm_op_of(n->code)->describe)
        lm_op_of(n->code)->describe(f->s.program, n, out);
}

/* Append a short description of a container: its heads, or its kind of MLP. */
static void describe_container(lm_facts *f, uint32_t m, lm_text *out)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = p->modules[m].first_op; i < p->modules[m].end_op; i++) {
        const lm_node *n = &p->nodes[i];
        /* the keys are latents, which no head owns */
        if (n->code == LM_OP_ATTENTION && n->attention.spec.v_in_k) {
            lm_text_printf(out, _("%u query heads on a latent, %u wide"), n->attention.spec.n_heads,
                           n->attention.spec.k_dim);
            return;
        }
        if (n->code == LM_OP_ATTENTION) {
            lm_text_printf(out,
                           P_(n->attention.spec.n_kv_heads, "%u query heads on %u key/value head, %u wide",
                              "%u query heads on %u key/value heads, %u wide"),
                           n->attention.spec.n_heads, n->attention.spec.n_kv_heads, n->attention.spec.k_dim);
            return;
        }
        if (n->code == LM_OP_EXPERTS) {
            lm_text_printf(out, _("%u experts, %u per token"), n->experts.n_experts, n->experts.top_k);
            return;
        }
        if (n->code == LM_OP_GLU) {
            char word[32];
            lm_traits t = { .has_act = true, .act = n->glu.act, .glu = n };
            lm_text_add_str(out, lm_mlp_name(&t, word, sizeof word));
            return;
        }
    }
}

/* ---- the table of a layer ---- */

typedef struct branch {
    lm_facts     *f;
    lm_doc_table *t;
    unsigned      depth;         /* levels that may still be expanded */
    unsigned      level;
    bool          shapes;        /* with a column of what each row gives */
} branch;

static void put_branch(branch *b, const char *name, const char *kind, const char *what, lm_value gives)
{
    lm_inner_row(b->t, b->level);
    lm_cell(b->t, name);
    lm_cell(b->t, kind);
    lm_cell(b->t, what);
    if (b->shapes && gives != LM_NONE)
        lm_cellf(b->t, "[T, %u]", b->f->s.program->values[gives].width);
    else if (b->shapes)
        lm_cell_empty(b->t);
}

/* Return the parameters of weights that are first read here. */
static uint64_t parameters_of(const lm_facts *f, uint32_t i)
{
    const lm_program *p = f->s.program;
    uint64_t          n = 0;

    for (uint32_t k = 0; k < sizeof p->nodes[i].weights / sizeof *p->nodes[i].weights; k++) {
        uint32_t w = p->nodes[i].weights[k];
        if (w != LM_NONE && f->ledger->reader[w] == i && !p->weights[w].constant)
            n += p->weights[w].elements;
    }
    return n;
}

/* Add an operation that is directly in the layer, or that belongs to a module shared with others:
 * kv_b_proj.k. */
static void put_operation(branch *b, uint32_t m, uint32_t i)
{
    const lm_program *p    = b->f->s.program;
    const lm_node    *n    = &p->nodes[i];
    size_t            skip = strlen(p->modules[m].path);
    bool              below = strncmp(n->path, p->modules[m].path, skip) == 0 && n->path[skip] == '.';
    const char       *sum  = lm_is_residual(b->f->ledger, i) ? _("+ residual") : "+";
    const char       *word = n->code == LM_OP_ADD ? sum : below ? n->path + skip + 1 : last_word(n->path);
    lm_text            what = { 0 };

    describe_op(b->f, i, &what);
    put_branch(b, word, "", what.data ? what.data : "", n->out);
    if (parameters_of(b->f, i))
        lm_cell_count(b->t, LM_EXACT, LM_UNIT_PARAMETERS, parameters_of(b->f, i));
    b->f->failed |= what.failed;
    lm_text_free(&what);
}

static void put_inner(branch *b, uint32_t m);

static void put_child(branch *b, uint32_t m)
{
    const lm_module *x    = &b->f->s.program->modules[m];
    bool             leaf = x->end_op == x->first_op + 1;
    lm_text           what = { 0 };

    if (leaf)
        describe_op(b->f, x->first_op, &what);
    else
        describe_container(b->f, m, &what);
    put_branch(b, x->name, x->class_name, what.data ? what.data : "", x->out);
    b->f->failed |= what.failed;
    lm_text_free(&what);
    if ((leaf || b->depth <= 1) && lm_facts_count(b->f, "modules[%u].parameters", m))
        lm_cell_fact(b->t, LM_EXACT, "modules[%u].parameters", m);
    if (leaf || b->depth <= 1)
        return;
    b->depth--;
    b->level++;
    put_inner(b, m);
    b->level--;
    b->depth++;
}

static void put_inner(branch *b, uint32_t m)
{
    const lm_module *x = &b->f->s.program->modules[m];

    for (uint32_t i = x->first_op, next; i < x->end_op; i = next) {
        uint32_t c = child_holding(b->f, m, i);
        next       = c == LM_NONE ? i + 1 : b->f->s.program->modules[c].end_op;
        if (c == LM_NONE)
            put_operation(b, m, i);
        else
            put_child(b, c);
    }
}

lm_doc_table *lm_layer_table(lm_document *d, uint32_t layer, uint32_t depth, bool titles)
{
    branch b = { .f = d->facts, .depth = depth, .level = 1, .shapes = titles };

    if (titles)
        b.t = lm_doc_table_of(d, NULL, NULL, "llllr", _("module or operation"), _("class"), _("what it does"),
                              _("output"), _("parameters"));
    else
        b.t = lm_doc_table_of(d, NULL, NULL, "lllr", "", "", "", "");
    b.t->tree = true;
    put_inner(&b, d->facts->ledger->layer[layer]);
    return b.t;
}

/* ---- before and after the stack ---- */

static void put_outside(lm_document *d, const char *id, const char *caption, uint32_t from, uint32_t to)
{
    lm_facts         *f = d->facts;
    const lm_program *p = f->s.program;
    lm_doc_table *t = lm_doc_table_of(d, id, caption, "lllr", _("module or operation"), _("what it does"),
                                      _("output"), _("parameters"));

    for (uint32_t i = from; i < to; i++) {
        const lm_node *n    = &p->nodes[i];
        lm_text         what = { 0 };
        lm_module_sums sums;
        bool           whole = p->modules[n->module].end_op == p->modules[n->module].first_op + 1;
        describe_op(f, i, &what);
        lm_next_row(t);
        lm_cell_code(t, n->path);
        lm_cell(t, n->code == LM_OP_EMBED ? _("one table row per token id")
                   : n->code == LM_OP_ADD ? _("the two rows above, added")
                   : what.data            ? what.data
                                          : "");
        lm_cellf(t, "[T, %u]", p->values[n->out].width);
        lm_module_sum(f->ledger, n->module, &sums);
        if ((whole || n->code == LM_OP_EMBED) && sums.parameters)
            lm_cell_fact(t, LM_EXACT, "modules[%u].parameters", n->module);
        f->failed |= what.failed;
        lm_text_free(&what);
    }
}

/* ---- a fold per layer ---- */

static uint32_t twins_of(const lm_facts *f, uint32_t layer)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->s.program->n_layers; i++)
        n += f->ledger->twin[i] == f->ledger->twin[layer];
    return n;
}

static const char *title_of(lm_document *d, uint32_t layer)
{
    const lm_facts   *f = d->facts;
    const lm_program *p = f->s.program;
    const lm_module  *m = &p->modules[f->ledger->layer[layer]];
    char              n[LM_FIG];

    lm_fig_count(n, lm_facts_count(d->facts, "parameters.per_layer[%u]", layer));
    if (layer == 0)
        return lm_doc_printf(d, _("%s (first layer): [T, %u] → [T, %u], %s parameters"), m->path,
                             p->values[m->in].width, p->values[m->out].width, n);
    if (layer + 1 == p->n_layers)
        return lm_doc_printf(d, _("%s (last layer): [T, %u] → [T, %u], %s parameters"), m->path,
                             p->values[m->in].width, p->values[m->out].width, n);
    return lm_doc_printf(d, _("%s: [T, %u] → [T, %u], %s parameters"), m->path, p->values[m->in].width,
                         p->values[m->out].width, n);
}

static void write_likeness(lm_document *d, uint32_t layer)
{
    const lm_facts   *f    = d->facts;
    const lm_program *p    = f->s.program;
    uint32_t          twin = f->ledger->twin[layer], n = twins_of(f, layer);

    if (n == 1)
        lm_doc_text(d, _("No other layer has this structure."));
    else if (n == p->n_layers)
        lm_doc_textf(d, _("Same structure as all %u layers; the weights differ."), n);
    else if (twin == layer)
        lm_doc_textf(d, _("%u of %u layers have this structure."), n, p->n_layers);
    else
        lm_doc_textf(d, _("Same structure as %s, as are %u of %u layers; the weights differ."),
                     p->modules[f->ledger->layer[twin]].path, n, p->n_layers);
}

static void write_next(lm_document *d, uint32_t layer)
{
    const lm_facts   *f   = d->facts;
    const lm_program *p   = f->s.program;
    uint32_t          end = p->modules[f->ledger->layer[layer]].end_op;

    if (layer + 1 < p->n_layers)
        lm_doc_textf(d, _("Next: %s."), p->modules[f->ledger->layer[layer + 1]].path);
    else if (end < p->n_nodes)
        lm_doc_textf(d, _("Next, after the stack: %s."), p->nodes[end].path);
}

static void write_layer(lm_document *d, uint32_t layer)
{
    uint32_t  twin = d->facts->ledger->twin[layer];
    lm_block *fold = lm_doc_fold(d, lm_doc_printf(d, "layer-%u", layer), title_of(d, layer));

    if (twin != layer)
        fold->same_as = lm_doc_anchor(d, lm_doc_printf(d, "layer-%u", twin));
    write_likeness(d, layer);
    lm_layer_table(d, layer, 8, true);
    write_next(d, layer);
    lm_doc_close(d);
}

/* Add consecutive layers with the same structure in one fold; returns the next layer. */
static uint32_t write_run(lm_document *d, uint32_t from)
{
    const lm_facts   *f   = d->facts;
    const lm_program *p   = f->s.program;
    uint32_t          end = from + 1;

    while (end < p->n_layers && f->ledger->twin[end] == f->ledger->twin[from])
        end++;
    if (end - from > 2)
        lm_doc_fold(d, lm_doc_printf(d, "layers-%u-%u", from, end - 1),
                    lm_doc_printf(d, _("%s … %s: %u layers with the same structure"),
                                  p->modules[f->ledger->layer[from]].path,
                                  p->modules[f->ledger->layer[end - 1]].path, end - from));
    for (uint32_t i = from; i < end; i++)
        write_layer(d, i);
    if (end - from > 2)
        lm_doc_close(d);
    return end;
}

void lm_chapter_layers(lm_document *d)
{
    const lm_facts   *f = d->facts;
    const lm_program *p = f->s.program;

    if (!p->n_layers)
        return;
    lm_doc_open(d, "layers", "O-2", _("Layer by layer"));
    lm_doc_text(d, _("T tokens pass through the layers in order; shapes are [T, width]."));
    lm_doc_diagram(d, "pattern", NULL, _("The kinds of layers in their order"), NULL);
    put_outside(d, "before-the-stack", _("Before the first layer"), 0,
                p->modules[f->ledger->layer[0]].first_op);
    for (uint32_t i = 0; i < p->n_layers;)
        i = write_run(d, i);
    put_outside(d, "after-the-stack", _("After the last layer"),
                p->modules[f->ledger->layer[p->n_layers - 1]].end_op, p->n_nodes);
    lm_doc_close(d);
}
