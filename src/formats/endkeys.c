/* endkeys.c - the GGUF keys that list the tokens which end a generation. */
#include "formats/endkeys.h"

#include "base/error.h"

static lm_status read_one(const lm_meta *m, const char *key, uint32_t tokens, lm_end_keys *out, bool *listed,
                          lm_error *e)
{
    lm_meta_value v;
    uint32_t      id;

    /* "no such token" is written as -1, which is 2^32 - 1 in the key's type */
    if (!lm_meta_get(m, key, &v) || (v.kind == LM_META_UINT && v.u == UINT32_MAX))
        return LM_OK;
    LM_TRY(lm_meta_u32(m, key, 0, tokens - 1, &id, e));
    out->ids[out->n++] = id;
    *listed            = true;
    return LM_OK;
}

static lm_status read_list(const lm_meta *m, uint32_t tokens, lm_end_keys *out, lm_error *e)
{
    lm_meta_value list, v;

    if (!lm_meta_has(m, LM_ENDS_KEY))
        return LM_OK;
    LM_TRY(lm_meta_array(m, LM_ENDS_KEY, LM_MAX_ENDS, &list, e));
    for (uint64_t i = 0; i < list.a.n; i++) {
        if (!lm_meta_at(&list, i, &v) || v.kind != LM_META_UINT || v.u >= tokens) {
            lm_fail(e, LM_BAD_MODEL, LM_ENDS_KEY, LM_NO_OFFSET, "element %llu is not an id below %u",
                    (unsigned long long)i, tokens);
            return lm_fail_in(e, lm_meta_file(m));
        }
        out->ids[out->n++] = (int64_t)v.u;
    }
    out->turn = out->call = true;
    return LM_OK;
}

lm_status lm_end_keys_read(const lm_meta *m, uint32_t tokens, lm_end_keys *out, lm_error *e)
{
    static const char *const gaps[] = { "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                                        "tokenizer.ggml.fim_sep_token_id" };
    bool                     any;

    out->n    = 0;
    out->turn = out->call = false;
    LM_TRY(read_one(m, "tokenizer.ggml.eot_token_id", tokens, out, &out->turn, e));
    LM_TRY(read_one(m, "tokenizer.ggml.eom_token_id", tokens, out, &out->call, e));
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        LM_TRY(read_one(m, gaps[i], tokens, out, &any, e));
    return read_list(m, tokens, out, e);
}
