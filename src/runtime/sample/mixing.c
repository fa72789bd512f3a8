/* mixing.c - combine the distributions of several models. */
#include "lamina/mixture.h"

#include <math.h>

#include "base/error.h"

const char *lm_mixture_word(lm_mixture_rule r)
{
    static const char *const words[] = { "mean", "logmean", "contrast" };

    return r <= LM_MIXTURE_CONTRAST ? words[r] : "";
}

lm_status lm_mixture_prepare(lm_mixture *x, lm_error *e)
{
    LM_REQUIRE(e, x);
    LM_CHECK_RESERVED(e, x);
    double sum = 0;

    if (x->rule > LM_MIXTURE_CONTRAST)
        return lm_fail(e, LM_USAGE, "rule", LM_NO_OFFSET, "unknown");
    if (x->n < 2)
        return lm_fail(e, LM_USAGE, "models", LM_NO_OFFSET, "expected two or more models");
    if (x->n > LM_MIXTURE_MODELS)
        return lm_fail(e, LM_USAGE, "models", LM_NO_OFFSET, "more than %d models", LM_MIXTURE_MODELS);
    if (x->rule == LM_MIXTURE_CONTRAST && x->n != 2)
        return lm_fail(e, LM_USAGE, "models", LM_NO_OFFSET, "contrast compares two models, not %u", x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        if (!(x->weights[i] > 0 && x->weights[i] <= 1e6))
            return lm_fail(e, LM_USAGE, "weights", LM_NO_OFFSET, "a weight is above 0");
        sum += x->weights[i];
    }
    for (uint32_t i = 0; x->rule != LM_MIXTURE_CONTRAST && i < x->n; i++)
        x->weights[i] /= sum;
    return LM_OK;
}

/* log sum exp */
static double norm_of(const float *logits, uint32_t n)
{
    double max = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        max = (double)logits[i] > max ? (double)logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

static double largest(const float *logits, uint32_t n)
{
    float max = -INFINITY;

    for (uint32_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    return (double)max;
}

/* Apply the rule to token i. `min`: the smallest logit of the first model that contrast keeps. */
static double mixed_at(const lm_mixture *x, const float *const *logits, const uint32_t *sizes,
                       const double *norms, uint32_t i, double min)
{
    double m = 0;

    for (uint32_t k = 0; k < x->n; k++) {
        double p = i < sizes[k] ? (double)logits[k][i] - norms[k] : -INFINITY, w = x->weights[k];
        if (x->rule == LM_MIXTURE_MEAN)
            m += w * exp(p);
        else if (x->rule == LM_MIXTURE_LOGMEAN)
            m += w * p;
        else if (k == 0)
            m = i < sizes[0] && (double)logits[0][i] >= min ? (1 + x->weights[1]) * p : -INFINITY;
        else
            m = isinf(p) ? -INFINITY : m - w * p;
    }
    return x->rule == LM_MIXTURE_MEAN ? log(m) : m;
}

void lm_mixture_mix(const lm_mixture *x, const float *const *logits, const uint32_t *sizes, uint32_t n_vocab,
                    double *mixed, lm_mixed *out)
{
    double max = -INFINITY, sum = 0, min = 0;

    if (!x || !logits || !sizes || !mixed || !out)
        return;
    *out = (lm_mixed){ 0 };
    for (uint32_t k = 0; k < x->n; k++)
        out->norms[k] = norm_of(logits[k], sizes[k]);
    if (x->rule == LM_MIXTURE_CONTRAST)
        min = largest(logits[0], sizes[0]) + log(0.1);
    for (uint32_t i = 0; i < n_vocab; i++) {
        mixed[i] = mixed_at(x, logits, sizes, out->norms, i, min);
        max = mixed[i] > max ? mixed[i] : max;
    }
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp(mixed[i] - max);
    sum = max + log(sum);
    for (uint32_t i = 0; i < n_vocab; i++)
        mixed[i] -= sum;
}
