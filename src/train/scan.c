/* scan.c - the reverse of selective_scan.
 *
 * Every number S[i][n] is a recurrence of its own: s_t = a_t s_t-1 + delta x B, a_t = exp(-exp(A_log) delta),
 * and y_i = the sum over n of s_t C. With the gradient g of s_t, which comes from later rows:
 *   g += dy C, dC = dy s_t, dB = g delta x, dx = g delta B, da = g s_t-1,
 *   ddelta = g x B - da a exp(A_log), dA_log = -da a exp(A_log) delta, g_t-1 = a g
 * dx and ddelta are sums over n, so workers divide the lanes; dB and dC are sums over the lanes, so they
 * divide n, and the numbers are computed twice. */
#include <math.h>
#include <string.h>

#include "train/passes.h"

/* One number in all rows of a text. */
typedef struct number {
    float *decay, *before, *g;           /* a_t, s_t-1 and the gradient of s_t, [rows] */
    float  rate;                         /* exp(A_log) */
} number;

enum { ROW_ARRAYS = 5 };                 /* of `number`, and two sums */

uint64_t lm_scan_scratch(const lm_recurrence *r, uint64_t rows)
{
    uint64_t forward = (uint64_t)r->k_dim * LM_STATE_COLUMNS, reverse = ROW_ARRAYS * rows;

    return (forward > reverse ? forward : reverse) * sizeof(float);
}

static float at(lm_operand x, uint64_t row, uint64_t lane)
{
    return lm_row_of(x, row)[lane];
}

static void fill(const lm_recurrence_rows *r, float log_rate, uint64_t i, uint64_t n, number *s)
{
    float state = 0, g = 0;

    s->rate = expf(log_rate);
    for (uint64_t t = 0; t < r->rows; t++) {
        float delta  = at(r->in[3], t, i);
        s->before[t] = state;
        s->decay[t]  = expf(-s->rate * delta);
        state        = s->decay[t] * state + delta * at(r->in[2], t, i) * at(r->in[1], t, n);
    }
    for (uint64_t t = r->rows; t-- > 0;) {
        g += at(r->dout, t, i) * at(r->in[0], t, n);
        s->g[t] = g;
        g *= s->decay[t];
    }
}

static number number_in(float *scratch, uint64_t rows)
{
    return (number){ .decay = scratch, .before = scratch + rows, .g = scratch + 2 * rows };
}

static void put(const lm_recurrence_rows *r, uint32_t k, uint64_t lane, const float *sums)
{
    for (uint64_t t = 0; r->din[k].at && t < r->rows; t++)
        lm_put_gradient(lm_row_of(r->din[k], t) + lane, &sums[t], 1, 1, r->first[k]);
}

void lm_scan_back_lane(const lm_recurrence_rows *r, const float *rates, float *d_rates, uint64_t lane,
                       float *scratch)
{
    number s    = number_in(scratch, r->rows);
    float *d_x  = scratch + 3 * r->rows, *d_delta = d_x + r->rows;

    memset(d_x, 0, 2 * r->rows * sizeof *d_x);
    for (uint64_t n = 0; n < r->spec->k_dim; n++) {
        uint64_t at_rate = lane * r->spec->k_dim + n;
        float    d_rate  = 0;
        fill(r, rates[at_rate], lane, n, &s);
        for (uint64_t t = 0; t < r->rows; t++) {
            float delta = at(r->in[3], t, lane), B = at(r->in[1], t, n),
                  decays = s.g[t] * s.before[t] * s.decay[t] * s.rate;
            d_x[t] += s.g[t] * delta * B;
            d_delta[t] += s.g[t] * at(r->in[2], t, lane) * B - decays;
            d_rate -= decays * delta;
        }
        if (d_rates)
            d_rates[at_rate] += d_rate;
    }
    put(r, 2, lane, d_x);
    put(r, 3, lane, d_delta);
}

void lm_scan_back_entry(const lm_recurrence_rows *r, const float *rates, uint64_t n, float *scratch)
{
    number s   = number_in(scratch, r->rows);
    float *d_c = scratch + 3 * r->rows, *d_b = d_c + r->rows;

    memset(d_c, 0, 2 * r->rows * sizeof *d_c);
    for (uint64_t i = 0; i < r->spec->v_dim; i++) {
        fill(r, rates[i * r->spec->k_dim + n], i, n, &s);
        for (uint64_t t = 0; t < r->rows; t++) {
            float adds = at(r->in[3], t, i) * at(r->in[2], t, i);
            d_b[t] += s.g[t] * adds;
            d_c[t] += at(r->dout, t, i) * (s.decay[t] * s.before[t] + adds * at(r->in[1], t, n));
        }
    }
    put(r, 0, n, d_c);
    put(r, 1, n, d_b);
}
