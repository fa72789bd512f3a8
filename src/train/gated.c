/* gated.c - the reverse of gated_recurrence.
 *
 * With ln a = -8 r softplus(p), m = sqrt(1 - a^2) and h_t = a h_t-1 + m x; g, the gradient of h_t, comes from
 * later rows, too:
 *   g += dh, dx = m g, d(ln a) = a g h_t-1 - (a^2 / m) g x, dr = -8 softplus(p) d(ln a), g_t-1 = a g,
 *   dp = the sum of -8 r sigmoid(p) d(ln a)
 * At the first position h is x. transformers limits 1 / (2 m) to 1000, which keeps the gradient finite where
 * a is 1. */
#include <math.h>

#include "train/passes.h"

enum { ROW_ARRAYS = 3 };                 /* a_t, m_t, h_t-1 */

uint64_t lm_gated_scratch(uint64_t rows)
{
    uint64_t reverse = ROW_ARRAYS * rows;

    return (reverse > LM_STATE_COLUMNS ? reverse : LM_STATE_COLUMNS) * sizeof(float);
}

static void put(const lm_recurrence_rows *r, uint32_t k, uint64_t row, uint64_t lane, float d)
{
    if (r->din[k].at)
        lm_put_gradient(lm_row_of(r->din[k], row) + lane, &d, 1, 1, r->first[k]);
}

void lm_gated_back_lane(const lm_recurrence_rows *r, float param, float *d_param, uint64_t lane,
                        float *scratch)
{
    float *a = scratch, *m = a + r->rows, *before = m + r->rows, h = 0, g = 0, sum = 0;
    float  rate = -8 * (param > 20 ? param : log1pf(expf(param)));

    for (uint64_t t = 0; t < r->rows; t++) {
        float log_a = rate * lm_row_of(r->in[1], t)[lane];
        before[t]   = h;
        a[t]        = t ? expf(log_a) : 0;
        m[t]        = t ? sqrtf(-expm1f(2 * log_a)) : 1;
        h           = a[t] * h + m[t] * lm_row_of(r->in[0], t)[lane];
    }
    for (uint64_t t = r->rows; t-- > 0; g *= a[t]) {
        float x = lm_row_of(r->in[0], t)[lane], into_a;
        g += lm_row_of(r->dout, t)[lane];
        into_a = a[t] * g * (before[t] - 2 * a[t] * x / fmaxf(2 * m[t], 1e-3f));
        put(r, 0, t, lane, m[t] * g);
        put(r, 1, t, lane, rate * into_a);
        sum -= 8 * lm_row_of(r->in[1], t)[lane] * into_a;
    }
    if (d_param)
        *d_param += sum / (1 + expf(-param));
}
