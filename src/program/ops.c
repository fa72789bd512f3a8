/* ops.c - the closed set of operations: names, parameters, costs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/str.h"
#include "base/language.h"
#include "program/program.h"

static uint64_t width_in(const lm_program *p, const lm_node *n)
{
    return n->n_in ? p->values[n->in[0]].width : 0;
}

static uint64_t width_out(const lm_program *p, const lm_node *n)
{
    return p->values[n->out].width;
}

/* a look-up reads one row of the table and multiplies nothing */
static void embed_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->weight_elements = width_out(p, n);
    c->writes          = width_out(p, n);
}

static void embed_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, _("row of %" PRIu64 " × %" PRIu64), p->weights[n->weights[0]].dims[0],
                   p->weights[n->weights[0]].dims[1]);
}

static void linear_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t in = width_in(p, n), out = width_out(p, n);
    bool     bias = n->weights[1] != LM_NONE;

    c->mult_adds       = in * out;
    c->flops           = 2 * in * out + (bias ? out : 0);
    c->reads           = in;
    c->writes          = out;
    c->weight_elements = in * out + (bias ? out : 0);
}

static void linear_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, "%" PRIu64 " → %" PRIu64 "%s", width_in(p, n), width_out(p, n),
                   n->weights[1] != LM_NONE ? _(" + bias") : "");
}

/* square, sum, divide, square root, multiply by 1/rms, multiply by the weight */
static void rms_norm_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t d = width_in(p, n);

    c->flops           = 4 * d + 2 * (uint64_t)n->norm.groups;
    c->reads           = d;
    c->writes          = d;
    c->weight_elements = d / n->norm.groups;
}

/* sum, centre, square, sum, multiply, scale, shift */
static void layer_norm_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t d = width_in(p, n);
    uint64_t w = n->norm.own ? d : d / n->norm.groups;

    c->flops           = 7 * d + 3 * (uint64_t)n->norm.groups;
    c->reads           = d;
    c->writes          = d;
    c->weight_elements = n->weights[1] != LM_NONE ? 2 * w : w;
}

static void norm_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "eps %g", (double)n->norm.eps);
    if (n->norm.groups > 1)
        lm_text_printf(out, _(", each of %u heads%s"), n->norm.groups,
                       n->norm.own ? _(" with separate weights") : "");
}

/* four products and two sums per pair of lanes */
static void rope_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t lanes = (uint64_t)n->rope.n_heads * p->ropes[n->rope.table].spec.dim;

    c->flops  = 3 * lanes;
    c->reads  = width_in(p, n);
    c->writes = width_in(p, n);
}

static void rope_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_rope_spec *s = &p->ropes[n->rope.table].spec;

    lm_text_printf(out,
                   P_(n->rope.n_heads, "%u head, %u of %u dimensions, base %g, %s, %s",
                      "%u heads, %u of %u dimensions, base %g, %s, %s"),
                   n->rope.n_heads, s->dim, n->rope.head_dim, s->base,
                   s->stored_divisors  ? _("stored divisors")
                   : s->stored_factors ? _("stored factors")
                                       : lm_rope_type_name(s->type),
                   s->pairing == LM_ROPE_PAIR ? _("pairs (2i, 2i+1)") : _("pairs (i, i+n/2)"));
}

/* Per key: q.k and p.v are products; scaling, subtracting the maximum, exp, sum and the comparison of the
 * mask are five more operations. */
static void attention_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    const lm_attention_spec *s = &n->attention.spec;

    c->key_mult_adds = (uint64_t)s->n_heads * (s->k_dim + s->v_dim);
    c->key_flops     = 2 * c->key_mult_adds + 5 * (uint64_t)s->n_heads;
    c->reads = width_in(p, n) + p->values[n->in[1]].width + (s->v_in_k ? 0 : p->values[n->in[2]].width);
    c->writes        = width_out(p, n);
}

