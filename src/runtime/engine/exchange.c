/* exchange.c - exchange rows with all other ranks; send rows from one rank to another. */
#include "runtime/model/exchange.h"

#include "program/split.h"
#include "runtime/engine/steps.h"

static uint64_t bytes_of(const lm_engine *g, uint32_t buffer, uint32_t n)
{
    return g->plan->buffers[buffer].stride * n;
}

lm_status lm_engine_exchange(lm_engine *g, const lm_step *s, uint32_t n, lm_error *e)
{
    const lm_rank_exchange *x    = g->model->exchange;
    const lm_node     *node = &g->program->nodes[s->node];
    uint64_t           bytes[LM_MAX_RANKS];

    if (!x)
        return lm_fail(e, LM_USAGE, node->path, LM_NO_OFFSET,
                       "the other ranks of this split model are not running");
    if (s->code == LM_STEP_SEND)
        return x->send(x->arg, node->message.peer, row_at(g, s->in[0], 0), bytes_of(g, s->in[0], n), e);
    if (s->code == LM_STEP_RECEIVE)
        return x->receive(x->arg, node->message.peer, row_at(g, s->out, 0), bytes_of(g, s->out, n), e);
    for (uint32_t r = 0; r < node->exchange.ranks; r++)
        bytes[r] = lm_rank_stride(g->program, node, r) * n;
    return x->gather(x->arg, false, row_at(g, s->in[0], 0), bytes, row_at(g, s->out, 0), e);
}
