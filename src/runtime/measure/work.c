/* work.c - the minimum cost of a step of one row: the sum of the costs of a plan's steps. */
#include "plan/cost.h"
#include "runtime/engine/state.h"

static void add_operations(lm_ops *to, const lm_step_costs *c)
{
    uint64_t *const by[] = {
        [LM_ARITHMETIC_INT8] = &to->int8, [LM_ARITHMETIC_BF16] = &to->bf16, [LM_ARITHMETIC_F32] = &to->f32
    };

    *by[c->arithmetic] += (uint64_t)c->operations;
}

/* Return the bytes that a row reads more for each token before it. */
static uint64_t bytes_per_token(const lm_engine *g, const lm_node *n)
{
    const lm_attention_spec *s = &n->attention.spec;
    uint32_t cache = s->rate && n->code == LM_OP_ATTENTION ? n->attention.entries : n->attention.cache;

    return lm_cache_bytes(&g->program->caches[cache], g->plan->options.cache) / (s->rate ? s->rate : 1);
}

void lm_engine_work(const lm_engine *g, lm_work *out)
{
    const lm_forward one = { .rows = 1, .sequences = 1, .wanted = 1 };
    lm_step_costs    c;

    if (!out)
        return;
    *out = (lm_work){ 0 };
    for (uint32_t i = 0; g && i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        lm_step_cost(g->plan, s, &one, &c);
        if (lm_is_product(s))
            add_operations(s->domain == LM_WANTED_ROWS ? &out->logits : &out->row, &c);
        out->weight_bytes += (uint64_t)c.weight_bytes;
        if ((s->code == LM_STEP_SELECT || s->code == LM_STEP_ATTENTION) &&
            !lm_node_reach(&g->program->nodes[s->node]))
            out->kv_bytes += bytes_per_token(g, &g->program->nodes[s->node]);
    }
}
