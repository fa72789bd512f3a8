/* trie.c - build the trie of a vocabulary. */
#include "grammar/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "text/token_bytes.h"

lm_vocabulary *lm_vocabulary_ref(const lm_vocabulary *v)
{
    lm_vocabulary *mine = (lm_vocabulary *)(uintptr_t)v; /* references are counted on constants too */

    __atomic_add_fetch(&mine->refs, 1, __ATOMIC_RELAXED);
    return mine;
}

void lm_vocabulary_free(lm_vocabulary *v)
{
    if (!v || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    lm_free(v->byte);
    lm_free(v->depth);
    lm_free(v->skip);
    lm_free(v->first);
    lm_free(v->ids);
    lm_free(v->text_at);
    lm_free(v->text);
    lm_free(v->special);
    lm_free(v->ends);
    lm_free(v->deepest);
    lm_free(v->by_length);
    lm_free(v->up_to);
    lm_free(v);
}

uint32_t lm_vocabulary_size(const lm_vocabulary *v) { return v ? v->size : 0; }

/* ---- bytes of tokens ---- */

static lm_status read_texts(lm_vocabulary *v, const lm_tokenizer *t, lm_error *e)
{
    lm_text   all = { 0 };
    lm_status status = LM_OK;
    uint32_t  n = lm_tokenizer_size(t);

    for (uint32_t i = 0; i < v->size && status == LM_OK; i++) {
        v->text_at[i] = (uint32_t)all.size;
        if (i >= n || (v->special[i] & LM_TOKEN_ENDS))
            continue;
        size_t before = all.size;
        bool   text;
        status = lm_token_spelled(t, (lm_token)i, &text, &all, e);
        if (!text)
            v->special[i] |= LM_TOKEN_CONTROL;
        if (status == LM_OK && all.size - before > LM_TRIE_DEPTH)
            lm_text_cut(&all, before);
        if (all.size - before > v->longest)
            v->longest = (uint32_t)(all.size - before);
        if (all.size > UINT32_MAX / 2)
            status = lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "the tokens have too many bytes");
    }
    v->text_at[v->size] = (uint32_t)all.size;
    if (status == LM_OK && all.failed)
        status = lm_fail_memory(e, "a vocabulary", 0);
    v->text = (uint8_t *)all.data;
    return status;
}

static lm_status find_ends(lm_vocabulary *v, const lm_tokenizer *t, const lm_token *ends, size_t n,
                           lm_error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (ends[i] < 0 || (uint32_t)ends[i] >= v->size)
            return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           ends[i], v->size);
        v->special[ends[i]] |= LM_TOKEN_ENDS;
    }
    for (uint32_t i = 0; i < v->size; i++) {
        if (lm_tokenizer_is_end(t, (lm_token)i))
            v->special[i] |= LM_TOKEN_ENDS;
        v->n_ends += (v->special[i] & LM_TOKEN_ENDS) != 0;
    }
    if (v->n_ends == 0)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the vocabulary has no token that ends a text");
    if (!(v->ends = lm_alloc(v->n_ends * sizeof *v->ends)))
        return lm_fail_memory(e, "a vocabulary", v->n_ends);
    v->n_ends = 0;
    for (uint32_t i = 0; i < v->size; i++)
        if (v->special[i] & LM_TOKEN_ENDS)
            v->ends[v->n_ends++] = (lm_token)i;
    return LM_OK;
}

/* ---- the tree ---- */

static int by_bytes(const void *a, const void *b, void *arg)
{
    const lm_vocabulary *v = arg;
    lm_token             x = *(const lm_token *)a, y = *(const lm_token *)b;
    uint32_t             nx = v->text_at[x + 1] - v->text_at[x], ny = v->text_at[y + 1] - v->text_at[y];
    int                  order = memcmp(v->text + v->text_at[x], v->text + v->text_at[y], nx < ny ? nx : ny);

    if (order == 0)
        order = nx != ny ? (nx > ny) - (nx < ny) : (x > y) - (x < y);
    return order;
}

static uint32_t shared_prefix(const lm_vocabulary *v, lm_token x, lm_token y)
{
    const uint8_t *a = v->text + v->text_at[x], *b = v->text + v->text_at[y];
    uint32_t       n = v->text_at[x + 1] - v->text_at[x], m = v->text_at[y + 1] - v->text_at[y], i = 0;

    while (i < n && i < m && a[i] == b[i])
        i++;
    return i;
}

/* Add the sorted tokens one by one: the bytes that a token does not share with the previous one become new
 * nodes. */
