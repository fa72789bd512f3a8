/* recurrence.c - linear_recurrence: its result against its definition, its reverse against differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "train/passes.h"

enum { ROWS = 11, MOST = 6 * 20 };

static const lm_recurrence forms[] = {
    { .n_heads = 4, .n_key_heads = 2, .k_dim = 3, .v_dim = 5, .delta = true },
    { .n_heads = 6, .n_key_heads = 3, .k_dim = 5, .v_dim = 18, .delta = true, .tiled = true },
    { .n_heads = 2, .n_key_heads = 2, .k_dim = 4, .v_dim = 20, .delta = true, .decay_by_channel = true },
    { .n_heads = 4, .n_key_heads = 1, .k_dim = 6, .v_dim = 4 },
    { .n_heads = 3, .n_key_heads = 3, .k_dim = 4, .v_dim = 2, .decay_by_channel = true },
};
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct data {
    float in[5][ROWS * MOST], out[ROWS * MOST], din[5][ROWS * MOST], dout[ROWS * MOST];
} data;

static uint64_t width(const lm_recurrence *r, uint32_t k)
{
    return k < 2    ? (uint64_t)r->n_key_heads * r->k_dim
           : k == 2 ? (uint64_t)r->n_heads * r->v_dim
           : k == 3 ? (uint64_t)r->n_heads * (r->decay_by_channel ? r->k_dim : 1)
                    : r->n_heads;
}

static void fill(float *x, uint64_t n, uint64_t seed, float low, float high)
{
    uint32_t draws[4];

    for (uint64_t i = 0; i < n; i++) {
        lm_rng_block(seed, 0, i, draws);
        x[i] = low + (high - low) * (float)(draws[0] % 1024) / 1024;
    }
}

static void set_up(const lm_recurrence *r, data *d)
{
    for (uint32_t k = 0; k < 5; k++)
        fill(d->in[k], ROWS * width(r, k), 5 + k, k < 3 ? -1 : 0.2f, 1);
    fill(d->dout, ROWS * width(r, 2), 50, -1, 1);
}

static void forward(const lm_recurrence *r, data *d)
{
    float              state[20 * LM_STATE_COLUMNS];
    lm_kernels         kernels;
    lm_operand         in[5];
    lm_recurrence_args a = { .state = state, .rows = ROWS };

    lm_kernels_init_ref(&kernels);
    for (uint32_t k = 0; k < 5; k++)
        in[k] = (lm_operand){ d->in[k], width(r, k) };
    for (uint64_t unit = 0; unit < (uint64_t)r->n_heads * lm_recurrence_blocks(r); unit++) {
        memset(state, 0, sizeof state);
        lm_recurrence_block(r, unit, in, (lm_operand){ d->out, width(r, 2) }, NULL, 0, &a);
        kernels.row.recur(&a);
    }
}

/* The sum of outputs times their gradients. */
static double loss(const lm_recurrence *r, data *d)
{
    double sum = 0;

    forward(r, d);
    for (uint64_t i = 0; i < ROWS * width(r, 2); i++)
        sum += (double)d->out[i] * (double)d->dout[i];
    return sum;
}

/* o_t = the sum over s <= t of (q_t . D_s..t k_s) u_s, where D decays by all factors after s. */
static void matches_its_sum(void **state)
{
    static data d;
    const lm_recurrence *r = &forms[3];      /* without the delta rule */

    (void)state;
    set_up(r, &d);
    forward(r, &d);
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t h = 0; h < r->n_heads; h++)
            for (uint32_t c = 0; c < r->v_dim; c++) {
                double sum = 0;
                for (uint32_t s = 0; s <= t; s++) {
                    double score = 0;
                    for (uint32_t i = 0; i < r->k_dim; i++)
                        score += (double)d.in[0][t * r->k_dim + i] * (double)d.in[1][s * r->k_dim + i];
                    for (uint32_t m = s + 1; m <= t; m++)
                        score *= (double)d.in[3][m * r->n_heads + h];
                    sum += score * (double)d.in[4][s * r->n_heads + h] *
                           (double)d.in[2][(s * r->n_heads + h) * r->v_dim + c];
                }
                double got = (double)d.out[(t * r->n_heads + h) * r->v_dim + c];
                assert_true(fabs(sum - got) < 1e-5 * (1 + fabs(sum)));
            }
}

static void reverse_is_slope(void **state)
{
    static data d;
    const float h = 1.0f / 256;

    (void)state;
    for (size_t f = 0; f < FORMS; f++) {
        const lm_recurrence *r       = &forms[f];
        const bool           first[] = { true, true, false, true, true };
        float               *scratch = calloc(1, lm_recurrence_scratch(r, ROWS));
        lm_recurrence_rows   rows    = { .spec = r, .first = first, .rows = ROWS };

        assert_non_null(scratch);
        set_up(r, &d);
        rows.dout = (lm_operand){ d.dout, width(r, 2) };
        memset(d.din, 0, sizeof d.din);
        for (uint32_t k = 0; k < 5; k++) {
            rows.in[k]  = (lm_operand){ d.in[k], width(r, k) };
            rows.din[k] = (lm_operand){ d.din[k], width(r, k) };
        }
        for (uint64_t i = 0; i < ROWS * width(r, 2); i++)
            d.din[2][i] = 3;                 /* not the first: added to */
        for (uint32_t key = 0; key < r->n_key_heads; key++)
            lm_recurrence_back(&rows, key, scratch);
        for (uint32_t k = 0; k < 5; k++)
            for (uint64_t i = 0; i < ROWS * width(r, k); i++) {
                float at   = d.in[k][i];
                d.in[k][i] = at + h;
                double up  = loss(r, &d);
                d.in[k][i] = at - h;
                double slope = (up - loss(r, &d)) / (2 * (double)h);
                double got   = (double)d.din[k][i] - (k == 2 ? 3 : 0);
                d.in[k][i] = at;
                if (fabs(slope - got) > 2e-2 * (1 + fabs(slope)))
                    fail_msg("form %zu, input %u, lane %llu: gradient %g, slope %g", f, k,
                             (unsigned long long)i, got, slope);
            }
        free(scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_its_sum),
        cmocka_unit_test(reverse_is_slope),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
