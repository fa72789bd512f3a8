/* trace_request.c - trace_request.h: the members of a trace become options of a tracer, whose memory the
 * request holds. Threads: a worker. */
#include "server/ask/trace_request.h"

#include <string.h>

#include "server/ask/request_limits.h"
#include "server/front/memory.h"

enum { MAX_LAYERS = 4096, MAX_LENS = 20 };

#define V(field) offsetof(lm_trace_values, field)

const lm_field lm_trace_fields[] = {
    { "top", LM_FIELD_U32, V(top), 0, 20, NULL, false, "number of alternatives per token (5)" },
    { "lens", LM_FIELD_ANY, V(lens), 0, 0, NULL, false,
      "number of best tokens after each layer, up to 20; true: 5" },
    { "lens_parts", LM_FIELD_BOOL, V(lens_parts), 0, 0, NULL, false,
      "apply the lens also after each attention" },
    { "attribution", LM_FIELD_BOOL, V(attribution), 0, 0, NULL, false,
      "return the contribution of each attention and MLP to the logit of the next token" },
    { "norms", LM_FIELD_BOOL, V(norms), 0, 0, NULL, false,
      "return the norms of the residual stream and of what is added to it" },
    { "experts", LM_FIELD_BOOL, V(experts), 0, 0, NULL, false, "return the experts of each row" },
    { "attention", LM_FIELD_ANY, V(attention), 0, 0, NULL, false,
      "return the positions that the heads of these layers attend to; true: all layers" },
    { "weights", LM_FIELD_ARRAY, V(weights), 0, 0, NULL, false,
      "[[layer, head], …] whose whole rows are returned" },
    { 0 },
};

static bool number_in(const json_t *v, json_int_t min, json_int_t max, uint32_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return false;
    *out = (uint32_t)json_integer_value(v);
    return true;
}

static lm_status read_attention(const json_t *v, lm_trace_request *a, lm_error *e)
{
    size_t n = json_array_size(v);

    if (!v || json_is_false(v))
        return LM_OK;
    if (json_is_true(v)) {
        a->o.attention = true;
        return LM_OK;
    }
    if (!json_is_array(v) || n > MAX_LAYERS)
        return lm_fail(e, LM_USAGE, "attention", LM_NO_OFFSET,
                       "'attention' must be true or a list of layers");
    if (!(a->layers = lm_memory_zero(n + 1, sizeof *a->layers)))
        return lm_fail_memory(e, "the request", n);
    for (size_t i = 0; i < n; i++)
        if (!number_in(json_array_get(v, i), 0, MAX_LAYERS, &a->layers[i]))
            return lm_fail(e, LM_USAGE, "attention", LM_NO_OFFSET, "element %zu is not a layer", i);
    a->o.layers   = a->layers;
    a->o.n_layers = n;
    return LM_OK;
}

static lm_status read_weights(const json_t *v, lm_trace_request *a, lm_error *e)
{
    size_t n = json_array_size(v);

    if (!n)
        return LM_OK;
    if (n > MAX_LAYERS || !(a->heads = lm_memory_zero(2 * n, sizeof *a->heads)))
        return lm_fail(e, LM_USAGE, "weights", LM_NO_OFFSET,
                       "'weights' has %zu heads; at most %d are allowed", n, MAX_LAYERS);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(v, i);
        if (json_array_size(pair) != 2 ||
            !number_in(json_array_get(pair, 0), 0, MAX_LAYERS, &a->heads[2 * i]) ||
            !number_in(json_array_get(pair, 1), 0, MAX_LAYERS, &a->heads[2 * i + 1]))
            return lm_fail(e, LM_USAGE, "weights", LM_NO_OFFSET, "element %zu is not [layer, head]", i);
    }
    a->o.heads   = a->heads;
    a->o.n_heads = n;
    return LM_OK;
}

