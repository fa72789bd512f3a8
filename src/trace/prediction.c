/* prediction.c - probabilities, entropy and most likely tokens of logits. */
#include <math.h>
#include <string.h>

#include "trace/tracer.h"

double lm_predicted(const lm_kernels *k, const float *logits, uint32_t n, float *p, double *entropy,
                    uint32_t *best)
{
    double mean = 0;

    *best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[*best])
            *best = i;
    memcpy(p, logits, n * sizeof *p);
    k->row.softmax(p, n);
    double lse = (double)logits[*best] - log((double)p[*best]);
    for (uint32_t i = 0; i < n; i++)
        if (p[i] > 0)
            mean += (double)p[i] * (double)logits[i];
    *entropy = fmax(0, (lse - mean) / M_LN2);
    return lse;
}

void lm_predicted_top(const float *logits, uint32_t n, double lse, lm_trace_choice *top, uint32_t k)
{
    uint32_t have = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (have == k && !(k && logits[i] > top[k - 1].p))
            continue;
        uint32_t at = have < k ? have++ : k - 1;
        for (; at > 0 && logits[i] > top[at - 1].p; at--)
            top[at] = top[at - 1];
        top[at] = (lm_trace_choice){ (lm_token)i, logits[i] };
    }
    for (uint32_t i = 0; i < have; i++)
        top[i].p = (float)exp((double)top[i].p - lse);
    for (uint32_t i = have; i < k; i++)
        top[i] = (lm_trace_choice){ -1, 0 };
}

uint32_t lm_predicted_rank(const float *logits, uint32_t n, lm_token id)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < n; i++)
        before += logits[i] > logits[id];
    return before + 1;
}
