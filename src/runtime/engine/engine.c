/* engine.c - make and free engines, allocate the memory of a plan, run the forward pass. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/logline.h"
#include "base/os/available.h"
#include "base/number.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/ahead.h"
#include "runtime/engine/engine_plan.h"
#include "runtime/engine/execute.h"
#include "runtime/engine/kv.h"
#include "runtime/engine/broadcast.h"
#include "runtime/engine/load.h"
#include "runtime/engine/observe.h"
#include "runtime/engine/profile.h"
#include "runtime/engine/variant.h"

/* ---- memory ---- */

static lm_status take(uint8_t **out, uint64_t bytes, uint64_t *counted, const char *what, lm_error *e)
{
    *out = lm_alloc_counted(bytes, 64, counted);
    return *out ? LM_OK
                : lm_fail(e, LM_NO_FIT, what, LM_NO_OFFSET, "cannot allocate %s",
                          lm_size_text((char[LM_SIZE_TEXT]){ 0 }, bytes));
}

static lm_status take_memory(lm_engine *g, lm_error *e)
{
    const lm_plan *p         = g->plan;
    lm_memory      m         = lm_plan_memory(p);
    uint64_t       available = lm_memory_available();

    if (g->borrows) {
        m.total -= m.weights;
        m.weights = 0;
    }
    if (m.total > available) {
        lm_fail(e, LM_NO_FIT, "memory", LM_NO_OFFSET,
                "%s are needed (weights %s, cache %s, scratch %s), %s are available",
                lm_size_text((char[LM_SIZE_TEXT]){ 0 }, m.total),
                lm_size_text((char[LM_SIZE_TEXT]){ 0 }, m.weights),
                lm_size_text((char[LM_SIZE_TEXT]){ 0 }, m.kv),
                lm_size_text((char[LM_SIZE_TEXT]){ 0 }, m.scratch),
                lm_size_text((char[LM_SIZE_TEXT]){ 0 }, available));
        if (m.weights > available / 2 && !p->options.no_repack)
            lm_fail_hint(e, "use `no_repack` to run from the mapped file with less memory");
        return LM_NO_FIT;
    }
    LM_TRY(g->borrows ? LM_OK : take(&g->weights, p->weight_bytes, &g->allocated.weights, "weights", e));
    LM_TRY(take(&g->kv, p->kv_bytes, &g->allocated.kv, "cache", e));
    LM_TRY(take(&g->slab, p->slab_bytes, &g->allocated.scratch, "scratch", e));
    g->allocated.mapped = p->mapped_bytes;
    g->allocated.total  = g->allocated.weights + g->allocated.kv + g->allocated.scratch;
    return LM_OK;
}

static uint32_t *words_at(lm_engine *g, uint64_t offset)
{
    return (uint32_t *)(void *)(g->slab + offset);
}

static void lay_out(lm_engine *g)
{
    const lm_plan_state *s = &g->plan->state;
    uint32_t *tables = words_at(g, s->page_tables), *uses = words_at(g, s->page_uses),
             *free_pages = words_at(g, s->page_free);

    g->positions   = words_at(g, s->positions);
    g->sequences   = words_at(g, s->sequences);
    g->lengths     = words_at(g, s->lengths);
    g->wanted      = words_at(g, s->wanted);
    g->logit_index = words_at(g, s->logit_index);
    g->seq_length  = (atomic_uint *)(void *)(g->slab + s->seq_length);
    g->seq_next    = words_at(g, s->seq_next);
    g->page_before = words_at(g, s->page_before);
    g->length_before = words_at(g, s->length_before);
    g->ranges_done = (atomic_uint *)(void *)(g->slab + s->ranges_done);
    g->tokens      = (int32_t *)words_at(g, s->tokens);
    g->row_adapters = (float *)(void *)words_at(g, s->adapters);
    g->seq_adapters = (float *)(void *)words_at(g, s->seq_adapters);
    for (uint32_t i = 0; i < g->plan->n_groups; i++) {
        const lm_kv_group *k = &g->plan->groups[i];
        g->pages[i]          = (lm_pages){ tables, uses, free_pages, 0 };
        tables += (size_t)g->plan->options.sequences * k->pages_per_sequence;
        uses += k->n_pages;
        free_pages += k->n_pages;
    }
}

/* Use the weights of an engine with the same placements in place. */
static lm_status borrow_weights(lm_engine *g, const lm_engine *from, lm_error *e)
{
    for (uint32_t i = 0; i < g->program->n_weights; i++) {
        const lm_placement *a = &g->plan->weights[i], *b = &from->plan->weights[i];
        if (from->model != g->model || a->kind != b->kind || a->matmul != b->matmul ||
            a->offset != b->offset || a->bytes != b->bytes)
            return lm_fail(e, LM_USAGE, "engine options", LM_NO_OFFSET,
                           "weights of an engine of another kind cannot be used");
        g->weight[i]   = from->weight[i];
        g->matrices[i] = from->matrices[i];
    }
    g->weights = from->weights;
    return LM_OK;
}

