/* op_norms.c - norms of rows, or of equal parts of a row: rms_norm, layer_norm. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

static lm_value norm(lm_builder *b, lm_op_code code, const char *name, const char *class_name, lm_value x,
                     float eps, bool bias)
{
    lm_push(b, name, class_name);
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_VECTOR, 1, lm_record_width(b, x), 1);
    uint32_t wb = bias ? lm_record_weight(b, path, "bias", LM_VECTOR, 1, lm_record_width(b, x), 1) : LM_NONE;
    lm_node    *n    = lm_record_unary(b, code, path, x, lm_record_width(b, x));
    n->weights[0]    = w;
    n->weights[1]    = wb;
    n->norm.eps      = eps;
    n->norm.groups   = 1;
    lm_value y       = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_rms_norm(lm_builder *b, const char *name, lm_value x, float eps)
{
    return norm(b, LM_OP_RMS_NORM, name, "%sRMSNorm", x, eps, false);
}

lm_value lm_layer_norm(lm_builder *b, const char *name, lm_value x, float eps, bool bias)
{
    return norm(b, LM_OP_LAYER_NORM, name, "LayerNorm", x, eps, bias);
}

/* Open the module of a norm of heads, and record the norm. */
static lm_value norm_heads(lm_builder *b, const char *name, const char *class_name, lm_value x,
                           uint32_t n_heads, float eps)
{
    lm_record_need(b, b->failed || (n_heads && lm_record_width(b, x) % n_heads == 0), name,
                   "heads do not divide the width");
    lm_push(b, name, class_name);
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_VECTOR, 1, lm_record_width(b, x) / n_heads, 1);
    lm_node    *n    = lm_record_unary(b, LM_OP_RMS_NORM, path, x, lm_record_width(b, x));
    n->weights[0]    = w;
    n->norm.eps      = eps;
    n->norm.groups   = n_heads;
    return n->out;
}

lm_value lm_rms_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, float eps)
{
    lm_value y = norm_heads(b, name, "%sRMSNorm", x, n_heads, eps);

    lm_pop(b);
    return y;
}

lm_value lm_rms_norm_gated(lm_builder *b, const char *name, lm_value x, lm_value gate, uint32_t n_heads,
                           float eps, lm_act act)
{
    lm_value y = lm_gate(b, "gated", gate, norm_heads(b, name, "%sRMSNormGated", x, n_heads, eps), act);

    lm_pop(b);
    return y;
}

static lm_value unweighted(lm_builder *b, lm_op_code code, const char *name, const char *class_name,
                           lm_value x, uint32_t n_heads, float eps)
{
    lm_record_need(b, b->failed || (n_heads && lm_record_width(b, x) % n_heads == 0), name,
                   "heads do not divide the width");
    lm_push(b, name, class_name);
    if (b->failed)
        return LM_NONE;
    lm_node *n     = lm_record_unary(b, code, lm_record_here(b), x, lm_record_width(b, x));
    n->norm.eps    = eps;
    n->norm.groups = n_heads;
    lm_value y     = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_rms_unweighted(lm_builder *b, const char *name, const char *class_name, lm_value x,
                           uint32_t n_heads, float eps)
{
    return unweighted(b, LM_OP_RMS_NORM, name, class_name, x, n_heads, eps);
}

lm_value lm_layer_unweighted(lm_builder *b, const char *name, lm_value x, float eps)
{
    return unweighted(b, LM_OP_LAYER_NORM, name, "%sLayerNorm", x, 1, eps);
}

lm_value lm_rms_heads(lm_builder *b, const char *word, lm_value x, uint32_t n_heads, float eps)
{
    if (b->failed)
        return LM_NONE;
    uint32_t width = lm_record_width(b, x);

    lm_record_need(b, n_heads && width >= n_heads && width % n_heads == 0, word,
                   "heads do not divide the width");
    lm_node *n     = lm_record_unary(b, LM_OP_RMS_NORM, lm_record_path(b, word), x, width);
    n->norm.eps    = eps;
    n->norm.groups = n_heads;
    return n->out;
}

lm_value lm_unit_heads(lm_builder *b, const char *word, lm_value x, uint32_t n_heads, float eps,
                       float factor)
{
    uint32_t each = b->failed || !n_heads ? 1 : lm_record_width(b, x) / n_heads;

    each = each ? each : 1;
    return lm_scale(b, lm_rms_heads(b, word, x, n_heads, eps / (float)each), factor / sqrtf((float)each));
}

lm_value lm_rms_norm_groups(lm_builder *b, const char *name, lm_value x, uint32_t n_groups, lm_value gate,
                            float eps)
{
    lm_record_need(b, b->failed || (n_groups && lm_record_width(b, x) % n_groups == 0), name,
                   "groups do not divide the width");
    lm_push(b, name, "%sRMSNormGated");
    if (b->failed)
        return LM_NONE;
    uint32_t width = lm_record_width(b, x) / n_groups;
    bool     many  = n_groups > 1;
    uint32_t w     = lm_record_weight(b, lm_record_here(b), "weight", LM_VECTOR, 2, n_groups, width);
    lm_node *n     = lm_record_unary(b, LM_OP_RMS_NORM, lm_record_here(b), x, lm_record_width(b, x));
    n->weights[0]  = w;
    n->norm.eps    = eps;
    n->norm.groups = n_groups;
    n->norm.own    = many;
    if (w != LM_NONE)
        b->p->weights[w].flat = true;
    lm_value y = gate == LM_NONE ? n->out : lm_gate(b, "gated", gate, n->out, LM_ACT_SILU);
    lm_pop(b);
    return y;
}

lm_value lm_layer_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, uint32_t rows,
                             float eps)
{
    lm_record_need(b,
                   b->failed ||
                       (n_heads && lm_record_width(b, x) % n_heads == 0 && (!rows || rows == n_heads)),
                   name, "heads do not divide the width");
    lm_push(b, name, rows ? "%sLayerNormPerHead" : "LayerNorm");
    if (b->failed)
        return LM_NONE;
    const char *path  = lm_record_here(b);
    uint32_t    width = lm_record_width(b, x) / n_heads;
    uint32_t w = lm_record_weight(b, path, "weight", LM_VECTOR, rows ? 2 : 1, rows ? rows : width, width);
    uint32_t    wb    = rows ? LM_NONE : lm_record_weight(b, path, "bias", LM_VECTOR, 1, width, 1);
    lm_node    *n     = lm_record_unary(b, LM_OP_LAYER_NORM, path, x, lm_record_width(b, x));
    n->weights[0]     = w;
    n->weights[1]     = wb;
    n->norm.eps       = eps;
    n->norm.groups    = n_heads;
    n->norm.own       = rows;
    lm_value y        = n->out;
    lm_pop(b);
    return y;
}

