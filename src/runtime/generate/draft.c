/* draft.c - prompt look-up, and a draft model. */
#include "runtime/generate/draft.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define NOWHERE UINT32_MAX

enum {
    HASH_BITS = 16,
    TRIES     = 64,              /* places that a look-up compares */
    LENGTHS   = LM_PACE_LOOKUPS, /* kinds of draft tokens by the length of the repeat, then those by a model's
                                    margin */
    MARGINS   = LM_PACE_KINDS - LENGTHS,
};

/* ---- tokens ---- */

static uint32_t hash_at(const lm_draft *d, size_t i)
{
    uint64_t pair = (uint64_t)(uint32_t)d->ids[i - 1] << 32 | (uint32_t)d->ids[i];

    return (uint32_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> (64 - HASH_BITS));
}

void lm_draft_add(lm_draft *d)
{
    d->n++;
    if (!d->last || d->n < 2)
        return;
    uint32_t h          = hash_at(d, d->n - 1);
    d->before[d->n - 1] = d->last[h];
    d->last[h]          = (uint32_t)d->n - 1;
}

static lm_status open_model(lm_draft *d, lm_error *e)
{
    lm_model_info info;

    lm_model_describe(lm_engine_model(d->engine), &info);
    d->own_vocab = info.n_vocab;
    d->n_rows    = lm_engine_max_rows(d->engine);
    d->rows      = lm_alloc_zero(d->n_rows, sizeof *d->rows);
    d->logits    = d->own_vocab < d->n_vocab ? lm_alloc(d->n_vocab * sizeof *d->logits) : NULL;
    if (!d->rows || (d->own_vocab < d->n_vocab && !d->logits))
        return lm_fail_memory(e, "draft tokens", d->n_vocab * sizeof *d->logits);
    return LM_OK;
}

lm_status lm_draft_open(lm_draft *d, const lm_sequence_options *o, lm_sampler *s, uint32_t n_vocab,
                        lm_error *e)
{
    *d = (lm_draft){ .longest = o->draft_ngram,
                     .engine = o->draft_engine,
                     .slot = o->draft_sequence,
                     .sampler = s,
                     .draw = o->draw,
                     .n_vocab = n_vocab };
    lm_pace_start(&d->pace, o->draft_always);
    d->max = o->draft_max ? o->draft_max : 16;
    d->max = d->max < LM_DRAFT_MAX ? d->max : LM_DRAFT_MAX;
    d->last = d->longest ? lm_alloc(sizeof *d->last << HASH_BITS) : NULL;
    if (d->longest && !d->last)
        return lm_fail_memory(e, "draft tokens", sizeof *d->last << HASH_BITS);
    return d->engine ? open_model(d, e) : LM_OK;
}

lm_status lm_draft_reserve(lm_draft *d, size_t capacity, lm_error *e)
{
    uint32_t *grown;

    if (!d->longest || capacity <= d->capacity)
        return LM_OK;
    grown = lm_realloc(d->before, capacity * sizeof *grown);
    if (!grown)
        return lm_fail_memory(e, "draft tokens", capacity * sizeof *grown);
    d->before   = grown;
    d->capacity = capacity;
    return LM_OK;
}

void lm_draft_close(lm_draft *d)
{
    lm_free(d->before);
    lm_free(d->last);
    lm_free(d->logits);
    lm_free(d->rows);
    *d = (lm_draft){ 0 };
}

/* ---- look-up ---- */

/* Find the longest earlier occurrence of the last tokens, the last one among equals. Returns the place of its
 * last token; NOWHERE: none. */
