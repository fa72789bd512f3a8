/* turn_trace.c - `trace` and `intervene` of a turn: a tracer with a schedule of its own, in which the only
 * sequence of the turn runs (models/traced.h). Read from lm_turn_trace upwards. */
#include "server/ask/trace_request.h"
#include "server/ask/turn_stages.h"

typedef struct wanted { lm_trace_values values; bool surprise; } wanted;

static const lm_field surprise_field[] = {
    { "surprise", LM_FIELD_BOOL, 0, 0, 0, NULL, false, NULL },
    { 0 },
};

static const lm_field_group groups[] = {
    { lm_trace_fields, offsetof(wanted, values) },
    { surprise_field, offsetof(wanted, surprise) },
    { 0 },
};

/* Read `trace`. Unknown members are errors: an answer without what was requested would be useless. */
static lm_status read_trace(json_t *trace, wanted *out, lm_error *e)
{
    json_t     *known = json_copy(trace), *warnings = json_array(), *value;
    const char *name;
    lm_status   status = known && warnings ? LM_OK : lm_fail_memory(e, "a trace", 0);

    if (status == LM_OK)
        status = lm_fields_read(groups, known, out, warnings, e);
    json_object_foreach(trace, name, value)
        if (status == LM_OK && !json_object_get(known, name))
            status = lm_fail(e, LM_USAGE, "trace", LM_NO_OFFSET, "'trace' has the unknown member \"%.40s\"",
                             name);
    json_decref(known);
    json_decref(warnings);
    return status;
}

/* Check what cannot be combined with a traced output. */
static lm_status check(const lm_turn *t, const char *field, lm_error *e)
{
    if (t->n_choices != 1)
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET,
                       "'%s' requires one prompt and one output; there are %zu", field, t->n_choices);
    if (t->slot >= 0)
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "'%s' cannot be combined with id_slot", field);
    if (!t->writer->trace)
        return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "'%s' is not supported here", field);
    return LM_OK;
}

lm_status lm_turn_trace(lm_call *call, lm_turn *t, lm_error *e)
{
    json_t          *trace = t->body.trace, *intervene = t->body.intervene;
    bool             changes = json_array_size(intervene) > 0;
    wanted           w = { .values.top = LM_TRACE_TOP, .surprise = true };
    lm_trace_request r = { 0 };
    lm_sequence_options q = { .max_tokens = t->max_tokens, .prompt_only = t->prompt_only };
    lm_tracer *tracer;
    size_t     n = t->prompts.items->n;
    uint32_t   context = lm_engine_context(call->service->engine);

    if ((!trace && !changes) || !n)                      /* an empty prompt is rejected later */
        return LM_OK;
    LM_TRY(check(t, changes ? "intervene" : "trace", e));
    LM_TRY(lm_service_require_single(call->service, changes ? "\"intervene\"" : "\"trace\"", e));
    if (trace)
        LM_TRY(read_trace(trace, &w, e));
    t->shows_trace = trace != NULL;
    t->shows_surprise = w.surprise;
    if (trace && !t->stream && !(t->choices->trace = json_array()))
        return lm_fail_memory(e, "a trace", 0);
    if (n > context)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET, "%zu tokens; the context size is %u", n, context);
    LM_TRY(lm_service_fit(call->service, n, &q, e));
    lm_status status = lm_trace_request_read(call, &w.values, intervene, &r, e);
    if (status == LM_OK)
        status = lm_trace_request_start(call, &r, n + (t->prompt_only ? 0 : (uint64_t)q.max_tokens), &tracer,
                                        e);
    if (status == LM_OK && lm_trace_request_looks(&r))
        lm_tracer_look(tracer, UINT32_MAX, NULL);
    if (status == LM_OK)
        status = lm_traced_new(call->service, tracer, n, t->shows_trace, &t->traced, e);
    lm_trace_request_free(&r);
    return status;
}
