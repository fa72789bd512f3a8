/* state.c - read the state of an engine; the flag that cancels a step. */
#include "runtime/engine/state.h"

static float *value_at(const lm_engine *g, uint32_t buffer, size_t i)
{
    const lm_buffer *b   = &g->plan->buffers[buffer];
    size_t           row = b->domain == LM_ALL_ROWS ? i : g->logit_index[i];

    return (float *)(void *)(g->slab + b->offset + row * b->stride);
}

static float *logits_of(const lm_engine *g, size_t i)
{
    if (!g)
        return NULL;
    if (i >= g->n_rows || g->logit_index[i] == LM_NONE)
        return NULL;
    return value_at(g, g->plan->logits, i);
}

const float *lm_engine_logits(const lm_engine *g, size_t i)
{
    return logits_of(g, i);
}

float *lm_engine_logits_mut(lm_engine *g, size_t i)
{
    return logits_of(g, i);
}

static bool is_kept(const lm_engine *g, lm_value v)
{
    for (uint32_t k = 0; k < g->plan->options.n_probes; k++)
        if (g->plan->options.probes[k] == v)
            return true;
    return false;
}

const float *lm_engine_probe(const lm_engine *g, const char *path, size_t i, uint32_t *width)
{
    if (!g || !path)
        return NULL;
    lm_value v = lm_program_value(g->program, path);

    if (v == LM_NONE || i >= g->n_rows || !is_kept(g, v))
        return NULL;
    if (width)
        *width = g->program->values[v].width;
    return value_at(g, g->plan->value_buffer[v], i);
}

const float *lm_engine_hidden(const lm_engine *g, size_t i)
{
    return !g || g->hidden == LM_NONE || i >= g->n_rows ? NULL
                                                        : value_at(g, g->plan->value_buffer[g->hidden], i);
}

uint32_t lm_engine_hidden_width(const lm_engine *g)
{
    return !g || g->hidden == LM_NONE ? 0 : g->program->values[g->hidden].width;
}

void lm_engine_allocated(const lm_engine *g, lm_memory *out)
{
    if (out)
        *out = g ? g->allocated : (lm_memory){ 0 };
}

const char *lm_engine_cpu(const lm_engine *g)
{
    return g ? lm_cpu_name(g->kernels.cpu) : NULL;
}

uint32_t lm_engine_threads(const lm_engine *g)
{
    return g ? g->threads : 0;
}

uint32_t lm_engine_threads_batch(const lm_engine *g)
{
    return g ? g->threads_batch : 0;
}

uint32_t lm_engine_context(const lm_engine *g)
{
    return g ? g->plan->options.context : 0;
}

uint32_t lm_engine_max_rows(const lm_engine *g)
{
    return g ? g->plan->options.max_rows : 0;
}

uint32_t lm_engine_max_logits(const lm_engine *g)
{
    return g ? g->plan->options.max_logits : 0;
}

uint32_t lm_engine_sequences(const lm_engine *g)
{
    return g ? g->plan->options.sequences : 0;
}

const lm_model *lm_engine_model(const lm_engine *g)
{
    return g ? g->model : NULL;
}

uint32_t lm_engine_length(const lm_engine *g, uint32_t sequence)
{
    if (!g)
        return 0;
    return sequence < g->plan->options.sequences ? g->seq_length[sequence] : 0;
}

/* Return how many rows from position `from` on have the same frequencies together as one by one. */
static uint32_t same_frequencies(const lm_rope_spec *s, uint32_t from, uint32_t n)
{
    if (!lm_rope_depends_on_length(s) || from + n <= s->original_context)
        return n;
    if (from < s->original_context)
        return s->original_context - from;
    return s->type == LM_ROPE_DYNAMIC ? 1 : n;
}

uint32_t lm_engine_uniform_rows(const lm_engine *g, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; n && i < g->program->n_ropes; i++)
        n = same_frequencies(&g->program->ropes[i].spec, from, n);
    return n;
}

uint32_t lm_engine_rows_to_keep(const lm_engine *g, uint32_t from, uint32_t n)
{
    uint32_t end = from + n, kept = n ? (end - 1) / LM_PAGE * LM_PAGE : 0;

    return g->program->n_states && kept > from ? kept - from : n;
}

uint32_t lm_engine_ahead(const lm_engine *g, uint32_t sequence)
{
    if (!g)
        return 0;
    const lm_plan_options *o = &g->plan->options;
    uint32_t               from = lm_engine_length(g, sequence), n = o->context - from;

    n = n < o->max_rows ? n : o->max_rows;
    n = n < o->max_logits ? n : o->max_logits;
    return lm_engine_uniform_rows(g, from, n);
}

void lm_engine_cancel(lm_engine *g)
{
    if (!g)
        return;
    atomic_store(&g->cancel, true);
}

bool lm_engine_cancelled(lm_engine *g)
{
    return g ? atomic_load_explicit(&g->cancel, memory_order_relaxed) && atomic_exchange(&g->cancel, false)
             : false;
}
