/* recurrence_lanes.h - linear recurrences and selective scans (program.h, lm_recurrence): included by the row
 * kernels of every instruction set. The lanes of a vector are columns of a state, so sums run down the rows
 * of the state, in four interleaved parts. Products and sums are not fused: the results are the same on every
 * level. */
#ifndef LM_KERNELS_RECURRENCE_LANES_H
#define LM_KERNELS_RECURRENCE_LANES_H

#include <string.h>

#include "kernels/exp_lanes.h"
#include "kernels/kernels.h"

/* A row of a block of a state. */
typedef float state_row __attribute__((vector_size(4 * LM_STATE_BLOCK), aligned(4), may_alias));

enum { STATE_SUMS = 4 };

#define INLINED static inline __attribute__((always_inline))

/* What the state returns for a key, S^T k; by channel, (a S)^T k. */
INLINED void state_returns(const lm_recurrence_args *a, const float *k, const float *decay, bool by_channel,
                           state_row *out)
{
    const state_row *s = (const state_row *)(const void *)a->state;
    state_row        sums[STATE_SUMS] = { 0 };
    uint32_t         i = 0;

    for (; i + STATE_SUMS <= a->k_dim; i += STATE_SUMS) {
#pragma GCC unroll 4
        for (uint32_t j = 0; j < STATE_SUMS; j++)
            sums[j] += s[i + j] * (by_channel ? decay[i + j] * k[i + j] : k[i + j]);
    }
    for (; i < a->k_dim; i++)
        sums[0] += s[i] * (by_channel ? decay[i] * k[i] : k[i]);
    *out = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* S <- a S + k u^T; out = S^T q. */
INLINED void state_update(const lm_recurrence_args *a, const float *q, const float *k, const float *decay,
                          bool by_channel, const state_row *add, state_row *out)
{
    state_row *s = (state_row *)(void *)a->state, u = *add, sums[STATE_SUMS] = { 0 };
    uint32_t   i = 0;

    for (; i + STATE_SUMS <= a->k_dim; i += STATE_SUMS) {
#pragma GCC unroll 4
        for (uint32_t j = 0; j < STATE_SUMS; j++) {
            state_row row = s[i + j] * decay[by_channel ? i + j : 0] + u * k[i + j];
            sums[j] += row * q[i + j];
            s[i + j] = row;
        }
    }
    for (; i < a->k_dim; i++) {
        s[i] = s[i] * decay[by_channel ? i : 0] + u * k[i];
        sums[0] += s[i] * q[i];
    }
    *out = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

INLINED void recur_rows(const lm_recurrence_args *a, bool by_channel)
{
    for (uint64_t t = 0; t < a->rows; t++) {
        const float *q = a->q + t * a->q_stride, *k = a->k + t * a->k_stride,
                    *decay = a->decay + t * a->decay_stride;
        float        beta = a->beta[t * a->beta_stride];
        state_row    u = { 0 }, back, o;

        memcpy(&u, a->v + t * a->v_stride, a->columns * sizeof(float));
        if (a->delta) {
            state_returns(a, k, decay, by_channel, &back);
            if (!by_channel)
                back *= decay[0];
            u -= back;
        }
        u *= beta;
        state_update(a, q, k, decay, by_channel, &u, &o);
        memcpy(a->o + t * a->o_stride, &o, a->columns * sizeof(float));
    }
}

#define NOT_FUSED(a, b, c) ((a) * (b) + (c))
typedef int32_t state_bits __attribute__((vector_size(4 * LM_STATE_BLOCK), aligned(4), may_alias));
LM_EXP_LANES(row_exp, state_row, state_bits, NOT_FUSED)

/* s <- exp(rates d) s + B dx; return s C. */
INLINED state_row scan_entry(state_row *s, const state_row *rates, const state_row *d, const state_row *dx,
                             float B, float C)
{
    *s = *s * row_exp(*rates * *d) + *dx * B;
    return *s * C;
}

INLINED void scan_row(const lm_recurrence_args *a, const state_row *rates, uint64_t t)
{
    state_row   *s = (state_row *)(void *)a->state, d = { 0 }, x = { 0 }, sums[STATE_SUMS] = { 0 };
    const float *C = a->q + t * a->q_stride, *B = a->k + t * a->k_stride;
    uint32_t     i = 0;

    memcpy(&d, a->decay + t * a->decay_stride, a->columns * sizeof(float));
    memcpy(&x, a->v + t * a->v_stride, a->columns * sizeof(float));
    x *= d;
    for (; i + STATE_SUMS <= a->k_dim; i += STATE_SUMS) {
#pragma GCC unroll 4
        for (uint32_t j = i; j < i + STATE_SUMS; j++)
            sums[j - i] += scan_entry(s + j, rates + j, &d, &x, B[j], C[j]);
    }
    for (; i < a->k_dim; i++)
        sums[0] += scan_entry(s + i, rates + i, &d, &x, B[i], C[i]);
    x = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    memcpy(a->o + t * a->o_stride, &x, a->columns * sizeof(float));
}

static void scan_rows(const lm_recurrence_args *a)
{
    state_row rates[LM_MAX_RATES];

    for (uint32_t i = 0; i < a->k_dim; i++) {
        state_row log_rate = { 0 };
        for (uint32_t c = 0; c < a->columns; c++)
            log_rate[c] = a->rates[(size_t)c * a->k_dim + i];
        rates[i] = -row_exp(log_rate);
    }
    for (uint64_t t = 0; t < a->rows; t++)
        scan_row(a, rates, t);
}

static void recur(const lm_recurrence_args *a)
{
    if (a->rates)
        scan_rows(a);
    else if (a->decay_by_channel)
        recur_rows(a, true);
    else
        recur_rows(a, false);
}

#endif
