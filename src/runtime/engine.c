/* engine.c - options, a plan, memory, and the step. */
#include "runtime/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/profile.h"

/* ---- from options to a plan ---- */

lm_status lm_kv_dtype(lm_kv_type kv, lm_dtype *out, lm_error *e)
{
    static const lm_dtype types[] = { [LM_KV_F16] = LM_F16, [LM_KV_F32] = LM_F32, [LM_KV_BF16] = LM_BF16, [LM_KV_Q8_0] = LM_Q8_0 };

    if ((unsigned)kv >= sizeof types / sizeof *types)
        return lm_fail(e, LM_USAGE, "engine options", LM_NO_OFFSET, "there is no such cache type");
    *out = types[kv];
    return LM_OK;
}

static lm_status find_probes(const lm_program *p, const char *const *paths, lm_arena *arena, lm_value **out, uint32_t *n, lm_error *e)
{
    *n = 0;
    while (paths && paths[*n])
        ++*n;
    *out = lm_arena_new(arena, *n + 1, lm_value);
    if (!*out)
        return lm_fail_memory(e, "probes", 0);
    for (uint32_t i = 0; i < *n; i++) {
        (*out)[i] = lm_program_value(p, paths[i]);
        if ((*out)[i] == LM_NONE)
            return lm_fail(e, LM_USAGE, paths[i], LM_NO_OFFSET, "the program computes no value of this name");
    }
    return LM_OK;
}

static uint32_t threads_of(const lm_engine_options *o)
{
    return o->threads ? o->threads : lm_cpu_cores();
}

static uint32_t batch_threads_of(const lm_engine_options *o)
{
    return o->threads_batch ? o->threads_batch : threads_of(o);
}

lm_status lm_engine_plan(const lm_model *m, const lm_engine_options *o, const lm_dtype *types, lm_kernels *k, lm_arena *arena,
                         lm_plan **out, lm_error *e)
{
    static const lm_engine_options defaults;
    lm_plan_options                p = { 0 };
    lm_cpu                         cpu;
    lm_value                      *probes;

    o = o ? o : &defaults;
    if ((unsigned)o->compute > LM_COMPUTE_FINE)
        return lm_fail(e, LM_USAGE, "engine options", LM_NO_OFFSET, "there is no such arithmetic");
    LM_TRY(lm_kv_dtype(o->kv, &p.kv_type, e));
    LM_TRY(lm_cpu_choose(o->cpu, &cpu, e));
    lm_kernels_init(k, cpu);
    LM_TRY(find_probes(m->program, o->probes, arena, &probes, &p.n_probes, e));
    p.probes       = probes;
    p.sequences    = o->sequences ? o->sequences : 1;
    p.rows         = o->rows ? o->rows : 512;
    p.logit_rows   = o->logit_rows ? o->logit_rows : p.sequences < p.rows ? p.sequences : p.rows;
    p.context      = o->context ? o->context : m->program->context_length;
    p.kv_positions = o->kv_positions;
    p.rollback     = o->rollback;
    p.exact        = o->compute == LM_COMPUTE_F32;
    p.fine         = o->compute == LM_COMPUTE_FINE;
    p.no_repack    = o->no_repack;
    p.workers      = threads_of(o) > batch_threads_of(o) ? threads_of(o) : batch_threads_of(o);
    p.kernels      = k;
    p.types        = types ? types : m->types;
    p.turned       = types ? NULL : m->turned;
    return lm_plan_new(m->program, &p, out, e);
}

static lm_memory sizes_of(const lm_plan *p)
{
    return (lm_memory){ p->weight_bytes, p->mapped_bytes, p->kv_bytes, p->slab_bytes, p->weight_bytes + p->kv_bytes + p->slab_bytes };
}

lm_status lm_engine_predict(const lm_model *m, const lm_engine_options *o, lm_memory *out, lm_error *e)
{
    lm_kernels k;
    lm_arena   arena  = { 0 };
    lm_plan   *plan   = NULL;
    lm_status  status = lm_engine_plan(m, o, NULL, &k, &arena, &plan, e);

    if (status == LM_OK)
        *out = sizes_of(plan);
    lm_plan_free(plan);
    lm_arena_free(&arena);
    return status;
}

lm_status lm_engine_plan_text(const lm_model *m, const lm_engine_options *o, lm_text *out, lm_error *e)
{
    lm_kernels k;
    lm_arena   arena  = { 0 };
    lm_plan   *plan   = NULL;
    lm_buf     b      = { 0 };
    lm_status  status = lm_engine_plan(m, o, NULL, &k, &arena, &plan, e);

    if (status == LM_OK) {
        lm_plan_print(plan, &b);
        if (b.failed)
            status = lm_fail_memory(e, "plan", 0);
    }
    lm_plan_free(plan);
    lm_arena_free(&arena);
    if (status == LM_OK)
        *out = (lm_text){ b.data, b.size, b.capacity };
    else
        lm_buf_free(&b);
    return status;
}

/* ---- memory ---- */

