/* POST /v1/trace, GET /v1/trace/paths: what happens inside the model while it processes a text. The trace
 * runs on a separate engine with the server's weights, so the results of other requests stay the same, bit
 * for bit.
 *
 * Threads: a separate thread handles one trace at a time; others wait in its queue. It is
 * not the schedule's, because the plan of a tracer's engine differs from that of the schedule's: it stores
 * values. One is enough: each engine has its own workers, and two would share the same cores. */
#include <string.h>

#include "server/ask/dialogue.h"
#include "server/ask/request_limits.h"
#include "server/ask/trace_request.h"
#include "server/dialects/routes.h"
#include "trace/tracejson.h"

enum { STEP = 8 };

typedef struct trace_values {
    lm_trace_values wanted;
    const char *model, *prompt;
    json_t     *messages, *ids, *positions, *intervene;
    uint32_t    max_tokens;
    bool        times;
} trace_values;

#define V(field) offsetof(trace_values, field)

static const lm_field text_fields[] = {
    { "prompt", LM_FIELD_STRING, V(prompt), 0, 0, NULL, false, "the text; or:" },
    { "messages", LM_FIELD_ARRAY, V(messages), 0, 0, NULL, false,
      "a conversation, through the chat template; or:" },
    { "ids", LM_FIELD_ARRAY, V(ids), 0, 0, NULL, false, "token ids" },
    { "max_tokens", LM_FIELD_U32, V(max_tokens), 0, 4096, NULL, false,
      "number of tokens to generate greedily before tracing (0)" },
    { "positions", LM_FIELD_ANY, V(positions), 0, 0, NULL, false,
      "rows to examine, from 0, negative from the end, or \"all\" (default: the last); a row predicts the "
      "token after it" },
    { "times", LM_FIELD_BOOL, V(times), 0, 0, NULL, false, "return the time of each operation" },
    { "intervene", LM_FIELD_ARRAY, V(intervene), 0, 0, NULL, false,
      "interventions: PATH=F, PATH#headN=F, PATH#neuronN=F, PATH#expertN=F; requires --allow-interventions" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group trace_groups[] = { { text_fields, 0 }, { lm_trace_fields, V(wanted) }, { 0 } };

static void trace_defaults(const lm_service *s, void *values)
{
    (void)s;
    ((trace_values *)values)->wanted.top = LM_TRACE_TOP;
}

/* Valid during the call. */
typedef struct trace_job {
    lm_trace_request request;
    lm_tokens  prompt;
    lm_tracer *tracer;
} trace_job;

static lm_status read_text(lm_call *c, const trace_values *v, lm_tokens *out, lm_error *e)
{
    if ((v->prompt != NULL) + (v->messages != NULL) + (v->ids != NULL) != 1)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "one of prompt, messages and ids is required");
    if (v->messages) {
        lm_turn t = { .body.messages = v->messages,
                      .generation_prompt = true,
                      .reasoning_budget = -1,
                      .only_shown = true };
        lm_text text = { 0 };
        lm_status status = lm_dialogue_prompt(c, &t, out, &text, e);

        lm_text_free(&text);
        lm_turn_release(&t);
        return status;
    }
    if (v->prompt)
        return lm_tokenize(c->service->tokenizer, v->prompt, strlen(v->prompt), LM_ADD_SPECIAL, out, e);
    for (size_t i = 0; i < json_array_size(v->ids); i++) {
        const json_t *id = json_array_get(v->ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= (json_int_t)c->service->info.n_vocab)
            return lm_fail(e, LM_USAGE, "ids", LM_NO_OFFSET, "element %zu is not a token id", i);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

static lm_status look(const json_t *v, lm_tracer *t, size_t n, lm_error *e)
{
    bool all = v && json_is_string(v) && strcmp(json_string_value(v), "all") == 0;

    LM_TRY(lm_limit_check(LM_LIMIT_ID_ROWS, all ? n : json_array_size(v), e));
    if (all)
        return lm_tracer_look(t, UINT32_MAX, e);
    if (!v)
        return lm_tracer_look(t, (uint32_t)n - 1, e);
    if (!json_is_array(v))
        return lm_fail(e, LM_USAGE, "positions", LM_NO_OFFSET,
                       "'positions' must be a list of numbers or \"all\"");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *x  = json_array_get(v, i);
        json_int_t    at = json_integer_value(x) + (json_integer_value(x) < 0 ? (json_int_t)n : 0);
        if (!json_is_integer(x) || at < 0 || at >= (json_int_t)n)
            return lm_fail(e, LM_USAGE, "positions", LM_NO_OFFSET,
                           "element %zu is not a position of the %zu tokens", i, n);
        LM_TRY(lm_tracer_look(t, (uint32_t)at, e));
    }
    return LM_OK;
}

/* Whether the trace may continue: its client waits, it is in time, and the server does not end. */
static lm_status check_client(lm_call *c, lm_error *e)
{
    double timeout = c->service->o.timeout;

    if (lm_traced_list_ends(&c->service->traced))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SERVER_ENDS);
    if (timeout > 0 && lm_exchange_seconds(c->x) > timeout)
        return lm_fault(c, e, 503, "deadline", "its time has passed");
    return lm_exchange_is_left(c->x)
               ? lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "the client has closed the connection")
               : LM_OK;
}

