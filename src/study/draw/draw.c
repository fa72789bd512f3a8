/* draw.c - the nodes and edges of each operation. */
#include "study/draw/draw.h"

#include <stdio.h>
#include <string.h>

#include "program/op.h"
#include "study/facts/figure.h"
#include "base/number.h"

const char *lm_grouped(lm_facts *f, uint64_t n)
{
    char        text[LM_FIG];
    const char *copy = lm_arena_strdup(&f->arena, lm_fig_count(text, n));

    f->failed |= !copy;
    return copy ? copy : "";
}

bool lm_walk_start(lm_walk *w, lm_drawing *d)
{
    uint32_t n = d->f->s.program->n_values;

    *w = (lm_walk){
        .d = d, .g = lm_graph_new(d->f), .outer = LM_OUTSIDE, .block = LM_NONE, .last = LM_OUTSIDE
    };
    w->node_of = lm_arena_new(&d->f->arena, (size_t)n + 1, uint32_t);
    d->f->failed |= !w->node_of;
    for (uint32_t i = 0; w->node_of && i < n; i++)
        w->node_of[i] = LM_OUTSIDE;
    return w->g && w->node_of;
}

/* ---- labels ---- */

static const char *word(const lm_node *n)
{
    const char *dot = strrchr(n->path, '.');

    return dot ? dot + 1 : n->path;
}

/* Return "= 24 × 128" for projections that make heads. */
static const char *heads_text(const lm_walk *w, uint32_t i, uint32_t width)
{
    const lm_program *p    = w->d->f->s.program;
    uint16_t          role = w->d->f->ledger->roles[i];

    for (uint32_t k = i; k < p->n_nodes && p->nodes[k].layer == p->nodes[i].layer; k++) {
        if (p->nodes[k].code != LM_OP_ATTENTION)
            continue;
        const lm_attention_spec *s     = &p->nodes[k].attention.spec;
        uint32_t                 heads = role & LM_PRODUCT_QUERY ? s->n_heads : s->n_kv_heads;
        uint32_t                 lanes = role & LM_PRODUCT_VALUE ? s->v_dim : s->k_dim;
        if (!(role & (LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE)) || heads * lanes != width)
            return "";
        const char *text = lm_arena_printf(&w->d->f->arena, " = %u × %u", heads, lanes);
        return text ? text : "";
    }
    return "";
}

static uint32_t add_linear(lm_walk *w, uint32_t i)
{
    const lm_program *p    = w->d->f->s.program;
    const lm_node    *n    = &p->nodes[i];
    uint32_t          in = p->values[n->in[0]].width, out = p->values[n->out].width;
    bool              head = i == w->d->f->ledger->head;
    bool              tied = head && n->weights[0] != LM_NONE && w->d->f->ledger->reader[n->weights[0]] != i;

    return lm_graph_add(w->g, LM_SHAPE_BOX, head ? LM_MARK_END : LM_MARK_NONE, "%s\n%s → %s%s%s%s", word(n),
                        lm_grouped(w->d->f, in), lm_grouped(w->d->f, out), heads_text(w, i, out),
                        n->weights[1] != LM_NONE ? _(" + bias") : "",
                        tied ? _(", tied to the embedding") : "");
}

static uint32_t add_norm(lm_walk *w, const lm_node *n)
{
    return lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_NONE, "%s\n%s, eps %g", word(n),
                        n->code == LM_OP_RMS_NORM ? "RMSNorm" : "LayerNorm",
                        lm_decimal(n->norm.eps));
}

static uint32_t add_rope(lm_walk *w, const lm_node *n)
{
    const lm_rope_spec *s = &w->d->f->s.program->ropes[n->rope.table].spec;

    const char *format = P_(n->rope.n_heads, "RoPE\n%u head, %u of %u dimensions, base %s%s%s",
                            "RoPE\n%u heads, %u of %u dimensions, base %s%s%s");

    return lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_ROPE, format, n->rope.n_heads,
                        s->dim, n->rope.head_dim,
                        lm_grouped(w->d->f, (uint64_t)s->base), s->type == LM_ROPE_DEFAULT ? "" : ", ",
                        s->type == LM_ROPE_DEFAULT ? "" : lm_rope_type_name(s->type));
}

