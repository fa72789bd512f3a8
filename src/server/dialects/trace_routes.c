/* POST /v1/trace, GET /v1/trace/paths: what happens inside the model while it processes a text. The trace runs on a separate engine with
 * the server's weights, so the results of other requests stay the same, bit for bit. */
#include <stdlib.h>
#include <string.h>

#include "server/ask/dialogue.h"
#include "server/ask/request_limits.h"
#include "server/dialects/routes.h"

enum { MOST_LAYERS = 4096, STEP = 8 };

typedef struct trace_values {
    const char *model, *prompt;
    json_t     *messages, *ids, *positions, *lens, *attention, *weights, *intervene;
    uint32_t    max_tokens, top;
    bool        lens_parts, attribution, norms, experts, times;
} trace_values;

#define V(field) offsetof(trace_values, field)

static const lm_field trace_fields[] = {
    { "prompt", LM_FIELD_STRING, V(prompt), 0, 0, NULL, false, "the text; or:" },
    { "messages", LM_FIELD_ARRAY, V(messages), 0, 0, NULL, false, "a conversation, through the chat template; or:" },
    { "ids", LM_FIELD_ARRAY, V(ids), 0, 0, NULL, false, "token ids" },
    { "max_tokens", LM_FIELD_U32, V(max_tokens), 0, 4096, NULL, false, "number of tokens to generate greedily before tracing (0)" },
    { "top", LM_FIELD_U32, V(top), 0, 20, NULL, false, "number of alternatives per token (5)" },
    { "positions", LM_FIELD_ANY, V(positions), 0, 0, NULL, false,
      "rows to examine, from 0, negative from the end, or \"all\" (default: the last); a row predicts the token after it" },
    { "lens", LM_FIELD_ANY, V(lens), 0, 0, NULL, false, "number of best tokens after each layer, up to 20; true: 5" },
    { "lens_parts", LM_FIELD_BOOL, V(lens_parts), 0, 0, NULL, false, "apply the lens also after each attention" },
    { "attribution", LM_FIELD_BOOL, V(attribution), 0, 0, NULL, false, "return the contribution of each attention and MLP to the logit of the next token" },
    { "norms", LM_FIELD_BOOL, V(norms), 0, 0, NULL, false, "return the norms of the residual stream and of what is added to it" },
    { "experts", LM_FIELD_BOOL, V(experts), 0, 0, NULL, false, "return the experts of each row" },
    { "attention", LM_FIELD_ANY, V(attention), 0, 0, NULL, false, "return the positions that the heads of these layers attend to; true: all layers" },
    { "weights", LM_FIELD_ARRAY, V(weights), 0, 0, NULL, false, "[[layer, head], …] whose whole rows are returned" },
    { "times", LM_FIELD_BOOL, V(times), 0, 0, NULL, false, "return the time of each operation" },
    { "intervene", LM_FIELD_ARRAY, V(intervene), 0, 0, NULL, false,
      "interventions: PATH=F, PATH#headN=F, PATH#neuronN=F, PATH#expertN=F; requires --allow-interventions" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false, "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group trace_groups[] = { { trace_fields, 0 }, { 0 } };

static void trace_defaults(const lm_service *s, void *values)
{
    (void)s;
    ((trace_values *)values)->top = 5;
}

/* The options and what they point to, valid during the call. */
typedef struct trace_request {
    lm_trace_options o;
    uint32_t   *layers, *heads;
    const char **changes;
    lm_tokens   prompt;
    lm_tracer  *tracer;
} trace_request;

static bool number_in(const json_t *v, json_int_t least, json_int_t most, uint32_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        return false;
    *out = (uint32_t)json_integer_value(v);
    return true;
}

static lm_status read_attention(const json_t *v, trace_request *a, lm_error *e)
{
    size_t n = json_array_size(v);

    if (!v || json_is_false(v))
        return LM_OK;
    if (json_is_true(v)) {
        a->o.attention = true;
        return LM_OK;
    }
    if (!json_is_array(v) || n > MOST_LAYERS)
        return lm_fail(e, LM_USAGE, "attention", LM_NO_OFFSET, "'attention' must be true or a list of layers");
    if (!(a->layers = calloc(n + 1, sizeof *a->layers)))
        return lm_fail_memory(e, "the request", n);
    for (size_t i = 0; i < n; i++)
        if (!number_in(json_array_get(v, i), 0, MOST_LAYERS, &a->layers[i]))
            return lm_fail(e, LM_USAGE, "attention", LM_NO_OFFSET, "element %zu is not a layer", i);
    a->o.layers   = a->layers;
    a->o.n_layers = n;
    return LM_OK;
}

static lm_status read_weights(const json_t *v, trace_request *a, lm_error *e)
{
    size_t n = json_array_size(v);

    if (!n)
        return LM_OK;
    if (n > MOST_LAYERS || !(a->heads = calloc(2 * n, sizeof *a->heads)))
        return lm_fail(e, LM_USAGE, "weights", LM_NO_OFFSET, "'weights' has %zu heads; at most %d are allowed", n, MOST_LAYERS);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(v, i);
        if (json_array_size(pair) != 2 || !number_in(json_array_get(pair, 0), 0, MOST_LAYERS, &a->heads[2 * i]) ||
            !number_in(json_array_get(pair, 1), 0, MOST_LAYERS, &a->heads[2 * i + 1]))
            return lm_fail(e, LM_USAGE, "weights", LM_NO_OFFSET, "element %zu is not [layer, head]", i);
    }
    a->o.heads   = a->heads;
    a->o.n_heads = n;
    return LM_OK;
}

/* Read interventions. Only factors are allowed: clients must not name files. */
static lm_status read_changes(lm_call *c, const json_t *v, trace_request *a, lm_error *e)
{
    size_t n = json_array_size(v);

    if (!n)
        return LM_OK;
    if (!c->service->o.interventions)
        return lm_fault(c, e, 403, "intervene", "this server allows no interventions: start it with --allow-interventions");
    LM_TRY(lm_limit_check(LM_MOST_CHANGES, n, e));
    if (!(a->changes = calloc(n + 1, sizeof *a->changes)))
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

static lm_status read_lens(const json_t *v, trace_request *a, lm_error *e)
{
    if (v && json_is_true(v))
        a->o.lens = 5;
    else if (v && !json_is_false(v) && !number_in(v, 0, 20, &a->o.lens))
        return lm_fail(e, LM_USAGE, "lens", LM_NO_OFFSET, "'lens' must be true or a number from 0 to 20");
    return LM_OK;
}

static lm_status read_text(lm_call *c, const trace_values *v, lm_tokens *out, lm_error *e)
{
    if ((v->prompt != NULL) + (v->messages != NULL) + (v->ids != NULL) != 1)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "one of prompt, messages and ids is required");
    if (v->messages) {
        const lm_dialogue d = { .messages = v->messages, .begin = true, .budget = -1, .shown = true };
        lm_text text = { 0 };
        lm_status status = lm_dialogue_prompt(c, &d, out, &text, NULL, e);

        lm_text_free(&text);
        return status;
    }
    if (v->prompt)
        return lm_tokenize(c->service->tokenizer, v->prompt, strlen(v->prompt), LM_ADD_SPECIAL, out, e);
    for (size_t i = 0; i < json_array_size(v->ids); i++) {
        uint32_t id;
        if (!number_in(json_array_get(v->ids, i), 0, (json_int_t)c->service->info.n_vocab - 1, &id))
            return lm_fail(e, LM_USAGE, "ids", LM_NO_OFFSET, "element %zu is not a token id", i);
        LM_TRY(lm_tokens_add(out, (lm_token)id, e));
    }
    return LM_OK;
}

static lm_status look(const json_t *v, lm_tracer *t, size_t n, lm_error *e)
{
    bool all = v && json_is_string(v) && strcmp(json_string_value(v), "all") == 0;

    LM_TRY(lm_limit_check(LM_MOST_ROWS, all ? n : json_array_size(v), e));
    if (all)
        return lm_tracer_look(t, UINT32_MAX, e);
    if (!v)
        return lm_tracer_look(t, (uint32_t)n - 1, e);
    if (!json_is_array(v))
        return lm_fail(e, LM_USAGE, "positions", LM_NO_OFFSET, "'positions' must be a list of numbers or \"all\"");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *x  = json_array_get(v, i);
        json_int_t    at = json_integer_value(x) + (json_integer_value(x) < 0 ? (json_int_t)n : 0);
        if (!json_is_integer(x) || at < 0 || at >= (json_int_t)n)
            return lm_fail(e, LM_USAGE, "positions", LM_NO_OFFSET, "element %zu is not a position of the %zu tokens", i, n);
        LM_TRY(lm_tracer_look(t, (uint32_t)at, e));
    }
    return LM_OK;
}

