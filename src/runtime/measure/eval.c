/* eval.c - perplexity and divergence, computed from the scored tokens. */
#include "lamina/eval.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lamina/score.h"
#include "runtime/engine/state.h"
#include "runtime/measure/eval_text.h"

lm_status lm_eval_perplexity(lm_engine *g, const lm_token *ids, size_t n, const lm_eval_text_options *o,
                             lm_perplexity *out, lm_error *e)
{
    LM_REQUIRE(e, g && (ids || !n) && out);
    LM_CHECK_RESERVED(e, o);
    const lm_eval_text_options defaults = { 0 };
    lm_eval_text t      = { .engines = { g }, .n_engines = 1, .ids = ids, .n = n, .o = o ? o : &defaults };
    lm_status    status = lm_eval_text_run(&t, e);

    if (status == LM_OK) {
        *out = lm_eval_text_perplexity(&t, false);
        lm_eval_text_report(&t);
    }
    lm_eval_text_end(&t);
    return status;
}

/* ---- divergence ---- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Return a percentile of sorted values, interpolated linearly. */
static double percentile(const double *x, uint64_t n, double share)
{
    double   at  = share * (double)(n - 1);
    uint64_t low = (uint64_t)at, high = low + 1 < n ? low + 1 : low;

    return low == high || x[low] == x[high] ? x[low] : x[low] + (at - (double)low) * (x[high] - x[low]);
}

