/* row_streams.c - several streams side by side in a row: mix, match; and gaussian_top. */
#include <math.h>
#include <string.h>

#include "runtime/ops/rowops.h"

/* ---- mix ---- */

typedef struct streams {
    uint64_t n, first, width, m;         /* of x, the first that changes, lanes of one, of z */
    float    plus;
} streams;

static streams streams_of(const lm_rows *r)
{
    const lm_node *n     = r->node;
    uint64_t       width = lm_lanes_of(r, n->out) / n->mix.streams;

    return (streams){ n->mix.streams, n->mix.first, width, lm_lanes_of(r, n->in[1]) / width, n->mix.plus };
}

static float coefficient(const lm_rows *r, const streams *s, uint64_t row, uint64_t j, uint64_t i)
{
    return s->plus + (r->node->n_in > 2 ? lm_row_of(r->in[2], row)[j * s->m + i] : 0);
}

static void mix(const lm_rows *r, uint64_t from, uint64_t to)
{
    streams s = streams_of(r);

    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(r->in[0], t), *z = lm_row_of(r->in[1], t);
        float       *y = lm_row_of(r->out, t);
        memcpy(y, x, s.n * s.width * sizeof *y);
        for (uint64_t j = s.first; j < s.n; j++)
            for (uint64_t i = 0; i < s.m; i++) {
                float c = coefficient(r, &s, t, j, i);
                for (uint64_t k = 0; k < s.width; k++)
                    y[j * s.width + k] += c * z[i * s.width + k];
            }
    }
}

/* dz_i = sum over j of (plus + c_ji) dy_j */
static void mix_back_of_z(const lm_rows_back *b, const streams *s, uint64_t t)
{
    const float *dy = lm_row_of(b->dout, t);
    float       *dz = lm_row_of(b->din[1], t);

    if (b->first[1])
        memset(dz, 0, s->m * s->width * sizeof *dz);
    for (uint64_t j = s->first; j < s->n; j++)
        for (uint64_t i = 0; i < s->m; i++)
            lm_put_gradient(dz + i * s->width, dy + j * s->width, coefficient(&b->rows, s, t, j, i),
                            s->width, false);
}

static void mix_back_of_c(const lm_rows_back *b, const streams *s, uint64_t t)
{
    const float *dy = lm_row_of(b->dout, t), *z = lm_row_of(b->rows.in[1], t);
    float       *dc = lm_row_of(b->din[2], t);

    for (uint64_t j = 0; j < s->n; j++)
        for (uint64_t i = 0; i < s->m; i++) {
            float sum = 0;
            for (uint64_t k = 0; j >= s->first && k < s->width; k++)
                sum += dy[j * s->width + k] * z[i * s->width + k];
            dc[j * s->m + i] = b->first[2] ? sum : dc[j * s->m + i] + sum;
        }
}

static void mix_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    streams s = streams_of(&b->rows);

    (void)scratch;
    for (uint64_t t = from; t < to; t++) {
        if (b->din[0].at)
            lm_put_gradient(lm_row_of(b->din[0], t), lm_row_of(b->dout, t), 1, s.n * s.width, b->first[0]);
        if (b->din[1].at)
            mix_back_of_z(b, &s, t);
        if (b->rows.node->n_in > 2 && b->din[2].at)
            mix_back_of_c(b, &s, t);
    }
}

const lm_row_op lm_row_mix = { .forward = mix, .reverse = mix_back };

/* ---- match ---- */

#define LEAST 1e-5f                      /* mean square of x, as transformers' class has it */

static float mean_square(const float *x, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)(sum / (double)n);
}

static void match(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t n = r->node->match.groups, w = lm_lanes_of(r, r->node->in[1]);

    for (uint64_t t = from; t < to; t++) {
        float rms = sqrtf(mean_square(lm_row_of(r->in[1], t), w));
        for (uint64_t g = 0; g < n; g++) {
            const float *x = lm_row_of(r->in[0], t) + g * w;
            float        own = sqrtf(fmaxf(mean_square(x, w), LEAST));
            r->kernels->scale(lm_row_of(r->out, t) + g * w, x, rms / own, w);
        }
    }
}

static void match_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t n = b->rows.node->match.groups, w = lm_lanes_of(&b->rows, b->rows.node->in[1]);

    (void)scratch;
    for (uint64_t t = from; t < to; t++) {
        const float *y   = lm_row_of(b->rows.in[1], t);
        float        rms = sqrtf(mean_square(y, w)), to_y = 0;
        for (uint64_t g = 0; g < n; g++) {
            const float *x = lm_row_of(b->rows.in[0], t) + g * w, *dy = lm_row_of(b->dout, t) + g * w;
            float        square = mean_square(x, w), own = sqrtf(fmaxf(square, LEAST)), along = 0;
            for (uint64_t k = 0; k < w; k++)
                along += dy[k] * x[k];
            to_y += along / own;
            if (!b->din[0].at)
                continue;
            float *dx = lm_row_of(b->din[0], t) + g * w;
            lm_put_gradient(dx, dy, rms / own, w, b->first[0]);
            if (square > LEAST)
                lm_put_gradient(dx, x, -rms * along / (own * own * own * (float)w), w, false);
        }
        if (b->din[1].at)
            lm_put_gradient(lm_row_of(b->din[1], t), y, rms > 0 ? to_y / (rms * (float)w) : 0, w,
                            b->first[1]);
    }
}

const lm_row_op lm_row_match = { .forward = match, .reverse = match_back };

/* ---- gaussian_top ---- */

typedef struct spread {
    float mean, deviation;
} spread;

static spread spread_of(const float *x, uint64_t n)
{
    double sum = 0, square = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i];
    double mean = sum / (double)n;
    for (uint64_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (spread){ (float)mean, (float)sqrt(square / (double)n) };
}

static void gaussian_top(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t w = lm_lanes_of(r, r->node->out);

    for (uint64_t t = from; t < to; t++) {
        const float *x   = lm_row_of(r->in[0], t);
        float       *y   = lm_row_of(r->out, t);
        spread       s   = spread_of(x, w);
        float        cut = s.mean + s.deviation * r->node->scale.factor;
        for (uint64_t k = 0; k < w; k++)
            y[k] = fmaxf(x[k] - cut, 0);
    }
}

static void gaussian_top_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    uint64_t w = lm_lanes_of(&b->rows, b->rows.node->out);
    float    c = b->rows.node->scale.factor;

    (void)scratch;
    for (uint64_t t = from; t < to; t++) {
        const float *x = lm_row_of(b->rows.in[0], t), *dy = lm_row_of(b->dout, t);
        float       *dx = lm_row_of(b->din[0], t), kept = 0;
        spread       s   = spread_of(x, w);
        float        cut = s.mean + s.deviation * c, slope = s.deviation > 0 ? c / s.deviation : 0;
        for (uint64_t k = 0; k < w; k++)
            kept += x[k] > cut ? dy[k] : 0;
        for (uint64_t k = 0; k < w; k++) {
            float d = (x[k] > cut ? dy[k] : 0) - kept / (float)w * (1 + slope * (x[k] - s.mean));
            dx[k]   = b->first[0] ? d : dx[k] + d;
        }
    }
}

const lm_row_op lm_row_gaussian_top = { .forward = gaussian_top, .reverse = gaussian_top_back };
