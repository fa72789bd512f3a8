/* tracer.c - what a tracer records after each step, and returns. */
#include "trace/tracer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "program/op.h"

const char *lm_trace_part_word(lm_trace_part p)
{
    static const char *const words[] = { "layer", "attention", "mlp",  "embedding",
                                         "bias",  "cap",       "rest", "other" };

    return (unsigned)p < sizeof words / sizeof *words ? words[p] : "other";
}

lm_engine *lm_tracer_engine(lm_tracer *t)
{
    return t ? t->g : NULL;
}

void lm_tracer_allocated(const lm_tracer *t, lm_memory *out)
{
    lm_memory lens = { 0 };

    if (!out)
        return;
    *out = (lm_memory){ 0 };
    if (!t)
        return;
    lm_engine_allocated(t->g, out);
    if (t->lens)
        lm_engine_allocated(t->lens, &lens);
    out->weights += lens.weights;
    out->mapped += lens.mapped;
    out->kv += lens.kv;
    out->scratch += lens.scratch;
    out->total += lens.total;
}

lm_status lm_tracer_look(lm_tracer *t, uint32_t position, lm_error *e)
{
    LM_REQUIRE(e, t);
    if (position == UINT32_MAX) {
        t->look_all = true;
        return LM_OK;
    }
    if (position >= lm_engine_context(t->g))
        return lm_fail(e, LM_USAGE, "position", LM_NO_OFFSET, "%u of %u", position, lm_engine_context(t->g));
    if (position >= t->look_capacity) {
        size_t n    = position + 64;
        bool  *more = lm_realloc(t->look, n * sizeof *more);
        if (!more)
            return lm_fail_memory(e, "a trace", n);
        memset(more + t->look_capacity, 0, n - t->look_capacity);
        t->look          = more;
        t->look_capacity = n;
    }
    t->look[position] = true;
    return LM_OK;
}

/* ---- rows ---- */

static lm_trace_record *record_at(const lm_tracer *t, uint32_t position)
{
    for (size_t i = t->n_records; i-- > 0;)
        if (t->records[i]->position == position)
            return t->records[i];
    return NULL;
}

/* Complete a record with the token that follows its row. */
static lm_status close_record(lm_tracer *t, lm_trace_record *r, lm_token id, lm_error *e)
{
    lm_trace_token *x = &t->tokens[r->position + 1];

    *x = (lm_trace_token){ .id = id,
                           .position = r->position + 1,
                           .predicted = true,
                           .entropy = r->entropy,
                           .top = r->top,
                           .n_top = t->o.top < t->p->n_vocab ? t->o.top : t->p->n_vocab };
    if (id >= 0) {
        x->p        = exp((double)r->logits[id] - r->lse);
        x->surprise = (r->lse - (double)r->logits[id]) / M_LN2;
        r->row.token = id;
    }
    r->row.position = r->position;
    r->row.logit    = (double)r->logits[r->row.token];
    r->row.p        = exp(r->row.logit - r->lse);
    if (r->inside && t->o.lens)
        LM_TRY(lm_trace_lens_of(t, r, e));
    if (r->inside && t->o.attribution)
        LM_TRY(lm_trace_attribute(t, r, e));
    r->supposed = id < 0;
    if (r->supposed)
        return LM_OK;
    r->open = false;
    lm_free(r->states);
    r->states = NULL;
    lm_free(r->logits);
    r->logits = NULL;
    return LM_OK;
}

static bool copy_state(lm_tracer *t, lm_value v, size_t i, float **at)
{
    uint32_t     width = lm_trace_width(t);
    const float *x     = v == LM_NONE ? NULL : lm_engine_value(t->g, v, i);

    if (x)
        memcpy(*at, x, width * sizeof *x);
    *at += width;
    return x || v == LM_NONE;
}

