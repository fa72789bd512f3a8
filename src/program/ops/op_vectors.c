/* op_vectors.c - functions of single lanes and a vector: add_bias, scale_by_weight, decay. */
#include "program/op.h"
#include "program/record.h"

/* Record an operation whose vector is a parameter of the open module. */
static lm_value with_vector(lm_builder *b, lm_op_code code, const char *name, lm_value x, uint32_t entries)
{
    if (b->failed)
        return LM_NONE;
    uint32_t    width = lm_record_width(b, x);
    const char *path  = lm_record_path(b, name);

    lm_record_need(b, entries && width % entries == 0, path,
                   "the entries of a weight do not divide the width");
    uint32_t w    = lm_record_weight(b, lm_record_here(b), name, LM_VECTOR, 1, entries, 1);
    lm_node *n    = lm_record_unary(b, code, path, x, width);
    n->weights[0] = w;
    if (w != LM_NONE) {
        b->p->weights[w].gguf        = lm_record_gguf(b, path, "");
        b->p->weights[w].exponential = code == LM_OP_DECAY ? -1 : 0;
    }
    return n->out;
}

lm_value lm_add_bias(lm_builder *b, const char *name, lm_value x)
{
    return with_vector(b, LM_OP_ADD_BIAS, name, x, lm_record_width(b, x));
}

lm_value lm_scale_by_weight(lm_builder *b, const char *name, lm_value x, uint32_t n)
{
    return with_vector(b, LM_OP_SCALE_BY_WEIGHT, name, x, n);
}

lm_value lm_decay(lm_builder *b, const char *name, lm_value x, uint32_t n)
{
    return with_vector(b, LM_OP_DECAY, name, x, n);
}

lm_value lm_bounded_decay(lm_builder *b, const char *name, lm_value x, uint32_t n, float bound)
{
    lm_value y = lm_decay(b, name, x, n);

    if (b->failed)
        return LM_NONE;
    lm_node *made     = &b->p->nodes[b->p->values[y].producer];
    made->decay.bound = bound;
    b->p->weights[made->weights[0]].exponential = 1;
    return y;
}

void lm_column_in_gguf(lm_builder *b, lm_value x)
{
    if (b->failed)
        return;
    uint32_t   w = b->p->nodes[b->p->values[x].producer].weights[0];
    lm_weight *v = w == LM_NONE ? NULL : &b->p->weights[w];

    if (!v)
        return;
    v->n_dims  = 2;
    v->dims[1] = 1;
    v->flat    = true;
}

void lm_padded_column(lm_builder *b, lm_value x)
{
    lm_column_in_gguf(b, x);
    if (!b->failed)
        b->p->weights[b->p->nodes[b->p->values[x].producer].weights[0]].padded = true;
}

static void vector_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops           = lm_width_out(p, n);
    c->reads           = lm_width_out(p, n);
    c->writes          = lm_width_out(p, n);
    c->weight_elements = p->weights[n->weights[0]].elements;
}

/* exp of the weight, negate; multiply, exp; with a bound, a sigmoid and a product in between */
static void decay_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    vector_cost(p, n, c);
    c->flops = 2 * (lm_width_out(p, n) + c->weight_elements);
    if (n->decay.bound < 0)
        c->flops = 7 * lm_width_out(p, n) + c->weight_elements;
}

static void decay_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    if (n->decay.bound < 0)
        lm_text_printf(out, "exp(%g σ(exp(A) ⊙ x))", (double)n->decay.bound);
}

static const lm_op_number decay_numbers[] = {
    LM_NODE_NUMBER(FLOAT, decay.bound, "recurrences"),
    { 0 }
};

const lm_op lm_op_add_bias = {
    .name           = "add_bias",
    .weights        = { "bias" },
    .cost           = vector_cost,
    .formula        = "x + β",
    .expression     = "{0} + {w0}",
    .in_place       = true,
    .lanewise       = true,
    .trains_inputs  = 1,
    .trains_weights = 1,
};

const lm_op lm_op_scale_by_weight = {
    .name           = "scale_by_weight",
    .weights        = { "weight" },
    .cost           = vector_cost,
    .formula        = "γ ⊙ x",
    .expression     = "scale_by_weight({0}, {w0})",
    .helper         = "def scale_by_weight(x, weight):\n"
                      "    \"\"\"weight[i] x: each entry for an equal part of x.\"\"\"\n"
                      "    return (x.reshape(len(x), len(weight), -1) * weight[:, None]).reshape(x.shape)\n\n\n",
    .in_place       = true,
    .lanewise       = true,
    .trains_inputs  = 1,
    .trains_weights = 1,
    .reverse_reads_to_train = LM_IN0,
    .reverse_flops  = 3,
};

const lm_op lm_op_decay = {
    .name           = "decay",
    .weights        = { "A_log" },
    .numbers        = decay_numbers,
    .cost           = decay_cost,
    .describe       = decay_describe,
    .formula        = "exp(−exp(A) ⊙ x)",
    .expression     = "decay({0}, {w0}, {bound})",
    .helper         = "def decay(x, A_log, bound):\n"
                      "    \"\"\"exp(-exp(A_log) x), or with a bound exp(bound sigmoid(exp(A_log) x)): each entry of "
                      "A_log for an equal part of x.\"\"\"\n"
                      "    x = x.reshape(len(x), len(A_log), -1) * $.exp(A_log)[:, None]\n"
                      "    x = bound / (1 + $.exp(-x)) if bound else -x\n"
                      "    return $.exp(x).reshape(len(x), -1)\n\n\n",
    .lanewise       = true,
    .trains_inputs  = 1,
    .trains_weights = 1,
    .reverse_reads  = LM_IN0 | LM_OUT,
    .reverse_flops  = 5,
};
