/* row_route.c - route: which experts a row is routed to: scores (softmax, sigmoids, roots of softplus), the
 * best groups (arXiv 2405.04434), the best k experts, or two experts one after the other (2409.12136); or
 * those that a table has for the token. */
#include <math.h>
#include <string.h>

#include "runtime/ops/rowops.h"

#define NO_ZERO 1e-20f                   /* sums of sigmoids can be 0 */

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

static float softplus(float x)
{
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}

/* Compute the scores of `logits`; both arrays are [n_experts]. */
static void compute_scores(const lm_route_spec *r, const float *logits, float *scores,
                           const lm_row_kernels *k)
{
    memcpy(scores, logits, r->n_experts * sizeof *scores);
    if (r->sigmoid)
        for (uint32_t i = 0; i < r->n_experts; i++)
            scores[i] = 1 / (1 + expf(-scores[i]));
    else if (r->root_softplus)
        for (uint32_t i = 0; i < r->n_experts; i++)
            scores[i] = sqrtf(softplus(scores[i]));
    else
        k->softmax(scores, r->n_experts);
}

/* Compute the softmax of the open logits near the best one, 0 for the others; return the number of the best,
 * which is then closed. p, closed: [n_experts]. */
static uint32_t near_best(const lm_route_spec *r, const float *logits, bool *closed, float *p)
{
    uint32_t best = best_of(logits, r->n_experts, closed);
    float    sum  = 0;

    best = best == LM_NONE ? 0 : best;   /* not reached: a program has at least top_k experts */
    for (uint32_t i = 0; i < r->n_experts; i++) {
        float z = logits[i], m = logits[best], size = fabsf(z) > m ? fabsf(z) : m;
        bool  far = (m - z) / size > 2 * r->near;        /* 0 / 0: not far */
        p[i] = closed[i] || far ? 0 : expf(z - m);
        sum += p[i];
    }
    for (uint32_t i = 0; i < r->n_experts; i++)
        p[i] /= sum;
    closed[best] = true;
    return best;
}

static void route_one_by_one(const lm_route_spec *r, const float *logits, float *out)
{
    float p[LM_MAX_EXPERTS];
    bool  closed[LM_MAX_EXPERTS] = { false };

    for (uint32_t k = 0; k < r->top_k; k++) {
        uint32_t e        = near_best(r, logits, closed, p);
        out[k]            = r->scale * p[e];
        out[r->top_k + k] = (float)e;
    }
}

/* Choose the experts with the best scores: out [top_k]. `correction` [n_experts] is added to them; NULL:
 * none. */
static void choose(const lm_route_spec *r, const float *scores, const float *correction, float *out)
{
    float choice[LM_MAX_EXPERTS];
    bool  closed[LM_MAX_EXPERTS] = { false };

    for (uint32_t i = 0; i < r->n_experts; i++)
        choice[i] = correction ? scores[i] + correction[i] : scores[i];
    if (r->n_groups > 1)
        close_groups(r, choice, closed);
    for (uint32_t i = 0; i < r->top_k; i++) {
        uint32_t e        = best_of(choice, r->n_experts, closed);
        e                 = e == LM_NONE ? 0 : e;    /* not reached: a program opens at least top_k experts */
        closed[e]         = true;
        out[i]            = (float)e;
    }
}

/* Route one row. out: [top_k] weights, then [top_k] expert numbers. `listed`: these [top_k], or NULL: choose.
 * `factors` [n_experts] multiply the weights; NULL: none. */
static void route_row(const lm_route_spec *r, const float *logits, const float *listed,
                      const float *correction, const float *factors, float *out, const lm_row_kernels *k)
{
    float scores[LM_MAX_EXPERTS], *experts = out + r->top_k, sum = 0;

    if (r->one_by_one) {
        route_one_by_one(r, logits, out);
        return;
    }
    compute_scores(r, logits, scores, k);
    if (listed)
        memcpy(experts, listed, r->top_k * sizeof *experts);
    else
        choose(r, scores, correction, experts);
    for (uint32_t i = 0; i < r->top_k; i++) {
        out[i] = scores[(uint32_t)experts[i]];
        sum += out[i];
    }
    for (uint32_t i = 0; i < r->top_k; i++)
        out[i] = (r->renormalise ? out[i] / (sum + NO_ZERO + r->sum_eps) : out[i]) *
                 (factors ? r->scale * factors[(uint32_t)out[r->top_k + i]] : r->scale);
}

