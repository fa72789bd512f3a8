/* row_connections.c - hyper-connections between residual streams: repeat, connect, blend, merge. */
#include <math.h>
#include <string.h>

#include "runtime/ops/rowops.h"

/* ---- repeat ---- */

static void repeat(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t w = lm_lanes_of(r, r->node->in[0]), n = lm_lanes_of(r, r->node->out) / w;

    for (uint64_t t = from; t < to; t++)
        for (uint64_t j = 0; j < n; j++)
            memcpy(lm_row_of(r->out, t) + j * w, lm_row_of(r->in[0], t), w * sizeof(float));
}

static void repeat_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->in[0]), n = lm_lanes_of(&b->rows, b->rows.node->out) / w;

    (void)scratch;
    for (uint64_t t = from; t < to; t++)
        for (uint64_t j = 0; j < n; j++)
            lm_put_gradient(lm_row_of(b->din[0], t), lm_row_of(b->dout, t) + j * w, 1, w,
                            b->first[0] && j == 0);
}

const lm_row_op lm_row_repeat = { .forward = repeat, .reverse = repeat_back };

/* ---- connect ---- */

enum { MAX_ENTRIES = LM_MAX_CONNECTED * LM_MAX_CONNECTED, MAX_STAGES = 2 * LM_MAX_ROUNDS };

/* The matrices of a row: softmax + eps, then after each division by the sums of columns (stages 1, 3 …) or of
 * rows (2, 4 …). */
typedef struct stages {
    uint32_t n, count;                   /* streams, divisions */
    float    eps;
    float    at[MAX_STAGES][MAX_ENTRIES];
} stages;

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Return the sum of the row or column of an entry, with eps. */
static float sum_around(const float *m, uint32_t n, bool column, uint32_t which, float eps)
{
    float sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += column ? m[i * n + which] : m[which * n + i];
    return sum + eps;
}

/* Divide the columns or rows of m [n][n] by their sums. */
static void divide(const float *m, uint32_t n, bool column, float eps, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = sum_around(m, n, column, i, eps);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t at = column ? k * n + i : i * n + k;
            out[at] = m[at] / sum;
        }
    }
}

static void start_stages(stages *s, const lm_node *node, const float *x, const float *base, float scale,
                         const lm_row_kernels *k)
{
    s->n     = node->connect.streams;
    s->count = 2 * node->connect.rounds - 1;
    s->eps   = node->connect.eps;
    for (uint32_t j = 0; j < s->n; j++) {
        float *row = s->at[0] + j * s->n;
        for (uint32_t i = 0; i < s->n; i++)
            row[i] = x[j * s->n + i] * scale + base[j * s->n + i];
        k->softmax(row, s->n);
        for (uint32_t i = 0; i < s->n; i++)
            row[i] += s->eps;
    }
    for (uint32_t i = 0; i < s->count; i++)
        divide(s->at[i], s->n, i % 2 == 0, s->eps, s->at[i + 1]);
}

static void connect(const lm_rows *r, uint64_t from, uint64_t to)
{
    const lm_node *node = r->node;
    uint32_t       n    = node->connect.streams;
    const float   *base = r->weights[0], *scale = r->weights[1];
    stages         s;

    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t);
        float       *y = lm_row_of(r->out, t);
        for (uint32_t i = 0; i < n; i++)
            y[i] = sigmoid(x[i] * scale[0] + base[i]) + node->connect.eps;
        if (node->connect.ends)
            continue;
        for (uint32_t i = n; i < 2 * n; i++)
            y[i] = 2 * sigmoid(x[i] * scale[1] + base[i]);
        start_stages(&s, node, x + 2 * n, base + 2 * n, scale[2], r->kernels);
        memcpy(y + 2 * n, s.at[s.count], (uint64_t)n * n * sizeof *y);
    }
}

/* Of y = m / (sum + eps) over each column or row: d becomes the gradient of m, (d - sum of d y) / (sum +
 * eps). */
