/* recurrence_lanes.h - linear and gated recurrences and selective scans (program.h, lm_recurrence): included
 * by the row kernels of every instruction set. The lanes of a vector are columns of a state, so sums run down
 * the rows of the state, in four interleaved parts. */
#ifndef LM_KERNELS_RECURRENCE_LANES_H
#define LM_KERNELS_RECURRENCE_LANES_H

#include <math.h>
#include <string.h>

#include "kernels/exp_lanes.h"
#include "kernels/float_lanes.h"
#include "kernels/kernels.h"

enum { STATE_SUMS = 4, CACHE_LINE = 16 };      /* floats */

/* The operands of one position. */
typedef struct state_operands {
    const float *q, *k, *decay;
} state_operands;

INLINED state_operands operands_at(const lm_recurrence_args *a, uint64_t t)
{
    return (state_operands){ a->q + t * a->q_stride, a->k + t * a->k_stride, a->decay + t * a->decay_stride };
}

/* Row i of a vector of columns. */
INLINED float *state_row(const lm_recurrence_args *a, uint32_t column, uint32_t i)
{
    return a->state + (size_t)i * LM_STATE_BLOCK + column;
}

INLINED float_lanes columns_of(const float *x, uint32_t n)
{
    float_lanes v = { 0 };

    memcpy(&v, x, n * sizeof *x);
    return v;
}

/* What multiplies row i of a state where it is read with a key: by channel, the decayed key. */
INLINED float key_of(const state_operands *p, uint32_t i, bool by_channel)
{
    return by_channel ? p->decay[i] * p->k[i] : p->k[i];
}

