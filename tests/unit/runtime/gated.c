/* gated.c - gated_recurrence: its result against its definition, its reverse against differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "train/passes.h"

enum { ROWS = 11, LANES = 18, INPUTS = 2 };

static const lm_recurrence spec = { .n_heads = 1, .n_key_heads = 1, .k_dim = 1, .v_dim = LANES,
                                    .gated = true };

typedef struct data {
    float in[INPUTS][ROWS * LANES], din[INPUTS][ROWS * LANES];       /* x and the gate */
    float param[LANES], d_param[LANES], out[ROWS * LANES], dout[ROWS * LANES];
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
    fill(d->in[0], ROWS * LANES, 5, -1, 1);
    fill(d->in[1], ROWS * LANES, 6, 0.2f, 0.9f);
    fill(d->param, LANES, 40, -4, -1);
    fill(d->dout, ROWS * LANES, 50, -1, 1);
}

static void forward(data *d)
{
    float              state[LM_STATE_COLUMNS];
    lm_kernels         kernels;
    lm_operand         in[5] = { { d->in[0], LANES }, { d->in[1], LANES } };
    lm_recurrence_args a = { .state = state, .rows = ROWS, .at_start = true };

    lm_kernels_init_ref(&kernels);
    for (uint64_t unit = 0; unit < lm_recurrence_blocks(&spec); unit++) {
        memset(state, 0, sizeof state);
        lm_recurrence_block(&spec, unit, in, (lm_operand){ d->out, LANES }, d->param, 0, &a);
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

/* h_t = the sum over s <= t of m_s x_s, times exp of the sum of ln a after s; m is 1 at the first row. */
static void matches_its_sum(void **state)
{
    static data d;

    (void)state;
    set_up(&d);
    forward(&d);
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t i = 0; i < LANES; i++) {
            double sum = 0, later = 0, rate = -8 * log1p(exp((double)d.param[i]));
            for (uint32_t s = t + 1; s-- > 0;) {
                double log_a = rate * (double)d.in[1][s * LANES + i];
                sum += (s ? sqrt(1 - exp(2 * log_a)) : 1) * (double)d.in[0][s * LANES + i] * exp(later);
                later += log_a;
            }
            assert_true(fabs(sum - (double)d.out[t * LANES + i]) < 1e-6 * (1 + fabs(sum)));
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
    const bool         first[] = { false, true };
    float             *scratch = calloc(1, lm_gated_scratch(ROWS));
    lm_recurrence_rows rows    = { .spec = &spec, .first = first, .rows = ROWS, .dout = { d.dout, LANES } };

    (void)state;
    assert_non_null(scratch);
    set_up(&d);
    for (uint32_t k = 0; k < INPUTS; k++) {
        rows.in[k]  = (lm_operand){ d.in[k], LANES };
        rows.din[k] = (lm_operand){ d.din[k], LANES };
    }
    for (uint64_t i = 0; i < ROWS * LANES; i++)
        d.din[0][i] = 3;                 /* not the first: added to */
    for (uint64_t lane = 0; lane < LANES; lane++)
        lm_gated_back_lane(&rows, d.param[lane], &d.d_param[lane], lane, scratch);
    check_slopes(&d, d.in[0], d.din[0], ROWS * LANES, 3);
    check_slopes(&d, d.in[1], d.din[1], ROWS * LANES, 0);
    check_slopes(&d, d.param, d.d_param, LANES, 0);
    free(scratch);
}

/* A gate that is shut has a gradient of a limited size: transformers limits 1 / (2 sqrt(1 - a^2)) to 1000. */
static void shut_gate_is_limited(void **state)
{
    static data        d;
    float              scratch[3 * ROWS + LM_STATE_COLUMNS];
    const bool         first[] = { true, true };
    lm_recurrence_rows rows    = { .spec = &spec, .first = first, .rows = ROWS, .dout = { d.dout, LANES } };

    (void)state;
    set_up(&d);
    memset(d.in[1], 0, sizeof d.in[1]);
    for (uint32_t k = 0; k < INPUTS; k++) {
        rows.in[k]  = (lm_operand){ d.in[k], LANES };
        rows.din[k] = (lm_operand){ d.din[k], LANES };
    }
    lm_gated_back_lane(&rows, d.param[0], NULL, 0, scratch);
    double rate = -8 * log1p(exp((double)d.param[0])), x = (double)d.in[0][(ROWS - 1) * LANES],
           g = (double)d.dout[(ROWS - 1) * LANES], h = (double)d.in[0][0];
    double want = rate * g * (h - 2000 * x);
    assert_true(fabs((double)d.din[1][(ROWS - 1) * LANES] - want) < 1e-4 * fabs(want));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_its_sum),
        cmocka_unit_test(reverse_is_slope),
        cmocka_unit_test(shut_gate_is_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