/* Read interventions. Only factors are allowed: clients must not name files. */
static lm_status read_changes(lm_call *c, const json_t *v, lm_trace_request *a, lm_error *e)
{
    size_t n = json_array_size(v);

    if (!n)
        return LM_OK;
    if (!c->service->o.interventions)
        return lm_fault(c, e, 403, "intervene",
                        "this server allows no interventions: start it with --allow-interventions");
    LM_TRY(lm_limit_check(LM_LIMIT_ID_CHANGES, n, e));
    if (!(a->changes = lm_memory_zero(n + 1, sizeof *a->changes)))
        return lm_fail_memory(e, "interventions", (n + 1) * sizeof *a->changes);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(v, i));
        if (!text || text[strcspn(text, "=+@")] != '=')
            return lm_fail(e, LM_USAGE, "intervene", LM_NO_OFFSET, "element %zu is not PATH=FACTOR", i);
        a->changes[i] = text;
    }
    a->o.interventions = a->changes;
    return LM_OK;
}

static lm_status read_lens(const json_t *v, lm_trace_request *a, lm_error *e)
{
    if (v && json_is_true(v))
        a->o.lens = 5;
    else if (v && !json_is_false(v) && !number_in(v, 0, MAX_LENS, &a->o.lens))
        return lm_fail(e, LM_USAGE, "lens", LM_NO_OFFSET, "'lens' must be true or a number from 0 to 20");
    return LM_OK;
}

lm_status lm_trace_request_read(lm_call *c, const lm_trace_values *v, const json_t *intervene,
                                lm_trace_request *out, lm_error *e)
{
    *out = (lm_trace_request){ .o = lm_trace_defaults() };
    out->o.top         = v->top;
    out->o.lens_parts  = v->lens_parts;
    out->o.attribution = v->attribution;
    out->o.norms       = v->norms;
    out->o.experts     = v->experts;
    LM_TRY(read_lens(v->lens, out, e));
    LM_TRY(read_attention(v->attention, out, e));
    LM_TRY(read_weights(v->weights, out, e));
    return read_changes(c, intervene, out, e);
}

void lm_trace_request_free(lm_trace_request *a)
{
    lm_heap_free(a->layers);
    lm_heap_free(a->heads);
    lm_heap_free(a->changes);
}

bool lm_trace_request_looks(const lm_trace_request *a)
{
    return a->o.lens || a->o.attribution || a->o.norms || a->o.experts || a->o.attention || a->o.n_layers ||
           a->o.n_heads;
}

/* Count `bytes` as held by the request. */
static lm_status count_bytes(lm_call *c, uint64_t bytes, lm_error *e)
{
    char why[200];

    if (lm_exchange_charge(c->x, bytes))
        return LM_OK;
    unsigned status = lm_exchange_no_memory(c->x, bytes, why);
    return lm_fault(c, e, status, NULL, "%s", why);
}

lm_status lm_trace_request_start(lm_call *c, lm_trace_request *a, uint64_t positions, lm_tracer **out,
                                 lm_error *e)
{
    lm_engine_options *o = &a->o.engine;
    lm_memory planned, has;

    *o              = c->service->o.engine;
    o->sequences    = 1;
    o->max_rows         = o->max_logits = o->rollback = 0;
    o->checkpoints  = 0;
    o->kv_positions = 0;
    o->context      = (uint32_t)positions;
    o->hidden       = false;
    o->progress     = NULL;
    o->log          = (lm_log){ 0 };
    a->o.weights    = c->service->engine;
    LM_TRY(lm_engine_predict(c->service->model, o, &planned, e));
    /* Before it is allocated: it grows with the positions. */
    LM_TRY(count_bytes(c, planned.kv, e));
    LM_TRY(lm_tracer_new(c->service->model, &a->o, out, e));
    lm_tracer_allocated(*out, &has);
    lm_status status = count_bytes(c, has.scratch + (has.kv > planned.kv ? has.kv - planned.kv : 0), e);
    if (status != LM_OK) {
        lm_tracer_free(*out);
        *out = NULL;
    }
    return status;
}
