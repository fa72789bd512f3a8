/* token_json.c - token_json.h: the bytes of a token, as text if they are UTF-8. */
#include "server/ask/token_json.h"

static json_t *list_of(const lm_text *bytes)
{
    json_t *list = json_array();

    for (size_t i = 0; i < bytes->size; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes->data[i]));
    return list;
}

/* NULL: the bytes are not whole characters. */
static json_t *text_of(const lm_text *bytes)
{
    return json_stringn(bytes->data ? bytes->data : "", bytes->size);
}

static json_t *escaped(const lm_text *bytes)
{
    lm_text text = { 0 };
    json_t *o;

    lm_text_add_str(&text, "bytes:");
    for (size_t i = 0; i < bytes->size; i++)
        lm_text_printf(&text, "\\x%02x", (unsigned)(unsigned char)bytes->data[i]);
    o = text_of(&text);
    lm_text_free(&text);
    return o;
}

/* Return the token's text if `text` is set and its bytes are whole characters, otherwise what `other` makes
 * of them. */
static json_t *token_json(const lm_tokenizer *t, lm_token id, bool text,
                          json_t *(*other)(const lm_text *bytes))
{
    lm_text bytes = { 0 };
    json_t *o = NULL;

    lm_token_bytes(t, id, &bytes, NULL);
    if (text)
        o = text_of(&bytes);
    if (!o)
        o = other(&bytes);
    lm_text_free(&bytes);
    return o;
}

json_t *lm_token_text(const lm_tokenizer *t, lm_token id)
{
    return token_json(t, id, true, escaped);
}

json_t *lm_token_piece(const lm_tokenizer *t, lm_token id)
{
    return token_json(t, id, true, list_of);
}

json_t *lm_token_byte_list(const lm_tokenizer *t, lm_token id)
{
    return token_json(t, id, false, list_of);
}

static json_t *one_logprob(const lm_tokenizer *t, const json_t *token)
{
    lm_token id = (lm_token)json_integer_value(json_object_get(token, "id"));

    return json_pack("{s:i, s:o, s:f, s:o}", "id", id, "token", lm_token_text(t, id), "logprob",
                     json_number_value(json_object_get(token, "logprob")), "bytes",
                     lm_token_byte_list(t, id));
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
