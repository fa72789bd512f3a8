/* op_products.c - products of rows and matrices: linear, head_linear. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- linear: x W^T + b ---- */

/* Record the product in the open module. */
static lm_node *record_product(lm_builder *b, lm_value x, uint32_t out, bool bias)
{
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_MATRIX, 2, out, lm_record_width(b, x));
    uint32_t    wb   = bias ? lm_record_weight(b, path, "bias", LM_VECTOR, 1, out, 1) : LM_NONE;
    lm_node    *n    = lm_record_unary(b, LM_OP_LINEAR, path, x, out);

    n->weights[0] = w;
    n->weights[1] = wb;
    return n;
}

static lm_value plain_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias)
{
    lm_push(b, name, "Linear");
    if (b->failed)
        return LM_NONE;
    lm_value y = record_product(b, x, out, bias)->out;
    lm_pop(b);
    return y;
}

void lm_ternary_linears(lm_builder *b, const lm_ternary *form)
{
    b->ternary      = *form;
    b->rounded_from = LM_NONE;
}

/* Products of the same input share its rounded form. */
static lm_value ternary_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias)
{
    if (b->failed)
        return LM_NONE;
    if (b->rounded_from != x) {
        b->rounded      = lm_round_row(b, lm_record_text(b, "%s_input", name), x);
        b->rounded_from = x;
    }
    lm_push(b, name, b->ternary.class_name);
    if (b->failed)
        return LM_NONE;
    uint32_t scale = lm_record_weight(b, lm_record_here(b), "weight_scale", LM_VECTOR, 1, 1, 1);
    lm_node *n     = record_product(b, b->rounded, out, bias && !b->ternary.bias_after);
    lm_value y     = n->out;
    n->weights[2]  = scale;
    if (scale != LM_NONE) {
        b->p->weights[scale].gguf     = NULL;
        b->p->weights[scale].constant = true;
        b->p->weights[scale].inverse  = b->ternary.inverse;
        b->p->weights[scale].of_matrix = b->ternary.online;
    }
    if (bias && b->ternary.bias_after)
        y = lm_add_bias(b, "bias", y);
    lm_pop(b);
    return y;
}

lm_value lm_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias)
{
    return (b->ternary.class_name ? ternary_linear : plain_linear)(b, name, x, out, bias);
}

lm_value lm_linear_of(lm_builder *b, const char *name, lm_value x, uint32_t out)
{
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_path(b, name);
    uint32_t    w = lm_record_weight(b, lm_record_here(b), name, LM_MATRIX, 2, out, lm_record_width(b, x));
    lm_node    *n = lm_record_unary(b, LM_OP_LINEAR, path, x, out);

    n->weights[0] = w;
    if (w != LM_NONE)
        b->p->weights[w].gguf = lm_record_gguf(b, path, "");
    return n->out;
}

lm_value lm_head(lm_builder *b, const char *name, lm_value x, uint32_t n_vocab, const char *tied_to)
{
    if (!tied_to)
        return plain_linear(b, name, x, n_vocab, false);
    lm_push(b, name, "Linear");
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, tied_to, "weight", LM_TABLE, 2, n_vocab, lm_record_width(b, x));
    lm_record_need(b,
                   b->failed || (b->p->weights[w].dims[0] == n_vocab &&
                                 b->p->weights[w].dims[1] == lm_record_width(b, x)),
                   path, "the tied table has another shape");
    lm_node *n    = lm_record_unary(b, LM_OP_LINEAR, path, x, n_vocab);
    n->weights[0] = w;
    lm_value y    = n->out;
    lm_pop(b);
    return y;
}

static void linear_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t in = lm_width_in(p, n), out = lm_width_out(p, n);
    bool     bias = n->weights[1] != LM_NONE, scaled = n->weights[2] != LM_NONE;

    c->mult_adds       = in * out;
    c->flops           = 2 * in * out + (bias ? out : 0) + (scaled ? out : 0);
    c->reads           = in;
    c->writes          = out;
    c->weight_elements = in * out + (bias ? out : 0) + scaled;
}

static void linear_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, "%" PRIu64 " → %" PRIu64 "%s%s", lm_width_in(p, n), lm_width_out(p, n),
                   n->weights[1] != LM_NONE ? _(" + bias") : "",
                   n->weights[2] != LM_NONE ? _(", a matrix of −1, 0 and 1, scaled") : "");
}

/* A product with a matrix for the gradient of the input, and one for that of the weight. */
static void product_cost(const lm_node *n, const lm_reverse *r, const lm_cost *forward, lm_cost *c)
{
    (void)n;
    c->mult_adds       = (r->into[0] ? forward->mult_adds : 0) + (r->trains[0] ? forward->mult_adds : 0);
    c->flops           = 2 * c->mult_adds;
    c->weight_elements = r->into[0] ? forward->mult_adds : 0;
    if (r->trains[1])
        c->flops += forward->writes;
}

const lm_op lm_op_linear = {
    .name                   = "linear",
    .weights                = { "weight", "bias", "weight_scale" },
    .cost                   = linear_cost,
    .describe               = linear_describe,
    .formula                = "x Wᵀ + b",
    .formula_without_bias   = "x Wᵀ",
    .trains_inputs          = 1,
    .trains_weights         = 3,
    .reverse_reads_to_train = LM_IN0,
    .reverse_cost           = product_cost,
};

/* ---- head_linear: each head's part of x, or all of x, times the head's own matrix (also recorded by
 * program/latent.c) ---- */

