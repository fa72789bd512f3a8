/* dispatch.c - compile mixtures of experts.
 *
 * Row r is routed to k experts, which gives k assignments. They are sorted by expert, so that each expert's
 * matrices are read once for all of its assignments; those of a row are summed in the order of its route,
 * whatever else is in the forward pass. */
#include "plan/compile.h"

static uint32_t pack_dispatched(lm_compiler *c, uint32_t in, const lm_matmul *m, uint32_t width,
                                const lm_node *n, lm_domain domain)
{
    if (!m->x->pack)
        return in;
    uint32_t out = lm_plan_routed(c, n->path, m->x->bytes(width), domain, n->experts.top_k);
    lm_step *s   = lm_plan_step(c, LM_STEP_PACK, (uint32_t)(n - c->p->nodes), domain);
    s->in[0]     = in;
    s->out       = out;
    s->matmul    = m;
    s->width     = width;
    s->times     = n->experts.top_k;
    return out;
}

static uint32_t run_experts(lm_compiler *c, const lm_node *n, lm_domain domain, uint32_t which, uint32_t x,
                            uint32_t order)
{
    const lm_weight *w   = &c->p->weights[n->weights[which]];
    uint32_t         out = lm_plan_routed(c, n->path, w->dims[1] * 4, domain, n->experts.top_k);
    lm_step         *s   = lm_plan_step(c, LM_STEP_EXPERTS, (uint32_t)(n - c->p->nodes), domain);

    s->in[0]  = x;
    s->in[1]  = order;
    s->out    = out;
    s->weight = n->weights[which];
    s->matmul = c->plan->weights[s->weight].matmul;
    s->times  = n->experts.top_k;
    return out;
}

/* Copy the rows of x for every assignment, in the order of the assignments. */
static uint32_t dispatch_rows(lm_compiler *c, const lm_node *n, lm_domain domain, uint32_t x, uint32_t order)
{
    uint32_t out = lm_plan_routed(c, n->path, c->plan->buffers[x].stride, domain, n->experts.top_k);
    lm_step *s   = lm_plan_step(c, LM_STEP_DISPATCH, (uint32_t)(n - c->p->nodes), domain);

    s->in[0] = x;
    s->in[1] = order;
    s->out   = out;
    s->times = n->experts.top_k;
    return out;
}

void lm_plan_experts(lm_compiler *c, uint32_t index)
{
    const lm_node   *n      = &c->p->nodes[index];
    lm_domain        domain = lm_domain_of(c, n->out);
    uint32_t         k = n->experts.top_k, e = n->experts.n_experts;
    const lm_matmul *m[3];

    for (uint32_t i = 0; i < 3; i++)
        m[i] = c->plan->weights[n->weights[i]].matmul;
    /* gate and up may have types that need different layouts of their input */
    uint32_t x[2] = { lm_plan_packed(c, n->in[0], domain, m[0]), lm_plan_packed(c, n->in[0], domain, m[1]) };
    uint32_t route = lm_plan_input(c, n->in[1], domain);

    /* order: [assignments] row, [assignments] position of each (row, choice), [E + 1] start of each expert's
     * assignments */
    uint64_t rows  = domain == LM_ALL_ROWS ? c->o->max_rows : c->o->max_logits;
    uint32_t order = lm_plan_buffer(c, "dispatch", ((uint64_t)e + 2 + 2 * rows * k) * 4, domain);
    c->plan->buffers[order].rows = 1;
    lm_step *sort                = lm_plan_step(c, LM_STEP_SORT, index, domain);
    sort->in[0]                  = route;
    sort->out                    = order;
    uint32_t dispatched          = dispatch_rows(c, n, domain, x[0], order);
    uint32_t others              = x[1] == x[0] ? dispatched : dispatch_rows(c, n, domain, x[1], order);
    uint32_t gate                = run_experts(c, n, domain, 0, dispatched, order);
    uint32_t up = lm_experts_have_gate(n) ? run_experts(c, n, domain, 1, others, order) : gate;
    lm_step *glu                 = lm_plan_step(c, LM_STEP_GATED, index, domain);
    glu->in[0]                   = gate;
    glu->in[1]                   = up;
    if (n->experts.scaled_input) {
        glu->in[2] = order;
        glu->in[3] = route;
    }
    glu->out                     = gate;
    glu->width                   = n->experts.width;
    glu->times                   = k;
    uint32_t inner               = pack_dispatched(c, gate, m[2], n->experts.width, n, domain);
    uint32_t down                = run_experts(c, n, domain, 2, inner, order);
    uint32_t y                   = lm_plan_value(c, n->out);
    lm_step *sum                 = lm_plan_step(c, LM_STEP_COMBINE, index, domain);
    sum->in[0]                   = down;
    sum->in[1]                   = order;
    sum->in[2]                   = route;
    sum->out                     = y;
}
