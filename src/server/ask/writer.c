/* writer.c - writer.h: events of streams, usage and timings, and what responses of every dialect contain on
 * request. Threads: the front, in the stage `stream` of a turn. */
#include "server/ask/writer.h"

#include "base/os/clock.h"
#include "server/ask/json_body.h"
#include "server/front/memory.h"

const char *lm_turn_reason(const lm_choice *c)
{
    switch (c->stop) {
    case LM_STOP_LENGTH:
    case LM_STOP_CONTEXT: return "length";
    default:              return c->calls ? "tool_calls" : "stop";
    }
}

void lm_turn_add(lm_turn *t, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    if (text)
        lm_text_add_str(t->out, text);
    else
        t->out->failed = true;
    lm_heap_free(text);
}

void lm_turn_line(lm_turn *t, json_t *o)
{
    lm_turn_add(t, o);
    lm_text_add_char(t->out, '\n');
}

void lm_turn_send(lm_turn *t, const char *name, json_t *o)
{
    if (name)
        lm_text_printf(t->out, "event: %s\n", name);
    lm_text_add_str(t->out, "data: ");
    lm_turn_add(t, o);
    lm_text_add_str(t->out, "\n\n");
}

void lm_turn_waiting(lm_turn *t)
{
    lm_text_add_str(t->out, ": waiting\n\n");
}

void lm_turn_fault(lm_turn *t, const lm_error *e)
{
    lm_turn_send(t, NULL, lm_fault_json(t->writer->dialect, 0, e));
}

/* ---- usage ---- */

lm_turn_usage lm_turn_used(const lm_turn *t)
{
    lm_turn_usage all = { 0 };

    for (size_t i = 0; i < t->n_choices; i++) {
        const lm_choice *c = t->choices + i;

        all.prompt += i % t->n ? 0 : c->usage.n_prompt;
        all.cached += i % t->n ? 0 : c->usage.n_cached;
        all.written += c->usage.n_tokens;
        all.reasoning += c->n_reasoning;
    }
    return all;
}

/* `prompt` and `rest`: seconds for the prompt and for the generated tokens. The first of these comes with the
 * prompt. */
static json_t *timings_json(uint64_t n_prompt, double prompt, uint64_t n_tokens, double rest)
{
    uint64_t steps = n_tokens ? n_tokens - 1 : 0;

    return json_pack("{s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "prompt_n", (json_int_t)n_prompt,
                     "prompt_ms", 1e3 * prompt, "prompt_per_token_ms",
                     n_prompt ? 1e3 * prompt / (double)n_prompt : 0.0, "prompt_per_second",
                     prompt > 0 ? (double)n_prompt / prompt : 0.0, "predicted_n", (json_int_t)n_tokens,
                     "predicted_ms", 1e3 * rest, "predicted_per_token_ms",
                     steps ? 1e3 * rest / (double)steps : 0.0, "predicted_per_second",
                     steps && rest > 0 ? (double)steps / rest : 0.0);
}

json_t *lm_turn_timings(const lm_choice *c)
{
    const lm_usage *u = &c->usage;
    double prompt = u->first_seconds > u->queue_seconds ? u->first_seconds - u->queue_seconds : 0;
    json_t *o = json_pack("{s:I}", "cache_n", (json_int_t)u->n_cached);
    json_t *rest = timings_json(u->n_prompt - u->n_cached, prompt, u->n_tokens,
                                u->first_seconds > 0 ? u->seconds - u->first_seconds : 0);

    json_object_update(o, rest);
    json_decref(rest);
    if (o && u->n_drafted) {
        json_object_set_new(o, "draft_n", json_integer((json_int_t)u->n_drafted));
        json_object_set_new(o, "draft_n_accepted", json_integer((json_int_t)u->n_accepted));
    }
    return o;
}

