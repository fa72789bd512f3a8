/* op_states.c - operations with a state per sequence: causal_conv. */
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
    .work       = "states",
    .trains_inputs          = 1,
    .trains_weights         = 3,
    .reverse_reads_to_train = LM_IN0,
};
