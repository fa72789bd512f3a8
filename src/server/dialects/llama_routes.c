/* Routes that llama-server and vLLM have in addition to OpenAI's: tokens and templates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ask/dialogue.h"
#include "server/ask/token_json.h"
#include "server/dialects/native.h"
#include "server/dialects/openai.h"
#include "server/dialects/routes.h"
#include "server/front/memory.h"

/* ---- /tokenize, /detokenize: llama.cpp- and vLLM-compatible ---- */

typedef struct tokenize_values { const char *content, *prompt, *model; bool add_special, parse_special,
        pieces; json_t *tokens; } tokenize_values;

#define V(field) offsetof(tokenize_values, field)

static const lm_field tokenize_fields[] = {
    { "content", LM_FIELD_STRING, V(content), 0, 0, NULL, false, "text (llama.cpp)" },
    { "prompt", LM_FIELD_STRING, V(prompt), 0, 0, NULL, false, "text (vLLM)" },
    { "add_special", LM_FIELD_BOOL, V(add_special), 0, 0, NULL, false,
      "add the special tokens that the tokenizer puts around a text (false; with prompt: true)" },
    { "add_special_tokens", LM_FIELD_BOOL, V(add_special), 0, 0, NULL, false, "vLLM's name of add_special" },
    { "parse_special", LM_FIELD_BOOL, V(parse_special), 0, 0, NULL, false,
      "recognise special tokens in the text (true)" },
    { "with_pieces", LM_FIELD_BOOL, V(pieces), 0, 0, NULL, false,
      "return ids with their texts; for a token that is not valid UTF-8, an array of its bytes" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group tokenize_groups[] = { { tokenize_fields, 0 }, { 0 } };

static void tokenize_defaults(const lm_service *s, void *values)
{
    (void)s;
    ((tokenize_values *)values)->parse_special = true;
}

static json_t *piece_json(const lm_service *s, lm_token id)
{
    return json_pack("{s:i, s:o}", "id", id, "piece", lm_token_piece(s->tokenizer, id));
}

static lm_status answer_tokenize(lm_call *c, lm_error *e)
{
    const tokenize_values *v = c->values;
    const char *text = v->prompt ? v->prompt : v->content;
    bool vllm = v->prompt || json_is_string(json_object_get(c->body, "prompt"));
    bool special = v->add_special || (vllm && !json_is_false(json_object_get(c->body, "add_special")) &&
                                      !json_is_false(json_object_get(c->body, "add_special_tokens")));
    lm_tokens ids = { 0 };
    json_t *list;
    lm_status status;

    if (v->content && v->prompt)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' and 'content' cannot be combined");
    if (!text && (json_is_string(json_object_get(c->body, "content")) ||
                  json_is_string(json_object_get(c->body, "prompt"))))
        text = "";
    if (!text)
        return lm_fail(e, LM_USAGE, "content", LM_NO_OFFSET, "'content' is required");
    status = lm_tokenize(c->service->tokenizer, text, strlen(text),
                         (special ? LM_ADD_SPECIAL : 0u) | (v->parse_special ? 0u : LM_NO_PARSE_SPECIAL),
                         &ids, e);
    if (status != LM_OK)
        return status;
    list = json_array();
    for (size_t i = 0; i < ids.n; i++)
        json_array_append_new(list,
                              v->pieces ? piece_json(c->service, ids.ids[i]) : json_integer(ids.ids[i]));
    json_int_t n = (json_int_t)ids.n;
    lm_tokens_free(&ids);
    if (!vllm)
        return lm_answer_json(c, json_pack("{s:o}", "tokens", list), e);
    return lm_answer_json(c,
                          json_pack("{s:I, s:I, s:o}", "count", n, "max_model_len",
                                    (json_int_t)lm_engine_context(c->service->engine), "tokens", list),
                          e);
}

const lm_route lm_route_tokenize = {
    .method = "POST", .path = "/tokenize", .dialect = LM_DIALECT_NATIVE,
    .summary = "tokenize a text",
    .groups = tokenize_groups, .values_size = sizeof(tokenize_values), .defaults = tokenize_defaults,
    .handle = answer_tokenize,
};

static const lm_field detokenize_fields[] = {
    { "tokens", LM_FIELD_ARRAY, V(tokens), 0, 0, NULL, true, "token ids" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group detokenize_groups[] = { { detokenize_fields, 0 }, { 0 } };

static lm_status answer_detokenize(lm_call *c, lm_error *e)
{
    const tokenize_values *v = c->values;
    lm_tokens ids = { 0 };
    lm_text text = { 0 };
    lm_status status = LM_OK;

    for (size_t i = 0; status == LM_OK && i < json_array_size(v->tokens); i++) {
        const json_t *id = json_array_get(v->tokens, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= c->service->info.n_vocab)
            status = lm_fail(e, LM_USAGE, "tokens", LM_NO_OFFSET, "element %zu is not a token id below %u", i,
                             c->service->info.n_vocab);
        else
            status = lm_tokens_add(&ids, (lm_token)json_integer_value(id), e);
    }
    if (status == LM_OK)
        status = lm_detokenize(c->service->tokenizer, ids.ids, ids.n, 0, &text, e);
    lm_tokens_free(&ids);
    if (status == LM_OK)
        status = lm_answer_json(c,
                                json_pack("{s:s%, s:s%}", "content", text.data ? text.data : "", text.size,
                                          "prompt", text.data ? text.data : "", text.size),
                                e);
    lm_text_free(&text);
    return status;
}

const lm_route lm_route_detokenize = {
    .method = "POST", .path = "/detokenize", .dialect = LM_DIALECT_NATIVE,
    .summary = "convert token ids to text",
    .groups = detokenize_groups, .values_size = sizeof(tokenize_values), .handle = answer_detokenize,
};

/* ---- /tokenizer_info: used by lm-eval ---- */

json_t *lm_special_json(const lm_service *s, lm_token id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? lm_tokenizer_piece(s->tokenizer, id, &n) : NULL;

    return piece ? json_stringn(piece, n) : json_null();
}

static lm_status answer_tokenizer_info(lm_call *c, lm_error *e)
{
    const lm_service *s = c->service;

    return lm_answer_json(c,
                          json_pack("{s:s, s:o, s:o, s:n, s:s?, s:I}", "tokenizer_class", "lamina",
                                    "bos_token", lm_special_json(s, lm_tokenizer_bos(s->tokenizer)), "eos_token",
                                    lm_special_json(s, lm_tokenizer_eos(s->tokenizer)), "pad_token",
                                    "chat_template", s->template_source, "max_model_len",
                                    (json_int_t)lm_engine_context(s->engine)),
                          e);
}

const lm_route lm_route_tokenizer_info = {
    .method = "GET", .path = "/tokenizer_info", .flags = LM_ROUTE_QUICK, .dialect = LM_DIALECT_OPENAI,
    .summary = "return the special tokens and the chat template",
    .handle = answer_tokenizer_info,
};

/* ---- /apply-template ---- */

typedef struct template_turn { lm_turn turn; json_t *continue_final; } template_turn;

static const lm_field template_fields[] = {
    { "model", LM_FIELD_STRING, offsetof(lm_turn, body.model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "messages", LM_FIELD_ARRAY, offsetof(lm_turn, body.messages), 0, 0, NULL, true, "the conversation" },
    { "chat_template_kwargs", LM_FIELD_OBJECT, offsetof(lm_turn, body.kwargs), 0, 0, NULL, false,
      "further variables of the chat template" },
    { "add_generation_prompt", LM_FIELD_BOOL, offsetof(lm_turn, generation_prompt), 0, 0, NULL, false,
      "add the start of the answer to the prompt (true)" },
    { "continue_final_message", LM_FIELD_ANY, offsetof(template_turn, continue_final), 0, 0, NULL, false,
      "as in /v1/chat/completions" },
    { "tools", LM_FIELD_ARRAY, offsetof(lm_turn, body.tools), 0, 0, NULL, false,
      "functions and custom tools, as in /v1/chat/completions" },
    { "reasoning_effort", LM_FIELD_STRING, offsetof(lm_turn, body.effort), 0, 0, NULL, false,
      "as in /v1/chat/completions" },
    { 0 },
};
static const lm_field_group template_groups[] = { { template_fields, 0 }, { 0 } };

static void template_defaults(const lm_service *s, void *values)
{
    lm_turn_defaults(s, values);
}

static lm_status answer_template(lm_call *c, lm_error *e)
{
    const template_turn *v = c->values;
    lm_turn *t = c->values;
    lm_tokens ids = { 0 };
    lm_text text = { 0 };
    const json_t *on = v->continue_final;
    json_t *customs = NULL;

    lm_turn_begin(c, t, NULL);
    t->continue_final = on ? !json_is_false(on)
                           : !json_is_true(json_object_get(c->body, "add_generation_prompt"));
    t->only_shown = true;
    t->reasoning_field = "reasoning_effort";
    lm_status status = lm_openai_customs(t, &customs, e);
    json_decref(customs);
    if (status == LM_OK)
        status = lm_dialogue_prompt(c, t, &ids, &text, e);
    lm_tokens_free(&ids);
    if (status == LM_OK)
        status = lm_answer_json(c, json_pack("{s:s%}", "prompt", text.data ? text.data : "", text.size), e);
    lm_text_free(&text);
    return status;
}

const lm_route lm_route_apply_template = {
    .method = "POST", .path = "/apply-template", .dialect = LM_DIALECT_NATIVE,
    .summary = "render a conversation as the prompt",
    .groups = template_groups, .values_size = sizeof(template_turn), .defaults = template_defaults,
    .handle = answer_template,
};