static void divide_back(const float *m, const float *y, uint32_t n, bool column, float eps, float *d)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = sum_around(m, n, column, i, eps), along = 0;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t at = column ? k * n + i : i * n + k;
            along += d[at] * y[at];
        }
        for (uint32_t k = 0; k < n; k++) {
            uint32_t at = column ? k * n + i : i * n + k;
            d[at] = (d[at] - along) / sum;
        }
    }
}

/* Compute the gradient of what the functions are applied to, scale x + base: dz [lanes]. */
static void inner_gradient(const lm_rows *r, const float *x, const float *dy, float *dz)
{
    const lm_node *node = r->node;
    uint32_t       n    = node->connect.streams, lanes = (uint32_t)lm_lanes_of(r, node->out);
    const float   *base = r->weights[0], *scale = r->weights[1];
    stages         s;

    for (uint32_t i = 0; i < n * (node->connect.ends ? 1 : 2); i++) {
        float g = sigmoid(x[i] * scale[i >= n] + base[i]);
        dz[i]   = (i >= n ? 2 : 1) * dy[i] * g * (1 - g);
    }
    if (node->connect.ends)
        return;
    start_stages(&s, node, x + 2 * n, base + 2 * n, scale[2], r->kernels);
    float *d = dz + 2 * n;
    memcpy(d, dy + 2 * n, (lanes - 2 * n) * sizeof *d);
    for (uint32_t i = s.count; i-- > 0;)
        divide_back(s.at[i], s.at[i + 1], n, i % 2 == 0, s.eps, d);
    for (uint32_t j = 0; j < n; j++) {
        float *row = d + j * n, *p = s.at[0] + j * n, along = 0;
        for (uint32_t i = 0; i < n; i++)
            along += row[i] * (p[i] - s.eps);
        for (uint32_t i = 0; i < n; i++)
            row[i] = (p[i] - s.eps) * (row[i] - along);
    }
}

enum { MAX_LANES = LM_MAX_CONNECTED * (LM_MAX_CONNECTED + 2) };

/* Return which of the three factors a lane is multiplied by. */
static uint32_t part_of(uint32_t lane, uint32_t n)
{
    return lane < n ? 0 : lane < 2 * n ? 1 : 2;
}

static void connect_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows *r = &b->rows;
    uint32_t       n = r->node->connect.streams, lanes = (uint32_t)lm_lanes_of(r, r->node->out);
    float          dz[MAX_LANES];

    (void)scratch;
    for (uint64_t t = from; t < to; t++) {
        float *dx = lm_row_of(b->din[0], t);
        inner_gradient(r, lm_row_of(r->in[0], t), lm_row_of(b->dout, t), dz);
        for (uint32_t i = 0; i < lanes; i++)
            lm_put_gradient(dx + i, dz + i, r->weights[1][part_of(i, n)], 1, b->first[0]);
    }
}

static void connect_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    const lm_rows *r = &b->rows;
    uint32_t       n = r->node->connect.streams, lanes = (uint32_t)lm_lanes_of(r, r->node->out);
    float          dz[MAX_LANES];

    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t);
        inner_gradient(r, x, lm_row_of(b->dout, t), dz);
        for (uint32_t i = 0; i < lanes; i++) {
            if (b->dw[0])
                b->dw[0][i] += dz[i];
            if (b->dw[1])
                b->dw[1][part_of(i, n)] += dz[i] * x[i];
        }
    }
}

const lm_row_op lm_row_connect = { .forward = connect, .reverse = connect_back,
                                   .reverse_weights = connect_weights };

/* ---- blend ---- */

static void blend(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t w = lm_lanes_of(r, r->node->out), n = r->node->blend.streams;

    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t), *c = lm_row_of(r->in[1], t);
        float       *y = lm_row_of(r->out, t);
        r->kernels->scale(y, x, c[0], w);
        for (uint64_t j = 1; j < n; j++)
            r->kernels->add(y, y, x + j * w, c[j], w);
    }
}

