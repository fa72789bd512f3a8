/* profile.c - kinds of work, and what is counted per kind. */
#include "runtime/engine/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/cost.h"
#include "program/op.h"
#include "tensor/dtype.h"

/* ---- kinds ---- */

static const char *row_work(const lm_plan *plan, const lm_step *s)
{
    const char *work;

    switch (s->code) {
    case LM_STEP_ROWS:
    case LM_STEP_STATE:
    case LM_STEP_SELECT:
        work = lm_op_of(plan->program->nodes[s->node].code)->work;
        return work ? work : "other rows";
    case LM_STEP_ATTENTION:
        return "attention";
    case LM_STEP_PACK:
        return "packing";
    case LM_STEP_GATED:
        return "activations";
    case LM_STEP_STORE:
    case LM_STEP_KEEP:
    case LM_STEP_TABLE:
        return "rope and store";
    case LM_STEP_SORT:
    case LM_STEP_DISPATCH:
    case LM_STEP_COMBINE:
        return "routing";
    default:
        return "other rows";
    }
}

static void name_kind(const lm_plan *plan, const lm_step *s, uint32_t head, char out[32])
{
    if (!lm_is_product(s)) {
        snprintf(out, 32, "%s", row_work(plan, s));
        return;
    }
    snprintf(out, 32, "%s %s", s->node == head ? "head" : s->code == LM_STEP_EXPERTS ? "experts" : "products",
             lm_dtype_of(plan->weights[s->weight].type)->name);
}

/* Return the index of a kind, which is added if it is new. Kinds that do not fit share the last index. */
static uint8_t kind_named(lm_profiler *p, const char *name, bool product)
{
    uint32_t i = 0;

    while (i < p->n_kinds && strcmp(p->kinds[i].name, name) != 0)
        i++;
    if (i == LM_PROFILE_KINDS)
        return LM_PROFILE_KINDS - 1;
    if (i == p->n_kinds) {
        p->kinds[p->n_kinds++].product = product;
        snprintf(p->kinds[i].name, sizeof p->kinds[i].name, "%s", i == LM_PROFILE_KINDS - 1 ? "other" : name);
    }
    return (uint8_t)i;
}

/* ---- counting ---- */

static void count_product(const lm_plan *plan, const lm_step *s, const lm_forward *f, lm_profile_kind *k)
{
    lm_step_costs c;

    lm_step_cost(plan, s, f, &c);
    k->ops += (uint64_t)c.operations;
    /* not for experts: the estimate is an average over routings */
    if (s->code != LM_STEP_EXPERTS)
        k->bytes += (uint64_t)c.weight_bytes;
}

void lm_profile_step(lm_engine *g, uint64_t ns, unsigned workers, uint32_t joins)
{
    lm_profiler *p = g->profiler;
    lm_forward   f = { .rows = g->n_rows, .sequences = 1, .wanted = g->n_wanted };

    p->steps++;
    p->joins += joins;
    p->step_ns += ns;
    p->worker_ns += ns * workers;
    if (!p->kind)
        return;
    for (uint32_t i = 0; i < g->plan->n_steps; i++)
        if (lm_is_product(&g->plan->steps[i]))
            count_product(g->plan, &g->plan->steps[i], &f, &p->kinds[p->kind[i]]);
}

lm_status lm_engine_profile_start(lm_engine *g, lm_error *e)
{
    LM_REQUIRE(e, g);
    size_t kinds = (g->plan->n_steps + 63) & ~(size_t)63, head = (sizeof(lm_profiler) + 63) & ~(size_t)63;
    size_t ns = lm_pool_threads(g->pool) * LM_PROFILE_KINDS * sizeof(uint64_t), bytes = head + ns + kinds;
    uint32_t     last  = lm_program_head(g->program);
    lm_profiler *p     = lm_alloc_aligned(bytes, 64);
    char         name[32];

    if (!p)
        return lm_fail_memory(e, "profile", bytes);
    lm_profiler_free(g->profiler);
    p->bytes = bytes;
    p->lanes = LM_PROFILE_KINDS;
    p->ns    = (uint64_t *)(void *)((uint8_t *)p + head);
    p->kind  = (uint8_t *)p + head + ns;
    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        name_kind(g->plan, s, last, name);
        p->kind[i] = kind_named(p, name, lm_is_product(s));
    }
    g->profiler = p;
    return LM_OK;
}

void lm_engine_profile_stop(lm_engine *g, lm_profile *out)
{
    lm_profiler *p = g ? g->profiler : NULL;
    uint64_t     busy = 0;

    if (out)
        *out = (lm_profile){ 0 };
    if (!p || !out)
        return;
    memcpy(out->kinds, p->kinds, sizeof out->kinds);
    for (uint32_t i = 0; i < p->n_kinds; i++) {
        uint64_t ns = 0;
        for (unsigned w = 0; w < lm_pool_threads(g->pool); w++)
            ns += p->ns[w * LM_PROFILE_KINDS + i];
        out->kinds[i].seconds = 1e-9 * (double)ns;
        busy += ns;
    }
    out->n_kinds = p->n_kinds;
    out->steps   = p->steps;
    out->joins   = p->joins;
    out->seconds = 1e-9 * (double)p->step_ns;
    out->worker_seconds = 1e-9 * (double)p->worker_ns;
    out->waiting = p->worker_ns > busy ? 1e-9 * (double)(p->worker_ns - busy) : 0;
    lm_profiler_free(p);
    g->profiler = NULL;
}

void lm_profiler_free(lm_profiler *p)
{
    if (p)
        lm_free_aligned(p, p->bytes);
}
