/* row_vectors.c - functions of single lanes and a vector: add_bias, scale_by_weight, decay. An entry of the
 * vector is for an equal part of the lanes. */
#include <math.h>

#include "runtime/ops/rowops.h"

typedef struct parts {
    uint64_t     n, width;
    const float *w;
} parts;

static parts parts_of(const lm_rows *r)
{
    uint64_t n = r->program->weights[r->node->weights[0]].elements;

    return (parts){ n, lm_lanes_of(r, r->node->out) / n, r->weights[0] };
}

/* ---- add_bias ---- */

static void add_bias(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++)
        r->kernels->add(lm_row_of(r->out, i), lm_row_of(r->in[0], i), r->weights[0], 1, w);
}

static void add_bias_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    (void)scratch;
    for (uint64_t i = from, w = lm_lanes_of(&b->rows, b->rows.node->out); i < to; i++)
        lm_put_gradient(lm_row_of(b->din[0], i), lm_row_of(b->dout, i), 1, w, b->first[0]);
}

static void add_bias_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    for (uint64_t i = from, w = lm_lanes_of(&b->rows, b->rows.node->out); i < to; i++)
        lm_put_gradient(b->dw[0], lm_row_of(b->dout, i), 1, w, false);
}

const lm_row_op lm_row_add_bias = {
    .forward         = add_bias,
    .reverse         = add_bias_back,
    .reverse_weights = add_bias_weights,
};

/* ---- scale_by_weight ---- */

static void scale_by_weight(const lm_rows *r, uint64_t from, uint64_t to)
{
    parts p = parts_of(r);

    for (uint64_t i = from; i < to && p.width == 1; i++)
        r->kernels->mul(lm_row_of(r->out, i), lm_row_of(r->in[0], i), p.w, p.n);
    for (uint64_t i = from; i < to && p.width > 1; i++)
        for (uint64_t k = 0; k < p.n; k++)
            r->kernels->scale(lm_row_of(r->out, i) + k * p.width, lm_row_of(r->in[0], i) + k * p.width,
                              p.w[k], p.width);
}

static void scale_by_weight_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    parts p = parts_of(&b->rows);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t k = 0; k < p.n; k++)
            lm_put_gradient(lm_row_of(b->din[0], i) + k * p.width, lm_row_of(b->dout, i) + k * p.width,
                            p.w[k], p.width, b->first[0]);
}

static void scale_by_weight_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    parts p = parts_of(&b->rows);

    for (uint64_t i = from; i < to; i++)
        for (uint64_t k = 0; k < p.n; k++) {
            const float *x  = lm_row_of(b->rows.in[0], i) + k * p.width;
            const float *dy = lm_row_of(b->dout, i) + k * p.width;
            for (uint64_t j = 0; j < p.width; j++)
                b->dw[0][k] += dy[j] * x[j];
        }
}

const lm_row_op lm_row_scale_by_weight = {
    .forward         = scale_by_weight,
    .reverse         = scale_by_weight_back,
    .reverse_weights = scale_by_weight_weights,
};

/* ---- decay: y = exp(-exp(w) x), or with a bound y = exp(bound sigmoid(exp(w) x)) ---- */

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Return the derivative of ln y by exp(w) x. */
static float slope(float bound, float x)
{
    float s = bound < 0 ? sigmoid(x) : 0;

    return bound < 0 ? bound * s * (1 - s) : -1;
}

static void decay(const lm_rows *r, uint64_t from, uint64_t to)
{
    parts p     = parts_of(r);
    float bound = r->node->decay.bound;

    for (uint64_t k = 0; k < p.n; k++)
        for (uint64_t i = from; i < to; i++) {
            const float *x = lm_row_of(r->in[0], i) + k * p.width;
            float       *y = lm_row_of(r->out, i) + k * p.width, rate = expf(p.w[k]);
            for (uint64_t j = 0; j < p.width; j++)
                y[j] = expf(bound < 0 ? bound * sigmoid(rate * x[j]) : -rate * x[j]);
        }
}

static void decay_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    parts p = parts_of(&b->rows);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t k = 0; k < p.n; k++) {
            float       *dx = lm_row_of(b->din[0], i) + k * p.width, rate = expf(p.w[k]);
            const float *x  = lm_row_of(b->rows.in[0], i) + k * p.width;
            const float *dy = lm_row_of(b->dout, i) + k * p.width;
            const float *y  = lm_row_of(b->rows.out, i) + k * p.width;
            for (uint64_t j = 0; j < p.width; j++) {
                float d = slope(b->rows.node->decay.bound, rate * x[j]) * rate * y[j] * dy[j];
                dx[j]   = b->first[0] ? d : dx[j] + d;
            }
        }
}

static void decay_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    parts p = parts_of(&b->rows);

    for (uint64_t i = from; i < to; i++)
        for (uint64_t k = 0; k < p.n; k++) {
            const float *x  = lm_row_of(b->rows.in[0], i) + k * p.width;
            const float *dy = lm_row_of(b->dout, i) + k * p.width;
            const float *y  = lm_row_of(b->rows.out, i) + k * p.width;
            float        rate = expf(p.w[k]);
            for (uint64_t j = 0; j < p.width; j++)
                b->dw[0][k] += slope(b->rows.node->decay.bound, rate * x[j]) * rate * x[j] * y[j] * dy[j];
        }
}

const lm_row_op lm_row_decay = { .forward = decay, .reverse = decay_back, .reverse_weights = decay_weights };
