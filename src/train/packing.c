/* packing.c - texts stored as tokens, and the rows into which they are packed. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "train/texts.h"

enum { WINDOW = 1000 };

void lm_train_data_free(lm_train_data *d)
{
    lm_free(d->tokens);
    lm_free(d->labels);
    lm_free(d->first);
    *d = (lm_train_data){ 0 };
}

static lm_status make_room(lm_train_data *d, uint64_t more, lm_error *e)
{
    if (d->n + more > d->capacity) {
        uint64_t capacity = (d->n + more) * 3 / 2 + 4096;
        int32_t *tokens = lm_realloc(d->tokens, capacity * sizeof *tokens);
        d->tokens       = tokens ? tokens : d->tokens;
        int32_t *labels = tokens ? lm_realloc(d->labels, capacity * sizeof *labels) : NULL;
        d->labels       = labels ? labels : d->labels;
        if (!labels)
            return lm_fail_memory(e, "training data", capacity);
        d->capacity = capacity;
    }
    if (d->texts + 2 > d->text_capacity) {
        uint64_t  capacity = d->text_capacity * 2 + 256;
        uint64_t *first    = lm_realloc(d->first, capacity * sizeof *first);
        if (!first)
            return lm_fail_memory(e, "training data", capacity);
        d->first         = first;
        d->text_capacity = capacity;
    }
    return LM_OK;
}

lm_status lm_train_add(lm_train_data *d, const lm_token *ids, const bool *mask, size_t n,
                       const lm_read_options *o, lm_error *e)
{
    uint64_t labels = 0, length = o && o->max && n > o->max ? o->max : n;

    if (length < n && !o->cut) {
        d->left_out++;
        return LM_OK;
    }
    LM_TRY(make_room(d, length, e));
    for (uint64_t i = 0; i < length; i++) {
        bool counts          = i + 1 < length && (!mask || mask[i + 1]);
        d->tokens[d->n + i] = ids[i];
        d->labels[d->n + i] = counts ? ids[i + 1] : -100;
        labels += counts;
    }
    if (!labels) {
        d->left_out++;
        return LM_OK;
    }
    d->shortened += length < n;
    d->first[d->texts] = d->n;
    d->n += length;
    d->first[++d->texts] = d->n;
    d->trained += labels;
    return LM_OK;
}

void lm_train_rows_free(lm_train_rows *r)
{
    lm_free(r->texts);
    lm_free(r->first);
    *r = (lm_train_rows){ 0 };
}

/* Permute with draws that depend on seed, epoch and index. */
static void shuffle_texts(uint64_t *order, uint64_t n, uint64_t seed, uint32_t epoch)
{
    for (uint64_t i = n; i-- > 1;) {
        uint64_t k = (uint64_t)(lm_rng_uniform(seed ^ 0x6f72646572, epoch, i) * (double)(i + 1)),
                 kept = order[i];
        k          = k > i ? i : k;
        order[i]   = order[k];
        order[k]   = kept;
    }
}

typedef struct bin {
    uint64_t used, texts, first_text;    /* the texts of a row form a list through `next` */
    uint64_t last_text;
} bin;

static int longer_first(const void *x, const void *y, void *arg)
{
    const lm_train_data *d = arg;
    uint64_t             a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    uint64_t             m = d->first[a + 1] - d->first[a], n = d->first[b + 1] - d->first[b];

    return m != n ? (m > n ? -1 : 1) : a < b ? -1 : a > b;
}