INLINED float_lanes sum_parts(const float_lanes parts[STATE_SUMS])
{
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

/* What the state returns for a key, S^T k; by channel, (a S)^T k. */
INLINED float_lanes state_returns(const lm_recurrence_args *a, uint32_t column, const state_operands *p,
                                  bool by_channel)
{
    float_lanes sums[STATE_SUMS] = { 0 };

    for (uint32_t i = 0; i < a->k_dim; i++)
        sums[i % STATE_SUMS] += load_lanes(state_row(a, column, i)) * key_of(p, i, by_channel);
    return sum_parts(sums);
}

/* Row i: S <- a S + k u^T; what it adds to o = S^T q and, where `next` is given, to what the new state
 * returns for the next key. */
INLINED void update_row(float *row, uint32_t i, const state_operands *p, const state_operands *next,
                        bool by_channel, float_lanes u, float_lanes *o, float_lanes *returned)
{
    float_lanes s = load_lanes(row) * p->decay[by_channel ? i : 0] + u * p->k[i];

    *o += s * p->q[i];
    if (next)
        *returned += s * key_of(next, i, by_channel);
    *lanes_at(row) = s;
}

INLINED float_lanes state_update(const lm_recurrence_args *a, uint32_t column, const state_operands *p,
                                 const state_operands *next, bool by_channel, float_lanes u,
                                 float_lanes *returned)
{
    float_lanes o[STATE_SUMS] = { 0 }, back[STATE_SUMS] = { 0 };
    uint32_t    i = 0;

    for (; i + STATE_SUMS <= a->k_dim; i += STATE_SUMS) {
        update_row(state_row(a, column, i), i, p, next, by_channel, u, &o[0], &back[0]);
        update_row(state_row(a, column, i + 1), i + 1, p, next, by_channel, u, &o[1], &back[1]);
        update_row(state_row(a, column, i + 2), i + 2, p, next, by_channel, u, &o[2], &back[2]);
        update_row(state_row(a, column, i + 3), i + 3, p, next, by_channel, u, &o[3], &back[3]);
    }
    for (; i < a->k_dim; i++)
        update_row(state_row(a, column, i), i, p, next, by_channel, u, &o[i % STATE_SUMS],
                   &back[i % STATE_SUMS]);
    *returned = sum_parts(back);
    return sum_parts(o);
}

/* The rows of a step lie apart: their lines are fetched ahead. */
INLINED void fetch_ahead(const lm_recurrence_args *a, uint64_t t)
{
    state_operands p = operands_at(a, t);

    for (uint32_t i = 0; i < a->k_dim; i += CACHE_LINE) {
        __builtin_prefetch(p.q + i);
        __builtin_prefetch(p.k + i);
    }
}

/* The columns from `column` on that one vector holds. A state is read once per position: with the update,
 * what it returns for the next key. */
INLINED void recur_lanes(const lm_recurrence_args *a, uint32_t column, bool delta, bool by_channel)
{
    uint32_t       n = a->columns - column < LANES ? a->columns - column : LANES;
    state_operands p = operands_at(a, 0), next;
    float_lanes    returned = { 0 }, u, o;

    if (delta)
        returned = state_returns(a, column, &p, by_channel);
    for (uint64_t t = 0; t < a->rows; t++, p = next) {
        u = columns_of(a->v + t * a->v_stride + column, n);
        if (delta && !by_channel)
            returned *= p.decay[0];
        if (delta)
            u -= returned;
        u *= a->beta[t * a->beta_stride];
        next = operands_at(a, t + 1);
        if (t + 2 < a->rows)
            fetch_ahead(a, t + 2);
        if (delta && t + 1 < a->rows)
            o = state_update(a, column, &p, &next, by_channel, u, &returned);
        else
            o = state_update(a, column, &p, NULL, by_channel, u, &returned);
        memcpy(a->o + t * a->o_stride + column, &o, n * sizeof(float));
    }
}

#define NOT_FUSED(a, b, c) ((a) * (b) + (c))
LM_EXP_LANES(row_exp, float_lanes, int_lanes, NOT_FUSED)

/* Row i: s <- exp(rate d) s + B dx; return s C. */
INLINED float_lanes scan_entry(float *row, float_lanes rate, float_lanes d, float_lanes dx, float B, float C)
{
    float_lanes s = load_lanes(row) * row_exp(rate * d) + dx * B;

    *lanes_at(row) = s;
    return s * C;
}

INLINED void scan_lanes(const lm_recurrence_args *a, uint32_t column)
{
    uint32_t    n = a->columns - column < LANES ? a->columns - column : LANES;
    float_lanes rates[LM_MAX_RATES];

    for (uint32_t i = 0; i < a->k_dim; i++) {
        float_lanes log_rate = { 0 };
        for (uint32_t c = 0; c < n; c++)
            log_rate[c] = a->rates[(size_t)(column + c) * a->k_dim + i];
        rates[i] = -row_exp(log_rate);
    }
    for (uint64_t t = 0; t < a->rows; t++) {
        const float *C = a->q + t * a->q_stride, *B = a->k + t * a->k_stride;
        float_lanes  d  = columns_of(a->decay + t * a->decay_stride + column, n),
                    dx = d * columns_of(a->v + t * a->v_stride + column, n), sums[STATE_SUMS] = { 0 };
        for (uint32_t i = 0; i < a->k_dim; i++)
            sums[i % STATE_SUMS] += scan_entry(state_row(a, column, i), rates[i], d, dx, B[i], C[i]);
        d = sum_parts(sums);
        memcpy(a->o + t * a->o_stride + column, &d, n * sizeof(float));
    }
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + t), t = e^-|x|, by the series 2 (s + s^3/3 + s^5/5 …) of s = t / (2 + t),
 * which is at most 1/3. */
INLINED float_lanes row_softplus(float_lanes x)
{
    float_lanes t = row_exp((float_lanes)((int_lanes)x | INT32_MIN)), s = t / (t + 2.0f), q = s * s,
                p = q * (1.0f / 15) + 1.0f / 13;

    p = p * q + 1.0f / 11;
    p = p * q + 1.0f / 9;
    p = p * q + 1.0f / 7;
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    p = p * q + 1.0f;
    return (float_lanes)((int_lanes)x & ~(x < 0)) + 2.0f * s * p;
}

/* 1 - e^x for x <= 0, near 0 by the series of e^x without its 1, which would take the last digits. */
INLINED float_lanes row_one_less_exp(float_lanes x)
{
    int_lanes   near = x > -0.5f;
    float_lanes far  = 1.0f - row_exp(x), p = x * (1.0f / 5040) + 1.0f / 720;

    p = p * x + 1.0f / 120;
    p = p * x + 1.0f / 24;
    p = p * x + 1.0f / 6;
    p = p * x + 1.0f / 2;
    p = -(p * x * x + x);
    return (float_lanes)(((int_lanes)p & near) | ((int_lanes)far & ~near));
}

INLINED float_lanes row_roots(float_lanes x)
{
    float_lanes r;

    for (int l = 0; l < LANES; l++)
        r[l] = sqrtf(x[l]);
    return r;
}

INLINED void gated_lanes(const lm_recurrence_args *a, uint32_t column)
{
    uint32_t    n    = a->columns - column < LANES ? a->columns - column : LANES;
    float_lanes rate = row_softplus(columns_of(a->rates + column, n)) * -8.0f,
                h    = load_lanes(a->state + column);

    for (uint64_t t = 0; t < a->rows; t++) {
        float_lanes x     = columns_of(a->v + t * a->v_stride + column, n),
                    log_a = columns_of(a->decay + t * a->decay_stride + column, n) * rate;
        if (a->at_start && t == 0)
            h = x;
        else
            h = row_exp(log_a) * h + row_roots(row_one_less_exp(2.0f * log_a)) * x;
        memcpy(a->o + t * a->o_stride + column, &h, n * sizeof(float));
    }
    *lanes_at(a->state + column) = h;
}

static void recur(const lm_recurrence_args *a)
{
    for (uint32_t column = 0; column < a->columns; column += LANES) {
        if (a->gated)
            gated_lanes(a, column);
        else if (a->rates)
            scan_lanes(a, column);
        else if (!a->delta && !a->decay_by_channel)
            recur_lanes(a, column, false, false);
        else if (!a->delta)
            recur_lanes(a, column, false, true);
        else if (!a->decay_by_channel)
            recur_lanes(a, column, true, false);
        else
            recur_lanes(a, column, true, true);
    }
}

#endif
