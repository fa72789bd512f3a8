/* draft.c - prompt look-up, and a model that guesses. */
#include "runtime/draft.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define NOWHERE UINT32_MAX

enum {
    HASH_BITS = 16,
    TRIES     = 64,              /* places that a look-up compares */
    LENGTHS   = LM_PACE_LOOKUPS, /* kinds of guesses by the length of the repeat, then those by a model's margin */
    MARGINS   = LM_PACE_KINDS - LENGTHS,
};

/* ---- the text ---- */

static uint32_t hash_at(const lm_draft *d, size_t i)
{
    uint64_t pair = (uint64_t)(uint32_t)d->ids[i - 1] << 32 | (uint32_t)d->ids[i];

    return (uint32_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> (64 - HASH_BITS));
}

void lm_draft_add(lm_draft *d, lm_token id)
{
    if (d->n == d->capacity)
        return;
    d->ids[d->n++] = id;
    if (!d->last || d->n < 2)
        return;
    uint32_t h         = hash_at(d, d->n - 1);
    d->before[d->n - 1] = d->last[h];
    d->last[h]          = (uint32_t)d->n - 1;
}

lm_status lm_draft_open(lm_draft *d, const lm_generate_options *o, lm_sampler *s, uint32_t n_vocab, uint32_t context, lm_error *e)
{
    *d = (lm_draft){ .longest = o->draft_ngram, .engine = o->draft_engine, .sampler = s, .sequence = o->sequence, .n_vocab = n_vocab };
    lm_pace_start(&d->pace, o->draft_always);
    if (!d->longest && !d->engine)
        return LM_OK;
    d->most     = o->draft_max ? o->draft_max : 16;
    d->most     = d->most < LM_DRAFT_MOST ? d->most : LM_DRAFT_MOST;
    d->capacity = (size_t)context + 1;
    d->ids      = lm_alloc_zero(d->capacity, sizeof *d->ids);
    d->before   = d->longest ? lm_alloc_zero(d->capacity, sizeof *d->before) : NULL;
    d->last     = d->longest ? lm_alloc(sizeof *d->last << HASH_BITS) : NULL;
    if (!d->ids || (d->longest && (!d->before || !d->last)))
        return lm_fail_memory(e, "guesses", d->capacity * 2 * sizeof *d->ids);
    if (d->last)
        memset(d->last, 0xff, sizeof *d->last << HASH_BITS);             /* NOWHERE */
    if (!d->engine)
        return LM_OK;
    lm_model_info info;
    lm_model_describe(o->draft_model, &info);
    d->own_vocab = info.n_vocab;
    d->n_rows    = lm_engine_max_rows(d->engine);
    d->rows      = lm_alloc_zero(d->n_rows, sizeof *d->rows);
    d->logits    = d->own_vocab < n_vocab ? lm_alloc(n_vocab * sizeof *d->logits) : NULL;
    if (!d->rows || (d->own_vocab < n_vocab && !d->logits))
        return lm_fail_memory(e, "guesses", n_vocab * sizeof *d->logits);
    return LM_OK;
}

void lm_draft_close(lm_draft *d)
{
    lm_free(d->ids);
    lm_free(d->before);
    lm_free(d->last);
    lm_free(d->logits);
    lm_free(d->rows);
    *d = (lm_draft){ 0 };
}

/* ---- look-up ---- */

/* Where the end of the text stood before, the longest repeat and of equal ones the last: the place of its last token. */
static uint32_t find_repeat(const lm_draft *d, uint32_t *length)
{
    size_t   end = d->n - 1;
    uint32_t at = d->before[end], best = NOWHERE;

    *length = 1;
    for (unsigned tries = 0; at != NOWHERE && tries < TRIES && *length < d->longest; tries++, at = d->before[at]) {
        uint32_t same = 0;
        while (same < d->longest && same <= at && d->ids[at - same] == d->ids[end - same])
            same++;
        if (same > *length) {
            *length = same;
            best    = at;
        }
    }
    return best;
}

static void look_up(lm_draft *d, uint32_t most)
{
    uint32_t length, at, n = 0;

    if (!d->last || d->n < 3)
        return;
    at = find_repeat(d, &length);
    for (; at != NOWHERE && n < most; n++, length++) {
        size_t next   = (size_t)at + 1 + n;
        d->guesses[n] = next < d->n ? d->ids[next] : d->guesses[next - d->n];    /* a repeat that reaches into itself goes on */
        d->kinds[n]   = (uint8_t)((length < LENGTHS ? length : LENGTHS) - 1);
    }
    d->n_guesses = lm_pace_best(&d->pace, d->kinds, n);
}

