/* route.c - the router of a mixture: scores, groups, the best k experts. */
#include "runtime/engine/route.h"

#include <math.h>
#include <string.h>

/* Return the best open entry, the lowest number among equals; LM_NONE if none is open. */
static uint32_t best_of(const float *x, uint32_t n, const bool *closed)
{
    uint32_t best = LM_NONE;

    for (uint32_t i = 0; i < n; i++)
        if (!closed[i] && (best == LM_NONE || x[i] > x[best]))
            best = i;
    return best;
}

/* Close the experts of all groups but the best ones. */
static void close_groups(const lm_route_spec *r, const float *choice, bool *closed)
{
    uint32_t each = r->n_experts / r->n_groups;
    float    score[LM_MAX_GROUPS];
    bool     taken[LM_MAX_GROUPS] = { false };

    for (uint32_t g = 0; g < r->n_groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (uint32_t i = g * each; i < (g + 1) * each; i++) {
            second = choice[i] > first ? first : choice[i] > second ? choice[i] : second;
            first  = choice[i] > first ? choice[i] : first;
        }
        score[g] = r->group_sum_two && each > 1 ? first + second : first;
    }
    for (uint32_t k = 0; k < r->top_groups; k++) {
        uint32_t g = best_of(score, r->n_groups, taken);
        if (g != LM_NONE)
            taken[g] = true;
    }
    for (uint32_t i = 0; i < r->n_experts; i++)
        closed[i] = !taken[i / each];
}

void lm_route_scores(const lm_route_spec *r, const float *logits, float *scores, const lm_row_kernels *k)
{
    memcpy(scores, logits, r->n_experts * sizeof *scores);
    if (r->sigmoid)
        for (uint32_t i = 0; i < r->n_experts; i++)
            scores[i] = 1 / (1 + expf(-scores[i]));
    else
        k->softmax(scores, r->n_experts);
}

void lm_route_row(const lm_route_spec *r, const float *logits, const float *correction, float *scores,
                  float *out, const lm_row_kernels *k)
{
    float choice[LM_MAX_EXPERTS], sum = 0;
    bool  closed[LM_MAX_EXPERTS] = { false };

    lm_route_scores(r, logits, scores, k);
    for (uint32_t i = 0; i < r->n_experts; i++)
        choice[i] = correction ? scores[i] + correction[i] : scores[i];
    if (r->n_groups > 1)
        close_groups(r, choice, closed);
    for (uint32_t i = 0; i < r->top_k; i++) {
        uint32_t e        = best_of(choice, r->n_experts, closed);
        e                 = e == LM_NONE ? 0 : e;    /* not reached: a program opens at least top_k experts */
        closed[e]         = true;
        out[i]            = scores[e];
        out[r->top_k + i] = (float)e;
        sum += scores[e];
    }
    for (uint32_t i = 0; i < r->top_k; i++)
        out[i] = (r->renormalise ? out[i] / (sum + 1e-20f) : out[i]) * r->scale;
}
