/* vocabulary.c - a vocabulary for a model with random weights. */
#include "export/vocabulary/vocabulary.h"

#include <stdio.h>
#include <string.h>

#include "base/os/filemap.h"

enum { BYTES = 256, LETTERS = 26, NORMAL = 1, CONTROL = LM_CONTROL_TOKEN, UNUSED = 5 };

/* ---- synthetic vocabulary ---- */

/* Return the byte-level BPE spelling of a byte: the same code point if it is printable, else one from 256
 * on. */
static uint32_t spelling(unsigned byte)
{
    uint32_t next = 256;

    for (unsigned b = 0; b < BYTES; b++) {
        bool prints = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE);
        if (b == byte)
            return prints ? b : next;
        next += !prints;
    }
    return 0;
}

static char *utf8(lm_arena *arena, uint32_t c)
{
    return c < 0x80 ? lm_arena_printf(arena, "%c", (int)c)
                    : lm_arena_printf(arena, "%c%c", (int)(0xC0 | c >> 6), (int)(0x80 | (c & 63)));
}

typedef struct inventing {
    lm_invented *v;
    lm_arena    *arena;
    uint32_t     at;                 /* next free id */
    bool         failed;
} inventing;

static void put(inventing *i, uint32_t id, const char *text, int32_t type)
{
    i->failed |= !text;
    i->v->tokens[id] = lm_view_of(text);
    i->v->types[id]  = type;
}

static bool taken(const inventing *i, uint32_t id)
{
    return id == i->v->bos || id == i->v->eos;
}

static bool next(inventing *i, const char *text, int32_t type)
{
    while (i->at < i->v->n && taken(i, i->at))
        i->at++;
    if (i->at >= i->v->n)
        return false;
    put(i, i->at++, text, type);
    return true;
}

static void merge(inventing *i, const char *left, const char *right)
{
    char text[32];

    snprintf(text, sizeof text, "%s%s", left, right);
    if (!next(i, lm_arena_strdup(i->arena, text), NORMAL))
        return;
    char *rule = lm_arena_printf(i->arena, "%s %s", left, right);
    i->failed |= !rule;
    i->v->merges[i->v->n_merges++] = lm_view_of(rule);
}

/* Add all pairs of lower-case letters, then each letter and each pair with a leading space (spelled
 * U+0120). */
static void add_merges(inventing *i)
{
    for (int a = 0; a < LETTERS * LETTERS; a++)
        merge(i, (char[]){ (char)('a' + a / LETTERS), 0 }, (char[]){ (char)('a' + a % LETTERS), 0 });
    for (int a = 0; a < LETTERS * LETTERS; a++)
        merge(i, "\xC4\xA0", (char[]){ (char)('a' + a / LETTERS), (char)('a' + a % LETTERS), 0 });
    for (int a = 0; a < LETTERS; a++)
        merge(i, "\xC4\xA0", (char[]){ (char)('a' + a), 0 });
}

lm_status lm_invent_vocabulary(uint32_t n, int64_t bos, int64_t eos, lm_arena *arena, lm_invented *out,
                               lm_error *e)
{
    inventing i = { .v = out, .arena = arena };

    *out = (lm_invented){ 0 };
    if (n < BYTES + 2)
        return LM_OK;
    out->n      = n;
    out->tokens = lm_arena_new(arena, n, lm_view);
    out->merges = lm_arena_new(arena, LETTERS * (2 * LETTERS + 1), lm_view);
    out->types  = lm_arena_new(arena, n, int32_t);
    if (!out->tokens || !out->merges || !out->types)
        return lm_fail_memory(e, "a vocabulary", n);
    out->bos = bos >= 0 && bos < n ? (uint32_t)bos : n - 2;
    out->eos = eos >= 0 && eos < n ? (uint32_t)eos : n - 1;
    put(&i, out->bos, "<s>", CONTROL);
    put(&i, out->eos, out->eos == out->bos ? "<s>" : "</s>", CONTROL);
    for (unsigned b = 0; b < BYTES; b++)
        next(&i, utf8(arena, spelling(b)), NORMAL);
    next(&i, "<unk>", CONTROL);           /* llama.cpp requires these in some families */
    next(&i, "<|endoftext|>", CONTROL);
    add_merges(&i);
    while (i.at < n)
        next(&i, lm_arena_printf(arena, "[%u]", i.at), NORMAL);
    return i.failed ? lm_fail_memory(e, "a vocabulary", n) : LM_OK;
}

static int64_t id_of(const lm_meta *m, const char *key)
{
    lm_meta_value v, first;

    if (!lm_meta_get(m, key, &v))
        return -1;
    if (v.kind == LM_META_ARRAY && lm_meta_at(&v, 0, &first))
        v = first;
    return v.kind == LM_META_UINT && v.u < INT32_MAX ? (int64_t)v.u : -1;
}

