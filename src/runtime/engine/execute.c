/* execute.c - run a plan. It depends on steps and buffers, not on models. */
#include "runtime/engine/execute.h"

#include <math.h>
#include <string.h>

#include "base/os/filemap.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/ahead.h"
#include "runtime/model/exchange.h"
#include "runtime/engine/observe.h"
#include "runtime/engine/profile.h"
#include "runtime/engine/steps.h"
#include "runtime/ops/rowops.h"

/* ---- steps by rows: rows [from, to) of the step's domain ---- */

/* Return the rotary frequencies for a forward pass that makes the row's sequence `length` positions long. */
static const float *frequencies(lm_engine *g, uint32_t table, uint32_t length, float *scratch, float *factor)
{
    const lm_rope_spec *s = &g->program->ropes[table].spec;

    if (s->type == LM_ROPE_DYNAMIC) {
        const void *divisors = g->program->ropes[table].divisors == LM_NONE
                                   ? NULL
                                   : g->weight[g->program->ropes[table].divisors];
        *factor              = lm_rope_frequencies(s, length, divisors, NULL, scratch);
        return scratch;
    }
    bool is_long = lm_rope_is_long(s, length);
    *factor      = g->rope_factor[table][is_long];
    return g->frequencies[table] + (is_long ? s->dim / 2 : 0);
}

static void run_table(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    lm_engine   *g    = p->g;
    uint32_t     half = g->program->ropes[s->table].spec.dim / 2, length = 0;
    const float *inv    = NULL;
    float        factor = 1;
    bool         backwards = g->program->ropes[s->table].spec.backwards;
    uint32_t     rate      = g->program->ropes[s->table].spec.rate;

    for (uint64_t i = from; i < to; i++) {
        if (!inv || g->lengths[i] != length) {
            length = g->lengths[i];
            inv    = frequencies(g, s->table, length, (float *)(void *)scratch_of(g, p->worker), &factor);
        }
        float *cosine = floats_at(g, s->out, i), *sine = cosine + half,
              position = (float)(g->positions[i] - (rate ? g->positions[i] % rate : 0));
        for (uint32_t k = 0; k < half; k++) {
            float angle = position * inv[k];
            cosine[k]   = cosf(angle) * factor;
            sine[k]     = sinf(angle) * (backwards ? -factor : factor);
        }
    }
}

static void run_embed(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_node *n = &p->g->program->nodes[s->node];

    for (uint64_t i = from; i < to; i++)
        look_up(p, s, n->weights[0],
                lm_row_of_token(p->g->program, n, (uint64_t)p->g->tokens[row_number(p->g, s->domain, i)]),
                floats_at(p->g, s->out, i));
}

static void run_position(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_node *n = &p->g->program->nodes[s->node];

    for (uint64_t i = from; i < to; i++)
        look_up(p, s, n->weights[0],
                (uint64_t)p->g->positions[row_number(p->g, s->domain, i)] + n->position.offset,
                floats_at(p->g, s->out, i));
}

static void run_gather(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    uint64_t bytes = p->g->plan->buffers[s->out].stride;

    for (uint64_t i = from; i < to; i++)
        memcpy(row_at(p->g, s->out, i), row_at(p->g, s->in[0], p->g->wanted[i]), bytes);
}

static void run_pack(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_activation *a     = s->matmul->x;
    uint64_t             bytes = s->groups > 1 ? a->bytes(s->width) : 0;
    bool rounded = p->g->program->nodes[s->node].code == LM_OP_ROUND && a->pack_rounded;
    void (*pack)(void *, const float *, uint64_t) = rounded ? a->pack_rounded
                                                    : p->g->plan->options.fine && a->pack_fine ? a->pack_fine
                                                                                               : a->pack;

    for (uint64_t i = from; i < to; i++)
        for (uint64_t k = 0; k < s->groups; k++)
            pack(row_at(p->g, s->out, i) + k * bytes, floats_at(p->g, s->in[0], i) + k * s->width, s->width);
    if (p->g->observer)
        lm_observe_packed(p->g, s, from, to);
}

/* Store consecutive rows of one sequence in the same page together. */
static void run_store(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_engine   *g = p->g;
    const lm_kv_layer *l = &g->plan->layers[g->program->nodes[s->node].attention.cache];
    bool               values = s->in[1] != LM_NONE;
    uint64_t           k_stride = g->plan->buffers[s->in[0]].stride / sizeof(float), n;
    uint64_t           v_stride = values ? g->plan->buffers[s->in[1]].stride / sizeof(float) : 0;

    for (uint64_t i = from; i < to; i += n) {
        layer_pages at       = pages_of(g, l, g->sequences[i]);
        uint32_t    position = g->positions[i], slot = position % LM_PAGE;
        for (n = 1; i + n < to && slot + n < LM_PAGE; n++)
            if (g->sequences[i + n] != g->sequences[i] || g->positions[i + n] != position + n)
                break;
        g->plan->attention->store(&l->shape, at.base + at.pages[position / LM_PAGE] * at.stride, slot,
                                  (uint32_t)n, floats_at(g, s->in[0], i), k_stride,
                                  values ? floats_at(g, s->in[1], i) : NULL, v_stride);
    }
}

