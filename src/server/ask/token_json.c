#include "server/ask/token_json.h"

static json_t *list_of(const lm_text *bytes)
{
    json_t *list = json_array();

    for (size_t i = 0; i < bytes->size; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes->data[i]));
    return list;
}

/* NULL: they are no whole characters. */
static json_t *text_of(const lm_text *bytes)
{
    return json_stringn(bytes->data ? bytes->data : "", bytes->size);
}

json_t *lm_token_text(const lm_tokenizer *t, lm_token id)
{
    lm_text bytes = { 0 }, escaped = { 0 };
    json_t *o;

    lm_token_bytes(t, id, &bytes, NULL);
    if (!(o = text_of(&bytes))) {
        lm_text_add_str(&escaped, "bytes:");
        for (size_t i = 0; i < bytes.size; i++)
            lm_text_printf(&escaped, "\\x%02x", (unsigned)(unsigned char)bytes.data[i]);
        o = text_of(&escaped);
    }
    lm_text_free(&escaped);
    lm_text_free(&bytes);
    return o;
}

json_t *lm_token_piece(const lm_tokenizer *t, lm_token id)
{
    lm_text bytes = { 0 };
    json_t *o;

    lm_token_bytes(t, id, &bytes, NULL);
    if (!(o = text_of(&bytes)))
        o = list_of(&bytes);
    lm_text_free(&bytes);
    return o;
}

json_t *lm_token_byte_list(const lm_tokenizer *t, lm_token id)
{
    lm_text bytes = { 0 };
    json_t *o;

    lm_token_bytes(t, id, &bytes, NULL);
    o = list_of(&bytes);
    lm_text_free(&bytes);
    return o;
}

static json_t *one_logprob(const lm_tokenizer *t, const json_t *token)
{
    lm_token id = (lm_token)json_integer_value(json_object_get(token, "id"));

    return json_pack("{s:i, s:o, s:f, s:o}", "id", id, "token", lm_token_text(t, id), "logprob",
                     json_number_value(json_object_get(token, "logprob")), "bytes", lm_token_byte_list(t, id));
}

json_t *lm_token_logprobs(const lm_tokenizer *t, const json_t *tokens)
{
    json_t *list = json_array(), *token, *one;
    size_t i, j;

    json_array_foreach(tokens, i, token) {
        json_t *o = one_logprob(t, token), *top = json_array();

        json_array_foreach(json_object_get(token, "top"), j, one)
            json_array_append_new(top, one_logprob(t, one));
        json_object_set_new(o, "top_logprobs", top);
        json_array_append_new(list, o);
    }
    return list;
}