static void route(const lm_rows *r, uint64_t from, uint64_t to)
{
    const lm_route_spec *s = &r->node->route.spec;

    for (uint64_t i = from; i < to; i++) {
        const float *listed = r->weights[2];
        if (listed)
            listed += (uint64_t)r->tokens[lm_row_number(r, i)] * s->top_k;
        route_row(s, lm_row_of(r->in[0], i), listed, r->weights[0], r->weights[1], lm_row_of(r->out, i),
                  r->kernels);
    }
}

/* Return what divides the scores of the chosen experts. */
static float sum_of_chosen(const lm_route_spec *r, const float *scores, const float *out)
{
    float sum = NO_ZERO + r->sum_eps;

    for (uint32_t i = 0; i < r->top_k; i++)
        sum += scores[(uint32_t)out[r->top_k + i]];
    return r->renormalise ? sum : 1;
}

/* Return the slope of a score, sqrt(softplus(x)): sigmoid(x) / (2 score). */
static float slope_of_root(float x, float score)
{
    return score > 0 ? 0.5f / ((1 + expf(-x)) * score) : 0;
}

/* The selection of experts has no gradient; it flows through the scores of the selected ones only. */
static void row_back(const lm_route_spec *r, const float *logits, const float *factors, const float *out,
                     const float *dout, float *dlogits, bool first, const lm_row_kernels *k)
{
    float scores[LM_MAX_EXPERTS], d[LM_MAX_EXPERTS] = { 0 }, dw[LM_MAX_EXPERTS], along = 0;

    compute_scores(r, logits, scores, k);
    float sum = sum_of_chosen(r, scores, out);
    for (uint32_t i = 0; i < r->top_k; i++)
        dw[i] = dout[i] * (factors ? r->scale * factors[(uint32_t)out[r->top_k + i]] : r->scale);
    for (uint32_t i = 0; r->renormalise && i < r->top_k; i++)
        along += dw[i] * scores[(uint32_t)out[r->top_k + i]] / sum;
    for (uint32_t i = 0; i < r->top_k; i++)
        d[(uint32_t)out[r->top_k + i]] += (dw[i] - along) / sum;     /* a table may list one twice */
    float mean = 0;
    for (uint32_t i = 0; !r->sigmoid && !r->root_softplus && i < r->n_experts; i++)
        mean += d[i] * scores[i];
    for (uint32_t i = 0; i < r->n_experts; i++) {
        float z    = r->root_softplus ? d[i] * slope_of_root(logits[i], scores[i])
                     : r->sigmoid     ? d[i] * scores[i] * (1 - scores[i])
                                      : scores[i] * (d[i] - mean);
        dlogits[i] = first ? z : dlogits[i] + z;
    }
}

/* Which logits are near has no gradient. */
static void back_one_by_one(const lm_route_spec *r, const float *logits, const float *dout, float *dlogits,
                            bool first)
{
    float p[LM_MAX_EXPERTS], z[LM_MAX_EXPERTS] = { 0 };
    bool  closed[LM_MAX_EXPERTS] = { false };

    for (uint32_t k = 0; k < r->top_k; k++) {
        uint32_t e  = near_best(r, logits, closed, p);
        float    dp = r->scale * dout[k] * p[e];
        for (uint32_t i = 0; i < r->n_experts; i++)
            z[i] += dp * ((float)(i == e) - p[i]);
    }
    for (uint32_t i = 0; i < r->n_experts; i++)
        dlogits[i] = first ? z[i] : dlogits[i] + z[i];
}

static void route_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_route_spec *r = &b->rows.node->route.spec;

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        if (r->one_by_one)
            back_one_by_one(r, lm_row_of(b->rows.in[0], i), lm_row_of(b->dout, i), lm_row_of(b->din[0], i),
                            b->first[0]);
        else
            row_back(r, lm_row_of(b->rows.in[0], i), b->rows.weights[1], lm_row_of(b->rows.out, i),
                     lm_row_of(b->dout, i), lm_row_of(b->din[0], i), b->first[0], b->rows.kernels);
}

static void route_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    const lm_route_spec *r = &b->rows.node->route.spec;
    float                scores[LM_MAX_EXPERTS];

    for (uint64_t i = from; i < to; i++) {
        const float *out = lm_row_of(b->rows.out, i), *dout = lm_row_of(b->dout, i);
        compute_scores(r, lm_row_of(b->rows.in[0], i), scores, b->rows.kernels);
        float scale = r->scale / sum_of_chosen(r, scores, out);
        for (uint32_t k = 0; k < r->top_k; k++) {
            uint32_t e = (uint32_t)out[r->top_k + k];
            b->dw[1][e] += dout[k] * scores[e] * scale;
        }
    }
}

const lm_row_op lm_row_route = { .forward = route, .reverse = route_back, .reverse_weights = route_weights };
