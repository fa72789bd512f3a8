/* diverge.c - run a text through two engines, and compare their predictions after each token. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lamina/score.h"
#include "runtime/engine/state.h"
#include "runtime/measure/compare.h"

typedef struct diverging {
    lm_engine                *g, *reference;
    const lm_token           *ids;
    size_t                    n;
    const lm_diverge_options *o;
    uint32_t                  window, n_vocab;
    lm_row                   *rows;      /* [the smaller maximum of the engines] */
    double                   *kl;        /* [n] */
    size_t                    n_kl;
    double                    logprob, reference_logprob, dp, dp_squared;
    lm_divergence             out;
} diverging;

lm_diverge_options lm_diverge_defaults(void)
{
    return (lm_diverge_options){ 0 };
}

/* ---- vocabularies ---- */

static lm_status other_piece(lm_token id, const char *a, size_t n, const char *b, size_t m, lm_error *e)
{
    return lm_fail(e, LM_USAGE, "vocabulary", LM_NO_OFFSET,
                   "token %d is \"%.*s\" of one model and \"%.*s\" of the other", id, (int)(n < 64 ? n : 64),
                   a, (int)(m < 64 ? m : 64), b);
}

lm_status lm_same_vocabulary(const lm_model *model, const lm_model *reference, lm_error *e)
{
    LM_REQUIRE(e, model && reference);
    const lm_tokenizer *a = lm_model_tokenizer(model), *b = lm_model_tokenizer(reference);
    uint32_t            rows[] = { model->program->n_vocab, reference->program->n_vocab };

    if (rows[0] != rows[1])
        return lm_fail(e, LM_USAGE, "vocabulary", LM_NO_OFFSET, "one model has %u tokens, the other %u",
                       rows[0], rows[1]);
    for (uint32_t i = 0; a && b && i < rows[0]; i++) {
        size_t      n = 0, m = 0;
        const char *x = lm_tokenizer_piece(a, (lm_token)i, &n), *y = lm_tokenizer_piece(b, (lm_token)i, &m);
        if (x && y && (n != m || memcmp(x, y, n) != 0))
            return other_piece((lm_token)i, x, n, y, m, e);
    }
    return LM_OK;
}

static lm_status check(diverging *d, lm_error *e)
{
    uint32_t a = lm_engine_context(d->g), b = lm_engine_context(d->reference), context = a < b ? a : b;

    LM_TRY(lm_same_vocabulary(d->g->model, d->reference->model, e));
    if (d->n < 2)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET,
                       "%zu token%s; two at least are needed to compare models", d->n, d->n == 1 ? "" : "s");
    d->window = d->o->window ? d->o->window : context;
    if (d->window < 2)
        return lm_fail(e, LM_USAGE, "window", LM_NO_OFFSET, "%u; two tokens at least", d->window);
    if (d->window > context)
        return lm_fail(e, LM_LIMIT, "window", LM_NO_OFFSET, "%u tokens; the context size is %u", d->window,
                       context);
    if (d->o->sequence >= lm_engine_sequences(d->g) || d->o->sequence >= lm_engine_sequences(d->reference))
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u; the engines have fewer", d->o->sequence);
    for (size_t i = 0; i < d->n; i++)
        if (d->ids[i] < 0 || (uint32_t)d->ids[i] >= d->n_vocab)
            return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           d->ids[i], d->n_vocab);
    return LM_OK;
}

/* ---- one token ---- */

static lm_status not_a_number(const lm_engine *g, size_t position, lm_error *e)
{
    lm_fail(e, LM_FAILED, "logits", LM_NO_OFFSET, "not a number at position %zu", position);
    return lm_fail_in(e, g->model->source);
}

static lm_status compare_token(diverging *d, size_t position, const float *ours, const float *theirs,
                               lm_error *e)
{
    lm_token_divergence t = { .position = position, .id = d->ids[position] };

    t.logprob           = (double)lm_logprobs(ours, d->n_vocab, t.id, NULL, 0);
    t.reference_logprob = (double)lm_logprobs(theirs, d->n_vocab, t.id, NULL, 0);
    t.kl                = lm_kl(ours, theirs, d->n_vocab);
    t.same_top          = lm_argmax(ours, d->n_vocab) == lm_argmax(theirs, d->n_vocab);
    if (isnan(t.logprob) || isnan(t.reference_logprob) || isnan(t.kl))
        return not_a_number(isnan(t.logprob) ? d->g : d->reference, position - 1, e);
    double dp = exp(t.logprob) - exp(t.reference_logprob);
    d->logprob += t.logprob;
    d->reference_logprob += t.reference_logprob;
    d->dp += dp;
    d->dp_squared += dp * dp;
    d->out.same_top += t.same_top;
    d->out.max_dp = fmax(d->out.max_dp, fabs(dp));
    if (d->n_kl == 0 || t.kl > d->out.max_kl) {
        d->out.max_kl       = t.kl;
        d->out.max_position = position;
    }
    d->kl[d->n_kl++] = t.kl;
    if (d->o->token && !d->o->token(d->o->arg, &t))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
    return LM_OK;
}

