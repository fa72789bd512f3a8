/* op_states.c - operations with a state per sequence: causal_conv, linear_recurrence. */
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

enum { MAX_TAPS = 64 };

lm_value lm_causal_conv(lm_builder *b, const char *name, lm_value x, uint32_t taps, bool bias)
{
    lm_push(b, name, "Conv1d");
    if (b->failed)
        return LM_NONE;
    const char *path  = lm_record_here(b);
    uint32_t    width = lm_record_width(b, x);

    lm_record_need(b, taps >= 2 && taps <= MAX_TAPS, path, "a convolution has 2 to 64 taps");
    uint32_t w  = lm_record_weight(b, path, "weight", LM_VECTOR, 2, width, taps);
    uint32_t wb = bias ? lm_record_weight(b, path, "bias", LM_VECTOR, 1, width, 1) : LM_NONE;
    if (w != LM_NONE)
        b->p->weights[w].one_between = true;
    lm_node *n  = lm_record_unary(b, LM_OP_CAUSAL_CONV, path, x, width);
    n->weights[0]  = w;
    n->weights[1]  = wb;
    n->conv.taps   = taps;
    n->conv.state  = lm_record_state(b, (uint64_t)(taps - 1) * width);
    lm_value y     = n->out;
    lm_pop(b);
    return y;
}

void lm_between_in_gguf(lm_builder *b, lm_value x)
{
    if (!b->failed)
        b->p->weights[b->p->nodes[b->p->values[x].producer].weights[0]].between_in_gguf = true;
}

static void conv_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t width = lm_width_out(p, n), bias = n->weights[1] != LM_NONE ? width : 0;

    c->flops           = 2 * n->conv.taps * width + bias;
    c->reads           = width;
    c->writes          = width;
    c->weight_elements = n->conv.taps * width + bias;
}

static void conv_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("%u positions, each dimension separately%s"), n->conv.taps,
                   n->weights[1] != LM_NONE ? _(" + bias") : "");
}

static const lm_op_number conv_numbers[] = {
    LM_NODE_NUMBER(U32, conv.taps, "convolutions"),
    { 0 }
};

const lm_op lm_op_causal_conv = {
    .name       = "causal_conv",
    .weights    = { "weight", "bias" },
    .numbers    = conv_numbers,
    .cost       = conv_cost,
    .describe   = conv_describe,
    .state      = true,
    .formula    = N_("β + Σ_j w_j ⊙ x(t − taps + 1 + j)"),
    .formula_without_bias = N_("Σ_j w_j ⊙ x(t − taps + 1 + j)"),
    .expression = "causal_conv({0}, {w0}, {w1})",
    .helper     = "def causal_conv(x, weight, bias):\n"
                  "    \"\"\"Each lane over its last positions: x [T, C], weight [C, taps]; zeros before the "
                  "first.\"\"\"\n"
                  "    taps = weight.shape[-1]\n"
                  "    weight = weight.reshape(-1, taps)\n"
                  "    x = $cat([$.zeros((taps - 1, x.shape[1])), x])\n"
                  "    y = sum(x[j:len(x) - taps + 1 + j] * weight[:, j] for j in range(taps))\n"
                  "    return y if bias is None else y + bias\n\n\n",
    .work       = "convolutions",
    .trains_inputs          = 1,
    .trains_weights         = 3,
    .reverse_reads_to_train = LM_IN0,
};

/* ---- linear_recurrence ---- */

lm_value lm_linear_recurrence(lm_builder *b, const char *word, const lm_recurrence *r, lm_value q,
                              lm_value k, lm_value v, lm_value decay, lm_value beta)
{
    if (b->failed)
        return LM_NONE;
    uint64_t keys = (uint64_t)r->n_key_heads * r->k_dim, values = (uint64_t)r->n_heads * r->v_dim,
             decays = (uint64_t)r->n_heads * (r->decay_by_channel ? r->k_dim : 1);

    lm_record_need(b, r->n_key_heads && r->n_heads % r->n_key_heads == 0, word,
                   "the number of key heads does not divide the number of heads");
    lm_record_need(b,
                   lm_record_width(b, q) == keys && lm_record_width(b, k) == keys &&
                       lm_record_width(b, v) == values && lm_record_width(b, decay) == decays &&
                       lm_record_width(b, beta) == r->n_heads,
                   word, "the heads of a recurrence do not match the widths of its inputs");
    lm_node       *n    = lm_record_unary(b, LM_OP_LINEAR_RECURRENCE, lm_record_path(b, word), q,
                                          lm_record_width(b, v));
    const lm_value in[] = { q, k, v, decay, beta };
    n->n_in             = 5;
    memcpy(n->in, in, sizeof in);
    n->recurrence.spec  = *r;
    n->recurrence.state = lm_record_state(b, (uint64_t)r->n_heads * lm_recurrence_blocks(r) *
                                                 LM_STATE_COLUMNS * r->k_dim);
    return n->out;
}

