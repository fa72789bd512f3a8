/* tokenjson.c - tokens to JSON and back. */
#include "cli/base/tokenjson.h"

json_t *lm_ids_json(const lm_token *ids, size_t n)
{
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_integer(ids[i]));
    return out;
}

lm_status lm_ids_of(const json_t *value, lm_tokens *out, lm_error *e)
{
    if (!json_is_array(value))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not a JSON array of token ids");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *id = json_array_get(value, i);
        json_int_t n = json_integer_value(id);
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX)
            return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "element %zu is not a token id", i);
        LM_TRY(lm_tokens_add(out, (lm_token)n, e));
    }
    return LM_OK;
}

static json_t *bytes_json(const lm_text *text)
{
    json_t *out = json_array();

    for (size_t i = 0; i < text->size; i++)
        json_array_append_new(out, json_integer((unsigned char)text->data[i]));
    return out;
}

json_t *lm_token_json(const lm_tokenizer *t, lm_token id, float logprob)
{
    size_t n = 0;
    const char *piece = t ? lm_tokenizer_piece(t, id, &n) : NULL;
    json_t *j = json_pack("{s:i}", "id", id);
    lm_text text = { 0 };

    json_object_set_new(j, "piece", piece ? lm_json_of(piece, n) : json_null());
    if (t && lm_detokenize(t, &id, 1, 0, &text, NULL) == LM_OK)
        json_object_set_new(j, "text", lm_json_of(text.data, text.size));
    lm_text_clear(&text);
    /* Text cannot represent a token with parts of characters. */
    if (t && lm_token_bytes(t, id, &text, NULL) == LM_OK)
        json_object_set_new(j, "bytes", bytes_json(&text));
    lm_text_free(&text);
    json_object_set_new(j, "logprob", logprob > -1e30f ? json_real((double)logprob) : json_null());
    return j;
}

json_t *lm_top_json(const lm_tokenizer *t, const lm_logprob *top, uint32_t k)
{
    json_t *best = json_array();

    for (uint32_t i = 0; i < k && top[i].id >= 0; i++)
        json_array_append_new(best, lm_token_json(t, top[i].id, top[i].logprob));
    return best;
}

void lm_add_piece(lm_text *out, const char *piece, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)piece[i];
        if (c < 0x20 || c == 0x7f)
            lm_text_printf(out, "\\x%02x", c);
        else
            lm_text_add_char(out, piece[i]);
    }
}
