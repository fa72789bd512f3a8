/* ensemble.c - several engines behind one schedule: what each contributes to the choice of a token. The
 * schedule's thread steps them. */
#include "schedule/ensemble.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/os/pool.h"
#include "runtime/model/model.h"
#include "runtime/engine/state.h"

/* ---- opening ---- */

static lm_status check_room(const lm_engine *g, const lm_engine *other, const char *path, lm_error *e)
{
    const struct { const char *what; uint32_t has, needs; } all[] = {
        { "positions", lm_engine_context(other), lm_engine_context(g) },
        { "sequences", lm_engine_sequences(other), lm_engine_sequences(g) },
        { "rows", lm_engine_max_rows(other), lm_engine_max_rows(g) },
        { "rows with logits", lm_engine_max_logits(other), lm_engine_max_logits(g) },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has < all[i].needs)
            return lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "%u %s, the first model's engine has %u",
                           all[i].has, all[i].what, all[i].needs);
    return LM_OK;
}

static lm_status add(lm_engine_ensemble *x, lm_engine *other, lm_error *e)
{
    lm_model_info info;

    LM_REQUIRE(e, other);
    lm_model_describe(lm_engine_model(other), &info);
    if (other == x->g)
        return lm_fail(e, LM_USAGE, info.source, LM_NO_OFFSET, "each model needs a separate engine");
    lm_status status = lm_draft_fits(lm_engine_model(other), lm_engine_model(x->g), e);
    if (status != LM_OK) {
        lm_fail_in(e, info.source);
        return status;
    }
    LM_TRY(check_room(x->g, other, info.source, e));
    for (uint32_t i = 0; i < lm_engine_sequences(other); i++)
        lm_engine_truncate(other, i, 0, NULL);
    x->engines[x->n++] = other;
    x->sizes[x->n] = info.n_vocab < x->n_vocab ? info.n_vocab : x->n_vocab;
    return LM_OK;
}

lm_status lm_ensemble_open(lm_engine_ensemble *x, lm_engine *g, const lm_schedule_others *o, lm_error *e)
{
    lm_model_info info;
    size_t rows = lm_engine_max_logits(g);

    if (!o)
        return LM_OK;
    LM_CHECK_RESERVED(e, o);
    LM_REQUIRE(e, o->engines);
    lm_mixture checked = x->mixture = o->mixture;
    LM_TRY(lm_mixture_prepare(&checked, e));
    lm_model_describe(lm_engine_model(g), &info);
    x->g = g;
    x->n_vocab = x->sizes[0] = info.n_vocab;
    x->engines = lm_alloc_zero(o->mixture.n, sizeof *x->engines);
    x->own = lm_alloc_zero(rows * x->n_vocab, sizeof *x->own);
    x->mixed = lm_alloc_zero((size_t)lm_pool_threads(g->pool) * x->n_vocab, sizeof *x->mixed);
    x->results = lm_alloc_zero(rows, sizeof *x->results);
    x->at = lm_alloc_zero(rows, sizeof *x->at);
    if (!x->engines || !x->own || !x->mixed || !x->results || !x->at)
        return lm_fail_memory(e, "probabilities", rows * x->n_vocab * sizeof *x->own);
    for (uint32_t i = 0; i + 1 < o->mixture.n; i++)
        LM_TRY(add(x, o->engines[i], e));
    return LM_OK;
}

void lm_ensemble_close(lm_engine_ensemble *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < lm_engine_sequences(x->engines[i]); k++)
            lm_engine_truncate(x->engines[i], k, 0, NULL);
    lm_free(x->engines);
    lm_free(x->own);
    lm_free(x->mixed);
    lm_free(x->results);
    lm_free(x->at);
    *x = (lm_engine_ensemble){ 0 };
}

/* ---- steps ---- */

/* Remove rejected draft tokens and released sequences, which the first engine no longer holds, from another
 * engine. */
static lm_status follow(const lm_engine_ensemble *x, lm_engine *other, lm_error *e)
{
    for (uint32_t i = 0; i < lm_engine_sequences(x->g); i++) {
        uint32_t length = lm_engine_length(x->g, i);
        if (lm_engine_length(other, i) > length)
            LM_TRY(lm_engine_truncate(other, i, length, e));
    }
    return LM_OK;
}

lm_status lm_ensemble_check(lm_engine_ensemble *x, const lm_row *rows, size_t n, lm_error *e)
{
    for (uint32_t i = 0; i < x->n; i++) {
        LM_TRY(follow(x, x->engines[i], e));
        LM_TRY(lm_engine_check(x->engines[i], rows, n, e));
    }
    return LM_OK;
}

static void mix_row(void *arg, unsigned worker, unsigned row)
{
    lm_engine_ensemble *x = arg;
    const float *logits[LM_MIXTURE_MODELS];
    float *own = x->own + (size_t)row * x->n_vocab, *first = lm_engine_logits_mut(x->g, x->at[row]);
    double *mixed = x->mixed + (size_t)worker * x->n_vocab;

    memcpy(own, first, x->n_vocab * sizeof *own);
    logits[0] = own;
    for (uint32_t i = 0; i < x->n; i++)
        logits[1 + i] = lm_engine_logits(x->engines[i], x->at[row]);
    lm_mixture_mix(&x->mixture, logits, x->sizes, x->n_vocab, mixed, x->results + row);
    for (uint32_t i = 0; i < x->n_vocab; i++)
        first[i] = (float)mixed[i];
}

lm_status lm_ensemble_step(lm_engine_ensemble *x, const lm_row *rows, size_t n, lm_error *e)
{
    for (uint32_t i = 0; i < x->n; i++)
        LM_TRY(lm_engine_step(x->engines[i], rows, n, e));
    x->n_at = 0;
    for (size_t i = 0; x->n && i < n; i++)
        if (rows[i].logits)
            x->at[x->n_at++] = (uint32_t)i;
    if (x->n_at)
        lm_pool_run_chunks(x->g->pool, mix_row, x, x->n_at);
    return LM_OK;
}

bool lm_ensemble_logprobs(const lm_engine_ensemble *x, const lm_row *rows, uint32_t slot, uint32_t position,
                          lm_token id, double *logprobs)
{
    for (uint32_t i = 0; i < x->n_at; i++) {
        const lm_row *row = rows + x->at[i];
        if (row->sequence != slot || row->position != position)
            continue;
        logprobs[0] = (double)lm_engine_logits(x->g, x->at[i])[id];
        for (uint32_t k = 0; k <= x->n; k++) {
            const float *logits = k ? lm_engine_logits(x->engines[k - 1], x->at[i])
                                    : x->own + (size_t)i * x->n_vocab;
            logprobs[1 + k] = (uint32_t)id < x->sizes[k] ? (double)logits[id] - x->results[i].norms[k]
                                                         : -INFINITY;
        }
        return true;
    }
    return false;
}
