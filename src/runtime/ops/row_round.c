/* row_round.c - rows rounded to eight bits: round. */
#include <string.h>

#include "runtime/ops/rowops.h"

#define LEAST   1e-5f                    /* of the largest magnitude */
#define NEAREST 0x1.8p23f                /* adding it rounds a small number to an integer, half to even */

/* Return the largest magnitude of a row; NaN is larger than infinity. */
static float largest(const float *x, uint64_t n)
{
    int32_t max = 0;
    float   f;

    for (uint64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        max = bits > max ? bits : max;
    }
    memcpy(&f, &max, sizeof f);
    return f;
}

/* A magnitude is 127 at most, but for rounding: nothing has to be clamped. */
static void round_rows(const lm_rows *r, uint64_t from, uint64_t to)
{
    uint64_t w = lm_lanes_of(r, r->node->out);

    for (uint64_t t = from; t < to; t++) {
        const float *x   = lm_row_of(r->in[0], t);
        float       *y   = lm_row_of(r->out, t), max = largest(x, w), s = 127 / (max < LEAST ? LEAST : max);
        for (uint64_t k = 0; k < w; k++)
            y[k] = (x[k] * s + NEAREST - NEAREST) / s;
    }
}

/* As if nothing were rounded: the straight-through estimator of arXiv 1308.3432. */
static void round_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    (void)scratch;
    for (uint64_t i = from, w = lm_lanes_of(&b->rows, b->rows.node->out); i < to; i++)
        lm_put_gradient(lm_row_of(b->din[0], i), lm_row_of(b->dout, i), 1, w, b->first[0]);
}

const lm_row_op lm_row_round = { .forward = round_rows, .reverse = round_back };