static void attention_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_attention_spec *s = &n->attention.spec;

    (void)p;
    lm_text_printf(out,
                   P_(s->n_kv_heads, "%u query heads on %u key/value head, %u wide, scale %.6g",
                      "%u query heads on %u key/value heads, %u wide, scale %.6g"),
                   s->n_heads, s->n_kv_heads, s->k_dim, (double)s->scale);
    if (s->v_in_k)
        lm_text_printf(out, _(", values the first %u dimensions of the keys"), s->v_dim);
    else if (s->v_dim != s->k_dim)
        lm_text_printf(out, _(", values %u wide"), s->v_dim);
    if (s->window)
        lm_text_printf(out, _(", window %u"), s->window);
    if (s->softcap > 0)
        lm_text_printf(out, _(", soft cap %g"), (double)s->softcap);
    if (s->alibi > 0)
        lm_text_printf(out, _(", ALiBi up to %g%s"), (double)s->alibi,
                       s->alibi_half ? _(" in bfloat16 before the scale") : "");
}

static void add_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = width_out(p, n);
    c->reads  = 2 * width_out(p, n);
    c->writes = width_out(p, n);
}

static void scale_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = width_out(p, n);
    c->reads  = width_out(p, n);
    c->writes = width_out(p, n);
}

static void scale_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "× %g", (double)n->scale.factor);
}

/* SiLU: negate, exp, add, divide; then the product */
static void glu_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 5 * width_out(p, n);
    c->reads  = 2 * width_out(p, n);
    c->writes = width_out(p, n);
    if (p->values[n->in[0]].width != width_out(p, n)) {      /* one gate for all lanes */
        c->flops = width_out(p, n) + 4;
        c->reads = width_out(p, n) + 1;
    }
}

static void glu_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "%s(gate) ⊙ up", lm_act_id(n->glu.act));
}

static void position_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    if (n->code == LM_OP_POSITION)
        lm_text_printf(out, _("row of %" PRIu64 " × %" PRIu64 " by position"),
                       p->weights[n->weights[0]].dims[0], p->weights[n->weights[0]].dims[1]);
    else
        lm_text_add_str(out, _("sines and cosines of the position"));
    if (n->position.offset)
        lm_text_printf(out, " + %u", n->position.offset);
}

/* two functions per pair of lanes */
static void sinusoid_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 2 * width_out(p, n);
    c->writes = width_out(p, n);
}

static void act_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_add_str(out, lm_act_id(n->glu.act));
}

static void act_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 4 * width_out(p, n);
    c->reads  = width_out(p, n);
    c->writes = width_out(p, n);
}

/* lanes are moved, nothing is computed */
static void columns_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = width_out(p, n);
    c->writes = width_out(p, n);
}

static void columns_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint32_t width = (uint32_t)width_out(p, n) / n->columns.groups;

    lm_text_printf(out, _("dimensions %u…%u"), n->columns.offset, n->columns.offset + width - 1);
    if (n->columns.groups > 1)
        lm_text_printf(out, _(" of each of %u groups"), n->columns.groups);
}

static void softcap_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "%g tanh(x / %g)", (double)n->scale.factor, (double)n->scale.factor);
}

static void clamp_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("to ±%g"), (double)n->scale.factor);
}

/* an exponential and a division per expert, and the choice */
static void route_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = (4 + (uint64_t)n->route.spec.top_k) * width_in(p, n);
    c->reads  = width_in(p, n);
    c->writes = width_out(p, n);
}

static void route_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_route_spec *r = &n->route.spec;

    (void)p;
    lm_text_printf(out, _("best %u of %u by %s"), r->top_k, r->n_experts, r->sigmoid ? "sigmoid" : "softmax");
    if (r->n_groups > 1)
        lm_text_printf(out, _(", from the best %u of %u groups"), r->top_groups, r->n_groups);
    if (r->renormalise)
        lm_text_add_str(out, _(", renormalised"));
    if (r->scale != 1)
        lm_text_printf(out, ", × %g", (double)r->scale);
}

