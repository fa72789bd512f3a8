/* chunks.c - how many chunks a stage is cut into. */
#include "runtime/engine/steps.h"

/* A single row of a stage by rows is not split. */
unsigned lm_stage_chunks(const lm_engine *g, const lm_stage *t, uint32_t rows)
{
    unsigned workers = lm_pool_used(g->pool), max = workers * LM_MAX_CHUNKS;
    uint64_t bytes = 0;

    if (workers == 1 || t->split == LM_ALONE)
        return 1;
    if (t->split == LM_BY_ROWS)
        return rows == 1 ? 1 : rows < max ? rows : max;
    if (t->split == LM_BY_HEADS)
        return g->plan->steps[t->first].code == LM_STEP_SELECT
                   ? lm_select_chunks(g, &g->plan->steps[t->first])
                   : lm_attention_chunks(g, &g->plan->steps[t->first]);
    if (t->split == LM_BY_LANES) {
        uint64_t units = lm_state_units(g, &g->plan->steps[t->first]);
        return (unsigned)(units < workers ? units : workers);
    }
    for (uint32_t i = t->first; i < t->end; i++) {
        const lm_step *s = &g->plan->steps[i];
        bytes += s->weight == LM_NONE ? 0 : g->plan->weights[s->weight].bytes;
    }
    return lm_product_chunks(workers, bytes, rows);
}
