/* causal_conv.c - depthwise convolutions over positions. A block of lanes is computed for all rows, so that
 * its taps stay in the first cache. The same for every instruction set: products and sums are not fused. */
#include <string.h>

#include "kernels/kernels.h"

enum { BLOCK = 64 };                     /* lanes */

/* Return row t of the input, counted from the first new row; NULL: zeros. */
static const float *row_at(const lm_conv_args *a, int64_t t)
{
    if (t >= 0)
        return a->x + (uint64_t)t * a->x_stride;
    return a->before ? a->before + (uint64_t)(t + a->taps - 1) * a->lanes : NULL;
}

static void add_tap(float *y, const float *x, const float *w, uint64_t n)
{
    for (uint64_t c = 0; c < n; c++)
        y[c] += w[c] * x[c];
}

static void block(const lm_conv_args *a, uint64_t first, uint64_t n)
{
    float w[LM_MAX_TAPS][BLOCK];

    for (uint32_t j = 0; j < a->taps; j++)
        for (uint64_t c = 0; c < n; c++)
            w[j][c] = a->w[(first + c) * a->taps + j];
    for (uint64_t t = 0; t < a->rows; t++) {
        float y[BLOCK] = { 0 };
        if (a->bias)
            memcpy(y, a->bias + first, n * sizeof *y);
        for (uint32_t j = 0; j < a->taps; j++) {
            const float *x = row_at(a, (int64_t)t - a->taps + 1 + j);
            if (x)
                add_tap(y, x + first, w[j], n);
        }
        memcpy(a->y + t * a->y_stride + first, y, n * sizeof *y);
    }
}

/* Keep the last taps - 1 rows, oldest first: those of the earlier state that remain lie behind those that are
 * overwritten. */
static void keep_rows(const lm_conv_args *a)
{
    uint64_t n = a->last - a->first;

    for (uint32_t j = 0; j + 1 < a->taps; j++) {
        const float *x  = row_at(a, (int64_t)a->rows - a->taps + 1 + j);
        float       *to = a->after + j * a->lanes + a->first;
        if (x)
            memmove(to, x + a->first, n * sizeof *to);
        else
            memset(to, 0, n * sizeof *to);
    }
}

void lm_convolve_rows(const lm_conv_args *a)
{
    for (uint64_t first = a->first; first < a->last; first += BLOCK)
        block(a, first, a->last - first < BLOCK ? a->last - first : BLOCK);
    if (a->after)
        keep_rows(a);
}
