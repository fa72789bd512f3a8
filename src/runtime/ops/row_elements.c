/* row_elements.c - functions of single lanes: add, scale, glu, act, softcap, clamp. */
#include <math.h>

#include "runtime/ops/rowops.h"

/* ---- add ---- */

static void add(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++)
        r->kernels->add(lm_row_of(r->out, i), lm_row_of(r->in[0], i), lm_row_of(r->in[1], i), 1, w);
}

static void add_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint32_t k = 0; k < 2; k++)
            if (b->din[k].at)
                lm_put_gradient(lm_row_of(b->din[k], i), lm_row_of(b->dout, i), 1, w, b->first[k]);
}

const lm_row_op lm_row_add = { .forward = add, .reverse = add_back };

/* ---- mul ---- */

static void mul(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++)
        r->kernels->mul(lm_row_of(r->out, i), lm_row_of(r->in[0], i), lm_row_of(r->in[1], i), w);
}

static void mul_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint32_t k = 0; k < 2; k++) {
            const float *other = lm_row_of(b->rows.in[1 - k], i), *dy = lm_row_of(b->dout, i);
            float       *dx = lm_row_of(b->din[k], i);
            for (uint64_t j = 0; b->din[k].at && j < w; j++)
                dx[j] = b->first[k] ? dy[j] * other[j] : dx[j] + dy[j] * other[j];
        }
}

const lm_row_op lm_row_mul = { .forward = mul, .reverse = mul_back };

/* ---- scale ---- */

static void scale(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++)
        r->kernels->scale(lm_row_of(r->out, i), lm_row_of(r->in[0], i), r->node->scale.factor, w);
}

static void scale_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        lm_put_gradient(lm_row_of(b->din[0], i), lm_row_of(b->dout, i), b->rows.node->scale.factor, w,
                        b->first[0]);
}

const lm_row_op lm_row_scale = { .forward = scale, .reverse = scale_back };

/* ---- softcap ---- */

static void softcap(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++)
        r->kernels->softcap(lm_row_of(r->out, i), lm_row_of(r->in[0], i), r->node->scale.factor, w);
}

static void softcap_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    float    cap = b->rows.node->scale.factor;
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);

    (void)scratch;
    for (uint64_t i = from; i < to; i++) {
        float       *dx = lm_row_of(b->din[0], i);
        const float *y = lm_row_of(b->rows.out, i), *dy = lm_row_of(b->dout, i);
        for (uint64_t k = 0; k < w; k++) {
            float t = y[k] / cap, d = dy[k] * (1.0f - t * t);
            dx[k]   = b->first[0] ? d : dx[k] + d;
        }
    }
}

const lm_row_op lm_row_softcap = { .forward = softcap, .reverse = softcap_back };

/* ---- clamp ---- */

static void clamp(const lm_rows *r, uint64_t from, uint64_t to)
{
    float low = r->node->clamp.low, high = r->node->clamp.high;

    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++)
        r->kernels->clamp(lm_row_of(r->out, i), lm_row_of(r->in[0], i), low, high, w);
}

static void clamp_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    float    low = b->rows.node->clamp.low, high = b->rows.node->clamp.high;
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);

    (void)scratch;
    for (uint64_t i = from; i < to; i++) {
        float       *dx = lm_row_of(b->din[0], i);
        const float *x = lm_row_of(b->rows.in[0], i), *dy = lm_row_of(b->dout, i);
        for (uint64_t k = 0; k < w; k++) {
            float d = x[k] >= low && x[k] <= high ? dy[k] : 0.0f;
            dx[k]   = b->first[0] ? d : dx[k] + d;
        }
    }
}

const lm_row_op lm_row_clamp = { .forward = clamp, .reverse = clamp_back };

/* ---- act ---- */

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* The numbers of xIELU, from its weights. */
static lm_xielu xielu_of(const lm_rows *r)
{
    return (lm_xielu){ .positive = softplus(*r->weights[0]),
                       .negative = *r->weights[2] + softplus(*r->weights[1]),
                       .beta = *r->weights[2],
                       .eps = *r->weights[3] };
}

static void act(const lm_rows *r, uint64_t from, uint64_t to)
{
    bool     xielu = r->node->glu.act == LM_ACT_XIELU;
    lm_xielu a     = { 0 };

    if (xielu)
        a = xielu_of(r);
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); xielu && i < to; i++)
        r->kernels->xielu(lm_row_of(r->out, i), lm_row_of(r->in[0], i), &a, w);
    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); !xielu && i < to; i++)
        r->kernels->act(lm_row_of(r->out, i), lm_row_of(r->in[0], i), r->node->glu.act, w);
}

/* e^min(x, eps) - 1 - x */
static float under(const lm_xielu *a, float x)
{
    return expm1f(x < a->eps ? x : a->eps) - x;
}

static void xielu_back(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    const lm_rows *r = &b->rows;
    lm_xielu       a = xielu_of(r);

    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++) {
        const float *x = lm_row_of(r->in[0], i), *dy = lm_row_of(b->dout, i);
        float       *dx = lm_row_of(b->din[0], i);
        for (uint64_t k = 0; k < w; k++) {
            float slope = x[k] > 0 ? 2 * a.positive * x[k]
                                   : a.negative * ((x[k] < a.eps ? expf(x[k]) : 0) - 1);
            dx[k] = dy[k] * (a.beta + slope) + (b->first[0] ? 0 : dx[k]);
        }
    }
}