static lm_status check_client(const lm_call *c, lm_error *e)
{
    return lm_exchange_is_left(c->x) ? lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "the client has closed the connection") : LM_OK;
}

/* Process tokens in steps: the trace of a client that leaves ends after one. */
static lm_status read_ids(const lm_call *c, trace_request *a, const lm_token *ids, size_t n, lm_error *e)
{
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < STEP ? n - at : STEP;
        LM_TRY(check_client(c, e));
        LM_TRY(lm_tracer_read(a->tracer, ids + at, k, e));
    }
    return LM_OK;
}

static lm_status write_ids(const lm_call *c, trace_request *a, size_t most, lm_error *e)
{
    size_t n = 0, before;

    lm_tracer_ids(a->tracer, &n);
    for (size_t i = 0; i < most; i++) {
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
static lm_status run(const lm_call *c, const trace_values *v, trace_request *a, lm_error *e)
{
    lm_tokens       all = { 0 };
    const lm_token *ids;
    size_t          n;

    if (v->max_tokens) {
        LM_TRY(read_ids(c, a, a->prompt.ids, a->prompt.n, e));
        LM_TRY(write_ids(c, a, v->max_tokens, e));
    }
    ids = lm_tracer_ids(a->tracer, &n);
    lm_status status = v->max_tokens ? lm_tokens_append(&all, ids, n, e) : lm_tokens_append(&all, a->prompt.ids, a->prompt.n, e);
    if (status == LM_OK)
        status = look(v->positions, a->tracer, all.n, e);
    if (status == LM_OK)
        status = lm_tracer_restart(a->tracer, e);
    if (status == LM_OK)
        status = read_ids(c, a, all.ids, all.n, e);
    lm_tokens_free(&all);
    return status;
}

static lm_status prepare(lm_call *c, const trace_values *v, trace_request *a, lm_error *e)
{
    uint32_t context = lm_engine_context(c->service->engine);

    LM_TRY(lm_service_alone(c->service, "a trace", e));
    LM_TRY(read_text(c, v, &a->prompt, e));
    if (!a->prompt.n)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is empty");
    if (a->prompt.n + v->max_tokens > context)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET, "%zu tokens and %u to generate; the context size is %u", a->prompt.n,
                       v->max_tokens, context);
    a->o.engine              = c->service->o.engine;
    a->o.engine.sequences    = 1;
    a->o.engine.rows         = a->o.engine.logit_rows = a->o.engine.rollback = 0;
    a->o.engine.kv_positions = 0;
    a->o.engine.context      = (uint32_t)a->prompt.n + v->max_tokens;
    a->o.engine.hidden       = false;
    a->o.engine.progress     = NULL;
    a->o.engine.log          = (lm_log){ 0 };
    a->o.weights             = c->service->engine;
    a->o.top                 = v->top;
    a->o.lens_parts          = v->lens_parts;
    a->o.attribution         = v->attribution;
    a->o.norms               = v->norms;
    a->o.experts             = v->experts;
    a->o.times               = v->times;
    LM_TRY(read_lens(v->lens, a, e));
    LM_TRY(read_attention(v->attention, a, e));
    LM_TRY(read_weights(v->weights, a, e));
    LM_TRY(read_changes(c, v->intervene, a, e));
    return lm_tracer_new(c->service->model, &a->o, &a->tracer, e);
}

/* Answer with the library's document, without its flat lists of all rows. */
static lm_status answer(lm_call *c, trace_request *a, lm_error *e)
{
    static const char *const flat[] = { "lens", "attribution", "norms", "experts", "attention", "weights" };
    lm_text      text = { 0 };
    json_error_t why;
    size_t       n;

    LM_TRY(lm_tracer_json(a->tracer, &text, e));
    json_t *o = json_loadb(text.data, text.size, 0, &why);
    lm_text_free(&text);
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
        json_object_del(o, flat[i]);
    lm_tracer_ids(a->tracer, &n);
    json_object_set_new(o, "object", json_string("trace"));
    json_object_set_new(o, "model", json_string(c->service->name));
    json_object_set_new(o, "usage", json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)a->prompt.n, "completion_tokens",
                                              (json_int_t)(n - a->prompt.n), "total_tokens", (json_int_t)n));
    return lm_answer_json(c, o, e);
}