/* Add the contribution of an adapter; rows without it are unchanged. */
static void run_adapted_sum(const stage_chunk *p, const lm_step *s, uint64_t begin, uint64_t end)
{
    uint64_t width = width_of(p->g, p->g->program->nodes[s->node].out);
    float    scale;

    if (s->out != s->in[0])
        for (uint64_t i = begin; i < end; i++)
            memcpy(floats_at(p->g, s->out, i), floats_at(p->g, s->in[0], i), width * sizeof(float));
    for (uint64_t from = begin, to; adapted_rows(p->g, s, end, &from, &to, &scale); from = to)
        for (uint64_t i = from; i < to; i++)
            p->g->kernels.row.add(floats_at(p->g, s->out, i), floats_at(p->g, s->out, i),
                                  floats_at(p->g, s->in[1], i), scale, width);
}

/* Multiply gate and up of an assignment by its weight: the same as of the input, because they have no
 * biases. */
static void weigh_input(const stage_chunk *p, const lm_step *s, uint64_t i, float *gate, float *up)
{
    lm_dispatch  v     = lm_dispatch_of(p->g, s, s->in[2]);
    const float *route = floats_at(p->g, s->in[3], v.row[i]);
    float        w     = route[lm_choice_of(v.row, v.place, v.k, i)];

    p->g->kernels.row.scale(gate, gate, w, s->width);
    p->g->kernels.row.scale(up, up, w, s->width);
}

/* Gate the assignments of a mixture. */
static void run_gated(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_node *n = &p->g->program->nodes[s->node];

    for (uint64_t i = from; i < to; i++) {
        float *y = floats_at(p->g, s->out, i), *gate = floats_at(p->g, s->in[0], i),
              *up = floats_at(p->g, s->in[1], i);
        if (n->experts.scaled_input)
            weigh_input(p, s, i, gate, up);
        if (n->experts.limit > 0)
            p->g->kernels.row.glu_clamped(y, gate, up, n->experts.act, n->experts.limit, n->experts.plus,
                                          s->width);
        else
            p->g->kernels.row.glu(y, gate, up, n->experts.act, s->width);
    }
}

/* Return row i received from rank r: ranks in order, all rows of each. */
static const float *came_at(const stage_chunk *p, const lm_step *s, uint32_t r, uint64_t i)
{
    const lm_node *n  = &p->g->program->nodes[s->node];
    uint64_t       at = 0;

    for (uint32_t q = 0; q < r; q++)
        at += lm_rank_stride(p->g->program, n, q) * rows_of(p->g, s->domain);
    return (const float *)(const void *)(row_at(p->g, s->in[0], 0) + at +
                                         lm_rank_stride(p->g->program, n, r) * i);
}

static void run_rank_sum(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    uint32_t ranks = p->g->program->nodes[s->node].exchange.ranks;

    for (uint64_t i = from; i < to; i++) {
        float *y = floats_at(p->g, s->out, i);
        memcpy(y, came_at(p, s, 0, i), s->width * sizeof *y);
        for (uint32_t r = 1; r < ranks; r++)
            p->g->kernels.row.add(y, y, came_at(p, s, r, i), 1, s->width);
    }
}

static void run_rank_lanes(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_node *n = &p->g->program->nodes[s->node];

    for (uint64_t i = from; i < to; i++) {
        float *y = floats_at(p->g, s->out, i);
        for (uint32_t r = 0; r < n->exchange.ranks; y += n->exchange.widths[r++])
            memcpy(y, came_at(p, s, r, i), n->exchange.widths[r] * sizeof *y);
    }
}

static void run_input(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    uint64_t width = width_of(p->g, p->g->program->nodes[s->node].out);

    for (uint64_t i = from; i < to; i++)
        memcpy(floats_at(p->g, s->out, i), p->g->tail_input + row_number(p->g, s->domain, i) * width,
               width * sizeof(float));
}

typedef void (*row_step)(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to);

/* Operations on single rows that need more of the engine than their rows. */
static const row_step own_operations[LM_OP_COUNT] = {
    [LM_OP_EMBED] = run_embed,
    [LM_OP_POSITION] = run_position,
    [LM_OP_EDIT] = lm_run_edit,
    [LM_OP_INPUT] = run_input,
};

static lm_operand operand_of(const lm_engine *g, uint32_t buffer)
{
    if (buffer == LM_NONE)
        return (lm_operand){ 0 };
    return (lm_operand){ floats_at(g, buffer, 0), g->plan->buffers[buffer].stride / sizeof(float) };
}

