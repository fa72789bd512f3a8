/* flow.c - describe a model in one line, derived from its operations. */
#include <stdio.h>
#include <string.h>

#include "study/facts/flow.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "base/number.h"

/* Append the separator. `beside`: the next element does not read the previous one but the same input as
 * it. */
static void arrow(lm_text *out, size_t from, bool beside)
{
    if (out->size > from)
        lm_text_add_str(out, beside ? " ∥ " : " → ");
}

static const char *norm_word(const lm_node *n)
{
    return n->code == LM_OP_RMS_NORM ? "RMSNorm" : "LayerNorm";
}

/* Return "SwiGLU", "GELU MLP", "MoE": the name of the block that contains an operation. */
static const char *block_word(lm_facts *f, uint32_t i, char out[64])
{
    const lm_program *p     = f->s.program;
    uint32_t          block = f->ledger->block[i];
    const lm_node    *act   = NULL;

    if (f->ledger->attends[block])
        return _("attention");
    if (f->ledger->carries[block])
        return p->modules[block].name;
    for (uint32_t k = p->modules[block].first_op; k < p->modules[block].end_op; k++) {
        if (p->nodes[k].code == LM_OP_EXPERTS)
            return "MoE";
        if (!act && (p->nodes[k].code == LM_OP_GLU || p->nodes[k].code == LM_OP_ACT))
            act = &p->nodes[k];
    }
    if (!act)
        return p->modules[block].name;
    lm_traits t = { .has_act = true, .act = act->glu.act, .glu = act->code == LM_OP_GLU ? act : NULL };
    char      word[32];
    snprintf(out, 64, "%s%s", lm_mlp_name(&t, word, sizeof word), t.glu ? "" : " MLP");
    return out;
}

/* Return whether `v` is the last residual sum, or made from it by norms alone. Before the first sum it always
 * is. */
static bool reads_sum(const lm_program *p, lm_value v, lm_value sum)
{
    while (sum != LM_NONE && v != sum) {
        const lm_node *n = &p->nodes[p->values[v].producer];
        if (n->code != LM_OP_RMS_NORM && n->code != LM_OP_LAYER_NORM)
            return false;
        v = n->in[0];
    }
    return true;
}

/* The description of a layer so far. */
typedef struct chain {
    lm_text  *out;
    size_t   from;               /* offset in `out` where it begins */
    lm_value sum;                /* the last residual sum; LM_NONE before the first */
    lm_value last;               /* the value shown last; LM_NONE at the start */
    bool     branched;           /* a block has been shown since that sum */
} chain;

static void put(chain *c, const char *word, bool beside, lm_value made)
{
    arrow(c->out, c->from, beside);
    lm_text_add_str(c->out, word);
    c->last = made;
}

static void put_norm(chain *c, const lm_node *n, const lm_module *layer)
{
    put(c, norm_word(n), c->last != LM_NONE && n->in[0] == layer->in, n->out);
}

/* Show a block, whose operations from i on follow one another. */
static void put_block(lm_facts *f, chain *c, uint32_t i)
{
    const lm_program *p     = f->s.program;
    uint32_t          block = f->ledger->block[i], end = i + 1;
    lm_value          in    = p->nodes[i].in[0];
    char              word[64];

    while (end < p->n_nodes && f->ledger->block[end] == block)
        end++;
    put(c, block_word(f, i, word), c->last != in && (c->branched || !reads_sum(p, in, c->sum)),
        p->nodes[end - 1].out);
    c->branched = true;
}

static void put_act(chain *c, const lm_node *n)
{
    lm_traits t = { .has_act = true, .act = n->glu.act, .glu = n->code == LM_OP_GLU ? n : NULL };
    char      word[64];

    put(c, lm_mlp_name(&t, word, sizeof word), false, n->out);
}

static void put_scale(chain *c, const lm_node *n)
{
    char word[64];

    lm_print(word, sizeof word, "× %g", lm_decimal(n->scale.factor));
    put(c, word, c->branched && n->in[0] != c->last, n->out);
}

