/* mixture.c - recording mixtures of experts. */
#include "program/record.h"

lm_value lm_route(lm_builder *b, lm_value logits, const lm_route_spec *r, const char *correction)
{
    if (b->failed)
        return LM_NONE;
    const char *parent = lm_record_here(b);

    lm_record_need(b, lm_record_width(b, logits) == r->n_experts && r->top_k >= 1 && r->top_k <= r->n_experts &&
                          r->n_experts <= LM_MAX_EXPERTS && r->n_groups <= LM_MAX_GROUPS,
                   parent,
         "the router cannot choose that many experts");
    lm_record_need(b, !r->n_groups || (r->n_experts % r->n_groups == 0 && r->top_groups >= 1 && r->top_groups <= r->n_groups &&
                             r->top_groups * (r->n_experts / r->n_groups) >= r->top_k),
         parent, "the open groups hold too few experts");
    lm_node *n    = lm_record_unary(b, LM_OP_ROUTE, lm_record_path(b, "route"), logits, 2 * r->top_k);
    n->route.spec = *r;
    if (correction)
        n->weights[0] = lm_record_weight(b, parent, correction, LM_VECTOR, 1, r->n_experts, 1);
    /* one container stores it as a bias of its own name */
    if (n->weights[0] != LM_NONE && !b->p->weights[n->weights[0]].gguf)
        b->p->weights[n->weights[0]].gguf = lm_record_gguf(b, b->p->weights[n->weights[0]].path, "bias");
    return n->out;
}

/* One matrix for each expert: "….experts.*.gate_proj.weight"; GGUF keeps all in one tensor. */
static uint32_t add_experts(lm_builder *b, const char *module, const char *name, uint64_t n, uint64_t out, uint64_t in)
{
    lm_arena *arena = &b->p->arena;
    char     *each  = lm_arena_printf(arena, "%s.*.%s", module, name);
    char     *all   = lm_arena_printf(arena, "%s.%s", module, name);

    if (!each || !all)
        return LM_NONE;
    uint32_t w = lm_record_weight(b, each, "weight", LM_EXPERTS, 1, n, 1);
    if (w != LM_NONE) {
        lm_weight *x = &b->p->weights[w];
        x->gguf      = lm_record_gguf(b, all, "weight");
        x->n_dims    = 3;
        x->dims[0]   = n;
        x->dims[1]   = out;
        x->dims[2]   = in;
        x->elements  = n * out * in;
    }
    return w;
}

lm_value lm_experts(lm_builder *b, const char *name, lm_value x, lm_value route, uint32_t n_experts, uint32_t top_k, uint32_t width,
                    lm_act act, const char *const names[3])
{
    lm_push(b, name, "%sExperts");
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    in   = lm_record_width(b, x);
    uint32_t    gate = add_experts(b, path, names[0], n_experts, width, in);
    uint32_t    up   = add_experts(b, path, names[1], n_experts, width, in);
    uint32_t    down = add_experts(b, path, names[2], n_experts, in, width);

    lm_record_need(b, lm_record_width(b, route) == 2 * top_k, path, "the routes are not those of as many experts");
    lm_node *n           = lm_record_unary(b, LM_OP_EXPERTS, path, x, in);
    n->n_in              = 2;
    n->in[1]             = route;
    n->weights[0]        = gate;
    n->weights[1]        = up;
    n->weights[2]        = down;
    n->experts.n_experts = n_experts;
    n->experts.top_k     = top_k;
    n->experts.width     = width;
    n->experts.act       = act;
    lm_value y           = n->out;
    lm_pop(b);
    return y;
}
