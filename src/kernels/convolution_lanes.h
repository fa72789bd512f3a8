/* convolution_lanes.h - depthwise convolutions over positions (kernels.h, lm_conv_args): included by the row
 * kernels of every instruction set. A block of lanes is computed for all rows, so that its taps stay in the
 * first cache. */
#ifndef LM_KERNELS_CONVOLUTION_LANES_H
#define LM_KERNELS_CONVOLUTION_LANES_H

#include <string.h>

#include "kernels/float_lanes.h"
#include "kernels/kernels.h"

enum { CONV_TAPS = 2048 };               /* floats: the taps of a block */

/* Row t of the input, counted from the first new row; NULL: zeros. */
static inline const float *conv_row(const lm_conv_args *a, int64_t t)
{
    if (t >= 0)
        return a->x + (uint64_t)t * a->x_stride;
    return a->before ? a->before + (uint64_t)(t + a->taps - 1) * a->lanes : NULL;
}

/* y[c] = bias[c] + sum of w[j][c] x[j][c], for taps `from` to `taps`: earlier ones meet zeros. */
INLINED void conv_sums(float *y, const float *const *x, const float *w, const float *bias, uint64_t n,
                       uint32_t from, uint32_t taps)
{
    uint64_t c = 0;

    for (; c + LANES <= n; c += LANES) {
        float_lanes sum = bias ? load_lanes(bias + c) : (float_lanes){ 0 };
        for (uint32_t j = from; j < taps; j++)
            sum += load_lanes(w + j * n + c) * load_lanes(x[j] + c);
        *lanes_at(y + c) = sum;
    }
    for (; c < n; c++) {
        float sum = bias ? bias[c] : 0;
        for (uint32_t j = from; j < taps; j++)
            sum += w[j * n + c] * x[j][c];
        y[c] = sum;
    }
}

INLINED void conv_block(const lm_conv_args *a, uint64_t first, uint64_t n, uint32_t taps)
{
    const float *x[LM_MAX_TAPS], *bias = a->bias ? a->bias + first : NULL;
    float        w[CONV_TAPS];           /* [taps][n] */

    for (uint64_t c = 0; c < n; c++)
        for (uint32_t j = 0; j < taps; j++)
            w[j * n + c] = a->w[(first + c) * taps + j];
    for (uint64_t t = 0; t < a->rows; t++) {
        float   *y    = a->y + t * a->y_stride + first;
        uint32_t from = 0;
        for (uint32_t j = 0; j < taps; j++) {
            const float *row = conv_row(a, (int64_t)t - taps + 1 + j);
            if (row)
                x[j] = row + first;
            else
                from = j + 1;
        }
        if (from)
            conv_sums(y, x, w, bias, n, from, taps);
        else
            conv_sums(y, x, w, bias, n, 0, taps);
    }
}

/* Keep the last taps - 1 rows, oldest first: those of the earlier state that remain lie behind those that are
 * overwritten. */
static void conv_keep(const lm_conv_args *a)
{
    uint64_t n = a->last - a->first;

    for (uint32_t j = 0; j + 1 < a->taps; j++) {
        const float *x  = conv_row(a, (int64_t)a->rows - a->taps + 1 + j);
        float       *to = a->after + j * a->lanes + a->first;
        if (x)
            memmove(to, x + a->first, n * sizeof *to);
        else
            memset(to, 0, n * sizeof *to);
    }
}

static void convolve(const lm_conv_args *a)
{
    uint64_t max = CONV_TAPS / a->taps / 16 * 16;

    for (uint64_t first = a->first; first < a->last; first += max) {
        uint64_t n = a->last - first < max ? a->last - first : max;
        if (a->taps == 4)
            conv_block(a, first, n, 4);
        else if (a->taps == 3)
            conv_block(a, first, n, 3);
        else
            conv_block(a, first, n, a->taps);
    }
    if (a->after)
        conv_keep(a);
}

#endif