/* Add scores, softmax and weighted sum: q and k lead to the first, values only to the last. */
static uint32_t add_attention(lm_walk *w, const lm_node *n)
{
    const lm_attention_spec *s      = &n->attention.spec;
    double                   square = 1 / ((double)s->scale * (double)s->scale);
    uint64_t                 whole  = (uint64_t)(square + 0.5);
    char                     scale[48], mask[96];

    if (square - (double)whole < 1e-4 * square && (double)whole - square < 1e-4 * square)
        snprintf(scale, sizeof scale, "/ √%llu", (unsigned long long)whole);
    else
        lm_print(scale, sizeof scale, "· %.6g", (double)s->scale);
    snprintf(mask, sizeof mask,
             s->chunked  ? _("the keys of its chunk of %s")
             : s->window ? _("the last %s keys")
                         : _("keys 0 … i"),
             lm_grouped(w->d->f, s->window));
    uint32_t scores = lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_SCORES,
                                   P_(n->attention.spec.n_kv_heads,
                                      "scores q·kᵀ %s\n%u heads on %u key/value head, causal: %s%s%s",
                                      "scores q·kᵀ %s\n%u heads on %u key/value heads, causal: %s%s%s"),
                                   scale, s->n_heads, s->n_kv_heads, mask,
                                   s->alibi > 0 ? _(", less slope · distance (ALiBi)") : "",
                                   s->softcap > 0 ? _(", soft cap") : "");
    uint32_t softmax = lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_SOFTMAX,
                                    s->sinks ? _("softmax, with a sink per head") : _("softmax"));
    uint32_t sum = lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_SCORES,
                                _("weighted sum of values\n%u heads of %u%s"), s->n_heads, s->v_dim,
                                s->v_in_k ? _(": the first dimensions of the keys") : "");

    for (uint32_t k = 0; k < 2; k++)
        if (w->node_of[n->in[k]] != LM_OUTSIDE)
            lm_graph_link(w->g, w->node_of[n->in[k]], scores, k ? "k" : "q");
    lm_graph_link(w->g, scores, softmax, NULL);
    lm_graph_link(w->g, softmax, sum, NULL);
    lm_value v = s->v_in_k ? n->in[1] : n->in[2];
    if (w->node_of[v] != LM_OUTSIDE)
        lm_graph_link(w->g, w->node_of[v], sum, "v");
    return sum;
}

static uint32_t add_described(lm_walk *w, const lm_node *n)
{
    const lm_op *op = lm_op_of(n->code);
    lm_text       b  = { 0 };

    if (op->describe)
        op->describe(w->d->f->s.program, n, &b);
    uint32_t node = lm_graph_add(w->g, LM_SHAPE_BOX,
                                 n->code == LM_OP_ROUTE ? LM_MARK_SOFTMAX
                                 : n->code == LM_OP_GLU ? LM_MARK_GATE
                                                        : LM_MARK_NONE,
                                 b.size ? "%s\n%s" : "%s%s", word(n), b.data ? b.data : "");
    lm_text_free(&b);
    return node;
}

static uint32_t add_node(lm_walk *w, uint32_t i)
{
    const lm_program *p = w->d->f->s.program;
    const lm_node    *n = &p->nodes[i];

    switch (n->code) {
    case LM_OP_LINEAR:
        return add_linear(w, i);
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        return add_norm(w, n);
    case LM_OP_ROPE:
        return add_rope(w, n);
    case LM_OP_ADD:
        return lm_graph_add(w->g, LM_SHAPE_CIRCLE, LM_MARK_SUM,
                            lm_is_residual(w->d->f->ledger, i) ? _("+ residual") : "+");
    case LM_OP_GLU:
        return lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_GATE,
                            w->d->f->ledger->part[i] == LM_PART_MLP ? _("%s(gate) ⊙ up\n%s dimensions")
                                                                    : _("%s(gate) ⊙ x\n%s dimensions"),
                            lm_act_word(n->glu.act), lm_grouped(w->d->f, p->values[n->out].width));
    case LM_OP_ACT:
        return lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_GATE, _("%s\n%s dimensions"), lm_act_word(n->glu.act),
                            lm_grouped(w->d->f, p->values[n->out].width));
    case LM_OP_EMBED:
        return lm_graph_add(w->g, LM_SHAPE_BOX, LM_MARK_NONE, _("%s\na row of %s × %s"), word(n),
                            lm_grouped(w->d->f, p->weights[n->weights[0]].dims[0]),
                            lm_grouped(w->d->f, p->weights[n->weights[0]].dims[1]));
    default:
        return add_described(w, n);
    }
}

/* ---- traversal ---- */

void lm_walk_op(lm_walk *w, uint32_t i)
{
    const lm_node *n = &w->d->f->s.program->nodes[i];
    uint32_t       node;

    for (uint32_t k = 0; k < n->n_in; k++)
        if (n->in[k] != LM_NONE && w->node_of[n->in[k]] == LM_OUTSIDE)
            w->node_of[n->in[k]] = w->outer;
    if (n->code == LM_OP_ATTENTION) {
        node = add_attention(w, n);
    } else {
        node = add_node(w, i);
        for (uint32_t k = 0; k < n->n_in; k++)
            if (w->node_of[n->in[k]] != LM_OUTSIDE)
                lm_graph_link(w->g, w->node_of[n->in[k]], node, NULL);
        if (!n->n_in && w->outer != LM_OUTSIDE)
            lm_graph_link(w->g, w->outer, node, NULL);
    }
    w->node_of[n->out] = node;
    w->last            = node;
}

void lm_walk_ops(lm_walk *w, uint32_t from, uint32_t to)
{
    const lm_facts   *f = w->d->f;
    const lm_program *p = f->s.program;

    for (uint32_t i = from; i < to; i++) {
        uint32_t block = p->nodes[i].layer >= 0 && !lm_is_residual(f->ledger, i) ? f->ledger->block[i]
                                                                                 : LM_NONE;
        bool     group = lm_has_several(p, block);
        if (w->block != LM_NONE && w->block != block) {
            lm_graph_close(w->g);
            w->block = LM_NONE;
        }
        if (group && w->block == LM_NONE) {
            lm_graph_open(w->g, "%s: %s", p->modules[block].name, p->modules[block].class_name);
            w->block = block;
        }
        lm_walk_op(w, i);
    }
    if (w->block != LM_NONE)
        lm_graph_close(w->g);
    w->block = LM_NONE;
}
