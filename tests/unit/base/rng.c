/* rng.c - the published vectors of Philox, and numbers that depend only on their seed, stream and
 * position. */
#include "unit.h"

#include <math.h>

#include "base/rng.h"

/* Random123's kat_vectors, philox4x32 10 rounds. The key is the seed, the counter (position, sequence). */
static void known_answers(void **state)
{
    static const struct { uint64_t seed, sequence, position; uint32_t out[4]; } known[] = {
        { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e), UINT64_C(0x85a308d3243f6a88),
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        lm_rng_block(known[i].seed, known[i].sequence, known[i].position, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void uniforms(void **state)
{
    double sum = 0, squares = 0;
    enum { N = 100000 };

    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        double u = lm_rng_uniform(7, 3, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        squares += u * u;
    }
    /* Mean 1/2, second moment 1/3; six standard deviations of the estimates. */
    assert_true(fabs(sum / N - 0.5) < 6 * sqrt(1.0 / 12 / N));
    assert_true(fabs(squares / N - 1.0 / 3) < 6 * sqrt(4.0 / 45 / N));

    uint32_t b[4];
    lm_rng_block(1, 2, 3, b);
    assert_true(lm_rng_uniform(1, 2, 3) == (double)b[0] * 0x1p-32 + (double)(b[1] >> 11) * 0x1p-53);
    assert_true(lm_rng_uniform(1, 2, 3) != lm_rng_uniform(2, 2, 3));
    assert_true(lm_rng_uniform(1, 2, 3) != lm_rng_uniform(1, 3, 3));
    assert_true(lm_rng_uniform(1, 2, 3) != lm_rng_uniform(1, 2, 4));
}

static void streams(void **state)
{
    lm_rng   a = lm_rng_stream(5, 1), b = lm_rng_stream(5, 1), c = lm_rng_stream(5, 2);
    uint32_t block[4];
    unsigned same = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t x = lm_rng_u32(&a);
        if (i % 4 == 0)
            lm_rng_block(5, 1, i / 4, block);
        assert_int_equal(x, block[i % 4]);
        assert_int_equal(x, lm_rng_u32(&b));
        same += x == lm_rng_u32(&c);
    }
    assert_true(same < 3);
    for (int i = 0; i < 1000; i++) {
        float f = lm_rng_float(&a);
        assert_true(f >= 0 && f < 1);
    }
}

/* Irwin-Hall numbers are bell-shaped and bounded; an element is the same in whatever piece it is generated;
 * streams and seeds are uncorrelated. */
static void bells(void **state)
{
    enum { N = 200000 };
    static float x[N], y[N];
    double       sum = 0, squares = 0, together = 0;

    (void)state;
    lm_rng_irwin_hall(x, N, 5, 6, 0, 1);
    lm_rng_irwin_hall(y, N, 5, 7, 0, 1);
    for (int i = 0; i < N; i++) {
        assert_true(fabsf(x[i]) < 3.5f);
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        together += (double)x[i] * (double)y[i];
    }
    assert_true(fabs(sum / N) < 6 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 6 * sqrt(2.0 / N));
    assert_true(fabs(together / N) < 6 / sqrt(N));
    lm_rng_irwin_hall(y, N - 1001, 5, 6, 1001, 1);
    assert_memory_equal(y, x + 1001, (N - 1001) * sizeof *x);
    lm_rng_irwin_hall(y, 100, 5, 6, 7, 13);
    for (int i = 0; i < 100; i++)
        assert_true(y[i] == x[7 + 13 * i]);
    lm_rng_irwin_hall(y, 1, 6, 6, 0, 1);
    assert_true(y[0] != x[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(uniforms),
        cmocka_unit_test(streams),
        cmocka_unit_test(bells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