static uint32_t find_repeat(const lm_draft *d, uint32_t *length)
{
    size_t   end = d->n - 1;
    uint32_t at = d->before[end], best = NOWHERE;

    *length = 1;
    for (unsigned tries = 0; at != NOWHERE && tries < TRIES && *length < d->longest;
         tries++, at = d->before[at]) {
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

static void look_up(lm_draft *d, uint32_t max)
{
    uint32_t length, at, n = 0;

    if (!d->last || d->n < 3)
        return;
    at = find_repeat(d, &length);
    for (; at != NOWHERE && n < max; n++, length++) {
        size_t next  = (size_t)at + 1 + n;
        /* a repeat that reaches into itself continues */
        d->tokens[n] = next < d->n ? d->ids[next] : d->tokens[next - d->n];
        d->kinds[n]  = (uint8_t)((length < LENGTHS ? length : LENGTHS) - 1);
    }
    d->n_drafted = lm_pace_best(&d->pace, d->kinds, n);
}

/* ---- draft model ---- */

/* A draft model that fails is not used again; the sequence continues without it. */
static void disable(lm_draft *d, const lm_error *why)
{
    d->engine = NULL;
    d->error  = *why;
}

/* Process tokens from the length of the engine to `upto`. *row: the last row of the last step. */
static lm_status catch_up(lm_draft *d, size_t upto, size_t *row, lm_error *e)
{
    size_t at = lm_engine_length(d->engine, d->slot);

    while (at < upto) {
        size_t rows = upto - at < d->n_rows ? upto - at : d->n_rows;
        for (size_t i = 0; i < rows; i++)
            d->rows[i] = (lm_row){ d->slot, d->ids[at + i], (uint32_t)(at + i), at + i + 1 == d->n };
        LM_TRY(lm_engine_step(d->engine, d->rows, rows, e));
        at += rows;
        *row = rows - 1;
    }
    return LM_OK;
}

/* Return the kind of a choice: by how many whole nats its logit exceeds that of the best other token. */
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

static lm_status run_model(lm_draft *d, uint32_t max, lm_error *e)
{
    size_t row = 0;

    /* Run no step if not even the likeliest kind pays, or the draft would exceed the context. */
    d->kinds[0] = LM_PACE_KINDS - 1;
    if (!lm_pace_pays(&d->pace, d->kinds, 0) || d->n + max > lm_engine_context(d->engine))
        return LM_OK;
    LM_TRY(catch_up(d, d->n, &row, e));
    for (;; row = 0) {
        const float *x = logits_of(d, row);
        lm_token     id;
        uint32_t     i = d->n_drafted;
        if (!x)
            return LM_OK;
        LM_TRY(lm_sampler_pick(d->sampler, x, d->draw, d->n + i, &id, e));
        d->kinds[i] = kind_of(x, d->n_vocab, id);
        if ((uint32_t)id >= d->own_vocab || !lm_pace_pays(&d->pace, d->kinds, i))
            return LM_OK;
        d->tokens[d->n_drafted++] = id;
        if (d->n_drafted == max)
            return LM_OK;
        lm_row next = { d->slot, id, (uint32_t)(d->n + i), true };
        LM_TRY(lm_engine_step(d->engine, &next, 1, e));
    }
}

/* Check that the draft model can process the tokens. */
static lm_status check_tokens(const lm_draft *d, size_t upto, lm_error *e)
{
    uint32_t context = lm_engine_context(d->engine);

    if (d->n > context)
        return lm_fail(e, LM_LIMIT, "draft model", LM_NO_OFFSET, "%zu tokens; its context size is %u", d->n,
                       context);
    for (size_t i = lm_engine_length(d->engine, d->slot); i < upto; i++)
        if ((uint32_t)d->ids[i] >= d->own_vocab)
            return lm_fail(e, LM_UNSUPPORTED, "draft model", LM_NO_OFFSET,
                           "token %d is outside its vocabulary", d->ids[i]);
    return LM_OK;
}

void lm_draft_read(lm_draft *d, size_t upto)
{
    lm_error  why;
    lm_status status;
    size_t    row;

    if (!d->engine)
        return;
    status = check_tokens(d, upto, &why);
    if (status == LM_OK)
        status = catch_up(d, upto, &row, &why);
    if (status != LM_OK && status != LM_CANCELLED)       /* tokens that a cancelled step has not processed are
                                                            processed later */
        disable(d, &why);
}

void lm_draft_truncate(lm_draft *d, size_t keep)
{
    uint32_t kept;
    lm_error why;

    if (d->engine && lm_engine_keep(d->engine, d->slot, (uint32_t)keep, &kept, &why) != LM_OK)
        disable(d, &why);
}

/* ---- rounds ---- */

void lm_draft_begin(lm_draft *d, const lm_token *ids, size_t n)
{
    d->ids = ids;
    d->n   = d->n_drafted = 0;
    if (d->last)
        memset(d->last, 0xff, sizeof *d->last << HASH_BITS);             /* NOWHERE */
    while (d->n < n)
        lm_draft_add(d);
}

void lm_draft_propose(lm_draft *d, uint32_t max)
{
    lm_error  why;
    lm_status status;

    d->n_drafted = 0;
    d->at        = d->n;
    max         = max < d->max ? max : d->max;
    if (max == 0)
        return;
    look_up(d, max);
    if (d->n_drafted || !d->engine)
        return;
    status = run_model(d, max, &why);
    if (status != LM_OK && status != LM_CANCELLED)
        disable(d, &why);
}

void lm_draft_accept(lm_draft *d, uint32_t accepted, double drafting, double step)
{
    lm_pace_round(&d->pace, d->kinds, d->n_drafted, accepted, drafting, step);
    lm_draft_truncate(d, d->at + accepted);
}
