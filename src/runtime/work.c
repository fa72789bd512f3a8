/* work.c - what a step costs at least, read off the plan. */
#include "runtime/engine.h"
#include "runtime/timed.h"

static void count_product(const lm_engine *g, const lm_step *s, lm_work *out)
{
    const lm_weight    *w     = &g->program->weights[s->weight];
    const lm_placement *at    = &g->plan->weights[s->weight];
    bool                many  = w->kind == LM_EXPERTS || w->kind == LM_HEADS;       /* [matrices][rows][cols] */
    uint64_t            all   = many ? w->dims[0] : 1, taken = w->kind == LM_EXPERTS ? s->times : all;
    uint64_t            ops   = 2 * w->dims[many] * w->dims[many + 1] * taken;

    lm_ops             *row   = s->domain == LM_WANTED_ROWS ? &out->logits : &out->row;

    out->weight_bytes += at->bytes / all * taken;
    if (s->matmul->arithmetic == LM_ARITHMETIC_INT8)
        row->int8 += ops;
    else if (s->matmul->arithmetic == LM_ARITHMETIC_BF16)
        row->bf16 += ops;
    else
        row->f32 += ops;
}

void lm_engine_work(const lm_engine *g, lm_work *out)
{
    *out = (lm_work){ 0 };
    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        if (lm_is_product(s))
            count_product(g, s, out);
    }
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        if (!g->plan->groups[i].window)
            out->kv_bytes += g->plan->groups[i].page_bytes / LM_PAGE;
}
