/* op_mixtures.c - mixtures of experts: route, experts (arXiv 1701.06538, 2401.04088, 2405.04434). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- route: router logits -> [T][2k], weights of the chosen experts, then their numbers ---- */

lm_value lm_route(lm_builder *b, lm_value logits, const lm_route_spec *r, const char *correction)
{
    if (b->failed)
        return LM_NONE;
    const char *parent = lm_record_here(b);

    lm_record_need(b,
                   lm_record_width(b, logits) == r->n_experts && r->top_k >= 1 && r->top_k <= r->n_experts &&
                       r->n_experts <= LM_MAX_EXPERTS && r->n_groups <= LM_MAX_GROUPS,
                   parent, "the router cannot choose that many experts");
    lm_record_need(b,
                   !r->n_groups || (r->n_experts % r->n_groups == 0 && r->top_groups >= 1 &&
                                    r->top_groups <= r->n_groups &&
                                    r->top_groups * (r->n_experts / r->n_groups) >= r->top_k),
                   parent, "the open groups hold too few experts");
    lm_node *n    = lm_record_unary(b, LM_OP_ROUTE, lm_record_path(b, "route"), logits, 2 * r->top_k);
    n->route.spec = *r;
    if (r->n_groups <= 1)                /* one group is no choice of groups */
        n->route.spec.n_groups = n->route.spec.top_groups = 0;
    if (correction)
        n->weights[0] = lm_record_weight(b, parent, correction, LM_VECTOR, 1, r->n_experts, 1);
    /* GGUF stores it as the bias of a tensor with its own name */
    if (n->weights[0] != LM_NONE && !b->p->weights[n->weights[0]].gguf)
        b->p->weights[n->weights[0]].gguf = lm_record_gguf(b, b->p->weights[n->weights[0]].path, "bias");
    return n->out;
}

void lm_route_by_token(lm_builder *b, lm_value route, const char *name, uint32_t rows)
{
    if (b->failed)
        return;
    lm_node *n    = &b->p->nodes[b->p->values[route].producer];
    n->weights[2] = lm_record_weight(b, lm_record_here(b), name, LM_VECTOR, 2, rows, n->route.spec.top_k);
    lm_record_need(b, n->route.spec.n_groups == 0 && n->weights[0] == LM_NONE, n->path,
                   "experts are either chosen or listed");
    if (n->weights[2] == LM_NONE)
        return;
    lm_weight *w = &b->p->weights[n->weights[2]];
    w->gguf      = lm_record_gguf(b, w->path, "");
    w->below     = n->route.spec.n_experts;
    w->constant  = true;
}

static lm_weight *correction_of(lm_builder *b, lm_value route)
{
    return b->failed ? NULL : &b->p->weights[b->p->nodes[b->p->values[route].producer].weights[0]];
}

void lm_correction_in_row(lm_builder *b, lm_value route)
{
    lm_weight *w = correction_of(b, route);

    if (w)
        w->in_row = true;
}

void lm_correction_unsuffixed(lm_builder *b, lm_value route)
{
    lm_weight *w = correction_of(b, route);

    if (w)
        w->gguf = lm_record_gguf(b, w->path, "");
}

void lm_scale_routes(lm_builder *b, lm_value route, const char *name)
{
    if (b->failed)
        return;
    lm_node *n    = &b->p->nodes[b->p->values[route].producer];
    n->weights[1] = lm_record_weight(b, lm_record_here(b), name, LM_VECTOR, 1, n->route.spec.n_experts, 1);
    if (n->weights[1] != LM_NONE)
        b->p->weights[n->weights[1]].gguf = lm_record_gguf(b, b->p->weights[n->weights[1]].path, "");
}

/* an exponential and a division per expert, and the choice; one by one, all that for each, and whether it is
 * near */