static lm_status take(uint8_t **out, uint64_t bytes, uint64_t *counted, const char *what, lm_error *e)
{
    uint64_t before = lm_alloc_statistics().aligned_bytes;

    *out = lm_alloc_aligned(bytes, 64);
    if (!*out)
        return lm_fail(e, LM_NO_FIT, what, LM_NO_OFFSET, "%" PRIu64 " bytes cannot be had", bytes);
    *counted = lm_alloc_statistics().aligned_bytes - before;
    return LM_OK;
}

static lm_status take_memory(lm_engine *g, lm_error *e)
{
    const lm_plan *p         = g->plan;
    lm_memory      m         = sizes_of(p);
    uint64_t       available = lm_memory_available();

    if (m.total > available) {
        lm_fail(e, LM_NO_FIT, "memory", LM_NO_OFFSET,
                       "the plan takes %" PRIu64 " bytes (weights %" PRIu64 ", cache %" PRIu64 ", scratch %" PRIu64 "), %" PRIu64
                       " are available",
                m.total, m.weights, m.kv, m.scratch, available);
        if (m.weights > available / 2 && !p->options.no_repack)
            lm_fail_hint(e, "--no-repack runs from the file and takes memory for the rest only");
        return LM_NO_FIT;
    }
    LM_TRY(take(&g->weights, p->weight_bytes, &g->allocated.weights, "weights", e));
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
    uint32_t *tables = words_at(g, s->page_tables), *uses = words_at(g, s->page_uses), *free_pages = words_at(g, s->page_free);

    g->positions   = words_at(g, s->positions);
    g->sequences   = words_at(g, s->sequences);
    g->lengths     = words_at(g, s->lengths);
    g->wanted      = words_at(g, s->wanted);
    g->logit_index = words_at(g, s->logit_index);
    g->seq_length  = words_at(g, s->seq_length);
    g->seq_next    = words_at(g, s->seq_next);
    g->ranges_done = (atomic_uint *)(void *)(g->slab + s->ranges_done);
    g->tokens      = (int32_t *)words_at(g, s->tokens);
    for (uint32_t i = 0; i < g->plan->n_groups; i++) {
        const lm_kv_group *k = &g->plan->groups[i];
        g->pages[i]          = (lm_pages){ tables, uses, free_pages, 0 };
        tables += (size_t)g->plan->options.sequences * k->pages_per_sequence;
        uses += k->n_pages;
        free_pages += k->n_pages;
    }
}

static lm_status open_engine(lm_engine *g, const lm_engine_options *o, lm_error *e)
{
    static const lm_engine_options defaults;

    if (!g->model->tensors)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "a description without weights cannot be run"), lm_fail_in(e, g->model->source);
    LM_TRY(lm_engine_plan(g->model, o, NULL, &g->kernels, &g->arena, &g->plan, e));
    g->weight = lm_arena_new(&g->arena, g->program->n_weights + 1, const void *);
    g->pages  = lm_arena_new(&g->arena, g->plan->n_groups + 1, lm_pages);
    g->slopes   = lm_arena_new(&g->arena, g->program->n_caches + 1, const float *);
    g->matrices = lm_arena_new(&g->arena, g->program->n_weights + 1, const void **);
    bool whole = g->weight && g->pages && g->slopes && g->matrices;
    for (uint32_t i = 0; whole && i < g->program->n_weights; i++)
        if (g->program->weights[i].kind == LM_EXPERTS || g->program->weights[i].kind == LM_HEADS) {
            g->matrices[i] = lm_arena_new(&g->arena, g->program->weights[i].dims[0], const void *);
            whole         = g->matrices[i];
        }
    if (!whole)
        return lm_fail_memory(e, "engine", 0);
    g->threads       = threads_of(o ? o : &defaults);
    g->threads_batch = batch_threads_of(o ? o : &defaults);
    LM_TRY(lm_pool_new(g->plan->options.workers, &g->pool, e));
    LM_TRY(take_memory(g, e));
    lay_out(g);
    lm_kv_reset(g);
    LM_TRY(lm_engine_load(g, o ? o : &defaults, e));
    return lm_ahead_new(g, e);
}

lm_status lm_engine_new(const lm_model *m, const lm_engine_options *o, lm_engine **out, lm_error *e)
{
    lm_engine *g = lm_alloc_zero(1, sizeof *g);

    if (!g)
        return lm_fail_memory(e, "engine", sizeof *g);
    g->model   = m;
    g->program = m->program;
    lm_status status = open_engine(g, o, e);
    if (status != LM_OK) {
        lm_engine_free(g);
        return status;
    }
    *out = g;
    return LM_OK;
}

void lm_engine_free(lm_engine *g)
{
    if (!g)
        return;
    lm_pool_free(g->pool);
    lm_profiler_free(g->profiler);
    if (g->plan) {
        lm_free_aligned(g->weights, g->plan->weight_bytes);
        lm_free_aligned(g->kv, g->plan->kv_bytes);
        lm_free_aligned(g->slab, g->plan->slab_bytes);
    }
    lm_plan_free(g->plan);
    lm_arena_free(&g->arena);
    lm_free(g);
}

/* ---- the step ---- */