static lm_status copy_states(lm_tracer *t, lm_trace_record *r, size_t i, lm_error *e)
{
    size_t n     = t->map.n_points + 2 * t->map.n_terms + 1;
    bool   whole = true, terms = t->o.attribution || t->o.norms;

    r->states = lm_alloc_zero(n * lm_trace_width(t), sizeof *r->states);
    if (!r->states)
        return lm_fail_memory(e, "a trace", n);
    float *at = r->states;
    for (size_t k = 0; k < t->map.n_points; k++)
        whole = copy_state(t, t->map.points[k].value, i, &at) && whole;
    for (size_t k = 0; k < t->map.n_terms; k++) {
        whole = copy_state(t, terms ? t->map.terms[k].value : LM_NONE, i, &at) && whole;
        whole = copy_state(t, terms ? t->map.terms[k].minus : LM_NONE, i, &at) && whole;
    }
    whole = copy_state(t, t->map.stream, i, &at) && whole;
    return whole ? LM_OK
                 : lm_fail(e, LM_FAILED, "a trace", LM_NO_OFFSET,
                           "a value of the residual stream was not recorded");
}

static lm_status look_inside(lm_tracer *t, lm_trace_record *r, size_t i, lm_error *e)
{
    if (lm_trace_wants_states(t))
        LM_TRY(copy_states(t, r, i, e));
    if (t->o.norms)
        LM_TRY(lm_trace_measure(t, r, e));
    if (t->o.experts)
        LM_TRY(lm_trace_routing(t, r, i, e));
    if (t->n_keys)
        LM_TRY(lm_trace_heads(t, r, i, e));
    return LM_OK;
}

static lm_status add_record(lm_tracer *t, size_t i, uint32_t position, const float *logits, lm_error *e)
{
    uint32_t         n = t->p->n_vocab, best, k = t->o.top < n ? t->o.top : n;
    lm_trace_record *r = lm_alloc_zero(1, sizeof *r);

    if (t->n_records == t->records_capacity) {
        size_t            capacity = 2 * t->records_capacity + 64;
        lm_trace_record **more     = r ? lm_realloc(t->records, capacity * sizeof *more) : NULL;
        if (!more) {
            lm_free(r);
            return lm_fail_memory(e, "a trace", capacity);
        }
        t->records          = more;
        t->records_capacity = capacity;
    }
    if (!r)
        return lm_fail_memory(e, "a trace", sizeof *r);
    t->records[t->n_records++] = r;
    r->position = position;
    r->open     = true;
    r->inside   = t->look_all || (position < t->look_capacity && t->look[position]);
    r->logits   = lm_alloc((size_t)n * sizeof *r->logits);
    r->top      = lm_arena_new(&r->arena, k + 1, lm_trace_choice);
    if (!r->logits || !r->top)
        return lm_fail_memory(e, "a trace", n);
    memcpy(r->logits, logits, n * sizeof *logits);
    r->lse       = lm_predicted(&t->g->kernels, logits, n, t->scratch, &r->entropy, &best);
    r->row.token = (lm_token)best;
    if (!isfinite(r->lse))
        return lm_fail(e, t->edited ? LM_USAGE : LM_FAILED, t->edited ? "intervene" : "logits", position,
                       t->edited ? "the interventions make values overflow: use smaller factors"
                                 : "they are not finite");
    lm_predicted_top(logits, n, r->lse, r->top, k);
    t->tokens[position + 1] = (lm_trace_token){ .id = -1,
                                                .position = position + 1,
                                                .predicted = true,
                                                .entropy = r->entropy,
                                                .top = r->top,
                                                .n_top = k };
    return r->inside ? look_inside(t, r, i, e) : LM_OK;
}

void lm_trace_free_record(lm_trace_record *r)
{
    if (!r)
        return;
    lm_free(r->logits);
    lm_free(r->states);
    lm_arena_free(&r->arena);
    lm_free(r);
}

/* Make room for a position and discard the records at it and after it, because the sequence continues
 * differently. */
static lm_status take_position(lm_tracer *t, uint32_t position, lm_error *e)
{
    while (t->n_records && t->records[t->n_records - 1]->position >= position)
        lm_trace_free_record(t->records[--t->n_records]);
    if (position + 2 > t->capacity) {
        size_t          n      = 2 * (size_t)position + 64;
        lm_token       *ids    = lm_realloc(t->ids, n * sizeof *ids);
        lm_trace_token *tokens = NULL;
        if (ids) {
            t->ids = ids;
            tokens = lm_realloc(t->tokens, n * sizeof *tokens);
        }
        if (!tokens)
            return lm_fail_memory(e, "a trace", n);
        memset(tokens + t->capacity, 0, (n - t->capacity) * sizeof *tokens);
        t->tokens   = tokens;
        t->capacity = n;
    }
    if (t->n_keys && position >= t->key_capacity) {
        uint32_t n = 2 * position + 64 < lm_engine_context(t->g) ? 2 * position + 64
                                                                 : lm_engine_context(t->g);
        for (size_t l = 0; l < t->n_keys; l++) {
            float *more = lm_realloc(t->keys[l].keys, (size_t)n * t->keys[l].width * sizeof *more);
            if (!more)
                return lm_fail_memory(e, "keys", n);
            t->keys[l].keys = more;
        }
        t->key_capacity = n;
    }
    return LM_OK;
}