/* Process tokens in steps: the trace of a client that leaves ends after one. */
static lm_status read_ids(lm_call *c, trace_job *a, const lm_token *ids, size_t n, lm_error *e)
{
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < STEP ? n - at : STEP;
        LM_TRY(check_client(c, e));
        LM_TRY(lm_tracer_read(a->tracer, ids + at, k, e));
    }
    return LM_OK;
}

static lm_status write_ids(lm_call *c, trace_job *a, size_t max, lm_error *e)
{
    size_t n = 0, before;

    lm_tracer_ids(a->tracer, &n);
    for (size_t i = 0; i < max; i++) {
        before = n;
        LM_TRY(check_client(c, e));
        LM_TRY(lm_tracer_write(a->tracer, 1, e));
        lm_tracer_ids(a->tracer, &n);
        if (n == before)                                 /* an end token */
            break;
    }
    return LM_OK;
}

/* Generate first, if requested; then process the whole text again and examine the rows. */
static lm_status run(lm_call *c, const trace_values *v, trace_job *a, lm_error *e)
{
    lm_tokens       all = { 0 };
    const lm_token *ids;
    size_t          n;

    if (v->max_tokens) {
        LM_TRY(read_ids(c, a, a->prompt.ids, a->prompt.n, e));
        LM_TRY(write_ids(c, a, v->max_tokens, e));
    }
    ids = lm_tracer_ids(a->tracer, &n);
    lm_status status = v->max_tokens ? lm_tokens_append(&all, ids, n, e)
                                     : lm_tokens_append(&all, a->prompt.ids, a->prompt.n, e);
    if (status == LM_OK)
        status = look(v->positions, a->tracer, all.n, e);
    if (status == LM_OK)
        status = lm_tracer_restart(a->tracer, e);
    if (status == LM_OK)
        status = read_ids(c, a, all.ids, all.n, e);
    lm_tokens_free(&all);
    return status;
}

static lm_status prepare(lm_call *c, const trace_values *v, trace_job *a, lm_error *e)
{
    uint32_t context = lm_engine_context(c->service->engine);

    LM_TRY(lm_service_require_single(c->service, "a trace", e));
    LM_TRY(read_text(c, v, &a->prompt, e));
    if (!a->prompt.n)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is empty");
    if (a->prompt.n + v->max_tokens > context)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET,
                       "%zu tokens and %u to generate; the context size is %u", a->prompt.n, v->max_tokens,
                       context);
    LM_TRY(lm_trace_request_read(c, &v->wanted, v->intervene, &a->request, e));
    a->request.o.times = v->times;
    return lm_trace_request_start(c, &a->request, a->prompt.n + v->max_tokens, &a->tracer, e);
}

static lm_status answer(lm_call *c, trace_job *a, lm_error *e)
{
    json_t *o = NULL;
    size_t  n;

    LM_TRY(lm_trace_document(a->tracer, false, &o, e));
    lm_tracer_ids(a->tracer, &n);
    json_object_set_new(o, "object", json_string("trace"));
    json_object_set_new(o, "model", json_string(c->service->name));
    json_object_set_new(o, "usage",
                        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)a->prompt.n,
                                  "completion_tokens", (json_int_t)(n - a->prompt.n), "total_tokens",
                                  (json_int_t)n));
    return lm_answer_json(c, o, e);
}

/* Charge the tokens of a trace to the key, also if it has not been completed. */
static void charge(const lm_call *c, const trace_job *a)
{
    lm_account account;
    size_t     n;

    lm_tracer_ids(a->tracer, &n);
    lm_call_account(c, &account);
    lm_account_charge(&account, a->prompt.n, 0, n > a->prompt.n ? n - a->prompt.n : 0);
}

static lm_status trace(lm_call *c, lm_error *e)
{
    const trace_values *v = c->values;
    trace_job           a = { 0 };
    lm_status           status = check_client(c, e);

    if (status == LM_OK)
        status = prepare(c, v, &a, e);
    if (status == LM_OK)
        status = run(c, v, &a, e);
    if (status == LM_OK)
        status = answer(c, &a, e);
    if (a.tracer)
        charge(c, &a);
    lm_tracer_free(a.tracer);
    lm_tokens_free(&a.prompt);
    lm_trace_request_free(&a.request);
    return status;
}

static lm_status answer_trace(lm_call *c, lm_error *e)
{
    lm_traced_list_begin(&c->service->traced);
    lm_status status = trace(c, e);
    lm_traced_list_end(&c->service->traced);
    return status;
}

const lm_route lm_route_trace = {
    .method = "POST", .path = "/v1/trace", .flags = LM_ROUTE_TRACES, .dialect = LM_DIALECT_OPENAI,
    .summary = "trace a text: surprise, the lens, attribution, heads, experts",
    .groups = trace_groups, .values_size = sizeof(trace_values), .defaults = trace_defaults,
    .handle = answer_trace,
};

static lm_status answer_paths(lm_call *c, lm_error *e)
{
    json_t *o = NULL;

    LM_TRY(lm_trace_paths_document(c->service->model, &o, e));
    return lm_answer_json(c, o, e);
}

const lm_route lm_route_trace_paths = {
    .method = "GET", .path = "/v1/trace/paths", .dialect = LM_DIALECT_OPENAI,
    .summary = "list the traceable values, by path, and the layers of the model",
    .handle = answer_paths,
};
