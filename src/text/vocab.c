/* vocab.c - an array, an arena and a map. */
#include "text/vocab.h"

#include <string.h>

#include "base/alloc.h"

lm_status lm_vocab_init(lm_vocab *v, uint32_t expected, lm_error *e)
{
    *v     = (lm_vocab){ 0 };
    v->ids = lm_map_new(expected);
    if (!v->ids)
        return lm_fail_memory(e, "the vocabulary", expected);
    return LM_OK;
}

void lm_vocab_free(lm_vocab *v)
{
    lm_map_free(v->ids);
    lm_free(v->pieces);
    lm_arena_free(&v->arena);
    *v = (lm_vocab){ 0 };
}

lm_status lm_vocab_grow(lm_vocab *v, uint32_t n, lm_error *e)
{
    if (n > LM_MAX_VOCAB)
        return lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "a vocabulary of %u tokens, at most %d are read",
                       n, LM_MAX_VOCAB);
    if (n > v->capacity) {
        uint32_t capacity = v->capacity ? v->capacity : 1024;

        while (capacity < n)
            capacity *= 2;
        lm_vocab_piece *p = lm_realloc(v->pieces, capacity * sizeof *p);
        if (!p)
            return lm_fail_memory(e, "the vocabulary", capacity * sizeof *p);
        v->pieces   = p;
        v->capacity = capacity;
    }
    for (; v->n < n; v->n++)
        v->pieces[v->n] = (lm_vocab_piece){ .type = LM_PIECE_UNUSED };
    return LM_OK;
}

lm_status lm_vocab_add(lm_vocab *v, uint32_t id, lm_view text, lm_piece_type type, const char *where,
                       lm_error *e)
{
    if (text.size == 0)
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "token %u is empty", id);
    if (text.size > LM_MAX_PIECE)
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "token %u has %zu bytes, at most %d are read",
                       id, text.size, LM_MAX_PIECE);
    if (id >= LM_MAX_VOCAB)
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "token id %u; supported: below %d", id,
                       LM_MAX_VOCAB);
    if (id >= v->n)
        LM_TRY(lm_vocab_grow(v, id + 1, e));
    if (v->pieces[id].text)
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "id %u is given to '%s' and to '%.*s'", id,
                       v->pieces[id].text, (int)text.size, text.data);

    lm_vocab_piece p = { .size = (uint32_t)text.size, .type = (uint8_t)type };
    p.text     = lm_arena_strndup(&v->arena, text.data, text.size);
    if (!p.text)
        return lm_fail_memory(e, "a token", text.size);
    if (!lm_map_add(v->ids, (lm_view){ p.text, p.size }, id)) {
        if (lm_map_failed(v->ids))
            return lm_fail_memory(e, "the vocabulary", v->n);
        return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "tokens %d and %u are both '%.*s'",
                       lm_vocab_find(v, text), id, (int)text.size, text.data);
    }
    v->pieces[id] = p;
    if (p.size > v->longest)
        v->longest = p.size;
    return LM_OK;
}

lm_token lm_vocab_find(const lm_vocab *v, lm_view text)
{
    uint64_t id;

    return text.size && lm_map_get(v->ids, text, &id) ? (lm_token)id : -1;
}