static lm_status answer_trace(lm_call *c, lm_error *e)
{
    const trace_values *v = c->values;
    trace_request         a = { .o = lm_trace_defaults() };
    lm_status           status = prepare(c, v, &a, e);

    if (status == LM_OK)
        status = run(c, v, &a, e);
    if (status == LM_OK)
        status = answer(c, &a, e);
    lm_tracer_free(a.tracer);
    lm_tokens_free(&a.prompt);
    free(a.layers);
    free(a.heads);
    free(a.changes);
    return status;
}

const lm_route lm_route_trace = { "POST", "/v1/trace", NULL, 0, LM_DIALECT_OPENAI,
                                  "trace a text: surprise, the lens, attribution, heads, experts", trace_groups,
                                  sizeof(trace_values), trace_defaults, answer_trace, NULL };

static lm_status answer_paths(lm_call *c, lm_error *e)
{
    lm_text      text = { 0 };
    json_error_t why;

    LM_TRY(lm_trace_paths(c->service->model, &text, e));
    json_t *o = json_loadb(text.data, text.size, 0, &why);
    lm_text_free(&text);
    return lm_answer_json(c, o, e);
}

const lm_route lm_route_trace_paths = { "GET", "/v1/trace/paths", NULL, 0, LM_DIALECT_OPENAI,
                                        "list the traceable values, by path, and the layers of the model", NULL, 0, NULL, answer_paths,
                                        NULL };
