/* stages.c - group steps that need not wait for each other into stages, and compute the lifetimes of
 * buffers. */
#include "plan/compile.h"
#include "plan/cost.h"

static lm_split split_of(const lm_step *s)
{
    if (lm_is_product(s))
        return LM_BY_OUTPUTS;
    switch (s->code) {
    case LM_STEP_ATTENTION:
    case LM_STEP_SELECT:
        return LM_BY_HEADS;
    case LM_STEP_STATE:
        return LM_BY_LANES;
    case LM_STEP_SORT:
        return LM_ALONE;
    case LM_STEP_EXCHANGE:
    case LM_STEP_SEND:
    case LM_STEP_RECEIVE:
        return LM_BETWEEN_RANKS;
    default:
        return LM_BY_ROWS;
    }
}

static bool reads(const lm_step *s, uint32_t buffer)
{
    for (uint32_t k = 0; k < LM_MAX_INPUTS; k++)
        if (s->in[k] == buffer)
            return true;
    return s->add == buffer;
}

/* Return whether a step can join a stage. Steps that are split by rows always can, because each worker keeps
 * its rows. Products can if they read nothing that another step of the stage writes. */
static bool joins(const lm_plan *plan, const lm_stage *stage, const lm_step *s)
{
    if (stage->split != split_of(s) || stage->domain != s->domain || stage->times != s->times ||
        stage->split == LM_BY_HEADS || stage->split == LM_BY_LANES || stage->split == LM_ALONE ||
        stage->split == LM_BETWEEN_RANKS)
        return false;
    if (stage->split == LM_BY_ROWS)
        return true;
    for (uint32_t i = stage->first; i < stage->end; i++)
        if (reads(s, plan->steps[i].out))
            return false;
    return true;
}

static void touch(lm_plan *plan, uint32_t buffer, uint32_t stage)
{
    if (buffer == LM_NONE)
        return;
    lm_buffer *b = &plan->buffers[buffer];
    if (b->first == LM_NONE)
        b->first = stage;
    b->last = stage;
}

void lm_plan_stages(lm_compiler *c)
{
    lm_plan *plan = c->plan;

    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const lm_step *s = &plan->steps[i];
        if (!plan->n_stages || !joins(plan, &plan->stages[plan->n_stages - 1], s)) {
            plan->stages[plan->n_stages] = (lm_stage){ split_of(s), s->domain, s->times, i, i };
            plan->n_stages++;
        }
        lm_stage *stage = &plan->stages[plan->n_stages - 1];
        uint32_t  at    = plan->n_stages - 1;
        stage->end      = i + 1;
        for (uint32_t k = 0; k < LM_MAX_INPUTS; k++)
            touch(plan, s->in[k], at);
        touch(plan, s->add, at);
        touch(plan, s->out, at);
        if (lm_step_is(plan->program, s, LM_OP_ROPE))
            touch(plan, plan->table_buffer[plan->program->nodes[s->node].rope.table], at);
    }
    /* Values that are read after the forward pass are kept until the next one. */
    plan->buffers[plan->logits].last = plan->n_stages;
    for (uint32_t i = 0; i < c->o->n_probes; i++)
        plan->buffers[c->values[c->o->probes[i]].buffer].last = plan->n_stages;
}