/* ---- a model ---- */

/* Tokens from where the engine stands to the end of the text, all but the last `but`. *row: the last of the last step. */
static lm_status catch_up(lm_draft *d, size_t but, size_t *row, lm_error *e)
{
    size_t at = lm_engine_length(d->engine, 0);

    while (at + but < d->n) {
        size_t rows = d->n - but - at < d->n_rows ? d->n - but - at : d->n_rows;
        for (size_t i = 0; i < rows; i++)
            d->rows[i] = (lm_row){ 0, d->ids[at + i], (uint32_t)(at + i), at + i + 1 == d->n };
        LM_TRY(lm_engine_step(d->engine, d->rows, rows, e));
        at += rows;
        *row = rows - 1;
    }
    return LM_OK;
}

/* How far the choice is ahead of the best other token, in whole nats. */
static uint8_t kind_of(const float *x, uint32_t n, lm_token id)
{
    float best = -INFINITY;

    for (uint32_t i = 0; i < n; i++)
        best = x[i] > best && i != (uint32_t)id ? x[i] : best;
    float margin = x[id] - best;
    return (uint8_t)(LENGTHS + (margin >= MARGINS - 1 ? MARGINS - 1 : margin > 0 ? (int)margin : 0));
}

static const float *logits_of(lm_draft *d, size_t row)
{
    const float *x = lm_engine_logits(d->engine, row);

    if (!x || !d->logits)
        return x;
    memcpy(d->logits, x, d->own_vocab * sizeof *x);
    for (uint32_t i = d->own_vocab; i < d->n_vocab; i++)
        d->logits[i] = -INFINITY;
    return d->logits;
}

static lm_status ask_model(lm_draft *d, uint32_t most, lm_error *e)
{
    size_t row = 0;

    /* Not even the likeliest kind pays, or its context is full: no step for nothing. */
    d->kinds[0] = LM_PACE_KINDS - 1;
    if (!lm_pace_pays(&d->pace, d->kinds, 0) || d->n + most > lm_engine_context(d->engine))
        return LM_OK;
    LM_TRY(catch_up(d, 0, &row, e));
    for (;; row = 0) {
        const float *x = logits_of(d, row);
        lm_token     id;
        uint32_t     i = d->n_guesses;
        if (!x)
            return LM_OK;
        LM_TRY(lm_sampler_pick(d->sampler, x, d->sequence, d->n + i, &id, e));
        d->kinds[i] = kind_of(x, d->n_vocab, id);
        if ((uint32_t)id >= d->own_vocab || !lm_pace_pays(&d->pace, d->kinds, i))
            return LM_OK;
        d->guesses[d->n_guesses++] = id;
        if (d->n_guesses == most)
            return LM_OK;
        lm_row next = { 0, id, (uint32_t)(d->n + i), true };
        LM_TRY(lm_engine_step(d->engine, &next, 1, e));
    }
}

lm_status lm_draft_read(lm_draft *d, size_t reuse, lm_error *e)
{
    size_t   row;
    uint32_t kept;

    if (!d->engine)
        return LM_OK;
    LM_TRY(lm_engine_keep(d->engine, 0, (uint32_t)reuse, &kept, e));
    for (size_t i = 0; i < d->n; i++)
        if ((uint32_t)d->ids[i] >= d->own_vocab || d->n > lm_engine_context(d->engine)) {
            d->engine = NULL;                            /* it has never seen such a text */
            return LM_OK;
        }
    return catch_up(d, 1, &row, e);
}

/* ---- rounds ---- */

lm_status lm_draft_guess(lm_draft *d, uint32_t most, lm_error *e)
{
    lm_error  ignored;
    lm_status status;

    d->n_guesses = 0;
    d->at        = d->n;
    most         = most < d->most ? most : d->most;
    if (most == 0)
        return LM_OK;
    look_up(d, most);
    if (d->n_guesses || !d->engine)
        return LM_OK;
    status = ask_model(d, most, &ignored);
    if (status == LM_CANCELLED)
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
    if (status != LM_OK)
        d->engine = NULL;                                /* what cannot guess is asked no more; the text is not its matter */
    return LM_OK;
}

lm_status lm_draft_judge(lm_draft *d, uint32_t right, double guessing, double step, lm_error *e)
{
    uint32_t kept;

    lm_pace_round(&d->pace, d->kinds, d->n_guesses, right, guessing, step);
    return d->engine ? lm_engine_keep(d->engine, 0, (uint32_t)(d->at + right), &kept, e) : LM_OK;
}