static void route_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    const lm_route_spec *r      = &n->route.spec;
    bool                 listed = n->weights[2] != LM_NONE;
    uint64_t             k = r->top_k, each = r->one_by_one ? 8 * k : 4 + (listed ? 0 : k);

    c->flops = each * lm_width_in(p, n);
    if (listed)                          /* one row of the table */
        c->weight_elements = r->top_k;
    c->reads  = lm_width_in(p, n);
    c->writes = lm_width_out(p, n);
}

static void route_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    const lm_route_spec *r = &n->route.spec;

    (void)p;
    const char *function = r->one_by_one ? "SparseMixer" : lm_route_function(r);

    if (n->weights[2] != LM_NONE)
        lm_text_printf(out, _("the token's %u of %u by %s"), r->top_k, r->n_experts, function);
    else
        lm_text_printf(out, _("best %u of %u by %s"), r->top_k, r->n_experts, function);
    if (r->n_groups > 1)
        lm_text_printf(out, _(", from the best %u of %u groups"), r->top_groups, r->n_groups);
    if (r->renormalise)
        lm_text_add_str(out, _(", renormalised"));
    if (r->scale != 1)
        lm_text_printf(out, ", × %g", (double)r->scale);
    if (n->weights[1] != LM_NONE)
        lm_text_add_str(out, _(", × a factor of each expert"));
}

static const lm_op_number route_numbers[] = {
    LM_NODE_NUMBER(U32, route.spec.n_experts, "mixture of experts"),
    LM_NODE_NUMBER(U32, route.spec.top_k, "mixture of experts"),
    LM_NODE_NUMBER(BOOL, route.spec.sigmoid, "mixture of experts"),
    LM_NODE_NUMBER(BOOL, route.spec.root_softplus, "mixture of experts"),
    LM_NODE_NUMBER(BOOL, route.spec.renormalise, "mixture of experts"),
    LM_NODE_NUMBER(FLOAT, route.spec.scale, "mixture of experts"),
    LM_NODE_NUMBER(FLOAT, route.spec.sum_eps, NULL),
    LM_NODE_NUMBER(U32, route.spec.n_groups, "mixture of experts"),
    LM_NODE_NUMBER(U32, route.spec.top_groups, "mixture of experts"),
    LM_NODE_NUMBER(BOOL, route.spec.group_sum_two, NULL),
    LM_NODE_NUMBER(BOOL, route.spec.one_by_one, NULL),
    LM_NODE_NUMBER(FLOAT, route.spec.near, "mixture of experts"),
    { 0 }
};

const lm_op lm_op_route = {
    .name          = "route",
    .weights       = { "correction", "scale", "experts" },
    .numbers       = route_numbers,
    .cost          = route_cost,
    .describe      = route_describe,
    .formula       = N_("the k largest shares, then their experts"),
    .work          = "routing",
    .trains_inputs = 1,
    .trains_weights = 2,
    .reverse_reads = LM_IN0 | LM_OUT,
};

/* ---- experts: x and routes -> the weighted sum of gated MLPs ---- */

/* Add a weight with one matrix per expert, "….experts.*.gate_proj.weight". GGUF stores all experts in one
 * tensor; some folders store even several kinds of matrices in one. */
static uint32_t add_experts(lm_builder *b, const char *module, const lm_expert_spec *s, uint32_t which,
                            uint64_t out, uint64_t in)
{
    const char *each = lm_record_text(b, s->joined ? "%s.%s" : "%s.*.%s", module, s->names[which]);
    const char *all  = lm_record_text(b, "%s.%s", module, s->names[which]);
    uint32_t    w    = lm_record_weight(b, each, "weight", LM_EXPERTS, 1, s->n_experts, 1);

    if (w != LM_NONE) {
        lm_weight *x = &b->p->weights[w];
        x->gguf      = lm_record_gguf(b, all, "weight");
        x->n_dims    = 3;
        x->dims[0]   = s->n_experts;
        x->dims[1]   = out;
        x->dims[2]   = in;
        x->elements  = s->n_experts * out * in;
    }
    return w;
}

