/* compare.c - compare rows of logits: relative error, argmax, Kullback-Leibler divergence (Kullback and
 * Leibler 1951). */
#include "runtime/measure/compare.h"

#include <math.h>

double lm_magnitude(const float *x, size_t n)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        if (fabs((double)x[i]) > largest && isfinite(x[i]))
            largest = fabs((double)x[i]);
    return largest;
}

double lm_relative_error(const float *ours, const float *ref, size_t n)
{
    double worst = 0, size = lm_magnitude(ref, n);

    for (size_t i = 0; i < n; i++) {
        double d;
        if (ours[i] == ref[i])
            continue;
        d = fabs((double)ours[i] - (double)ref[i]);
        if (!isfinite(d))
            return INFINITY;                             /* also if both are NaN */
        worst = d > worst ? d : worst;
    }
    if (worst == 0)
        return 0;
    return size > 0 ? worst / size : INFINITY;
}

static double log_sum(const float *x, size_t n, double *best)
{
    double sum = 0;

    *best = (double)x[lm_argmax(x, n)];
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - *best);
    return log(sum);
}

double lm_kl(const float *ours, const float *ref, size_t n)
{
    double best_o, best_r, sum_o = log_sum(ours, n, &best_o), sum_r = log_sum(ref, n, &best_r), kl = 0;

    for (size_t i = 0; i < n; i++) {
        double lr = (double)ref[i] - best_r - sum_r, p = exp(lr);
        if (p != 0)                                      /* true of NaN */
            kl += p * (lr - ((double)ours[i] - best_o - sum_o));
    }
    return kl > 0 || isnan(kl) ? kl : 0;                 /* rounding may leave a tiny negative */
}

size_t lm_argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}