/* square, sum, divide, square root, multiply by 1/rms, multiply by the weight */
static void rms_norm_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t d = lm_width_in(p, n);

    c->flops           = 4 * d + 2 * (uint64_t)n->norm.groups;
    c->reads           = d;
    c->writes          = d;
    c->weight_elements = n->weights[0] != LM_NONE ? p->weights[n->weights[0]].elements : 0;
}

/* sum, centre, square, sum, multiply, scale, shift */
static void layer_norm_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t d = lm_width_in(p, n);
    uint64_t w = n->norm.own ? d : d / n->norm.groups;

    c->flops           = 7 * d + 3 * (uint64_t)n->norm.groups;
    c->reads           = d;
    c->writes          = d;
    c->weight_elements = (n->weights[0] != LM_NONE ? w : 0) + (n->weights[1] != LM_NONE ? w : 0);
}

static void norm_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "eps %g", (double)n->norm.eps);
    if (n->norm.groups > 1)
        lm_text_printf(out, _(", each of %u heads%s"), n->norm.groups,
                       n->norm.own ? _(" with separate weights") : "");
}

static const lm_op_number norm_numbers[] = {
    LM_NODE_NUMBER(FLOAT, norm.eps, "epsilon of norms"),
    LM_NODE_NUMBER(U32, norm.groups, NULL),
    LM_NODE_NUMBER(BOOL, norm.own, NULL),
    { 0 }
};

const lm_op lm_op_rms_norm = {
    .name     = "rms_norm",
    .weights  = { "weight" },
    .numbers  = norm_numbers,
    .cost     = rms_norm_cost,
    .describe = norm_describe,
    .formula  = "x / √(mean(x²) + ε) ⊙ γ",
    .helper   = "def rms_norm(x, weight, eps):\n"
                "    \"\"\"x / sqrt(mean(x^2) + eps) * weight: every row at the same size (RMSNorm, arXiv 1910.07467).\"\"\"\n"
                "    y = x / $.sqrt((x * x).mean(-1, keepdims=True) + eps)\n"
                "    return y if weight is None else y * weight\n\n\n",
    .work     = "norms",
    .trains_inputs          = 1,
    .trains_weights         = 1,
    .reverse_reads          = LM_IN0,
    .reverse_flops          = 8,
};

const lm_op lm_op_layer_norm = {
    .name     = "layer_norm",
    .weights  = { "weight", "bias" },
    .numbers  = norm_numbers,
    .cost     = layer_norm_cost,
    .describe = norm_describe,
    .formula  = "(x − μ) / √(var + ε) ⊙ γ + β",
    .formula_without_bias = "(x − μ) / √(var + ε) ⊙ γ",
    .helper   = "def layer_norm(x, weight, bias, eps):\n"
                "    \"\"\"(x - mean) / sqrt(variance + eps) * weight + bias (LayerNorm, arXiv 1607.06450).\"\"\"\n"
                "    y = x - x.mean(-1, keepdims=True)\n"
                "    y = y / $.sqrt((y * y).mean(-1, keepdims=True) + eps)\n"
                "    y = y if weight is None else y * weight\n"
                "    return y if bias is None else y + bias\n\n\n",
    .work     = "norms",
    .trains_inputs          = 1,
    .trains_weights         = 3,
    .reverse_reads          = LM_IN0,
    .reverse_flops          = 11,
};