lm_status lm_invent_for(const lm_meta *config, uint32_t n, lm_arena *arena, lm_invented *out, lm_error *e)
{
    return lm_invent_vocabulary(n, id_of(config, "bos_token_id"), id_of(config, "eos_token_id"), arena, out,
                                e);
}

void lm_add_invented(lm_gguf_writer *w, const lm_invented *v)
{
    lm_gguf_add_string(w, "tokenizer.ggml.model", v->n ? LM_VIEW("gpt2") : LM_VIEW("no_vocab"));
    if (!v->n)
        return;
    lm_gguf_add_string(w, "tokenizer.ggml.pre", LM_VIEW("gpt-2"));
    lm_gguf_add_strings(w, "tokenizer.ggml.tokens", v->tokens, v->n);
    lm_gguf_add_i32s(w, "tokenizer.ggml.token_type", v->types, v->n);
    lm_gguf_add_strings(w, "tokenizer.ggml.merges", v->merges, v->n_merges);
    lm_gguf_add_u32(w, "tokenizer.ggml.bos_token_id", v->bos);
    lm_gguf_add_u32(w, "tokenizer.ggml.eos_token_id", v->eos);
    lm_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", true);
}

/* ---- copied vocabulary ---- */

static const char *const lists[] = { "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
                                     "tokenizer.ggml.token_type", NULL };

/* Copy the lists with one element per token, extended to `n` elements. */
static lm_status copy_lists(lm_gguf_writer *w, const lm_meta *m, uint32_t n, lm_arena *arena, lm_error *e)
{
    lm_meta_value tokens, scores = { 0 }, types = { 0 }, v;
    lm_view      *texts = lm_arena_new(arena, n, lm_view);
    float        *ranks = lm_arena_new(arena, n, float);
    int32_t      *kinds = lm_arena_new(arena, n, int32_t);

    if (!texts || !ranks || !kinds)
        return lm_fail_memory(e, "a vocabulary", n);
    LM_TRY(lm_meta_array(m, lists[0], UINT32_MAX, &tokens, e));
    if (tokens.a.n > n)
        return lm_fail(e, LM_USAGE, "tokenizer", LM_NO_OFFSET, "%llu tokens for a model of %u rows",
                       (unsigned long long)tokens.a.n, n);
    bool ranked = lm_meta_get(m, lists[1], &scores) && scores.kind == LM_META_ARRAY;
    bool typed  = lm_meta_get(m, lists[2], &types) && types.kind == LM_META_ARRAY;
    for (uint32_t i = 0; i < n; i++) {
        if (i < tokens.a.n && lm_meta_at(&tokens, i, &v) && v.kind == LM_META_STRING) {
            texts[i] = v.s;
            ranks[i] = ranked && lm_meta_at(&scores, i, &v) && v.kind == LM_META_FLOAT ? (float)v.f : 0;
            kinds[i] = typed && lm_meta_at(&types, i, &v) && v.kind == LM_META_UINT && v.u < 100
                           ? (int32_t)v.u
                           : NORMAL;
            continue;
        }
        char *pad = lm_arena_printf(arena, "[PAD%u]", i);
        if (!pad)
            return lm_fail_memory(e, "a vocabulary", n);
        texts[i] = lm_view_of(pad);
        ranks[i] = -10000;
        kinds[i] = UNUSED;
    }
    lm_gguf_add_strings(w, lists[0], texts, n);
    if (ranked)
        lm_gguf_add_f32s(w, lists[1], ranks, n);
    lm_gguf_add_i32s(w, lists[2], kinds, n);
    return LM_OK;
}

static lm_status copy(lm_gguf_writer *w, const lm_container *c, uint32_t n, lm_arena *arena, lm_error *e)
{
    const lm_meta *m = lm_container_meta(c);

    if (lm_container_kind_of(c) != LM_GGUF || !lm_meta_has(m, lists[0]))
        return lm_fail(e, LM_USAGE, "tokenizer", LM_NO_OFFSET, "requires a GGUF file with a vocabulary");
    lm_gguf_add_some(w, m, "tokenizer.", lists);
    return copy_lists(w, m, n, arena, e);
}

lm_status lm_copy_vocabulary(lm_gguf_writer *w, const char *path, uint32_t n, lm_error *e)
{
    lm_arena      arena = { 0 };
    lm_container *c     = NULL;
    lm_status     status;

    if (!lm_path_is_file(path) || lm_view_ends(lm_view_of(path), LM_VIEW(".json")))
        LM_TRY_GOTO(status,
                    lm_fail(e, LM_USAGE, "tokenizer", LM_NO_OFFSET, "requires a GGUF file with a vocabulary"),
                    done);
    LM_TRY_GOTO(status, lm_container_open(path, &(lm_container_options){ .structure_only = true }, &c, e),
                done);
    status = copy(w, c, n, &arena, e);

done:
    if (status != LM_OK)
        lm_fail_in(e, path);
    lm_container_close(c);
    lm_arena_free(&arena);
    return status;
}
