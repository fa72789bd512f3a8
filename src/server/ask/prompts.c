/* prompts.c - prompts.h: strings, arrays of ids, llama.cpp's mixtures and objects, and arrays of all of
 * these. Read from lm_prompts_read upwards. */
#include "server/ask/prompts.h"

#include <string.h>

#include "server/front/memory.h"

static lm_status read_ids(const lm_service *s, const json_t *list, lm_tokens *out, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        if (json_is_string(id)) {                        /* llama.cpp: ids and strings mixed */
            LM_TRY(lm_tokenize(s->tokenizer, json_string_value(id), json_string_length(id),
                               i ? 0 : LM_ADD_SPECIAL, out, e));
            continue;
        }
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= s->info.n_vocab)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "element %zu is not a token id below %u", i,
                           s->info.n_vocab);
        LM_TRY(lm_tokens_add(out, (lm_token)json_integer_value(id), e));
    }
    return LM_OK;
}

/* Append the text of content parts, in the form of messages. False: a part is not text. */
static bool content_text(const json_t *parts, lm_text *out)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));

        if (!json_is_string(text) || !type || strcmp(type, "text")) {
            lm_text_free(out);
            return false;
        }
        lm_text_add(out, json_string_value(text), json_string_length(text));
    }
    return true;
}

static lm_status read_prompt(const lm_service *s, const json_t *value, lm_tokens *out, lm_error *e)
{
    lm_text all = { 0 };
    const json_t *text = json_object_get(value, "prompt_string"),
                 *media = json_object_get(value, "multimodal_data");

    if (json_is_string(value))
        return lm_tokenize(s->tokenizer, json_string_value(value), json_string_length(value), LM_ADD_SPECIAL,
                           out, e);
    if (json_is_array(value))
        return read_ids(s, value, out, e);
    /* Llama.cpp's. */
    if (json_is_string(text) && !json_string_length(media) && !json_array_size(media))
        return lm_tokenize(s->tokenizer, json_string_value(text), json_string_length(text), LM_ADD_SPECIAL,
                           out, e);
    if (text || !content_text(json_object_get(value, "content"), &all))
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' may contain only text");
    if (all.size) {
        lm_status status = lm_tokenize(s->tokenizer, all.data, all.size, LM_ADD_SPECIAL, out, e);
        lm_text_free(&all);
        return status;
    }
    return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET,
                   "'prompt' must be a string, an array of token ids, or an array of those");
}

lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id max, lm_prompts *out,
                          lm_error *e)
{
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, json_array_size(value) - 1);
    bool many = json_is_array(first) || json_is_object(first) ||
                (json_is_string(first) && !json_is_integer(last));

    *out = (lm_prompts){ 0 };
    if (!value)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is required");
    size_t n = many ? json_array_size(value) : 1;
    LM_TRY(lm_limit_check(max, n, e));
    if (!(out->items = lm_memory_zero(n, sizeof *out->items)))
        return lm_fail_memory(e, "prompts", n * sizeof *out->items);
    for (out->n = 0; out->n < n;) {
        lm_tokens *at = out->items + out->n++;
        LM_TRY(read_prompt(s, many ? json_array_get(value, out->n - 1) : value, at, e));
        if (!at->n)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' is empty");
    }
    return LM_OK;
}

lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e)
{
    if (!(p->items = lm_memory_zero(1, sizeof *p->items)))
        return lm_fail_memory(e, "the prompt", sizeof *p->items);
    p->n = 1;
    *prompt = p->items;
    return LM_OK;
}

void lm_prompts_free(lm_prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        lm_tokens_free(p->items + i);
    lm_heap_free(p->items);
    *p = (lm_prompts){ 0 };
}