/* Return where the first prompt first differed from the cached prefix. */
static json_t *cache_json(const lm_turn *t)
{
    lm_cache_difference d;
    lm_text before = { 0 }, prompt = { 0 }, cached = { 0 };
    json_t *o = NULL;

    if (lm_reply_explain(t->choices->reply, t->service->model, &d, &before, &prompt, &cached, NULL) == LM_OK)
        o = json_pack("{s:I, s:I, s:b, s:s%, s:s%, s:o}", "cached_tokens", (json_int_t)d.cached,
                      "same_tokens", (json_int_t)d.same, "whole", d.whole, "before",
                      before.data ? before.data : "", before.size, "prompt", prompt.data ? prompt.data : "",
                      prompt.size, "cached",
                      d.known ? json_stringn(cached.data ? cached.data : "", cached.size) : json_null());
    lm_text_free(&before);
    lm_text_free(&prompt);
    lm_text_free(&cached);
    return o;
}

/* Return the log-probability that each model gives each token, for all outputs. */
static json_t *ensemble_json(const lm_turn *t)
{
    json_t *o = lm_service_ensemble(t->service), *all = json_array();

    for (size_t i = 0; i < t->n_choices; i++)
        json_array_append_new(all, json_pack("{s:i, s:O}", "index", (int)t->choices[i].index, "tokens",
                                             t->choices[i].contributions));
    json_object_set_new(o, "choices", all);
    return o;
}

void lm_turn_extras(const lm_turn *t, json_t *o)
{
    if (t->warnings)
        json_object_set(o, "warnings", t->warnings);
    if (t->explain_cache)
        json_object_set_new(o, "cache", cache_json(t));
    if (t->contributions)
        json_object_set_new(o, "ensemble", ensemble_json(t));
    if (t->choices->trace)
        json_object_set(o, "trace", t->choices->trace);
    if (t->prompt_text)
        json_object_set_new(o, "__verbose", json_pack("{s:O}", "prompt", t->prompt_text));
}

void lm_turn_piece(const lm_turn *t, const lm_choice *c, json_t *o)
{
    double now = lm_clock_seconds(), first = c->first > 0 ? c->first : now;

    if (t->timings)
        json_object_set_new(o, "timings",
                            timings_json(c->n_prompt, first - t->began, c->n_tokens, now - first));
}

json_t *lm_turn_arguments(const json_t *call)
{
    const json_t *text = json_object_get(call, "arguments");
    json_t *o = json_is_string(text)
                    ? lm_json_body(json_string_value(text), json_string_length(text), 0, NULL, NULL)
                    : NULL;

    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

/* Append the start of a JSON text up to its last complete member, with the brackets that close it. */
static void add_complete(const char *s, size_t n, lm_text *out)
{
    char closes[64];
    size_t depth = 0, end = 0;
    bool string = false;

    for (size_t i = 0; i < n && depth < sizeof closes; i++) {
        if (string) {
            i += s[i] == '\\';
            string = i < n && s[i] != '"';
        } else if (s[i] == '"') {
            string = true;
        } else if (s[i] == '{' || s[i] == '[') {
            closes[depth++] = s[i] == '{' ? '}' : ']';
            end = i + 1;
        } else if ((s[i] == '}' || s[i] == ']') && depth) {
            depth--;
            end = i + 1;
        } else if (s[i] == ',') {
            end = i;
        }
    }
    lm_text_add(out, s, end);
    while (depth)
        lm_text_add_char(out, closes[--depth]);
}

json_t *lm_turn_arguments_so_far(const json_t *call)
{
    const json_t *text = json_object_get(call, "arguments");
    json_t *whole = lm_turn_arguments(call), *o;
    lm_text complete = { 0 };

    if (whole)
        return whole;
    add_complete(json_string_value(text), json_string_length(text), &complete);
    o = complete.size ? lm_json_body(complete.data, complete.size, 0, NULL, NULL) : NULL;
    lm_text_free(&complete);
    if (json_is_object(o))
        return o;
    json_decref(o);
    return json_object();
}
