/* op_elements.c - functions of single lanes: add, scale, glu, act, softcap, clamp. */
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- add ---- */

/* Return the path of a residual addition, named after the branch that is added:
 * "model.layers.0.self_attn_residual". */
static const char *residual_path(lm_builder *b, lm_value branch)
{
    const char *parent = b->depth ? lm_record_here(b) : "";
    const char *path   = branch < b->p->n_values ? b->p->nodes[b->p->values[branch].producer].path : "";
    size_t      skip   = strlen(parent);
    char        word[96];

    path = strncmp(path, parent, skip) == 0 && path[skip] == '.' ? path + skip + 1 : path;
    snprintf(word, sizeof word, "%.*s_residual", (int)strcspn(path, "."), path);
    return lm_record_path(b, word);
}

lm_value lm_add(lm_builder *b, lm_value x, lm_value y)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, lm_record_width(b, x) == lm_record_width(b, y), "residual",
                   "adds values of different widths");
    lm_node *n = lm_record_unary(b, LM_OP_ADD, residual_path(b, y), x, lm_record_width(b, x));
    n->n_in    = 2;
    n->in[1]   = y;
    return n->out;
}

static void add_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = lm_width_out(p, n);
    c->reads  = 2 * lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

const lm_op lm_op_add = {
    .name          = "add",
    .cost          = add_cost,
    .formula       = "x + y",
    .expression    = "{0} + {1}",
    .trains_inputs = 3,
};

/* ---- mul ---- */

lm_value lm_mul(lm_builder *b, const char *word, lm_value x, lm_value y)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, lm_record_width(b, x) == lm_record_width(b, y), word,
                   "multiplies values of different widths");
    lm_node *n = lm_record_unary(b, LM_OP_MUL, lm_record_path(b, word), x, lm_record_width(b, x));
    n->n_in    = 2;
    n->in[1]   = y;
    return n->out;
}

const lm_op lm_op_mul = {
    .name          = "mul",
    .cost          = add_cost,
    .formula       = "x ⊙ y",
    .expression    = "{0} * {1}",
    .in_place      = true,
    .trains_inputs = 3,
    .reverse_reads = LM_IN0 | LM_IN1,
};

/* ---- scale, softcap, clamp: one input and numbers ---- */

lm_value lm_scale(lm_builder *b, lm_value x, float factor)
{
    if (b->failed || factor == 1)
        return x;
    lm_node *n      = lm_record_unary(b, LM_OP_SCALE, lm_record_path(b, "scale"), x, lm_record_width(b, x));
    n->scale.factor = factor;
    return n->out;
}

lm_value lm_softcap(lm_builder *b, lm_value x, float cap)
{
    if (b->failed)
        return LM_NONE;
    lm_node *n = lm_record_unary(b, LM_OP_SOFTCAP, lm_record_path(b, "softcap"), x, lm_record_width(b, x));
    n->scale.factor = cap;
    return n->out;
}

lm_value lm_clamp_between(lm_builder *b, lm_value x, float low, float high)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, low <= high, "clamp", "the lower limit is above the upper one");
    lm_node *n    = lm_record_unary(b, LM_OP_CLAMP, lm_record_path(b, "clamp"), x, lm_record_width(b, x));
    n->clamp.low  = low;
    n->clamp.high = high;
    return n->out;
}

lm_value lm_clamp(lm_builder *b, lm_value x, float limit)
{
    return lm_clamp_between(b, x, -limit, limit);
}

static void act_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 4 * lm_width_out(p, n);
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
    c->weight_elements = n->weights[0] == LM_NONE ? 0 : 4;
}

static void scale_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = lm_width_out(p, n);
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

static void scale_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "× %g", (double)n->scale.factor);
}

static void softcap_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "%g tanh(x / %g)", (double)n->scale.factor, (double)n->scale.factor);
}

static void clamp_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    if (n->clamp.low == -n->clamp.high)
        lm_text_printf(out, _("to ±%g"), (double)n->clamp.high);
    else
        lm_text_printf(out, "%g ≤ x ≤ %g", (double)n->clamp.low, (double)n->clamp.high);
}

static const lm_op_number factor_numbers[] = {
    LM_NODE_NUMBER(FLOAT, scale.factor, "multipliers"),
    { 0 }
};

const lm_op lm_op_scale = {
    .name          = "scale",
    .numbers       = factor_numbers,
    .cost          = scale_cost,
    .describe      = scale_describe,
    .formula       = "c x",
    .expression    = "{0} * {factor}",
    .in_place      = true,
    .lanewise      = true,
    .trains_inputs = 1,
};

const lm_op lm_op_softcap = {
    .name          = "softcap",
    .numbers       = factor_numbers,
    .cost          = act_cost,
    .describe      = softcap_describe,
    .formula       = "c tanh(x / c)",
    .expression    = "{factor} * $.tanh({0} / {factor})",
    .in_place      = true,
    .lanewise      = true,
    .trains_inputs = 1,
    .reverse_reads = LM_OUT,
};

static const lm_op_number clamp_numbers[] = {
    LM_NODE_NUMBER(FLOAT, clamp.low, "limits"),
    LM_NODE_NUMBER(FLOAT, clamp.high, "limits"),
    { 0 }
};

const lm_op lm_op_clamp = {
    .name          = "clamp",
    .numbers       = clamp_numbers,
    .cost          = scale_cost,
    .describe      = clamp_describe,
    .formula       = "min(max(x, a), b)",
    .form          = "clamp({x}, {low}, {high})",
    .expression    = "{0}.clip({low}, {high})",
    .in_place      = true,
    .lanewise      = true,
    .trains_inputs = 1,
    .reverse_reads = LM_IN0,
};

/* ---- act: act(x); glu: act(gate) * up ---- */

