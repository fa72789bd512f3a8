/* scan.c - selective_scan: its result against its definition, its reverse against differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "train/passes.h"

enum { ROWS = 11, LANES = 18, ENTRIES = 5, INPUTS = 4 };

static const lm_recurrence spec = { .n_heads = 1, .n_key_heads = 1, .k_dim = ENTRIES, .v_dim = LANES,
                                    .selective = true };
static const uint64_t      width[INPUTS] = { ENTRIES, ENTRIES, LANES, LANES };       /* C, B, x, delta */

typedef struct data {
    float in[INPUTS][ROWS * LANES], din[INPUTS][ROWS * LANES], rates[LANES * ENTRIES],
        d_rates[LANES * ENTRIES], out[ROWS * LANES], dout[ROWS * LANES];
} data;

static void fill(float *x, uint64_t n, uint64_t seed, float low, float high)
{
    uint32_t draws[4];

    for (uint64_t i = 0; i < n; i++) {
        lm_rng_block(seed, 0, i, draws);
        x[i] = low + (high - low) * (float)(draws[0] % 1024) / 1024;
    }
}

static void set_up(data *d)
{
    memset(d, 0, sizeof *d);
    for (uint32_t k = 0; k < INPUTS; k++)
        fill(d->in[k], ROWS * width[k], 5 + k, k == 3 ? 0.1f : -1, 1);
    fill(d->rates, LANES * ENTRIES, 40, -2, 1);
    fill(d->dout, ROWS * LANES, 50, -1, 1);
}

static void forward(data *d)
{
    float              state[ENTRIES * LM_STATE_COLUMNS];
    lm_kernels         kernels;
    lm_operand         in[5] = { { 0 } };
    lm_recurrence_args a = { .state = state, .rows = ROWS };

    lm_kernels_init_ref(&kernels);
    for (uint32_t k = 0; k < INPUTS; k++)
        in[k] = (lm_operand){ d->in[k], width[k] };
    for (uint64_t unit = 0; unit < lm_recurrence_blocks(&spec); unit++) {
        memset(state, 0, sizeof state);
        lm_recurrence_block(&spec, unit, in, (lm_operand){ d->out, LANES }, d->rates, 0, &a);
        kernels.row.recur(&a);
    }
}

static double loss(data *d)
{
    double sum = 0;

    forward(d);
    for (uint64_t i = 0; i < ROWS * LANES; i++)
        sum += (double)d->out[i] * (double)d->dout[i];
    return sum;
}

/* y_t = the sum over s <= t of delta_s x_s (B_s . C_t), each product of entry n times exp(-exp(A) (the sum of
 * delta after s)). */
static void matches_its_sum(void **state)
{
    static data d;

    (void)state;
    set_up(&d);
    forward(&d);
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t i = 0; i < LANES; i++) {
            double sum = 0, later = 0;
            for (uint32_t s = t + 1; s-- > 0;) {
                double delta = (double)d.in[3][s * LANES + i], adds = delta * (double)d.in[2][s * LANES + i];
                for (uint32_t n = 0; n < ENTRIES; n++)
                    sum += adds * (double)d.in[1][s * ENTRIES + n] * (double)d.in[0][t * ENTRIES + n] *
                           exp(-exp((double)d.rates[i * ENTRIES + n]) * later);
                later += delta;
            }
            assert_true(fabs(sum - (double)d.out[t * LANES + i]) < 1e-5 * (1 + fabs(sum)));
        }
}

static void check_slopes(data *d, float *x, const float *gradient, uint64_t n, float added)
{
    const float h = 1.0f / 256;

    for (uint64_t i = 0; i < n; i++) {
        float at = x[i];
        x[i]     = at + h;
        double up = loss(d);
        x[i]      = at - h;
        double slope = (up - loss(d)) / (2 * (double)h), got = (double)(gradient[i] - added);
        x[i] = at;
        if (fabs(slope - got) > 2e-3 * (1 + fabs(slope)))
            fail_msg("element %llu: gradient %g, slope %g", (unsigned long long)i, got, slope);
    }
}

static void reverse_is_slope(void **state)
{
    static data        d;
    const bool         first[] = { true, true, false, true };
    float             *scratch = calloc(1, lm_scan_scratch(&spec, ROWS));
    lm_recurrence_rows rows    = { .spec = &spec, .first = first, .rows = ROWS, .dout = { d.dout, LANES } };

    (void)state;
    assert_non_null(scratch);
    set_up(&d);
    for (uint32_t k = 0; k < INPUTS; k++) {
        rows.in[k]  = (lm_operand){ d.in[k], width[k] };
        rows.din[k] = (lm_operand){ d.din[k], width[k] };
    }
    for (uint64_t i = 0; i < ROWS * LANES; i++)
        d.din[2][i] = 3;                 /* not the first: added to */
    for (uint64_t lane = 0; lane < LANES; lane++)
        lm_scan_back_lane(&rows, d.rates, d.d_rates, lane, scratch);
    for (uint64_t n = 0; n < ENTRIES; n++)
        lm_scan_back_entry(&rows, d.rates, n, scratch);
    for (uint32_t k = 0; k < INPUTS; k++)
        check_slopes(&d, d.in[k], d.din[k], ROWS * width[k], k == 2 ? 3 : 0);
    check_slopes(&d, d.rates, d.d_rates, LANES * ENTRIES, 0);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_its_sum),
        cmocka_unit_test(reverse_is_slope),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