static void run_operation(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_engine *g = p->g;
    const lm_node   *n = &g->program->nodes[s->node];

    if (own_operations[n->code]) {
        own_operations[n->code](p, s, from, to);
        return;
    }
    lm_rows r = {
        .program   = g->program,
        .node      = n,
        .kernels   = &g->kernels.row,
        .out       = operand_of(g, s->out),
        .positions = g->positions,
        .tokens    = g->tokens,
        .numbers   = s->domain == LM_ALL_ROWS ? NULL : g->wanted,
    };
    for (uint32_t k = 0; k < LM_MAX_INPUTS; k++)
        r.in[k] = operand_of(g, s->in[k]);
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        r.weights[k] = weight_of(g, n, k);
    if (n->code == LM_OP_ROPE)
        r.rotation = operand_of(g, g->plan->table_buffer[n->rope.table]);
    lm_row_ops[n->code]->forward(&r, from, to);
}

static const row_step row_steps[] = {
    [LM_STEP_TABLE] = run_table,           [LM_STEP_ROWS] = run_operation,
    [LM_STEP_GATHER] = run_gather,         [LM_STEP_PACK] = run_pack,
    [LM_STEP_KEEP] = lm_run_keep,
    [LM_STEP_STORE] = run_store,           [LM_STEP_DISPATCH] = lm_run_dispatch,
    [LM_STEP_GATED] = run_gated,           [LM_STEP_COMBINE] = lm_run_combine,
    [LM_STEP_RANK_SUM] = run_rank_sum,     [LM_STEP_RANK_LANES] = run_rank_lanes,
};

static void run_rows(const stage_chunk *p, const lm_step *s, uint64_t begin, uint64_t end)
{
    float scale;

    if (!s->adapter)
        row_steps[s->code](p, s, begin, end);
    else if (lm_step_is(p->g->program, s, LM_OP_ADD))
        run_adapted_sum(p, s, begin, end);
    else
        for (uint64_t from = begin, to; adapted_rows(p->g, s, end, &from, &to, &scale); from = to)
            row_steps[s->code](p, s, from, to);
}

/* ---- products, by outputs ---- */

static void run_matmul(const stage_chunk *p, const lm_step *s)
{
    lm_engine       *g    = p->g;
    const lm_node   *n    = &g->program->nodes[s->node];
    const lm_weight *w    = &g->program->weights[n->weights[0]];
    const float     *factor = weight_of(g, n, 2);
    uint64_t         from, to;

    lm_chunk_outputs(lm_pool_used(g->pool), w->dims[0], s->matmul->row_group, p->index, p->count, &from, &to);
    if (from == to)
        return;
    lm_matmul_args a = {
        .rows       = w->dims[0],
        .cols       = w->dims[1],
        .first      = from,
        .last       = to,
        .x          = row_at(g, s->in[0], 0),
        .x_stride   = g->plan->buffers[s->in[0]].stride,
        .n          = rows_of(g, s->domain),
        .y          = floats_at(g, s->out, 0),
        .y_stride   = g->plan->buffers[s->out].stride / sizeof(float),
        .bias       = weight_of(g, n, 1),
        .add        = s->add == LM_NONE ? NULL : floats_at(g, s->add, 0),
        .add_stride = s->add == LM_NONE ? 0 : g->plan->buffers[s->add].stride / sizeof(float),
        .scale      = s->scale * (factor ? *factor : 1),
    };
    if (s->adapter)
        multiply_adapted(p, s, g->weight[n->weights[0]], &a);
    else
        multiply(p, s, g->weight[n->weights[0]], &a);
}

/* Multiply each head's matrix with its part of the rows; chunks divide the concatenated outputs of all
 * heads. */
static void run_heads(const stage_chunk *p, const lm_step *s)
{
    lm_engine       *g     = p->g;
    const lm_node   *n     = &g->program->nodes[s->node];
    const lm_weight *w     = &g->program->weights[s->weight];
    uint64_t         grain = s->matmul->row_group, cuts = (w->dims[1] + grain - 1) / grain, from, to;
    uint64_t step = n->heads.shared      ? 0
                    : s->matmul->x->pack ? s->matmul->x->bytes(w->dims[2])
                                         : w->dims[2] * sizeof(float);

    lm_chunk_outputs(lm_pool_used(g->pool), w->dims[0] * cuts, 1, p->index, p->count, &from, &to);
    for (uint64_t h = from / cuts; h * cuts < to; h++) {
        uint64_t first = (from > h * cuts ? from - h * cuts : 0) * grain, last = (to - h * cuts) * grain;
        multiply(p, s, g->matrices[s->weight][h], &(lm_matmul_args){
                     .rows = w->dims[1],
            .cols     = w->dims[2],
            .first    = first,
            .last     = last < w->dims[1] ? last : w->dims[1],
            .x        = row_at(g, s->in[0], 0) + h * step,
            .x_stride = g->plan->buffers[s->in[0]].stride,
            .n        = rows_of(g, s->domain),
            .y        = floats_at(g, s->out, 0) + h * w->dims[1],
            .y_stride = g->plan->buffers[s->out].stride / sizeof(float),
            .scale    = 1,
        });
    }
}

