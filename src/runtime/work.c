/* work.c - what a step costs at least, read off the plan. */
#include "runtime/engine.h"

static void count_product(const lm_engine *g, const lm_step *s, lm_work *out)
{
    const lm_weight    *w     = &g->program->weights[s->weight];
    const lm_placement *at    = &g->plan->weights[s->weight];
    bool                many  = w->kind == LM_EXPERTS;
    uint64_t            times = many ? s->times : 1, ops = 2 * w->dims[many] * w->dims[many + 1] * times;

    out->weight_bytes += at->bytes / (many ? w->dims[0] : 1) * times;
    if (s->domain == LM_WANTED_ROWS)
        out->head_ops += ops;
    else if (s->matmul->arithmetic == LM_ARITHMETIC_INT8)
        out->int8_ops += ops;
    else if (s->matmul->arithmetic == LM_ARITHMETIC_BF16)
        out->bf16_ops += ops;
    else
        out->f32_ops += ops;
}

void lm_engine_work(const lm_engine *g, lm_work *out)
{
    *out = (lm_work){ 0 };
    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        if (s->code == LM_STEP_MATMUL || s->code == LM_STEP_EXPERTS)
            count_product(g, s, out);
    }
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        if (!g->plan->groups[i].window)
            out->kv_bytes += g->plan->groups[i].page_bytes / LM_PAGE;
}