static lm_status take_adapters(lm_engine *g, const lm_engine_options *o, lm_error *e)
{
    uint32_t n = lm_options_adapters(o);

    if (n && g->program != g->model->program)
        return lm_fail(e, LM_USAGE, "engine options", LM_NO_OFFSET,
                       "a separate program does not support adapters");
    LM_TRY(lm_engine_attach(g->model, o, &g->own_program, e));
    g->program      = g->own_program ? g->own_program : g->program;
    g->n_adapters   = n;
    g->adapters     = lm_arena_new(&g->arena, n + 1, const lm_adapter *);
    g->adapter_rows = lm_arena_new(&g->arena, n + 1, uint32_t);
    if (!g->adapters || !g->adapter_rows)
        return lm_fail_memory(e, "engine", 0);
    for (uint32_t k = 0; k < n; k++) {
        g->adapters[k] = o->adapters[k];
        if (o->adapter_scales && !isfinite(o->adapter_scales[k]))
            return lm_fail(e, LM_USAGE, g->adapters[k]->info.name, LM_NO_OFFSET,
                           "the scale of an adapter is not a finite number");
    }
    return LM_OK;
}

/* Allocate the tables in the arena. False: no memory. */
static bool take_tables(lm_engine *g)
{
    const lm_program *p = g->program;

    g->sent_rows = lm_arena_new(&g->arena, g->plan->options.max_rows, lm_row);
    g->weight    = lm_arena_new(&g->arena, p->n_weights + 1, const void *);
    g->pages     = lm_arena_new(&g->arena, g->plan->n_groups + 1, lm_pages);
    g->slopes    = lm_arena_new(&g->arena, p->n_caches + 1, const float *);
    g->matrices  = lm_arena_new(&g->arena, p->n_weights + 1, const void **);
    if (!g->sent_rows || !g->weight || !g->pages || !g->slopes || !g->matrices)
        return false;
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (p->weights[i].kind == LM_EXPERTS || p->weights[i].kind == LM_HEADS) {
            g->matrices[i] = lm_arena_new(&g->arena, p->weights[i].dims[0], const void *);
            if (!g->matrices[i])
                return false;
        }
    return true;
}

static lm_status open_engine(lm_engine *g, const lm_engine_options *o, const lm_engine_variant *v,
                             lm_error *e)
{
    static const lm_engine_options defaults;

    if (!g->model->tensors) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "this model has no weights and cannot be run");
        return lm_fail_in(e, g->model->source);
    }
    LM_TRY(take_adapters(g, o, e));
    const lm_dtype *types = v->caller_weights ? lm_caller_weight_types(g->program, &g->arena) : NULL;
    if (v->caller_weights && !types)
        return lm_fail_memory(e, "engine", 0);
    lm_engine_subject subject = { g->model, g->program, o, types, v->kept, v->n_kept,
                                  v->caller_weights != NULL };
    LM_TRY(lm_engine_plan(&subject, &g->kernels, &g->arena, &g->plan, e));
    g->borrows = v->weights != NULL;
    if (!take_tables(g))
        return lm_fail_memory(e, "engine", 0);
    g->hidden        = o && o->hidden ? lm_program_hidden(g->program) : LM_NONE;
    g->threads       = lm_options_threads(o ? o : &defaults);
    g->threads_batch = lm_options_threads_batch(o ? o : &defaults);
    LM_TRY(lm_pool_new(g->plan->options.workers, &g->pool, e));
    LM_TRY(take_memory(g, e));
    lay_out(g);
    lm_engine_adapters_begin(g, o);
    lm_kv_reset(g);
    if (g->borrows) {
        LM_TRY(borrow_weights(g, v->weights, e));
        lm_engine_load_tables(g);
    } else if (v->caller_weights) {
        LM_TRY(lm_engine_load_caller_weights(g, v->caller_weights, v->caller_weights_arg, o, e));
    } else {
        LM_TRY(lm_engine_load(g, o ? o : &defaults, e));
    }
    return lm_ahead_new(g, e);
}

static void log_engine(const lm_engine *g, const lm_log *log)
{
    uint32_t context = g->plan->options.context, made_for = g->program->context_length;

    if (made_for && context > made_for)
        lm_log_line(log, LM_LOG_WARNING,
                    "the context of %u positions is longer than the %u that the model was made for", context,
                    made_for);
    lm_log_line(log, LM_LOG_INFO,
                "engine: %s, %u threads (prompts %u), context %u; weights %" PRIu64 " bytes, cache %" PRIu64
                ", scratch %" PRIu64,
                lm_cpu_name(g->kernels.cpu), g->threads, g->threads_batch, context, g->allocated.weights,
                g->allocated.kv, g->allocated.scratch);
}

