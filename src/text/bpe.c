/* bpe.c - byte-pair merging. */
#include "text/bpe.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/bytelevel.h"

typedef struct lm_bpe_symbol {
    lm_token id;                 /* -1: SCORES only, text that is not a token */
    int32_t  prev, next;         /* -1: none */
    uint32_t from, size;         /* bytes of the word; size 0: merged away */
} lm_bpe_symbol;

typedef struct lm_pending { uint32_t rank, at; lm_token id; } lm_pending;

/* Return the piece that text can become by merging; -1: none. */
static lm_token own_piece(const lm_vocab *v, lm_view text)
{
    lm_token id = lm_vocab_find(v, text);

    return id >= 0 && v->pieces[id].outside ? -1 : id;
}

/* ---- tables ---- */
void lm_bpe_init(lm_bpe *b, const lm_vocab *vocab)
{
    char text[8];

    *b = (lm_bpe){ .vocab = vocab, .unknown = -1 };
    for (unsigned i = 0; i < 256; i++) {
        size_t n         = lm_utf8_encode(lm_bytelevel_char((uint8_t)i), text);
        b->byte_piece[i] = own_piece(vocab, (lm_view){ text, n });
        snprintf(text, sizeof text, "<0x%02X>", i);
        b->byte_token[i] = own_piece(vocab, lm_view_of(text));
    }
    for (uint32_t cp = 0; cp < sizeof b->low_piece / sizeof *b->low_piece; cp++)
        b->low_piece[cp] = own_piece(vocab, (lm_view){ text, lm_utf8_encode(cp, text) });
    randombytes_buf(&b->key, sizeof b->key);
}

void lm_bpe_free(lm_bpe *b)
{
    lm_free(b->merges);
    lm_free(b->rank_of);
    *b = (lm_bpe){ 0 };
}

lm_status lm_bpe_reserve(lm_bpe *b, uint32_t n_merges, lm_error *e)
{
    uint64_t slots = 16;

    while (slots < (uint64_t)n_merges * 2)
        slots *= 2;
    b->merges = lm_alloc(slots * sizeof *b->merges);
    if (!b->merges)
        return lm_fail_memory(e, "the merges", slots * sizeof *b->merges);
    memset(b->merges, 0xFF, slots * sizeof *b->merges);
    b->mask = (uint32_t)(slots - 1);
    return LM_OK;
}

/* Return the slot of a pair, or the empty slot where it belongs. */
static lm_merge *merge_slot(const lm_bpe *b, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) ^ b->key;

    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);      /* the mixer of "rrmxmx", cut short */
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    for (uint32_t i = (uint32_t)(h >> 32) & b->mask;; i = (i + 1) & b->mask)
        if (b->merges[i].left == UINT32_MAX || (b->merges[i].left == left && b->merges[i].right == right))
            return &b->merges[i];
}

void lm_bpe_add(lm_bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    lm_merge *m = merge_slot(b, left, right);

    b->n_merges += m->left == UINT32_MAX;
    *m = (lm_merge){ left, right, rank, id };
}

typedef struct scored { float score; uint32_t id; } scored;

static int by_falling_score(const void *a, const void *b)
{
    float x = ((const scored *)a)->score, y = ((const scored *)b)->score;

    return (x < y) - (x > y);
}