lm_node *lm_record_heads(lm_builder *b, uint32_t weight, const char *path, lm_value x, uint32_t n_heads,
                         uint32_t out, bool shared)
{
    lm_weight *w  = &b->p->weights[weight];
    uint32_t   in = lm_record_width(b, x) / (shared ? 1 : n_heads);

    w->n_dims         = 3;
    w->dims[1]        = out;
    w->dims[2]        = in;
    w->elements       = (uint64_t)n_heads * out * in;
    lm_node *n        = lm_record_unary(b, LM_OP_HEAD_LINEAR, path, x, n_heads * out);
    n->weights[0]     = weight;
    n->heads.n_heads  = n_heads;
    n->heads.shared   = shared;
    return n;
}

lm_value lm_head_linear(lm_builder *b, const char *weight, const char *bias, lm_value x, uint32_t n_heads,
                        uint32_t out)
{
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_path(b, weight);

    lm_record_need(b, n_heads && lm_record_width(b, x) % n_heads == 0, path,
                   "the number of heads does not divide the width");
    uint32_t w = lm_record_weight(b, lm_record_here(b), weight, LM_HEADS, 1, n_heads, 1);
    if (w == LM_NONE)
        return LM_NONE;
    uint32_t in = lm_record_width(b, x) / n_heads;
    b->p->weights[w].joint = (lm_joint){ .path = path, .n = in, .of = in, .transposed = true,
                                         .by_head = true };
    lm_value y = lm_add_bias(b, bias, lm_record_heads(b, w, path, x, n_heads, out, false)->out);
    if (y != LM_NONE && !b->failed)
        b->p->weights[b->p->nodes[b->p->values[y].producer].weights[0]].heads = n_heads;
    return y;
}

lm_value lm_grouped_linear(lm_builder *b, const char *name, const char *class_name, lm_value x, uint32_t n,
                           uint32_t out)
{
    lm_push(b, name, class_name);
    if (b->failed)
        return LM_NONE;
    const char *here = lm_record_here(b);

    lm_record_need(b, n && lm_record_width(b, x) % n == 0, here,
                   "the number of matrices does not divide the width");
    uint32_t w = lm_record_weight(b, here, "weight", LM_HEADS, 1, n, 1);
    lm_value y = LM_NONE;
    if (!b->failed && w != LM_NONE) {
        lm_weight *matrix = &b->p->weights[w];
        matrix->joint = (lm_joint){ .path = matrix->path, .gguf = matrix->gguf, .n = out, .of = out,
                                    .only = true };
        y             = lm_record_heads(b, w, here, x, n, out, false)->out;
    }
    lm_pop(b);
    return y;
}

lm_value lm_part_linears(lm_builder *b, const char *name, lm_value x, uint32_t n, uint32_t out, bool shared)
{
    lm_value y = LM_NONE;

    lm_push(b, name, "ModuleList");
    if (!b->failed) {
        const char *here = lm_record_here(b);
        uint32_t w = lm_record_weight(b, lm_record_text(b, "%s.*", here), "weight", LM_EXPERTS, 1, n, 1);
        lm_record_need(b, n && (shared || lm_record_width(b, x) % n == 0), here,
                       "the number of matrices does not divide the width");
        if (!b->failed && w != LM_NONE) {
            b->p->weights[w].gguf = lm_record_gguf(b, here, "weight");
            y = lm_record_heads(b, w, here, x, n, out, shared)->out;
        }
    }
    for (uint32_t i = 0; i < n && !b->failed; i++) {
        lm_leaf(b, lm_record_text(b, "%u", i), "Linear");
        if (!b->failed)
            b->p->modules[b->p->n_modules - 1].share = n;
    }
    lm_pop(b);
    return y;
}

/* one matrix per head */
static void head_linear_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t each = n->heads.shared ? lm_width_in(p, n) : lm_width_in(p, n) / n->heads.n_heads;

    c->mult_adds       = each * lm_width_out(p, n);
    c->flops           = 2 * c->mult_adds;
    c->reads           = lm_width_in(p, n);
    c->writes          = lm_width_out(p, n);
    c->weight_elements = c->mult_adds;
}

static void head_linear_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint32_t h = n->heads.n_heads;

    lm_text_printf(out, p->weights[n->weights[0]].kind == LM_EXPERTS
                            ? _("%u matrices, each %" PRIu64 " → %" PRIu64 "%s")
                            : _("%u heads, each %" PRIu64 " → %" PRIu64 "%s"),
                   h,
                   n->heads.shared ? lm_width_in(p, n) : lm_width_in(p, n) / h, lm_width_out(p, n) / h,
                   n->heads.shared ? _(" of the same input") : "");
}

static const lm_op_number heads_numbers[] = {
    LM_NODE_NUMBER(U32, heads.n_heads, NULL),
    LM_NODE_NUMBER(BOOL, heads.shared, NULL),
    { 0 }
};

const lm_op lm_op_head_linear = {
    .name     = "head_linear",
    .weights  = { "weight" },
    .numbers  = heads_numbers,
    .cost     = head_linear_cost,
    .describe = head_linear_describe,
    .formula  = N_("x_h W_hᵀ of each head"),
    .helper   = "def per_head(x, weight):\n"
                "    \"\"\"Each head's lanes times a matrix of its own: x [T, H or 1, in], weight [H, out, in].\"\"\"\n"
                "    return (weight @ x[..., None]).reshape(len(x), -1)\n\n\n",
    .trains_inputs          = 1,
    .trains_weights         = 1,
    .reverse_reads_to_train = LM_IN0,
    .reverse_cost           = product_cost,
};
