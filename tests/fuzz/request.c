/* request.c - fuzz target: request bodies, with the fields of every route; conversations and prompts become
 * tokens.
 *
 * Input: a byte that selects the route, then the body. */
#include "fuzz.h"
#include "json_mutator.h"
#include "server/ask/dialogue.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/ollama.h"
#include "server/dialects/responses.h"
#include "server/dialects/routes.h"

static char chatml[] =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}{{ m.reasoning_content }}{{ m.tool_calls | tojson if m.tool_calls }}<|im_end|>\n{% "
    "endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    if (size < 2)
        return LLVMFuzzerMutate(data, size, max_size);
    data[0] = (uint8_t)(data[0] + (seed % 5 == 0));
    return 1 + json_mutate(data + 1, size - 1, max_size - 1, seed);
}

/* Return a service with the tokenizer of a model and a template. */
static lm_service *service(void)
{
    static lm_service s;
    lm_model_options o = lm_model_defaults();
    lm_error e;

    if (s.tokenizer)
        return &s;
    PROMISE(lm_model_open(GOLDEN_MODEL, &o, &s.model, &e) == LM_OK);
    lm_model_describe(s.model, &s.info);
    PROMISE((s.tokenizer = lm_model_tokenizer(s.model)));
    PROMISE(lm_template_new(chatml, sizeof chatml - 1, "fuzz", &s.template, &e) == LM_OK);
    PROMISE((s.variables = json_object()));
    s.template_source = chatml;
    s.describes_tools = true;
    s.o.sampling = lm_sampler_defaults();
    return &s;
}

static const lm_route *route(unsigned n)
{
    const lm_route *r;
    size_t i = 0;

    for (;; i = 0)
        for (; (r = lm_route_at(i)); i++)
            if (r->groups && !n--)
                return r;
}

/* The value of a field lies within the bounds that are documented for clients. */
static void check_range(const lm_field *f, const char *at)
{
    double value;

    if (f->min >= 0 && f->max <= 0)          /* no bounds */
        return;
    switch (f->kind) {
    case LM_FIELD_I32:    value = *(const int32_t *)(const void *)at; break;
    case LM_FIELD_U32:    value = *(const uint32_t *)(const void *)at; break;
    case LM_FIELD_I64:    value = (double)*(const int64_t *)(const void *)at; break;
    case LM_FIELD_FLOAT:  value = (double)*(const float *)(const void *)at; break;
    case LM_FIELD_DOUBLE: value = *(const double *)(const void *)at; break;
    default:              return;
    }
    PROMISE(value >= f->min - 1e-6 && value <= f->max * (1 + 1e-6) + 1e-6);
}

/* A conversation in OpenAI's chat format, with the body's tools, becomes a prompt or is rejected. */
static void try_prompt(lm_service *s, json_t *body, json_t *messages, json_t *warnings)
{
    json_t *kwargs = json_object_get(body, "chat_template_kwargs"), *tools = json_object_get(body, "tools");
    lm_turn t = { .body = { .messages = messages,
                            .kwargs = json_is_object(kwargs) ? kwargs : NULL,
                            .tools = json_is_array(tools) ? tools : NULL,
                            .tool_choice = json_object_get(body, "tool_choice"),
                            .effort = json_string_value(json_object_get(body, "reasoning_effort")) },
                  .generation_prompt = true,
                  .parallel_calls = true,
                  .reasoning_budget = -1,
                  .reasoning_field = "reasoning_effort" };
    lm_call c = { .service = s, .body = body, .warnings = warnings };
    lm_tokens ids = { 0 };
    lm_text text = { 0 };
    lm_error e;
    lm_status status = lm_dialogue_prompt(&c, &t, &ids, &text, &e);

    PROMISE(status == LM_OK || ((status == LM_USAGE || status == LM_LIMIT) && *e.message) ||
            status == LM_NO_MEMORY);
    PROMISE(status != LM_OK || ids.n);
    lm_tokens_free(&ids);
    lm_text_free(&text);
    lm_text_free(&c.wide);
    lm_turn_release(&t);
}

/* Try the same messages in every dialect. */
static void try_messages(lm_service *s, json_t *body, json_t *warnings)
{
    json_t *given = json_object_get(body, "messages"), *messages = NULL;
    lm_error e;

    try_prompt(s, body, given, warnings);
    if (lm_anthropic_messages(json_object_get(body, "system"), given, warnings, &messages, &e) == LM_OK) {
        try_prompt(s, body, messages, warnings);
        json_decref(messages);
    }
    if (lm_ollama_messages(given, &messages, &e) == LM_OK) {
        try_prompt(s, body, messages, warnings);
        json_decref(messages);
    }
}

/* Try the items of OpenAI's responses as well. */
static void try_items(lm_service *s, json_t *body, json_t *warnings)
{
    json_t *messages = NULL;
    lm_error e;

    if (lm_response_messages(NULL, json_object_get(body, "input"), warnings, &messages, &e) == LM_OK) {
        try_prompt(s, body, messages, warnings);
        json_decref(messages);
    }
}

static void try_tokens(lm_service *s, json_t *body, json_t *warnings)
{
    lm_prompts prompts;
    lm_error e;
    lm_status status;

    status = lm_prompts_read(s, json_object_get(body, "prompt"), LM_LIMIT_ID_PROMPTS, &prompts, &e);
    PROMISE(status == LM_OK || status == LM_USAGE || status == LM_LIMIT || status == LM_NO_MEMORY);
    for (size_t i = 0; status == LM_OK && i < prompts.n; i++)
        for (size_t k = 0; k < prompts.items[i].n; k++)
            PROMISE(prompts.items[i].ids[k] >= 0 && (uint32_t)prompts.items[i].ids[k] < s->info.n_vocab);
    lm_prompts_free(&prompts);
    if (json_is_array(json_object_get(body, "messages")))
        try_messages(s, body, warnings);
    if (json_object_get(body, "input"))
        try_items(s, body, warnings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lm_service *s = service();
    json_t *body = size ? json_loadb((const char *)data + 1, size - 1,
                                     JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)
                        : NULL;
    const lm_route *r = size ? route(data[0]) : NULL;
    json_t *warnings = json_array();
    lm_error e = { 0 };
    char *values;

    if (!json_is_object(body)) {
        json_decref(body);
        json_decref(warnings);
        return 0;
    }
    PROMISE((values = calloc(1, r->values_size)));
    if (r->defaults)
        r->defaults(s, values);
    lm_status status = lm_fields_read(r->groups, body, values, warnings, &e);
    PROMISE(status == LM_OK || (status == LM_USAGE && *e.where && *e.message));
    for (const lm_field_group *g = r->groups; status == LM_OK && g->fields; g++)
        for (const lm_field *f = g->fields; f->name; f++)
            if (json_object_get(body, f->name) && !json_is_null(json_object_get(body, f->name)))
                check_range(f, values + g->base + f->offset);
    try_tokens(s, body, warnings);
    free(values);
    json_decref(warnings);
    json_decref(body);
    return 0;
}
