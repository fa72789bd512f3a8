/* truncation.c - the samplers that drop candidates.
 *
 * Sources: top-k (Fan et al. 2018, 1805.04833), top-p (Holtzman et al. 2019, 1904.09751), min-p (Nguyen et
 * al. 2024, 2407.01082), locally typical (Meister et al. 2022, 2202.00666), top-n-sigma (Tang et al. 2024,
 * 2411.07641), mirostat 2 (Basu et al. 2020, 2007.14966), XTC (the "exclude top choices" proposal for
 * text-generation-webui, 2024). Where an implementation has to decide what a paper leaves open (>= or >,
 * which sum is cut), llama.cpp's choice is taken. */
#include "runtime/sample/sampler.h"

#include <math.h>

/* Keep the candidates whose logit is at least `logit`, in their order. */
static void keep_above(lm_candidates *c, double logit)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        if ((double)c->items[i].logit >= logit)
            c->items[n++] = c->items[i];
    c->n = n;
}

static double best_logit(const lm_candidates *c)
{
    float best = c->items[0].logit;

    for (size_t i = 1; i < c->n; i++)
        best = c->items[i].logit > best ? c->items[i].logit : best;
    return (double)best;
}

void lm_cut_top_k(lm_candidates *c, int32_t k)
{
    if (k > 0)
        lm_candidates_best(c, (size_t)k);
}

/* Keep the smallest set of best tokens whose probabilities reach p. */
void lm_cut_top_p(lm_candidates *c, double p, size_t min_keep)
{
    double sum = 0;

    if (p >= 1)
        return;
    lm_candidates_softmax(c);
    lm_candidates_sort(c);
    for (size_t i = 0; i < c->n; i++) {
        sum += c->items[i].p;
        if (sum >= p && i + 1 >= min_keep) {
            c->n = i + 1;
            return;
        }
    }
}

/* Keep tokens at least p times as probable as the best. */
void lm_cut_min_p(lm_candidates *c, double p, size_t min_keep)
{
    double min;
    size_t kept = 0;

    if (p <= 0)
        return;
    min = best_logit(c) + log(p);
    for (size_t i = 0; i < c->n; i++)
        kept += (double)c->items[i].logit >= min;
    if (kept < min_keep)
        lm_candidates_best(c, min_keep);
    else
        keep_above(c, min);
}

/* Keep tokens whose surprise is nearest to the expected one, until their probabilities exceed p. */
void lm_cut_typical(lm_candidates *c, double p, size_t min_keep)
{
    double entropy, sum = 0;

    if (p >= 1)
        return;
    lm_candidates_softmax(c);
    entropy = lm_candidates_entropy(c);
    for (size_t i = 0; i < c->n; i++) {
        double surprise = c->items[i].p > 0 ? -log(c->items[i].p) : INFINITY;
        c->items[i].p = fabs(surprise - entropy);
    }
    lm_candidates_sort_by_p(c->items, c->spare, c->n);
    c->sorted = false;

    /* p held the scores: compute the probabilities again. */
    lm_candidates_softmax(c);
    for (size_t i = 0; i < c->n; i++) {
        sum += c->items[i].p;
        if (sum > p && i + 1 >= min_keep) {
            c->n = i + 1;
            break;
        }
    }
    lm_candidates_sort(c);
}

/* Keep tokens whose logit is within n standard deviations of the best. */
void lm_cut_top_n_sigma(lm_candidates *c, double n)
{
    double mean = 0, variance = 0;

    if (n <= 0 || c->n < 2)
        return;
    for (size_t i = 0; i < c->n; i++)
        mean += (double)c->items[i].logit;
    mean /= (double)c->n;
    for (size_t i = 0; i < c->n; i++) {
        double d = (double)c->items[i].logit - mean;
        variance += d * d;
    }
    keep_above(c, best_logit(c) - n * sqrt(variance / (double)c->n));
}

/* Drop the tokens with probability >= threshold, except the least probable of them. */
void lm_cut_xtc(lm_candidates *c, double threshold, size_t min_keep)
{
    size_t above = 0;

    if (threshold > 0.5 || c->n < 2)
        return;
    lm_candidates_softmax(c);
    lm_candidates_sort(c);
    while (above < c->n && c->items[above].p >= threshold)
        above++;
    if (above < 2 || c->n - (above - 1) < min_keep)
        return;
    c->n -= above - 1;
    for (size_t i = 0; i < c->n; i++)
        c->items[i] = c->items[i + above - 1];
}

void lm_cut_surprisal(lm_candidates *c, double bits)
{
    size_t n = 0;

    lm_candidates_softmax(c);
    lm_candidates_sort(c);
    while (n < c->n && !(-log2(c->items[n].p) > bits))
        n++;
    c->n = n ? n : 1;
}