static void experts_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t d = width_in(p, n), f = n->experts.width, k = n->experts.top_k;

    c->mult_adds       = 3 * k * d * f;
    c->flops           = 2 * c->mult_adds + 5 * k * f + 2 * k * d;
    c->reads           = d + 2 * k;
    c->writes          = d;
    c->weight_elements = 3 * k * d * f;
    if (n->experts.limit > 0)            /* three comparisons and a sum */
        c->flops += 4 * k * f;
    if (n->weights[3] != LM_NONE) {
        c->flops += k * (2 * f + d);
        c->weight_elements += k * (2 * f + d);
    }
}

static void experts_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, _("%u experts, %u each: %" PRIu64 " → %u → %" PRIu64 ", %s(gate) ⊙ %s"),
                   n->experts.n_experts, n->experts.top_k, width_in(p, n), n->experts.width, width_out(p, n),
                   lm_act_id(n->experts.act), n->experts.limit > 0 ? "(up + 1)" : "up");
    if (n->experts.limit > 0)
        lm_text_printf(out, _(", clamped at %g"), (double)n->experts.limit);
    if (n->weights[3] != LM_NONE)
        lm_text_add_str(out, _(" + biases"));
}

/* one matrix per head */
static void head_linear_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t each = n->heads.shared ? width_in(p, n) : width_in(p, n) / n->heads.n_heads;

    c->mult_adds       = each * width_out(p, n);
    c->flops           = 2 * c->mult_adds;
    c->reads           = width_in(p, n);
    c->writes          = width_out(p, n);
    c->weight_elements = c->mult_adds;
}

static void head_linear_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint32_t h = n->heads.n_heads;

    lm_text_printf(out, _("%u heads, each %" PRIu64 " → %" PRIu64 "%s"), h,
                   n->heads.shared ? width_in(p, n) : width_in(p, n) / h, width_out(p, n) / h,
                   n->heads.shared ? _(" of the same input") : "");
}

static void join_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = width_in(p, n) + p->values[n->in[1]].width;
    c->writes = width_out(p, n);
}

static void join_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint64_t first = width_in(p, n) / n->join.groups;

    lm_text_printf(out, "%u × (%" PRIu64 " | %" PRIu64 "%s)", n->join.groups, first,
                   width_out(p, n) / n->join.groups - first,
                   n->join.shared && n->join.groups > 1 ? _(" shared") : "");
}

/* one addition per lane of each rank except the first */
static void all_reduce_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = (n->exchange.ranks - 1) * width_out(p, n);
    c->reads  = n->exchange.ranks * width_out(p, n);
    c->writes = width_out(p, n);
    c->sends  = width_out(p, n);
}

static void all_gather_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = width_out(p, n);
    c->writes = width_out(p, n);
    c->sends  = width_in(p, n);
}

static void all_reduce_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, P_(n->exchange.ranks, "sum over %u rank", "sum over %u ranks"), n->exchange.ranks);
}

static void all_gather_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, P_(n->exchange.ranks, "lanes of %u rank", "lanes of %u ranks"), n->exchange.ranks);
}

static void send_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads = width_in(p, n);
    c->sends = width_in(p, n);
}

static void receive_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->writes = width_out(p, n);
}

static void send_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "to rank %u", n->message.peer);
}

static void receive_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "from rank %u", n->message.peer);
}

/* rows are copied */
static void input_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = width_out(p, n);
    c->writes = width_out(p, n);
}

