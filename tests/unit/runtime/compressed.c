/* compressed.c - the entries of compressed attention against their definition, however their rows and lanes
 * are divided; and the numbers of keys and entries that tokens see. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "runtime/ops/compressed.h"

enum { ROWS = 23, LANES = 6, RATE = 5 };

typedef struct data {
    float kv[ROWS][2 * LANES], gate[ROWS][2 * LANES], bias[RATE][2 * LANES], out[ROWS][LANES];
} data;

static void fill(float *x, uint64_t n, uint64_t seed, float size)
{
    uint32_t draws[4];

    for (uint64_t i = 0; i < n; i++) {
        lm_rng_block(seed, 0, i, draws);
        x[i] = size * ((float)(draws[0] % 1024) / 512 - 1);
    }
}

/* Add the rows with lanes in two parts, the second after all rows of the first. The state is copied at row
 * `again`, as if a step of the engine began there. */
static void run(data *d, const lm_node *n, uint32_t again)
{
    float states[2][6 * LANES];

    for (uint32_t part = 0; part < 2; part++) {
        uint64_t first = part ? LANES / 3 : 0, last = part ? LANES : LANES / 3;
        float   *state = states[0];
        memset(states, 0x7f, sizeof states);
        for (uint32_t t = 0; t < ROWS; t++) {
            if (t == again) {
                lm_compress_carry(n, state, states[1], LANES, first, last);
                state = states[1];
            }
            lm_compress_row(n, t, d->kv[t], d->gate[t], &d->bias[0][0], state, d->out[t], LANES, first, last);
        }
    }
}

static double expected(const data *d, uint32_t t, uint32_t lane, bool overlap)
{
    uint32_t own = t - t % RATE, first = overlap && own ? own - RATE : own;
    double   sum = 0, mean = 0;

    for (uint32_t j = first; j <= t; j++) {
        uint32_t at = !overlap || j < own ? lane : LANES + lane;
        double   bias = (double)(overlap ? d->bias[j % RATE][at] : (&d->bias[0][0])[j % RATE * LANES + at]),
               p = exp((double)d->gate[j][at] + bias);
        sum += p;
        mean += p * (double)d->kv[j][at];
    }
    return mean / sum;
}

static void check(bool overlap)
{
    static data d, split;
    lm_node     n = { .compress = { .rate = RATE, .overlap = overlap } };

    fill(&d.kv[0][0], ROWS * 2 * LANES, 1, 3);
    fill(&d.gate[0][0], ROWS * 2 * LANES, 2, 6);
    fill(&d.bias[0][0], RATE * 2 * LANES, 3, 2);
    run(&d, &n, ROWS);
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            double want = expected(&d, t, lane, overlap);
            assert_true(fabs(want - (double)d.out[t][lane]) < 1e-6 * (1 + fabs(want)));
        }
    for (uint32_t again = 0; again < ROWS; again++) {
        split = d;
        memset(split.out, 0, sizeof split.out);
        run(&split, &n, again);
        assert_memory_equal(split.out, d.out, sizeof d.out);
    }
}

static void means_of_blocks(void **state)
{
    (void)state;
    check(false);
}

static void means_with_the_block_before(void **state)
{
    (void)state;
    check(true);
}

static void keys_are_counted(void **state)
{
    lm_node n = { .code = LM_OP_ATTENTION, .attention.spec = { .window = 3 } };

    (void)state;
    for (n.attention.spec.rate = 1; n.attention.spec.rate < 7; n.attention.spec.rate++)
        for (n.attention.spec.top_k = 0; n.attention.spec.top_k < 4; n.attention.spec.top_k++) {
            uint64_t seen = 0, scored = 0;
            for (uint64_t t = 1; t < 40; t++) {
                uint64_t whole = t / n.attention.spec.rate, top = n.attention.spec.top_k;
                uint64_t keys  = (t < 3 ? t : 3) + (top && top < whole ? top : whole);
                n.code         = LM_OP_ATTENTION;
                assert_int_equal(lm_node_keys_at(&n, t), keys);
                assert_int_equal(lm_node_keys_seen(&n, t), seen += keys);
                n.code = LM_OP_SELECT_KEYS;
                assert_int_equal(lm_node_keys_at(&n, t), whole);
                assert_int_equal(lm_node_keys_seen(&n, t), scored += whole);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_of_blocks),
        cmocka_unit_test(means_with_the_block_before),
        cmocka_unit_test(keys_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