static void count_routed(lm_tracer *t, size_t i)
{
    for (size_t k = 0; t->o.experts && k < t->map.n_routes; k++) {
        const lm_node *n     = &t->p->nodes[t->map.routes[k]];
        const float   *route = lm_engine_value(t->g, n->out, i);
        for (uint32_t x = 0; route && x < n->route.spec.top_k; x++)
            t->load[k][(uint32_t)route[n->route.spec.top_k + x]]++;
    }
}

static lm_status take_row(lm_tracer *t, size_t i, lm_error *e)
{
    uint32_t         position = t->g->positions[i];
    lm_token         id       = t->g->tokens[i];
    lm_trace_record *before   = position ? record_at(t, position - 1) : NULL;
    const float     *logits   = lm_engine_logits(t->g, i);

    LM_TRY(take_position(t, position, e));
    t->ids[position] = id;
    t->n             = position + 1;
    if (before && before->open)
        LM_TRY(close_record(t, before, id, e));
    else if (!before)
        t->tokens[position] = (lm_trace_token){ .id = id, .position = position };
    lm_trace_keep_keys(t, i, position);
    count_routed(t, i);
    LM_TRY(lm_trace_save_row(t, i, position, e));
    return logits ? add_record(t, i, position, logits, e) : LM_OK;
}

/* Called after every step of the engine, by the thread that steps it. */
void lm_trace_after_step(void *arg, const lm_engine *g)
{
    lm_tracer *t = arg;

    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; !t->failed && i < g->n_rows; i++)
        if (g->sequences[i] == t->o.sequence)
            t->failed = take_row(t, i, &t->failure) != LM_OK;
    pthread_mutex_unlock(&t->lock);
}

static lm_status failure_of(lm_tracer *t, lm_error *e)
{
    if (!t->failed)
        return LM_OK;
    if (e)
        *e = t->failure;
    return t->failure.code;
}

/* ---- running and saving ---- */

static lm_status read_some(lm_tracer *t, const lm_token *ids, size_t n, lm_row *rows, lm_error *e)
{
    uint32_t at = lm_engine_length(t->g, t->o.sequence);

    for (size_t i = 0; i < n; i++)
        rows[i] = (lm_row){ t->o.sequence, ids[i], at + (uint32_t)i, true };
    LM_TRY(lm_engine_step(t->g, rows, n, e));
    return failure_of(t, e);
}

lm_status lm_tracer_read(lm_tracer *t, const lm_token *ids, size_t n, lm_error *e)
{
    LM_REQUIRE(e, t && (ids || !n));
    size_t max = lm_engine_max_rows(t->g) < lm_engine_max_logits(t->g) ? lm_engine_max_rows(t->g)
                                                                       : lm_engine_max_logits(t->g);
    lm_row   *rows   = lm_alloc_zero(max, sizeof *rows);
    lm_status status = rows ? LM_OK : lm_fail_memory(e, "a trace", max);

    for (size_t at = 0, k; status == LM_OK && at < n; at += k) {
        k      = n - at < max ? n - at : max;
        status = read_some(t, ids + at, k, rows, e);
    }
    lm_free(rows);
    return status;
}

lm_status lm_tracer_write(lm_tracer *t, size_t n, lm_error *e)
{
    LM_REQUIRE(e, t);
    for (size_t i = 0; i < n && t->n; i++) {
        lm_trace_record *r = record_at(t, (uint32_t)t->n - 1);
        lm_row           row;
        if (!r)
            return lm_fail(e, LM_USAGE, "a trace", LM_NO_OFFSET, "the last row has no prediction");
        if (lm_model_is_end(t->m, r->row.token) || t->n >= lm_engine_context(t->g))
            return LM_OK;
        LM_TRY(read_some(t, &(lm_token){ r->row.token }, 1, &row, e));
    }
    return LM_OK;
}