/* Set or add to the gradients of all coefficients of a row; `known` [from, to) of them are d. */
static void put_coefficients(const lm_rows_back *b, unsigned input, uint64_t t, const float *d, uint64_t from,
                             uint64_t to)
{
    float   *out   = lm_row_of(b->din[input], t);
    uint64_t lanes = lm_lanes_of(&b->rows, b->rows.node->in[input]);

    for (uint64_t i = 0; i < lanes; i++) {
        float x = i >= from && i < to ? d[i - from] : 0;
        out[i]  = b->first[input] ? x : out[i] + x;
    }
}

static void blend_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows *r = &b->rows;
    uint64_t       w = lm_lanes_of(r, r->node->out), n = r->node->blend.streams;
    float          dc[LM_MAX_CONNECTED];

    (void)scratch;
    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t), *c = lm_row_of(r->in[1], t), *dy = lm_row_of(b->dout, t);
        for (uint64_t j = 0; b->din[0].at && j < n; j++)
            lm_put_gradient(lm_row_of(b->din[0], t) + j * w, dy, c[j], w, b->first[0]);
        for (uint64_t j = 0; b->din[1].at && j < n; j++)
            dc[j] = b->kernels->dot(dy, x + j * w, w);
        if (b->din[1].at)
            put_coefficients(b, 1, t, dc, 0, n);
    }
}

const lm_row_op lm_row_blend = { .forward = blend, .reverse = blend_back };

/* ---- merge ---- */

static void merge(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t w = lm_lanes_of(r, r->node->in[1]), n = r->node->blend.streams;

    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t), *y = lm_row_of(r->in[1], t), *c = lm_row_of(r->in[2], t);
        for (uint64_t k = 0; k < n; k++) {
            float *out = lm_row_of(r->out, t) + k * w;
            r->kernels->scale(out, x, c[2 * n + k], w);
            for (uint64_t j = 1; j < n; j++)
                r->kernels->add(out, out, x + j * w, c[2 * n + j * n + k], w);
            r->kernels->add(out, out, y, c[n + k], w);
        }
    }
}

/* dx_j = sum over k of m_jk dout_k, dy = sum over k of c_k dout_k */
static void merge_back_of_rows(const lm_rows_back *b, uint64_t t, uint64_t n, uint64_t w)
{
    const float *c = lm_row_of(b->rows.in[2], t), *d = lm_row_of(b->dout, t);

    for (uint64_t k = 0; k < n; k++) {
        for (uint64_t j = 0; b->din[0].at && j < n; j++)
            lm_put_gradient(lm_row_of(b->din[0], t) + j * w, d + k * w, c[2 * n + j * n + k], w,
                            b->first[0] && k == 0);
        if (b->din[1].at)
            lm_put_gradient(lm_row_of(b->din[1], t), d + k * w, c[n + k], w, b->first[1] && k == 0);
    }
}

static void merge_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows *r = &b->rows;
    uint64_t       w = lm_lanes_of(r, r->node->in[1]), n = r->node->blend.streams;
    float          dc[MAX_LANES];

    (void)scratch;
    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t), *y = lm_row_of(r->in[1], t), *d = lm_row_of(b->dout, t);
        merge_back_of_rows(b, t, n, w);
        for (uint64_t k = 0; b->din[2].at && k < n; k++) {
            dc[k] = b->kernels->dot(d + k * w, y, w);
            for (uint64_t j = 0; j < n; j++)
                dc[n + j * n + k] = b->kernels->dot(d + k * w, x + j * w, w);
        }
        if (b->din[2].at)
            put_coefficients(b, 2, t, dc, n, n * (n + 2));
    }
}

const lm_row_op lm_row_merge = { .forward = merge, .reverse = merge_back };