/* Pack with best fit, longest first. Return the number of rows. */
static uint64_t fill(const lm_train_data *d, uint64_t *window, uint64_t n, uint32_t capacity, bin *bins,
                     uint64_t *next)
{
    uint64_t rows = 0;

    qsort_r(window, n, sizeof *window, longer_first, (void *)(uintptr_t)d);    /* only read there */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = d->first[window[i] + 1] - d->first[window[i]], best = UINT64_MAX;
        for (uint64_t k = 0; k < rows; k++)
            if (bins[k].used + length <= capacity && (best == UINT64_MAX || bins[k].used > bins[best].used))
                best = k;
        if (best == UINT64_MAX)
            bins[best = rows++] = (bin){ 0 };
        next[window[i]] = UINT64_MAX;
        if (bins[best].texts++)
            next[bins[best].last_text] = window[i];
        else
            bins[best].first_text = window[i];
        bins[best].last_text = window[i];
        bins[best].used += length;
    }
    return rows;
}

/* Shuffle all rows, because the rows of one window come longest first. */
static lm_status shuffle_rows(lm_train_rows *x, uint64_t n_texts, uint64_t seed, uint32_t epoch, lm_error *e)
{
    uint64_t *rows = lm_alloc_zero(x->n + 1, sizeof *rows),
             *texts = lm_alloc_zero(n_texts + 1, sizeof *texts);
    uint64_t *first = lm_alloc_zero(n_texts + 2, sizeof *first), to = 0;

    if (!rows || !texts || !first) {
        lm_free(rows);
        lm_free(texts);
        lm_free(first);
        return lm_fail_memory(e, "training rows", n_texts);
    }
    for (uint64_t i = 0; i < x->n; i++)
        rows[i] = i;
    shuffle_texts(rows, x->n, seed + 1, epoch);
    for (uint64_t i = 0; i < x->n; i++) {
        first[i] = to;
        for (uint64_t k = x->first[rows[i]]; k < x->first[rows[i] + 1]; k++)
            texts[to++] = x->texts[k];
    }
    first[x->n] = to;
    lm_free(rows);
    lm_free(x->texts);
    lm_free(x->first);
    x->texts = texts;
    x->first = first;
    return LM_OK;
}

/* Take one window of texts after another and pack it into rows, or put one text in each row. */
static void take_rows(const lm_train_data *d, uint64_t *order, uint32_t capacity, bool pack, uint64_t *next,
                      lm_train_rows *out)
{
    bin      bins[WINDOW];
    uint64_t at = 0;

    for (uint64_t from = 0; from < d->texts; from += WINDOW) {
        uint64_t n = d->texts - from < WINDOW ? d->texts - from : WINDOW, rows = n;
        if (pack)
            rows = fill(d, order + from, n, capacity, bins, next);
        for (uint64_t r = 0; r < rows; r++) {
            out->first[out->n++] = at;
            for (uint64_t t = pack ? bins[r].first_text : order[from + r]; t != UINT64_MAX;
                 t = pack ? next[t] : UINT64_MAX)
                out->texts[at++] = t;
        }
    }
    out->first[out->n] = at;
}

lm_status lm_train_rows_of(const lm_train_data *d, uint32_t capacity, bool pack, bool shuffle, uint64_t seed,
                           uint32_t epoch, lm_train_rows *out, lm_error *e)
{
    uint64_t *order = lm_alloc_zero(d->texts + 1, sizeof *order),
             *next = lm_alloc_zero(d->texts + 1, sizeof *next);

    *out = (lm_train_rows){ lm_alloc_zero(d->texts + 1, sizeof *out->texts),
                            lm_alloc_zero(d->texts + 2, sizeof *out->first), 0 };
    lm_status status = order && next && out->texts && out->first
                           ? LM_OK
                           : lm_fail_memory(e, "training rows", d->texts);
    for (uint64_t i = 0; status == LM_OK && i < d->texts; i++)
        order[i] = i;
    if (status == LM_OK) {
        if (shuffle)
            shuffle_texts(order, d->texts, seed, epoch);
        take_rows(d, order, capacity, pack, next, out);
    }
    lm_free(order);
    lm_free(next);
    if (status == LM_OK && shuffle && pack)
        status = shuffle_rows(out, d->texts, seed, epoch, e);
    if (status != LM_OK)
        lm_train_rows_free(out);
    return status;
}