/* ---- stages ---- */

/* The steps whose rows a chunk does not divide: each finds its own part of the work. Those between ranks are
 * run by lm_engine_exchange, not by workers. */
static void (*const chunk_steps[])(const stage_chunk *p, const lm_step *s) = {
    [LM_STEP_MATMUL] = run_matmul,          [LM_STEP_HEADS] = run_heads, [LM_STEP_EXPERTS] = lm_run_experts,
    [LM_STEP_ATTENTION] = lm_run_attention, [LM_STEP_SELECT] = lm_run_select,
    [LM_STEP_SORT] = lm_run_sort, [LM_STEP_STATE] = lm_run_state,
};

/* Run rows [from, to) of a stage by rows, or the chunk of any other stage. */
static void run_step(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    if (p->stage->split != LM_BY_ROWS)
        chunk_steps[s->code](p, s);
    else if (from < to)
        run_rows(p, s, from, to);
}

static void run_profiled(const stage_chunk *p, uint64_t from, uint64_t to)
{
    lm_profiler *profiler = p->g->profiler;
    uint64_t     last = lm_profile_now();

    for (uint32_t i = p->stage->first; i < p->stage->end; i++) {
        run_step(p, &p->g->plan->steps[i], from, to);
        if (i + 1 < p->stage->end && profiler->kind && profiler->kind[i] == profiler->kind[i + 1])
            continue;
        uint64_t now = lm_profile_now();
        lm_profile_spent(profiler, p->worker, i, now - last);
        last = now;
    }
}

static lm_status run_steps(void *arg)
{
    const stage_chunk     *p = arg;
    const lm_stage *t = p->stage;
    uint64_t        from, to;

    lm_pool_range((uint64_t)rows_of(p->g, t->domain) * t->times, 1, p->index, p->count, &from, &to);
    if (p->g->profiler)
        run_profiled(p, from, to);
    else
        for (uint32_t i = t->first; i < t->end; i++)
            run_step(p, &p->g->plan->steps[i], from, to);
    return LM_OK;
}

typedef struct stage_job {
    lm_engine      *g;
    const lm_stage *stage;
    unsigned        chunks;
} stage_job;

/* A file that shrinks while its weights are read must not end the process. */
static void run_chunk(void *arg, unsigned worker, unsigned index)
{
    const stage_job *j = arg;
    stage_chunk      p = { j->g, j->stage, worker, index, j->chunks };
    lm_status        s = lm_filemap_guard(run_steps, &p, NULL, NULL);

    if (s != LM_OK)
        atomic_store(&j->g->failure, (int)s);
}

lm_status lm_engine_execute(lm_engine *g, lm_error *e)
{
    uint64_t start = g->profiler ? lm_profile_now() : 0;
    uint32_t joins = 0;

    atomic_store(&g->failure, LM_OK);
    lm_pool_use(g->pool, g->n_rows > LM_FEW_ROWS ? g->threads_batch : g->threads);
    for (uint32_t i = 0; i < g->plan->n_stages; i++) {
        stage_job j = { g, &g->plan->stages[i], 1 };
        uint32_t  n = rows_of(g, j.stage->domain);
        /* several ranks must complete a step that has begun */
        bool      may_end = i == 0 || !g->model->exchange;
        if (n == 0 || (g->n_adapters && lm_engine_idle(g, j.stage)))
            continue;
        if (may_end && lm_engine_cancelled(g))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
        if (j.stage->split == LM_BETWEEN_RANKS) {
            LM_TRY(lm_engine_exchange(g, &g->plan->steps[j.stage->first], n, e));
            continue;
        }
        j.chunks = lm_stage_chunks(g, j.stage, n);
        lm_ahead_set(g, i);
        if (g->observer)
            lm_observe_stage(g, j.stage);
        joins += j.chunks > 1;
        lm_pool_run_chunks(g->pool, run_chunk, &j, j.chunks);
        if (atomic_load_explicit(&g->failure, memory_order_relaxed) != LM_OK)
            break;
    }
    if (g->profiler)
        lm_profile_step(g, lm_profile_now() - start, lm_pool_used(g->pool), joins);
    if (atomic_load(&g->failure) == LM_OK)
        return LM_OK;
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "the file was truncated while in use");
    return lm_fail_in(e, g->model->source);
}