void lm_put_layer_flow(lm_facts *f, uint32_t layer, lm_text *out)
{
    const lm_program *p = f->s.program;
    const lm_module  *m = &p->modules[f->ledger->layer[layer]];
    uint32_t          block = LM_NONE;       /* the block of the previous operation */
    chain             c = { out, out->size, LM_NONE, LM_NONE, false };

    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        const lm_node *n = &p->nodes[i];
        uint32_t       b = f->ledger->block[i];
        bool           alone = !lm_has_several(p, b);
        if (lm_is_residual(f->ledger, i)) {
            put(&c, "+", false, n->out);
            c.sum      = n->out;
            c.branched = false;
        } else if (alone && n->code == LM_OP_ADD) {
            c.last = n->out;                 /* of experts: part of what they give */
        } else if (!alone && b != block) {
            put_block(f, &c, i);
        } else if (alone && lm_is_norm(n)) {
            put_norm(&c, n, m);
        } else if (alone && (n->code == LM_OP_ACT || n->code == LM_OP_GLU)) {
            put_act(&c, n);
        } else if (alone && n->code == LM_OP_SCALE) {
            put_scale(&c, n);
        } else if (alone && (f->ledger->roles[i] & (LM_PRODUCT_UP | LM_PRODUCT_DOWN))) {
            /* products directly in the layer */
            put(&c, p->modules[b == LM_NONE ? n->module : b].name, false, n->out);
        }
        block = b;
    }
}

/* Append the operations before the first layer or after the last. */
static void put_outside(lm_facts *f, uint32_t from, uint32_t to, bool after, lm_text *out)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = from; i < to; i++) {
        const lm_node *n = &p->nodes[i];
        switch (n->code) {
        case LM_OP_EMBED:
            lm_text_printf(out, _(" → embedding %llu×%u"),
                           (unsigned long long)p->weights[n->weights[0]].dims[0], p->values[n->out].width);
            break;
        case LM_OP_ADD:
            lm_text_add_str(out, p->nodes[p->values[n->in[1]].producer].code == LM_OP_SCALE
                                     ? " → +"
                                     : _(" + positions"));
            break;
        case LM_OP_SCALE:
            lm_text_printf(out, " → × %g", lm_decimal(n->scale.factor));
            break;
        case LM_OP_RMS_NORM:
        case LM_OP_LAYER_NORM:
            lm_text_printf(out, " → %s", norm_word(n));
            break;
        case LM_OP_LINEAR:
            if (i != f->ledger->head)
                lm_text_printf(out, " → %s", p->modules[n->module].name);
            else
                lm_text_printf(out, " → %s",
                               f->ledger->reader[n->weights[0]] != i ? _("head (tied)") : _("head"));
            break;
        case LM_OP_SOFTCAP:
            lm_text_printf(out, " → %s", _("soft cap"));
            break;
        default:
            break;
        }
    }
    if (after)
        lm_text_printf(out, " → %s", _("logits"));
}

void lm_put_flow(lm_facts *f, lm_text *out)
{
    const lm_program *p = f->s.program;
    const uint32_t   *twin = f->ledger->twin;
    uint32_t          runs = 0;

    if (!p->n_layers) {
        lm_text_add_str(out, _("tokens"));
        put_outside(f, 0, p->n_nodes, true, out);
        return;
    }
    lm_text_add_str(out, _("tokens"));
    put_outside(f, 0, p->modules[f->ledger->layer[0]].first_op, false, out);
    for (uint32_t i = 0; i < p->n_layers; i++)
        runs += i == 0 || twin[i] != twin[i - 1];
    for (uint32_t i = 0, next; i < p->n_layers; i = next) {
        for (next = i + 1; next < p->n_layers && (runs > 4 || twin[next] == twin[i]); next++)
            ;
        lm_text_add_str(out, " → ⟦ ");
        lm_put_layer_flow(f, i, out);
        lm_text_printf(out, " ⟧ ×%u", next - i);
        if (runs > 4)
            lm_text_printf(out, _(" of %u kinds"),
                           (unsigned)lm_facts_count(f, "architecture.kinds_of_layer"));
    }
    put_outside(f, p->modules[f->ledger->layer[p->n_layers - 1]].end_op, p->n_nodes, true, out);
}