static lm_status check_row(lm_engine *g, const lm_row *r, size_t i, lm_error *e)
{
    char where[32];

    snprintf(where, sizeof where, "row %zu", i);
    if (r->sequence >= g->plan->options.sequences)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "sequence %u of %u", r->sequence, g->plan->options.sequences);
    if (r->token < 0 || (uint32_t)r->token >= g->program->n_vocab)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "token %d is outside the vocabulary of %u", r->token, g->program->n_vocab);
    if (r->position != g->seq_next[r->sequence])
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "position %u; the next one of sequence %u is %u", r->position, r->sequence,
                       g->seq_next[r->sequence]);
    if (r->position >= g->plan->options.context)
        return lm_fail(e, LM_LIMIT, where, LM_NO_OFFSET, "the context of %u positions is full", g->plan->options.context);
    if (r->logits && g->n_wanted >= g->plan->options.logit_rows)
        return lm_fail(e, LM_USAGE, where, LM_NO_OFFSET, "more than %u rows want logits", g->plan->options.logit_rows);
    return LM_OK;
}

/* The rows into the engine's arrays. */
static lm_status take_rows(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    g->n_rows = g->n_wanted = 0;
    memcpy(g->seq_next, g->seq_length, g->plan->options.sequences * sizeof *g->seq_next);
    if (n < 1 || n > g->plan->options.rows)
        return lm_fail(e, LM_USAGE, "rows", LM_NO_OFFSET, "%zu in a step; 1 to %u are possible", n, g->plan->options.rows);
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

lm_status lm_engine_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    LM_TRY(take_rows(g, rows, n, e));
    LM_TRY(lm_kv_reserve(g, e));
    g->n_rows        = (uint32_t)n;
    lm_status status = lm_engine_execute(g, e);
    if (status != LM_OK) {
        g->n_rows = 0;
        for (uint32_t s = 0; s < g->plan->options.sequences; s++)
            if (g->seq_next[s] != g->seq_length[s])
                lm_kv_release(g, s, g->seq_length[s]);
        return status;
    }
    memcpy(g->seq_length, g->seq_next, g->plan->options.sequences * sizeof *g->seq_length);
    return LM_OK;
}

/* ---- looking ---- */

static const float *value_at(const lm_engine *g, uint32_t buffer, size_t i)
{
    const lm_buffer *b   = &g->plan->buffers[buffer];
    size_t           row = b->domain == LM_ALL_ROWS ? i : g->logit_index[i];

    return (const float *)(const void *)(g->slab + b->offset + row * b->stride);
}

const float *lm_engine_logits(const lm_engine *g, size_t i)
{
    if (i >= g->n_rows || g->logit_index[i] == LM_NONE)
        return NULL;
    return value_at(g, g->plan->logits, i);
}

const float *lm_engine_probe(const lm_engine *g, const char *path, size_t i, uint32_t *width)
{
    lm_value v = lm_program_value(g->program, path);

    for (uint32_t k = 0; v != LM_NONE && i < g->n_rows && k < g->plan->options.n_probes; k++)
        if (g->plan->options.probes[k] == v) {
            if (width)
                *width = g->program->values[v].width;
            return value_at(g, g->plan->value_buffer[v], i);
        }
    return NULL;
}

void lm_engine_allocated(const lm_engine *g, lm_memory *out)
{
    *out = g->allocated;
}

const char *lm_engine_cpu(const lm_engine *g)
{
    return lm_cpu_name(g->kernels.cpu);
}

uint32_t lm_engine_threads(const lm_engine *g)
{
    return g->threads;
}

uint32_t lm_engine_threads_batch(const lm_engine *g)
{
    return g->threads_batch;
}

uint32_t lm_engine_context(const lm_engine *g)
{
    return g->plan->options.context;
}

uint32_t lm_engine_max_rows(const lm_engine *g)
{
    return g->plan->options.rows;
}

uint32_t lm_engine_length(const lm_engine *g, uint32_t sequence)
{
    return sequence < g->plan->options.sequences ? g->seq_length[sequence] : 0;
}

/* Rows from position `from` on whose frequencies are the same together and one by one. */
static uint32_t same_frequencies(const lm_rope_spec *s, uint32_t from, uint32_t n)
{
    if (!lm_rope_depends_on_length(s) || from + n <= s->original_context)
        return n;
    if (from < s->original_context)
        return s->original_context - from;
    return s->type == LM_ROPE_DYNAMIC ? 1 : n;
}

uint32_t lm_engine_ahead(const lm_engine *g, uint32_t sequence)
{
    const lm_plan_options *o = &g->plan->options;
    uint32_t               from = lm_engine_length(g, sequence), n = o->context - from;

    n = n < o->rows ? n : o->rows;
    n = n < o->logit_rows ? n : o->logit_rows;
    for (uint32_t i = 0; n && i < g->program->n_ropes; i++)
        n = same_frequencies(&g->program->ropes[i].spec, from, n);
    return n;
}

void lm_engine_cancel(lm_engine *g)
{
    atomic_store(&g->cancel, true);
}

bool lm_engine_cancelled(lm_engine *g)
{
    return atomic_load_explicit(&g->cancel, memory_order_relaxed) && atomic_exchange(&g->cancel, false);
}