static uint32_t add_biases(lm_builder *b, const char *module, const lm_expert_spec *s, uint32_t which,
                           uint64_t out)
{
    const char *all = lm_record_text(b, "%s.%s", module, s->names[which]);

    return lm_record_weight(b, all, "bias", LM_VECTOR, 2, s->n_experts, out);
}

/* Set the place of a weight within a joint tensor of a folder. `suffix`: "" or "_bias". */
static void place_expert(lm_builder *b, uint32_t w, const char *parent, const lm_expert_spec *s,
                         uint32_t which, const char *suffix)
{
    const char *name  = which == 2 ? s->alone : s->joined;
    bool        turns = which < 2 && s->in_turns, coded = s->four_bits && !*suffix;

    if (w == LM_NONE || !name)
        return;
    lm_weight *x = &b->p->weights[w];
    x->interleaved = (lm_interleaved){
        .path = lm_record_text(b, "%s.%s%s", parent, name, suffix),
            .gguf       = *suffix || which == 2 ? NULL : lm_record_gguf(b, lm_record_text(b, "%s.%s", parent, name), "weight"),
            .codes      = coded ? lm_record_text(b, "%s.%s_blocks", parent, name) : NULL,
            .exponents  = coded ? lm_record_text(b, "%s.%s_scales", parent, name) : NULL,
            .first      = which == 1 ? (turns ? 1 : s->width) : 0,
            .step       = turns ? 2 : 1,
            .of         = which == 2 ? (uint32_t)x->dims[1] : 2 * s->width,
            .transposed = s->transposed && !*suffix,
    };
}

lm_value lm_experts_of(lm_builder *b, const char *name, lm_value x, lm_value route, const lm_expert_spec *s)
{
    const char *parent = b->failed ? "" : lm_record_here(b);

    lm_push(b, name, "%sExperts");
    if (b->failed)
        return LM_NONE;
    const char *path       = lm_record_here(b);
    uint32_t    in         = lm_record_width(b, x), w[6];
    uint32_t    shapes[3][2] = { { s->width, in }, { s->width, in }, { in, s->width } };

    lm_record_need(b, s->names[0] || s->act == LM_ACT_RELU2, path,
                   "experts without a gate have the activation relu2, which is relu(up) up");
    lm_record_need(b, !s->scaled_input || (s->names[0] && !s->bias), path,
                   "weights of the input are for experts with a gate and no biases");
    for (uint32_t i = s->names[0] ? 0 : 1; i < 3; i++) {
        w[i]     = add_experts(b, path, s, i, shapes[i][0], shapes[i][1]);
        w[i + 3] = s->bias ? add_biases(b, path, s, i, shapes[i][0]) : LM_NONE;
        place_expert(b, w[i], parent, s, i, "");
        place_expert(b, w[i + 3], parent, s, i, "_bias");
    }
    if (!s->names[0]) {
        w[0] = w[1];
        w[3] = w[4];
    }
    lm_record_need(b, lm_record_width(b, route) == 2 * s->top_k, path,
                   "the routes are not those of as many experts");
    lm_node *n = lm_record_unary(b, LM_OP_EXPERTS, path, x, in);
    n->n_in    = 2;
    n->in[1]   = route;
    for (uint32_t i = 0; i < 6; i++)
        n->weights[i] = w[i];
    n->experts.n_experts = s->n_experts;
    n->experts.top_k     = s->top_k;
    n->experts.width     = s->width;
    n->experts.act       = s->names[0] ? s->act : LM_ACT_RELU;
    n->experts.limit     = s->limit;
    n->experts.plus      = s->limit > 0 ? s->plus : 0;
    n->experts.scaled_input = s->scaled_input;
    lm_value y           = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_experts(lm_builder *b, const char *name, lm_value x, lm_value route, uint32_t n_experts,
                    uint32_t top_k, uint32_t width, lm_act act, const char *const names[3])
{
    lm_expert_spec s = { n_experts, top_k, width, act, .names = { names[0], names[1], names[2] } };
    return lm_experts_of(b, name, x, route, &s);
}

static void experts_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t d = lm_width_in(p, n), f = n->experts.width, k = n->experts.top_k,
             n_matrices = lm_experts_have_gate(n) ? 3 : 2;

    c->mult_adds       = n_matrices * k * d * f;
    c->flops           = 2 * c->mult_adds + 5 * k * f + 2 * k * d;
    c->reads           = d + 2 * k;
    c->writes          = d;
    c->weight_elements = n_matrices * k * d * f;
    if (n->experts.scaled_input)         /* gate and up are scaled, the sum has no weights */
        c->flops += 2 * k * f - k * d;
    if (n->experts.limit > 0)            /* three comparisons, perhaps a sum */
        c->flops += (n->experts.plus > 0 ? 4 : 3) * k * f;
    if (n->weights[3] != LM_NONE) {
        c->flops += k * ((n_matrices - 1) * f + d);
        c->weight_elements += k * ((n_matrices - 1) * f + d);
    }
}

