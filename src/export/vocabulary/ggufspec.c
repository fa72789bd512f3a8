/* ggufspec.c - read tokenizer.ggml.* into lists. */
#include "export/vocabulary/ggufspec.h"

#include <stdio.h>
#include <string.h>

#include "formats/endkeys.h"

#define KEYS "tokenizer.ggml."

static lm_status text(const lm_meta *m, const char *key, lm_arena *arena, const char **out, lm_error *e)
{
    lm_view v;

    if (!lm_meta_has(m, key))
        return LM_OK;
    LM_TRY(lm_meta_string(m, key, &v, e));
    *out = lm_arena_strndup(arena, v.data, v.size);
    return *out ? LM_OK : lm_fail_memory(e, key, v.size);
}

static lm_status texts(const lm_meta *m, const char *key, lm_arena *arena, const lm_view **out, uint32_t *n,
                       lm_error *e)
{
    lm_meta_value list, v;

    LM_TRY(lm_meta_array(m, key, UINT32_MAX / 8, &list, e));
    lm_view *made = lm_arena_new(arena, list.a.n + 1, lm_view);
    if (!made)
        return lm_fail_memory(e, key, list.a.n * sizeof *made);
    for (uint64_t i = 0; i < list.a.n; i++) {
        if (!lm_meta_at(&list, i, &v) || v.kind != LM_META_STRING)
            return lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "element %llu is not a string",
                           (unsigned long long)i);
        made[i] = v.s;
    }
    *out = made;
    *n   = (uint32_t)list.a.n;
    return LM_OK;
}

static lm_status of_length(const lm_meta *m, const char *key, uint32_t n, lm_meta_value *list, lm_error *e)
{
    LM_TRY(lm_meta_array(m, key, LM_MAX_VOCAB, list, e));
    return list->a.n == n
               ? LM_OK
               : lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%llu elements, but there are %u tokens",
                         (unsigned long long)list->a.n, n);
}

static lm_status numbers(const lm_meta *m, lm_arena *arena, lm_vocab_spec *s, lm_error *e)
{
    lm_meta_value list, v;
    float        *scores = lm_arena_new(arena, (size_t)s->n + 1, float);
    int32_t      *types  = lm_arena_new(arena, (size_t)s->n + 1, int32_t);

    if (!scores || !types)
        return lm_fail_memory(e, "a vocabulary", s->n);
    if (lm_meta_has(m, KEYS "scores")) {
        LM_TRY(of_length(m, KEYS "scores", s->n, &list, e));
        for (uint32_t i = 0; i < s->n; i++)
            scores[i] = lm_meta_at(&list, i, &v) && v.kind == LM_META_FLOAT ? (float)v.f : 0;
        s->scores = scores;
    }
    if (lm_meta_has(m, KEYS "token_type")) {
        LM_TRY(of_length(m, KEYS "token_type", s->n, &list, e));
        for (uint32_t i = 0; i < s->n; i++)
            types[i] = lm_meta_at(&list, i, &v) && v.kind == LM_META_UINT && v.u < 100 ? (int32_t)v.u : 0;
        s->types = types;
    }
    return LM_OK;
}

static int64_t id(const lm_meta *m, const char *key)
{
    lm_meta_value v;

    return lm_meta_get(m, key, &v) && v.kind == LM_META_UINT && v.u < UINT32_MAX ? (int64_t)v.u : -1;
}

static int flag(const lm_meta *m, const char *key)
{
    lm_meta_value v;

    return lm_meta_get(m, key, &v) && v.kind == LM_META_BOOL ? v.b : -1;
}

lm_status lm_gguf_vocabulary(const lm_meta *m, lm_arena *arena, lm_vocab_spec *s, lm_error *e)
{
    *s = (lm_vocab_spec){ .where = KEYS };
    LM_TRY(text(m, KEYS "model", arena, &s->model, e));
    LM_TRY(text(m, KEYS "pre", arena, &s->pre, e));
    if (!s->model || strcmp(s->model, "no_vocab") == 0 || !lm_meta_has(m, KEYS "tokens")) {
        s->model = NULL;
        return LM_OK;
    }
    LM_TRY(texts(m, KEYS "tokens", arena, &s->tokens, &s->n, e));
    if (lm_meta_has(m, KEYS "merges"))
        LM_TRY(texts(m, KEYS "merges", arena, &s->merges, &s->n_merges, e));
    LM_TRY(numbers(m, arena, s, e));
    s->bos              = id(m, KEYS "bos_token_id");
    s->eos              = id(m, KEYS "eos_token_id");
    s->unknown          = id(m, KEYS "unknown_token_id");
    lm_end_keys *ends   = lm_arena_new(arena, 1, lm_end_keys);
    if (!ends)
        return lm_fail_memory(e, "the end tokens", sizeof *ends);
    LM_TRY(lm_end_keys_read(m, s->n, ends, e));
    lm_vocab_spec_ends(s, ends->ids, ends->n, ends->turn, ends->call);
    s->add_bos          = flag(m, KEYS "add_bos_token");
    s->add_eos          = flag(m, KEYS "add_eos_token");
    s->add_space_prefix = flag(m, KEYS "add_space_prefix");
    return LM_OK;
}