lm_status lm_engine_new(const lm_model *m, const lm_engine_options *o, lm_engine **out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, o);
    return lm_engine_new_variant(m, o, &(lm_engine_variant){ 0 }, out, e);
}

lm_status lm_engine_new_variant(const lm_model *m, const lm_engine_options *o, const lm_engine_variant *v,
                                lm_engine **out, lm_error *e)
{
    lm_engine *g = lm_alloc_zero(1, sizeof *g);

    if (!g)
        return lm_fail_memory(e, "engine", sizeof *g);
    g->model   = m;
    g->program = v->program ? v->program : m->program;
    lm_status status = lm_broadcast_new(g, o, e);
    if (status == LM_OK)
        status = lm_broadcast_agree(g, open_engine(g, o, v, e), e);
    if (status != LM_OK) {
        lm_engine_free(g);
        return status;
    }
    if (o)
        log_engine(g, &o->log);
    *out = g;
    return LM_OK;
}

void lm_engine_free(lm_engine *g)
{
    if (!g)
        return;
    lm_broadcast(g, LM_BROADCAST_FREE, 0, 0, 0, 0);
    lm_pool_free(g->pool);
    lm_profiler_free(g->profiler);
    lm_engine_observe_end(g);
    if (g->plan) {
        if (!g->borrows)
            lm_free_aligned(g->weights, g->plan->weight_bytes);
        lm_free_aligned(g->kv, g->plan->kv_bytes);
        lm_free_aligned(g->slab, g->plan->slab_bytes);
    }
    lm_plan_free(g->plan);
    lm_program_free(g->own_program);
    lm_arena_free(&g->arena);
    lm_free(g);
}

/* ---- the forward pass ---- */

static lm_status check_row(lm_engine *g, const lm_row *r, size_t i, lm_error *e)
{
    char where[32];

    snprintf(where, sizeof where, "row %zu", i);
    if (r->sequence >= g->plan->options.sequences)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "sequence %u of %u", r->sequence,
                       g->plan->options.sequences);
    if (r->token < 0 || (uint32_t)r->token >= g->program->n_vocab)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "token %d is outside the vocabulary of %u", r->token,
                       g->program->n_vocab);
    if (r->position != g->seq_next[r->sequence])
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "position %u; the next one of sequence %u is %u",
                       r->position, r->sequence, g->seq_next[r->sequence]);
    if (r->position >= g->plan->options.context)
        return lm_fail(e, LM_LIMIT, where, LM_NO_OFFSET, "the context of %u positions is full",
                       g->plan->options.context);
    if (r->logits && g->n_wanted >= g->plan->options.max_logits)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "more than %u rows want logits",
                       g->plan->options.max_logits);
    return LM_OK;
}

/* Check the rows and copy them into the engine's arrays. */
static lm_status take_rows(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    g->n_rows = g->n_wanted = 0;
    for (uint32_t s = 0; s < g->plan->options.sequences; s++)
        g->seq_next[s] = g->seq_length[s];
    if (n < 1 || n > g->plan->options.max_rows)
        return lm_fail(e, LM_USAGE, "rows", LM_NO_OFFSET, "%zu in a forward pass; 1 to %u are possible", n,
                       g->plan->options.max_rows);
    for (size_t i = 0; i < n; i++) {
        LM_TRY(check_row(g, &rows[i], i, e));
        g->seq_next[rows[i].sequence]++;
        g->positions[i]   = rows[i].position;
        g->sequences[i]   = rows[i].sequence;
        g->tokens[i]      = rows[i].token;
        g->logit_index[i] = rows[i].logits ? g->n_wanted : LM_NONE;
        if (rows[i].logits)
            g->wanted[g->n_wanted++] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++)
        g->lengths[i] = g->seq_next[rows[i].sequence];
    return LM_OK;
}

lm_status lm_engine_check(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    LM_REQUIRE(e, g && (rows || !n));
    LM_TRY(take_rows(g, rows, n, e));
    return lm_kv_fits(g, e);
}

lm_status lm_engine_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    LM_REQUIRE(e, g && (rows || !n));
    LM_TRY(take_rows(g, rows, n, e));
    LM_TRY(lm_kv_reserve(g, e));
    g->n_rows = (uint32_t)n;
    lm_engine_adapt_rows(g);
    lm_status status = lm_broadcast_step(g, rows, n, e);
    if (status == LM_OK)
        status = lm_engine_execute(g, e);
    lm_kv_end_step(g, status == LM_OK);
    if (status != LM_OK) {
        g->n_rows = 0;
        for (uint32_t s = 0; s < g->plan->options.sequences; s++)
            if (g->seq_next[s] != g->seq_length[s])
                lm_kv_release(g, s, g->seq_length[s]);
        return status;
    }
    for (uint32_t s = 0; s < g->plan->options.sequences; s++)
        g->seq_length[s] = g->seq_next[s];
    if (g->after)
        g->after(g->after_arg, g);
    return LM_OK;
}