static void experts_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, _("%u experts, %u each: %" PRIu64 " → %u → %" PRIu64 ", %s(%s) ⊙ %s"),
                   n->experts.n_experts, n->experts.top_k, lm_width_in(p, n), n->experts.width,
                   lm_width_out(p, n), lm_act_id(n->experts.act), lm_experts_have_gate(n) ? "gate" : "up",
                   n->experts.plus > 0 ? "(up + 1)" : "up");
    if (n->experts.limit > 0)
        lm_text_printf(out, _(", clamped at %g"), (double)n->experts.limit);
    if (n->experts.scaled_input)
        lm_text_add_str(out, _(", weights multiply the input"));
    if (n->weights[3] != LM_NONE)
        lm_text_add_str(out, _(" + biases"));
}

/* Recompute gate and up, then go back through down, the gated product, gate and up; dW of each of the
 * three. */
static void experts_reverse_cost(const lm_node *n, const lm_reverse *r, const lm_cost *forward, lm_cost *c)
{
    uint64_t inner = lm_experts_have_gate(n) ? 2 : 1, each = forward->mult_adds / (inner + 1);

    c->mult_adds = inner * each + each + (r->into[0] ? inner * each : 0);
    for (uint32_t k = (uint32_t)(2 - inner); k < 3; k++)
        c->mult_adds += r->trains[k] ? each : 0;
    c->flops           = 2 * c->mult_adds + 12 * (uint64_t)n->experts.top_k * n->experts.width;
    c->weight_elements = forward->weight_elements;
}

static const lm_op_number experts_numbers[] = {
    LM_NODE_NUMBER(ACT, experts.act, "activation"),
    LM_NODE_NUMBER(FLOAT, experts.limit, "activation"),
    LM_NODE_NUMBER(FLOAT, experts.plus, "activation"),
    LM_NODE_NUMBER(BOOL, experts.scaled_input, "mixture of experts"),
    LM_NODE_NUMBER(U32, experts.n_experts, "mixture of experts"),
    LM_NODE_NUMBER(U32, experts.top_k, "mixture of experts"),
    LM_NODE_NUMBER(U32, experts.width, "mixture of experts"),
    { 0 }
};

const lm_op lm_op_experts = {
    .name           = "experts",
    .weights        = { "gate", "up", "down", "gate bias", "up bias", "down bias" },
    .numbers        = experts_numbers,
    .cost           = experts_cost,
    .describe       = experts_describe,
    .formula        = "Σ share · down(act(gate) ⊙ up)",
    .trains_inputs  = 3,
    .trains_weights = 63,
    .reverse_reads  = LM_IN0 | LM_IN1,
    .reverse_cost   = experts_reverse_cost,
};