static double mean(const double *x, uint64_t n, double *error)
{
    double sum = 0, squares = 0;

    for (uint64_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    double m = sum / (double)n;
    *error   = n > 1 ? sqrt(fmax(0, squares / (double)n - m * m) / (double)(n - 1)) : NAN;
    return m;
}

static void add_kl(const lm_eval_text *t, double *x, lm_kl_figures *f)
{
    uint64_t n = t->n_values;

    for (uint64_t i = 0; i < n; i++)
        x[i] = t->values[i].kl;
    f->mean_kl = mean(x, n, &f->kl_error);
    qsort(x, n, sizeof *x, rising);
    f->max_kl    = x[n - 1];
    f->min_kl    = x[0];
    f->kl_999    = percentile(x, n, 0.999);
    f->kl_99     = percentile(x, n, 0.99);
    f->kl_95     = percentile(x, n, 0.95);
    f->kl_90     = percentile(x, n, 0.90);
    f->median_kl = percentile(x, n, 0.5);
    f->kl_10     = percentile(x, n, 0.10);
    f->kl_05     = percentile(x, n, 0.05);
    f->kl_01     = percentile(x, n, 0.01);
    f->kl_001    = percentile(x, n, 0.001);
}

static void add_dp(const lm_eval_text *t, double *x, lm_kl_figures *f)
{
    uint64_t n = t->n_values;
    double   square_error;

    for (uint64_t i = 0; i < n; i++) {
        double dp = exp(t->values[i].logprob) - exp(t->values[i].base);
        x[i]      = dp * dp;
    }
    f->rms_dp       = sqrt(mean(x, n, &square_error));
    f->rms_dp_error = f->rms_dp > 0 ? square_error / (2 * f->rms_dp) : 0;
    for (uint64_t i = 0; i < n; i++)
        x[i] = exp(t->values[i].logprob) - exp(t->values[i].base);
    f->mean_dp = mean(x, n, &f->dp_error);
    qsort(x, n, sizeof *x, rising);
    f->max_dp    = x[n - 1];
    f->min_dp    = x[0];
    f->dp_999    = percentile(x, n, 0.999);
    f->dp_99     = percentile(x, n, 0.99);
    f->dp_95     = percentile(x, n, 0.95);
    f->dp_90     = percentile(x, n, 0.90);
    f->dp_75     = percentile(x, n, 0.75);
    f->median_dp = percentile(x, n, 0.5);
    f->dp_25     = percentile(x, n, 0.25);
    f->dp_10     = percentile(x, n, 0.10);
    f->dp_05     = percentile(x, n, 0.05);
    f->dp_01     = percentile(x, n, 0.01);
    f->dp_001    = percentile(x, n, 0.001);
}

/* Compare the two logarithms: they vary together, so their difference is known more precisely than either. */
static void add_ratio(const lm_eval_text *t, lm_kl_figures *f)
{
    double n = (double)t->n_values, a = f->model.nll, b = f->base.nll, aa = 0, bb = 0, ab = 0, same = 0;

    for (uint64_t i = 0; i < t->n_values; i++) {
        double x = -t->values[i].logprob - a, y = -t->values[i].base - b;
        aa += x * x;
        bb += y * y;
        ab += x * y;
        same += t->values[i].same;
    }
    f->ln_ratio       = a - b;
    f->ln_ratio_error = n > 1 ? sqrt(fmax(0, aa + bb - 2 * ab) / n / (n - 1)) : NAN;
    f->correlation    = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
    f->same_top       = same / n;
    f->same_top_error = n > 1 ? sqrt(f->same_top * (1 - f->same_top) / (n - 1)) : NAN;
}

static lm_status sum_up(const lm_eval_text *t, lm_kl_figures *out, lm_error *e)
{
    lm_kl_figures f = { .model = lm_eval_text_perplexity(t, false),
                        .base = lm_eval_text_perplexity(t, true) };
    double       *x = lm_alloc(t->n_values * sizeof *x);

    if (!x)
        return lm_fail_memory(e, "percentiles", t->n_values * sizeof *x);
    add_kl(t, x, &f);
    add_dp(t, x, &f);
    add_ratio(t, &f);
    lm_free(x);
    *out = f;
    return LM_OK;
}

static lm_status diverge(lm_eval_text *t, lm_kl_figures *out, lm_error *e)
{
    lm_status status = lm_eval_text_run(t, e);

    if (status == LM_OK)
        status = sum_up(t, out, e);
    if (status == LM_OK)
        lm_eval_text_report(t);
    lm_eval_text_end(t);
    return status;
}

static lm_status against_file(lm_engine *g, const char *path, const lm_eval_text_options *o,
                              lm_kl_figures *out, lm_error *e)
{
    lm_logits_file f;

    LM_TRY(lm_logits_file_open(path, &f, e));
    size_t    n      = (size_t)f.chunks * f.context;
    lm_token *ids    = lm_alloc(n * sizeof *ids);
    lm_status status = ids ? LM_OK : lm_fail_memory(e, path, n * sizeof *ids);
    if (status == LM_OK && f.n_vocab != g->program->n_vocab) {
        lm_fail(e, LM_USAGE, "vocabulary", LM_NO_OFFSET, "the model has %u tokens, the logits are of %u",
                g->program->n_vocab, f.n_vocab);
        status = lm_fail_in(e, path);
    }
    if (status == LM_OK) {
        lm_logits_file_tokens(&f, ids);
        lm_eval_text t = { .engines = { g }, .n_engines = 1, .base_file = &f, .ids = ids, .n = n, .o = o };
        status = diverge(&t, out, e);
    }
    lm_free(ids);
    lm_logits_file_close(&f);
    return status;
}

lm_status lm_eval_kl(lm_engine *g, lm_engine *base, const char *logits, const lm_token *ids, size_t n,
                     const lm_eval_text_options *o, lm_kl_figures *out, lm_error *e)
{
    LM_REQUIRE(e, g && out && (ids || !n || logits));
    LM_CHECK_RESERVED(e, o);
    const lm_eval_text_options defaults = { 0 };

    o = o ? o : &defaults;
    if ((base != NULL) == (logits != NULL) || base == g)
        return lm_fail(e, LM_USAGE, "base", LM_NO_OFFSET,
                       base == g ? "is the same engine" : "another engine, or a file of logits");
    if (o->save_logits)
        return lm_fail(e, LM_USAGE, "save_logits", LM_NO_OFFSET, "only of a perplexity");
    if (logits && o->rule != LM_EVAL_HALVES)
        return lm_fail(e, LM_USAGE, "rule", LM_NO_OFFSET, "a file of logits is by halves");
    if (logits)
        return against_file(g, logits, o, out, e);
    LM_TRY(lm_same_vocabulary(g->model, base->model, e));
    lm_eval_text t = { .engines = { g, base }, .n_engines = 2, .ids = ids, .n = n, .o = o };
    return diverge(&t, out, e);
}

lm_status lm_eval_logits_describe(const char *path, uint32_t *context, uint32_t *chunks, uint32_t *n_vocab,
                                  lm_error *e)
{
    LM_REQUIRE(e, path && context && chunks && n_vocab);
    lm_logits_file f;

    LM_TRY(lm_logits_file_open(path, &f, e));
    *context = f.context;
    *chunks  = f.chunks;
    *n_vocab = f.n_vocab;
    lm_logits_file_close(&f);
    return LM_OK;
}