static void grow(lm_vocabulary *v, uint32_t n_ids)
{
    uint32_t open[LM_TRIE_DEPTH + 1], n = 0, deep = 0;

    for (uint32_t k = 0; k < n_ids; k++) {
        lm_token id = v->ids[k];
        uint32_t size = v->text_at[id + 1] - v->text_at[id],
                 keep = k ? shared_prefix(v, v->ids[k - 1], id) : 0;
        while (deep > keep)
            v->skip[open[--deep]] = n;
        for (; deep < size; deep++) {
            v->byte[n]  = v->text[v->text_at[id] + deep];
            v->depth[n] = (uint16_t)deep;
            v->first[n] = k;
            open[deep]  = n++;
        }
        if (keep == size)
            continue;                                    /* same spelling as the previous token: same node */
    }
    while (deep > 0)
        v->skip[open[--deep]] = n;
    v->first[n] = n_ids;
    v->n = n;
}

static uint32_t bytes_of(const lm_vocabulary *v, lm_token id) { return v->text_at[id + 1] - v->text_at[id]; }

static int longest_first(const void *a, const void *b, void *arg)
{
    uint32_t x = bytes_of(arg, *(const lm_token *)a), y = bytes_of(arg, *(const lm_token *)b);

    return (x < y) - (x > y);
}

/* From the last node to the first: descendants come after their node. */
static void find_deepest(lm_vocabulary *v)
{
    uint16_t below[LM_TRIE_DEPTH + 2] = { 0 };

    for (uint32_t i = v->n; i-- > 0;) {
        uint16_t d = v->depth[i], max = v->first[i + 1] > v->first[i] ? (uint16_t)(d + 1) : 0;
        if (below[d + 1] > max)
            max = below[d + 1];
        below[d + 1]  = 0;
        v->deepest[i] = max;
        if (max > below[d])
            below[d] = max;
    }
}

static void fill_up_to(lm_vocabulary *v)
{
    for (uint32_t n = 0; n < LM_TRIE_SHORT; n++) {
        uint64_t *bits = v->up_to + (size_t)n * v->n_words;
        for (uint32_t k = v->n_ids; k-- > 0 && bytes_of(v, v->by_length[k]) <= n;)
            bits[(uint32_t)v->by_length[k] >> 6] |= UINT64_C(1) << ((uint32_t)v->by_length[k] & 63);
    }
}

static lm_status make_tree(lm_vocabulary *v, lm_error *e)
{
    uint32_t n = 0;
    size_t   max = v->text_at[v->size] + 1;

    v->ids   = lm_alloc((v->size + 1) * sizeof *v->ids);
    v->byte  = lm_alloc(max);
    v->depth = lm_alloc(max * sizeof *v->depth);
    v->skip  = lm_alloc(max * sizeof *v->skip);
    v->first = lm_alloc(max * sizeof *v->first);
    v->deepest   = lm_alloc(max * sizeof *v->deepest);
    v->by_length = lm_alloc((v->size + 1) * sizeof *v->by_length);
    v->up_to     = lm_alloc_zero((size_t)LM_TRIE_SHORT * v->n_words, sizeof *v->up_to);
    if (!v->ids || !v->byte || !v->depth || !v->skip || !v->first || !v->deepest || !v->by_length ||
        !v->up_to)
        return lm_fail_memory(e, "a vocabulary", max);
    for (uint32_t i = 0; i < v->size; i++)
        if (v->text_at[i + 1] > v->text_at[i])
            v->ids[n++] = (lm_token)i;
    qsort_r(v->ids, n, sizeof *v->ids, by_bytes, v);
    grow(v, n);
    find_deepest(v);
    v->n_ids = n;
    memcpy(v->by_length, v->ids, n * sizeof *v->ids);
    qsort_r(v->by_length, n, sizeof *v->by_length, longest_first, v);
    fill_up_to(v);
    return LM_OK;
}

lm_status lm_vocabulary_new(const lm_tokenizer *t, uint32_t n_vocab, const lm_token *ends, size_t n_ends,
                            lm_vocabulary **out, lm_error *e)
{
    LM_REQUIRE(e, t && (ends || !n_ends) && out);
    lm_vocabulary *v = lm_alloc_zero(1, sizeof *v);
    lm_status      status = LM_OK;

    if (!v)
        return lm_fail_memory(e, "a vocabulary", sizeof *v);
    v->refs    = 1;
    v->size    = n_vocab ? n_vocab : lm_tokenizer_size(t);
    v->n_words = (v->size + 63) / 64;
    v->text_at = lm_alloc_zero((size_t)v->size + 1, sizeof *v->text_at);
    v->special = lm_alloc_zero((size_t)v->size + 1, 1);
    if (!v->text_at || !v->special)
        status = lm_fail_memory(e, "a vocabulary", v->size);
    if (status == LM_OK)
        status = find_ends(v, t, ends, n_ends, e);
    if (status == LM_OK)
        status = read_texts(v, t, e);
    if (status == LM_OK)
        status = make_tree(v, e);
    if (status != LM_OK) {
        lm_vocabulary_free(v);
        return status;
    }
    *out = v;
    return LM_OK;
}