static void act_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);

    (void)scratch;
    if (b->rows.node->glu.act == LM_ACT_XIELU) {
        xielu_back(b, from, to);
        return;
    }
    for (uint64_t i = from; i < to; i++)
        b->kernels->act(lm_row_of(b->din[0], i), lm_row_of(b->rows.in[0], i), lm_row_of(b->dout, i),
                        b->rows.node->glu.act, w, b->first[0]);
}

/* The gradients of alpha_p and alpha_n; the slope of softplus is the sigmoid. */
static void act_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    const lm_rows *r = &b->rows;
    lm_xielu       a = xielu_of(r);
    float          slopes[2] = { 1 / (1 + expf(-*r->weights[0])), 1 / (1 + expf(-*r->weights[1])) };

    for (uint64_t i = from, w = lm_lanes_of(r, r->node->out); i < to; i++) {
        const float *x = lm_row_of(r->in[0], i), *dy = lm_row_of(b->dout, i);
        double       sums[2] = { 0 };
        for (uint64_t k = 0; k < w; k++)
            sums[x[k] <= 0] += (double)(dy[k] * (x[k] > 0 ? x[k] * x[k] : under(&a, x[k])));
        for (int k = 0; k < 2; k++)
            if (b->dw[k])
                *b->dw[k] += slopes[k] * (float)sums[k];
    }
}

const lm_row_op lm_row_act = { .forward = act, .reverse = act_back, .reverse_weights = act_weights };

/* ---- glu: one gate per lane, or one for each equal part of the lanes ---- */

static void glu(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t w = lm_lanes_of(r, r->node->out), gates = lm_lanes_of(r, r->node->in[0]), each = w / gates;
    float    gate;

    for (uint64_t i = from; i < to; i++) {
        if (r->node->glu.limit > 0)
            r->kernels->glu_clamped(lm_row_of(r->out, i), lm_row_of(r->in[0], i), lm_row_of(r->in[1], i),
                                    r->node->glu.act, r->node->glu.limit, r->node->glu.plus, w);
        else if (gates == w)
            r->kernels->glu(lm_row_of(r->out, i), lm_row_of(r->in[0], i), lm_row_of(r->in[1], i),
                            r->node->glu.act, w);
        for (uint64_t k = 0; gates < w && k < gates; k++) {
            r->kernels->act(&gate, lm_row_of(r->in[0], i) + k, r->node->glu.act, 1);
            r->kernels->scale(lm_row_of(r->out, i) + k * each, lm_row_of(r->in[1], i) + k * each, gate, each);
        }
    }
}

/* The gradient of a gate for `n` lanes, from lane k n on, is a sum over these lanes. */
static void gate_back(const lm_rows_back *b, uint64_t i, uint64_t k, uint64_t n)
{
    const lm_rows *r    = &b->rows;
    const float   *gate = lm_row_of(r->in[0], i) + k, *x = lm_row_of(r->in[1], i) + k * n,
                *dy     = lm_row_of(b->dout, i) + k * n;
    float          a, sum;
    double         exact = 0;

    r->kernels->act(&a, gate, r->node->glu.act, 1);
    for (uint64_t j = 0; b->din[0].at && j < n; j++)
        exact += (double)dy[j] * (double)x[j];
    sum = (float)exact;
    if (b->din[0].at)
        b->kernels->act(lm_row_of(b->din[0], i) + k, gate, &sum, r->node->glu.act, 1, b->first[0]);
    if (b->din[1].at)
        lm_put_gradient(lm_row_of(b->din[1], i) + k * n, dy, a, n, b->first[1]);
}

static void clamped_back(const lm_rows_back *b, uint64_t i, uint64_t n)
{
    const lm_rows *r    = &b->rows;
    const float   *gate = lm_row_of(r->in[0], i), *up = lm_row_of(r->in[1], i), *dy = lm_row_of(b->dout, i);
    float          d[2];

    for (uint64_t k = 0; k < n; k++) {
        lm_glu_lane_back(b->kernels, gate[k], up[k], dy[k], r->node->glu.act, r->node->glu.limit,
                         r->node->glu.plus, &d[0], &d[1]);
        for (unsigned x = 0; x < 2; x++)
            if (b->din[x].at)
                lm_put_gradient(lm_row_of(b->din[x], i) + k, &d[x], 1, 1, b->first[x]);
    }
}

static void glu_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows *r = &b->rows;
    uint64_t       w = lm_lanes_of(r, r->node->out), gates = lm_lanes_of(r, r->node->in[0]);

    (void)scratch;
    for (uint64_t i = from; i < to; i++) {
        for (uint64_t k = 0; gates < w && k < gates; k++)
            gate_back(b, i, k, w / gates);
        if (r->node->glu.limit > 0)
            clamped_back(b, i, w);
        else if (gates == w)
            b->kernels->glu(b->din[0].at ? lm_row_of(b->din[0], i) : NULL,
                            b->din[1].at ? lm_row_of(b->din[1], i) : NULL, lm_row_of(r->in[0], i),
                            lm_row_of(r->in[1], i), lm_row_of(b->dout, i), r->node->glu.act, w, b->first[0],
                            b->first[1]);
    }
}

const lm_row_op lm_row_glu = { .forward = glu, .reverse = glu_back };