static const lm_op operations[LM_OP_COUNT] = {
    [LM_OP_EMBED]      = { "embed",      { "weight" },         embed_cost,      embed_describe },
    [LM_OP_POSITION]   = { "position",   { "weight" },         embed_cost,      position_describe },
    [LM_OP_SINUSOID]   = { "sinusoid",   { 0 },                sinusoid_cost,   position_describe },
    [LM_OP_LINEAR]     = { "linear",     { "weight", "bias" }, linear_cost,     linear_describe },
    [LM_OP_RMS_NORM]   = { "rms_norm",   { "weight" },         rms_norm_cost,   norm_describe },
    [LM_OP_LAYER_NORM] = { "layer_norm", { "weight", "bias" }, layer_norm_cost, norm_describe },
    [LM_OP_ROPE]       = { "rope",       { 0 },                rope_cost,       rope_describe },
    [LM_OP_ATTENTION]  = { "attention",  { "sinks" },          attention_cost,  attention_describe },
    [LM_OP_ADD]        = { "add",        { 0 },                add_cost,        NULL },
    [LM_OP_SCALE]      = { "scale",      { 0 },                scale_cost,      scale_describe },
    [LM_OP_GLU]        = { "glu",        { 0 },                glu_cost,        glu_describe },
    [LM_OP_ACT]        = { "act",        { 0 },                act_cost,        act_describe },
    [LM_OP_COLUMNS]    = { "columns",    { 0 },                columns_cost,    columns_describe },
    [LM_OP_SOFTCAP]    = { "softcap",    { 0 },                act_cost,        softcap_describe },
    [LM_OP_ROUTE]      = { "route",      { "correction" },     route_cost,      route_describe },
    [LM_OP_EXPERTS]    = { "experts",    { "gate", "up", "down", "gate bias", "up bias", "down bias" },
                           experts_cost, experts_describe },
    [LM_OP_CLAMP]      = { "clamp",      { 0 },                scale_cost,      clamp_describe },
    [LM_OP_HEAD_LINEAR] = { "head_linear", { "weight" },     head_linear_cost, head_linear_describe },
    [LM_OP_JOIN]       = { "join",       { 0 },                join_cost,       join_describe },
    [LM_OP_ALL_REDUCE] = { "all_reduce", { 0 },                all_reduce_cost, all_reduce_describe },
    [LM_OP_ALL_GATHER] = { "all_gather", { 0 },                all_gather_cost, all_gather_describe },
    [LM_OP_SEND]       = { "send",       { 0 },                send_cost,       send_describe },
    [LM_OP_RECEIVE]    = { "receive",    { 0 },                receive_cost,    receive_describe },
    [LM_OP_EDIT]       = { "edit",       { 0 },                scale_cost,      NULL },
    [LM_OP_INPUT]      = { "given",      { 0 },                input_cost,      NULL },
};

const lm_op *lm_op_of(lm_op_code code)
{
    return &operations[code];
}

void lm_node_cost(const lm_program *p, const lm_node *n, lm_cost *out)
{
    *out = (lm_cost){ 0 };
    operations[n->code].cost(p, n, out);
}

uint64_t lm_keys_seen(uint64_t t, uint64_t window)
{
    if (!window || t <= window)
        return t % 2 ? (t + 1) / 2 * t : t / 2 * (t + 1);
    return window * (window + 1) / 2 + (t - window) * window;
}

uint64_t lm_cache_elements(const lm_cache *c)
{
    return (uint64_t)c->n_kv_heads * (c->k_dim + (c->v_in_k ? 0 : c->v_dim));
}

uint64_t lm_elements_bytes(uint64_t elements, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    return elements * t->bytes / t->block;
}

uint64_t lm_cache_bytes(const lm_cache *c, lm_cache_types types)
{
    uint64_t keys = (uint64_t)c->n_kv_heads * c->k_dim, values = lm_cache_elements(c) - keys;

    return lm_elements_bytes(keys, types.k) + lm_elements_bytes(values, types.v);
}

const char *lm_cache_types_name(lm_cache_types types, char out[LM_CACHE_TYPES_NAME])
{
    const char *k = lm_dtype_of(types.k)->name, *v = lm_dtype_of(types.v)->name;

    snprintf(out, LM_CACHE_TYPES_NAME, types.k == types.v ? "%s" : "%s/%s", k, v);
    return out;
}