/* ---- windows ---- */

/* Process the ids from `from` to before `to`, from empty caches; the last is scored but not processed. */
static lm_status read_window(diverging *d, size_t from, size_t to, lm_error *e)
{
    const uint32_t sequence = d->o->sequence;

    LM_TRY(lm_engine_truncate(d->g, sequence, 0, e));
    LM_TRY(lm_engine_truncate(d->reference, sequence, 0, e));
    for (size_t at = from; at + 1 < to;) {
        size_t a = lm_engine_ahead(d->g, sequence), b = lm_engine_ahead(d->reference, sequence),
               rows = a < b ? a : b;

        if (rows == 0)
            return lm_fail(e, LM_LIMIT, "text", LM_NO_OFFSET, "the cache is full at position %zu", at);
        rows = rows < to - 1 - at ? rows : to - 1 - at;
        for (size_t i = 0; i < rows; i++)
            d->rows[i] = (lm_row){ sequence, d->ids[at + i], (uint32_t)(at + i - from), true };
        LM_TRY(lm_engine_step(d->g, d->rows, rows, e));
        LM_TRY(lm_engine_step(d->reference, d->rows, rows, e));
        for (size_t i = 0; i < rows; i++)
            LM_TRY(compare_token(d, at + i + 1, lm_engine_logits(d->g, i), lm_engine_logits(d->reference, i),
                                 e));
        at += rows;
    }
    return LM_OK;
}

static lm_status read_text(diverging *d, lm_error *e)
{
    for (size_t from = 0; from + 1 < d->n; from += d->window)
        LM_TRY(read_window(d, from, d->n - from < d->window ? d->n : from + d->window, e));
    return LM_OK;
}

/* ---- statistics ---- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Return a percentile of sorted values, interpolated linearly. */
static double percentile(const double *x, size_t n, double share)
{
    double at  = share * (double)(n - 1);
    size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;

    return low == high || x[low] == x[high] ? x[low] : x[low] + (at - (double)low) * (x[high] - x[low]);
}

static void sum_up(diverging *d)
{
    lm_divergence *out = &d->out;
    double         n   = (double)d->n_kl, sum = 0;

    qsort(d->kl, d->n_kl, sizeof *d->kl, rising);
    for (size_t i = 0; i < d->n_kl; i++)
        sum += d->kl[i];
    out->n_tokens             = d->n_kl;
    out->mean_kl              = sum / n;
    out->median_kl            = percentile(d->kl, d->n_kl, 0.5);
    out->p90_kl               = percentile(d->kl, d->n_kl, 0.9);
    out->p95_kl               = percentile(d->kl, d->n_kl, 0.95);
    out->p99_kl               = percentile(d->kl, d->n_kl, 0.99);
    out->same_top            /= n;
    out->mean_dp              = d->dp / n;
    out->rms_dp               = sqrt(d->dp_squared / n);
    out->perplexity           = exp(-d->logprob / n);
    out->reference_perplexity = exp(-d->reference_logprob / n);
}

static lm_status diverge(diverging *d, lm_error *e)
{
    uint32_t a = lm_engine_max_rows(d->g), b = lm_engine_max_rows(d->reference), max = a < b ? a : b;

    LM_TRY(check(d, e));
    d->rows = lm_alloc_zero(max, sizeof *d->rows);
    d->kl   = lm_alloc_zero(d->n, sizeof *d->kl);
    if (!d->rows || !d->kl)
        return lm_fail_memory(e, "the divergence", d->n * sizeof *d->kl);
    LM_TRY(read_text(d, e));
    sum_up(d);
    return LM_OK;
}

lm_status lm_diverge_text(lm_engine *model, lm_engine *reference, const lm_token *ids, size_t n,
                          const lm_diverge_options *o, lm_divergence *out, lm_error *e)
{
    LM_REQUIRE(e, model && reference && (ids || !n) && out);
    LM_CHECK_RESERVED(e, o);
    const lm_diverge_options defaults = lm_diverge_defaults();

    if (model == reference)
        return lm_fail(e, LM_USAGE, "reference", LM_NO_OFFSET, "is the same engine");
    diverging d = { .g = model,
                    .reference = reference,
                    .ids = ids,
                    .n = n,
                    .o = o ? o : &defaults,
                    .n_vocab = model->program->n_vocab };
    lm_status status = diverge(&d, e);
    lm_free(d.rows);
    lm_free(d.kl);
    if (status == LM_OK)
        *out = d.out;
    return status;
}