lm_status lm_tracer_restart(lm_tracer *t, lm_error *e)
{
    LM_REQUIRE(e, t);
    LM_TRY(lm_engine_truncate(t->g, t->o.sequence, 0, e));
    while (t->n_records)
        lm_trace_free_record(t->records[--t->n_records]);
    for (size_t k = 0; k < t->map.n_routes; k++)
        memset(t->load[k], 0, t->p->nodes[t->map.routes[k]].route.spec.n_experts * sizeof *t->load[k]);
    t->n = 0;
    return LM_OK;
}

const lm_token *lm_tracer_ids(const lm_tracer *t, size_t *n)
{
    if (n)
        *n = t ? t->n : 0;
    return t ? t->ids : NULL;
}

/* ---- results ---- */

bool lm_tracer_token(const lm_tracer *t, uint32_t position, lm_trace_token *out)
{
    if (!t || !out || position > t->n || (position == t->n && !(t->n && t->tokens[t->n].predicted)))
        return false;
    *out = t->tokens[position];
    return true;
}

lm_status lm_tracer_row(lm_tracer *t, uint32_t position, lm_trace_row *out, lm_error *e)
{
    LM_REQUIRE(e, t && out);
    pthread_mutex_lock(&t->lock);
    lm_trace_record *r      = record_at(t, position);
    lm_status status = r && r->inside ? LM_OK
                                      : lm_fail(e, LM_USAGE, "position", LM_NO_OFFSET,
                                                "%u was not looked into", position);

    if (status == LM_OK && r->open && !r->supposed)
        status = close_record(t, r, -1, e);
    if (status == LM_OK)
        *out = r->row;
    pthread_mutex_unlock(&t->lock);
    return status;
}

lm_status lm_trace_take(lm_tracer *t, uint32_t position, lm_token id, lm_trace_record **out, lm_error *e)
{
    lm_trace_record *r = record_at(t, position);

    LM_TRY(failure_of(t, e));
    if (!r)
        return lm_fail(e, LM_USAGE, "position", LM_NO_OFFSET, "%u was not predicted", position + 1);
    if (r->open && !(r->supposed && id < 0))
        LM_TRY(close_record(t, r, id, e));
    *out = r;
    return LM_OK;
}

lm_trace_record *lm_trace_detach(lm_tracer *t, uint32_t position)
{
    size_t           i = t->n_records;
    lm_trace_record *r;

    while (i-- > 0)
        if (t->records[i]->position == position)
            break;
    if (i >= t->n_records)
        return NULL;
    r = t->records[i];
    t->tokens[position + 1] = (lm_trace_token){ .id = t->tokens[position + 1].id, .position = position + 1 };
    memmove(&t->records[i], &t->records[i + 1], (--t->n_records - i) * sizeof *t->records);
    return r;
}

bool lm_tracer_load(const lm_tracer *t, size_t i, lm_trace_load *out)
{
    if (!t || !out || !t->o.experts || i >= t->map.n_routes)
        return false;
    const lm_node *n = &t->p->nodes[t->map.routes[i]];
    *out = (lm_trace_load){ .path = lm_trace_block(t->p, n->module),
                            .layer = n->layer,
                            .n_experts = n->route.spec.n_experts,
                            .visits = t->load[i] };
    return true;
}

/* The plan steps of one operation are adjacent; those of tables belong to no operation. */
bool lm_tracer_time(lm_tracer *t, size_t i, lm_trace_time *out)
{
    const lm_plan *plan = t && t->times ? t->g->plan : NULL;
    size_t         at   = 0;

    if (!plan || !out)
        return false;
    if (i == 0)
        lm_engine_step_times(t->g, t->times);
    for (uint32_t s = 0, end; s < plan->n_steps; s = end) {
        uint32_t node = plan->steps[s].node;
        uint64_t ns   = 0;
        for (end = s; end < plan->n_steps && plan->steps[end].node == node; end++)
            ns += t->times[end];
        if (node == LM_NONE || at++ != i)
            continue;
        *out = (lm_trace_time){ .path = t->p->nodes[node].path,
                                .operation = lm_op_of(t->p->nodes[node].code)->name,
                                .layer = t->p->nodes[node].layer,
                                .seconds = 1e-9 * (double)ns };
        return true;
    }
    return false;
}