lm_status lm_bpe_scores(lm_bpe *b, const float *scores, lm_error *e)
{
    uint32_t n     = b->vocab->n;
    scored  *order = lm_alloc(n * sizeof *order);

    b->rank_of = lm_alloc(n * sizeof *b->rank_of);
    if (!order || !b->rank_of) {
        lm_free(order);
        return lm_fail_memory(e, "the scores", n * sizeof *order);
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = (scored){ scores[i], i };
    qsort(order, n, sizeof *order, by_falling_score);
    for (uint32_t i = 0, rank = 0; i < n; i++) {
        if (i > 0 && order[i].score < order[i - 1].score)
            rank++;
        b->rank_of[order[i].id] = rank;
    }
    lm_free(order);
    return LM_OK;
}

/* ---- memory ---- */
void lm_bpe_work_free(lm_bpe_work *w)
{
    lm_free(w->symbols);
    lm_free(w->heap);
    *w = (lm_bpe_work){ .watch = w->watch, .watcher = w->watcher };
}

/* Reserve memory for `symbols` symbols. The heap grows on demand: each pair is queued once at
 * the start, each merge queues at most two more. */
static lm_status make_room(lm_bpe_work *w, size_t symbols, lm_error *e)
{
    if (symbols > w->capacity) {
        size_t     capacity = symbols + symbols / 2 + 32;
        lm_bpe_symbol *s        = lm_realloc(w->symbols, capacity * sizeof *s);

        if (!s)
            return lm_fail_memory(e, "the symbols of a word", capacity * sizeof *s);
        w->symbols  = s;
        w->capacity = capacity;
    }
    return LM_OK;
}

/* ---- symbols ---- */
static void add_symbol(lm_bpe_work *w, lm_token id, size_t from, size_t size)
{
    int32_t at = (int32_t)w->n++;

    w->symbols[at] = (lm_bpe_symbol){ id, at - 1, at + 1, (uint32_t)from, (uint32_t)size };
}

/* Return the piece of the character at `s`, or -1, and the size of the character. */
static lm_token character(const lm_bpe *b, const char *s, size_t *size)
{
    uint32_t cp = lm_utf8_decode(s, size);

    if (cp < sizeof b->low_piece / sizeof *b->low_piece)
        return b->low_piece[cp];
    return own_piece(b->vocab, (lm_view){ s, *size });
}

/* Add the bytes of a character as byte tokens; false if any of them is missing. */
static bool fall_back(const lm_bpe *b, lm_bpe_work *w, const unsigned char *s, size_t n, size_t from)
{
    for (size_t i = 0; i < n; i++)
        if (b->byte_token[s[i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        add_symbol(w, b->byte_token[s[i]], from + i, 1);
    return true;
}

/* MERGES: add one symbol per character. A character without a piece becomes its bytes, otherwise the unknown
 * token, otherwise nothing. A pending unknown token waits to be fused with the next one, and bytes do not end
 * that wait, as in the reference. */
static void split_word(const lm_bpe *b, lm_bpe_work *w, lm_view word, bool bytes)
{
    size_t size = 1, unknown_from = 0, unknown_size = 0;

    for (size_t at = 0; at < word.size; at += size) {
        const unsigned char *s = (const unsigned char *)word.data + at;
        lm_token             id;
        char                 spelled[4];
        size_t               spelled_size = 0;

        if (bytes)
            id = b->byte_piece[*s];
        else
            id = character(b, word.data + at, &size);
        if (id >= 0) {
            if (unknown_size)
                add_symbol(w, b->unknown, unknown_from, unknown_size);
            unknown_size = 0;
            add_symbol(w, id, at, size);
            continue;
        }
        if (b->byte_fallback) {
            if (bytes)
                spelled_size = lm_utf8_encode(lm_bytelevel_char(*s), spelled);
            if (bytes ? fall_back(b, w, (const unsigned char *)spelled, spelled_size, at)
                      : fall_back(b, w, s, size, at))
                continue;
        }
        if (b->unknown < 0)
            continue;
        if (unknown_size && !b->fuse_unknown) {
            add_symbol(w, b->unknown, unknown_from, unknown_size);
            unknown_size = 0;
        }
        if (!unknown_size)
            unknown_from = at;
        unknown_size += size;
    }
    if (unknown_size)
        add_symbol(w, b->unknown, unknown_from, unknown_size);
}

/* SCORES: add one symbol per character, whether or not it is a token. */
static void split_characters(const lm_bpe *b, lm_bpe_work *w, lm_view word)
{
    size_t size;

    for (size_t at = 0; at < word.size; at += size) {
        lm_token id = character(b, word.data + at, &size);
        add_symbol(w, id, at, size);
    }
}

/* ---- the heap: lowest rank first, then leftmost ---- */
static inline uint64_t order_of(const lm_pending *p) { return (uint64_t)p->rank << 32 | p->at; }

static lm_status heap_push(lm_bpe_work *w, lm_pending p, lm_error *e)
{
    if (w->n_heap == w->heap_capacity) {
        size_t      capacity = w->heap_capacity ? w->heap_capacity * 2 : 64;
        lm_pending *heap     = lm_realloc(w->heap, capacity * sizeof *heap);

        if (!heap)
            return lm_fail_memory(e, "the merges of a word", capacity * sizeof *heap);
        w->heap          = heap;
        w->heap_capacity = capacity;
    }
    size_t i = w->n_heap++;
    while (i > 0 && order_of(&p) < order_of(&w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i          = (i - 1) / 2;
    }
    w->heap[i] = p;
    return LM_OK;
}

static lm_pending heap_pop(lm_bpe_work *w)
{
    lm_pending top = w->heap[0], last = w->heap[--w->n_heap];
    size_t     i   = 0;

    for (size_t child = 1; child < w->n_heap; child = 2 * i + 1) {
        if (child + 1 < w->n_heap && order_of(&w->heap[child + 1]) < order_of(&w->heap[child]))
            child++;
        if (order_of(&last) <= order_of(&w->heap[child]))
            break;
        w->heap[i] = w->heap[child];
        i          = child;
    }
    w->heap[i] = last;
    return top;
}

/* ---- merging ---- */
/* Find what symbol `at` and its right neighbour merge into; false if they do not merge. */
static bool candidate(const lm_bpe *b, const lm_bpe_work *w, const char *word, int32_t at, lm_pending *out)
{
    const lm_bpe_symbol *l = &w->symbols[at], *r = &w->symbols[l->next];

    if (b->rank_of) {
        lm_view  both = { word + l->from, l->size + r->size };
        lm_token id   = both.size <= b->vocab->longest ? own_piece(b->vocab, both) : -1;

        if (id < 0)
            return false;
        *out = (lm_pending){ b->rank_of[id], (uint32_t)at, id };
        return true;
    }
    const lm_merge *m = merge_slot(b, (uint32_t)l->id, (uint32_t)r->id);
    if (m->left == UINT32_MAX)
        return false;
    *out = (lm_pending){ m->rank, (uint32_t)at, (lm_token)m->id };
    return true;
}

static lm_status queue_pair(const lm_bpe *b, lm_bpe_work *w, const char *word, int32_t at, lm_error *e)
{
    lm_pending p;

    if (at < 0 || w->symbols[at].next < 0 || !candidate(b, w, word, at, &p))
        return LM_OK;
    return heap_push(w, p, e);
}

static lm_status merge_all(const lm_bpe *b, lm_bpe_work *w, const char *word, lm_error *e)
{
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n; i++)
        LM_TRY(queue_pair(b, w, word, (int32_t)i, e));
    while (w->n_heap > 0) {
        lm_pending top = heap_pop(w), now;
        lm_bpe_symbol *l   = &w->symbols[top.at];

        /* Skip a stale entry: one side has changed since, so the pair is a different one or no longer
         * exists. */
        if (l->size == 0 || l->next < 0 || !candidate(b, w, word, (int32_t)top.at, &now) || now.id != top.id)
            continue;
        lm_bpe_symbol *r = &w->symbols[l->next];
        if (w->watch)
            w->watch(w->watcher, l->id, r->id, top.id, top.rank);
        l->id        = top.id;
        l->size     += r->size;
        l->next      = r->next;
        r->size      = 0;
        if (l->next >= 0)
            w->symbols[l->next].prev = (int32_t)top.at;
        LM_TRY(queue_pair(b, w, word, l->prev, e));
        LM_TRY(queue_pair(b, w, word, (int32_t)top.at, e));
    }
    return LM_OK;
}

/* SCORES: emit text that is not a token as byte tokens; a byte without one becomes the unknown token. */
static lm_status emit_bytes(const lm_bpe *b, const unsigned char *s, size_t n, lm_tokens *out, lm_error *e)
{
    for (size_t i = 0; i < n; i++) {
        lm_token id = b->byte_token[s[i]];

        if (id < 0)
            id = b->unknown;
        if (id >= 0)
            LM_TRY(lm_tokens_add(out, id, e));
    }
    return LM_OK;
}

static lm_status whole_word(const lm_bpe *b, lm_view word, bool bytes, lm_token *id, lm_error *e)
{
    lm_text spelled = { 0 };

    *id = -1;
    if (word.size > b->vocab->longest)
        return LM_OK;
    if (!bytes) {
        *id = own_piece(b->vocab, word);
        return LM_OK;
    }
    lm_bytelevel_spell(&spelled, word.data, word.size);
    bool failed = spelled.failed;
    if (!failed)
        *id = own_piece(b->vocab, lm_text_view(&spelled));
    lm_text_free(&spelled);
    return failed ? lm_fail_memory(e, "a word", word.size) : LM_OK;
}

lm_status lm_bpe_encode(const lm_bpe *b, lm_bpe_work *w, lm_view word, bool bytes, lm_tokens *out,
                        lm_error *e)
{
    if (word.size == 0)
        return LM_OK;
    if (b->ignore_merges) {
        lm_token id;

        LM_TRY(whole_word(b, word, bytes, &id, e));
        if (id >= 0)
            return lm_tokens_add(out, id, e);
    }
    LM_TRY(make_room(w, bytes && b->byte_fallback ? word.size * 2 : word.size, e));
    w->n = 0;
    if (b->rank_of)
        split_characters(b, w, word);
    else
        split_word(b, w, word, bytes);
    if (w->n == 0)
        return LM_OK;
    w->symbols[w->n - 1].next = -1;
    LM_TRY(merge_all(b, w, word.data, e));
    for (int32_t i = 0; i >= 0; i = w->symbols[i].next) {
        const lm_bpe_symbol *s = &w->symbols[i];

        if (s->id >= 0)
            LM_TRY(lm_tokens_add(out, s->id, e));
        else
            LM_TRY(emit_bytes(b, (const unsigned char *)word.data + s->from, s->size, out, e));
    }
    return LM_OK;
}