lm_value lm_activate(lm_builder *b, lm_value x, lm_act act)
{
    lm_push(b, b->act_name ? b->act_name : "act_fn", b->act_class ? b->act_class : lm_act_class(act));
    if (b->failed)
        return LM_NONE;
    lm_node *n = lm_record_unary(b, LM_OP_ACT, lm_record_here(b), x, lm_record_width(b, x));
    n->glu.act = act;
    lm_value y = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_function(lm_builder *b, const char *word, lm_value x, lm_act act)
{
    if (b->failed)
        return LM_NONE;
    lm_node *n = lm_record_unary(b, LM_OP_ACT, lm_record_path(b, word), x, lm_record_width(b, x));
    n->glu.act = act;
    return n->out;
}

lm_value lm_xielu_of(lm_builder *b, lm_value x)
{
    static const char *const names[][2] = { { "alpha_p", "xielu.alpha_p" }, { "alpha_n", "xielu.alpha_n" },
                                            { "beta", "xielu.beta" }, { "eps", "xielu.eps" } };
    lm_value                 y = lm_activate(b, x, LM_ACT_XIELU);

    if (b->failed)
        return LM_NONE;
    uint32_t    node   = b->p->values[y].producer;
    const char *module = b->p->nodes[node].path;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t w = lm_record_weight(b, module, names[k][0], LM_VECTOR, 1, 1, 1);
        if (w == LM_NONE)
            return LM_NONE;
        b->p->nodes[node].weights[k] = w;
        lm_weight *v = &b->p->weights[w];
        v->constant = v->scalar = k > 1;
        v->gguf_key = names[k][1];
        v->gguf     = lm_record_text(b, "blk.%d.%s", (int)b->layer, names[k][1]);
    }
    return y;
}

static lm_value glu(lm_builder *b, const char *path, lm_value gate, lm_value up, lm_act act)
{
    lm_node *n = lm_record_unary(b, LM_OP_GLU, path, gate, lm_record_width(b, up));

    n->n_in    = 2;
    n->in[1]   = up;
    n->glu.act = act;
    return n->out;
}

lm_value lm_gate(lm_builder *b, const char *word, lm_value gate, lm_value x, lm_act act)
{
    if (b->failed)
        return LM_NONE;
    uint32_t width = lm_record_width(b, gate);

    lm_record_need(b, width && lm_record_width(b, x) % width == 0, word,
                   "the dimensions of a gate do not divide those that it gates");
    return glu(b, lm_record_path(b, word), gate, x, act);
}

lm_value lm_glu(lm_builder *b, lm_value gate, lm_value up, lm_act act)
{
    return lm_glu_clamped(b, gate, up, act, 0, 0);
}

lm_value lm_glu_clamped(lm_builder *b, lm_value gate, lm_value up, lm_act act, float limit, float plus)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, limit >= 0, "glu", "the limit of gates is negative");
    lm_record_need(b, lm_record_width(b, gate) == lm_record_width(b, up), "glu",
                   "gate and up have different widths");
    if (!b->act_name || *b->act_name) {
        lm_push(b, b->act_name ? b->act_name : "act_fn", b->act_class ? b->act_class : lm_act_class(act));
        lm_pop(b);
    }
    lm_value y = glu(b, lm_record_path(b, "gated"), gate, up, act);
    lm_node *n   = b->failed ? &b->nowhere : &b->p->nodes[b->p->values[y].producer];
    n->glu.limit = limit;
    n->glu.plus  = limit > 0 ? plus : 0;
    return y;
}

/* SiLU: negate, exp, add, divide; then the product */
static void glu_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 5 * lm_width_out(p, n);
    c->reads  = 2 * lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
    uint64_t gates = p->values[n->in[0]].width;
    if (gates != lm_width_out(p, n)) {           /* each for several lanes */
        c->flops = lm_width_out(p, n) + 4 * gates;
        c->reads = lm_width_out(p, n) + gates;
    }
    if (n->glu.limit > 0)                        /* three comparisons, perhaps a sum */
        c->flops += (n->glu.plus > 0 ? 4 : 3) * lm_width_out(p, n);
}

static void glu_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "%s(gate) ⊙ %s", lm_act_id(n->glu.act), n->glu.plus > 0 ? "(up + 1)" : "up");
    if (n->glu.limit > 0)
        lm_text_printf(out, _(", clamped at %g"), (double)n->glu.limit);
}

static void act_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_add_str(out, lm_act_id(n->glu.act));
}

static const lm_op_number act_numbers[] = {
    LM_NODE_NUMBER(ACT, glu.act, "activation"),
    LM_NODE_NUMBER(FLOAT, glu.limit, "activation"),
    LM_NODE_NUMBER(FLOAT, glu.plus, "activation"),
    { 0 }
};

const lm_op lm_op_glu = {
    .name          = "glu",
    .numbers       = act_numbers,
    .cost          = glu_cost,
    .describe      = glu_describe,
    .formula       = "act(gate) ⊙ up",
    .expression    = "{act}({0}) * {1}",
    .work          = "activations",
    .in_place      = true,
    .trains_inputs = 3,
    .reverse_reads = LM_IN0 | LM_IN1,
    .reverse_flops = 9,
};

const lm_op lm_op_act = {
    .name          = "act",
    .weights       = { "alpha_p", "alpha_n", "beta", "eps" },    /* of xIELU */
    .numbers       = act_numbers,
    .cost          = act_cost,
    .describe      = act_describe,
    .formula       = "act(x)",
    .expression    = "{act}({0})",
    .work          = "activations",
    .in_place      = true,
    .trains_inputs = 1,
    .trains_weights = 3,
    .reverse_reads = LM_IN0,
    .reverse_flops = 9,
};
