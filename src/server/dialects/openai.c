/* openai.c - openai.h: documents, chunks, and the end of a response. Threads: the front. */
#include "server/dialects/openai.h"

/* system_fingerprint begins with a b, as llama-server's does: its clients check this. */
json_t *lm_openai_document(const lm_turn *t, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s+, s:o}", "id", t->id, "object", object, "created",
                     (json_int_t)t->created, "model", t->service->name, "system_fingerprint", "b-",
                     t->fingerprint, "choices", choices);
}

void lm_openai_finish(lm_turn *t, const char *object, json_t *choices, bool wanted, json_t *usage)
{
    json_t *o = lm_openai_document(t, object, choices);

    if (!t->stream || wanted) {
        json_object_set(o, "usage", usage);
        json_object_set_new(o, "timings", lm_turn_timings(t->choices));
    }
    json_decref(usage);
    lm_turn_extras(t, o);
    if (!t->stream) {
        lm_turn_add(t, o);
        return;
    }
    if (wanted || t->explain_cache || t->contributions)
        lm_turn_send(t, NULL, o);
    else
        json_decref(o);
    lm_text_add_str(t->out, "data: [DONE]\n\n");
}

void lm_openai_trace(lm_turn *t, json_t *chunk, json_t *trace)
{
    json_object_set_new(chunk, "trace", trace);
    lm_turn_send(t, NULL, chunk);
}

json_t *lm_openai_usage(const lm_turn_usage *u)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt, "completion_tokens",
                     (json_int_t)u->written, "total_tokens", (json_int_t)(u->prompt + u->written),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)u->cached);
}

lm_status lm_openai_wants_usage(lm_call *c, json_t *stream_options, bool *wanted, lm_error *e)
{
    const json_t *value = json_object_get(stream_options, "include_usage");

    lm_field_warn_members(c->warnings, "stream_options", stream_options, "include_usage");
    *wanted = json_is_true(value);
    return !value || json_is_boolean(value) || json_is_null(value)
               ? LM_OK
               : lm_fail(e, LM_USAGE, "stream_options", LM_NO_OFFSET, "include_usage must be true or false");
}