/* Per head: decay, S^T k if it is subtracted, the update, S^T q, and u. */
static void recurrence_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    const lm_recurrence *r     = &n->recurrence.spec;
    uint64_t             state = (uint64_t)r->k_dim * r->v_dim;

    c->flops  = r->n_heads * (state * (r->delta ? 7 : 5) + r->v_dim * (r->delta ? 2u : 1u));
    c->writes = lm_width_out(p, n);
    for (uint32_t k = 0; k < n->n_in; k++)
        c->reads += p->values[n->in[k]].width;
}

static void recurrence_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_recurrence *r = &n->recurrence.spec;

    (void)p;
    lm_text_printf(out, _("%u heads of %u × %u, %u key heads, %s"), r->n_heads, r->k_dim, r->v_dim,
                   r->n_key_heads, r->delta ? "u = β (v − (α S)ᵀ k)" : "u = β v");
    if (r->decay_by_channel)
        lm_text_add_str(out, _(", a decay per row of S"));
}

static const lm_op_number recurrence_numbers[] = {
    LM_NODE_NUMBER(U32, recurrence.spec.n_heads, NULL),
    LM_NODE_NUMBER(U32, recurrence.spec.n_key_heads, NULL),
    LM_NODE_NUMBER(U32, recurrence.spec.k_dim, NULL),
    LM_NODE_NUMBER(U32, recurrence.spec.v_dim, NULL),
    LM_NODE_NUMBER(BOOL, recurrence.spec.delta, "recurrences"),
    LM_NODE_NUMBER(BOOL, recurrence.spec.decay_by_channel, "recurrences"),
    LM_NODE_NUMBER(BOOL, recurrence.spec.tiled, NULL),
    { 0 }
};

const lm_op lm_op_linear_recurrence = {
    .name       = "linear_recurrence",
    .numbers    = recurrence_numbers,
    .cost       = recurrence_cost,
    .describe   = recurrence_describe,
    .state      = true,
    .formula    = "S ← α S + k uᵀ, o = Sᵀ q",
    .expression = "linear_recurrence({0}, {1}, {2}, {3}, {4}, key_heads={n_key_heads}, delta={delta}, "
                  "tiled={tiled})",
    .helper     = "def linear_recurrence(q, k, v, decay, beta, key_heads, delta, tiled):\n"
                  "    \"\"\"A matrix S per head: every position decays it and adds k u^T; the output is "
                  "S^T q.\"\"\"\n"
                  "    T, heads = beta.shape\n"
                  "    of = [h % key_heads if tiled else h * key_heads // heads for h in range(heads)]\n"
                  "    q, k = (x.reshape(T, key_heads, -1)[:, of] for x in (q, k))\n"
                  "    v, decay = v.reshape(T, heads, -1), decay.reshape(T, heads, -1, 1)\n"
                  "    S, out = $.zeros((heads, k.shape[2], v.shape[2])), []\n"
                  "    for t in range(T):\n"
                  "        S = decay[t] * S\n"
                  "        u = v[t] - (S * k[t][:, :, None]).sum(1) if delta else v[t]\n"
                  "        S = S + k[t][:, :, None] * (beta[t][:, None] * u)[:, None]\n"
                  "        out.append((S * q[t][:, :, None]).sum(1).reshape(1, -1))\n"
                  "    return $cat(out)\n\n\n",
    .work          = "recurrences",
    .trains_inputs = 31,
    .reverse_reads = LM_IN0 | LM_IN1 | LM_IN2 | LM_IN3 | LM_IN4,
};
