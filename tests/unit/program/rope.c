/* rope.c - rotary frequencies against published values (YaRN of DeepSeek-V2 and Qwen2.5, the divisors of
 * Llama 3). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/rope.h"

static void near(double x, double y, double tolerance)
{
    if (fabs(x - y) > tolerance * fabs(y))
        fail_msg("%.9g is not %.9g", x, y);
}

/* Check the divisor of each frequency, which GGUF stores in rope_freqs.weight. */
static void divisors(uint32_t dim, double factor, const double *middle, uint32_t first, uint32_t n)
{
    lm_rope_spec plain  = { .dim = dim, .base = 500000, .factor = 1 };
    lm_rope_spec scaled = { .dim = dim,
                            .base = 500000,
                            .type = LM_ROPE_LLAMA3,
                            .factor = factor,
                            .original_context = 8192,
                            .low_freq_factor = 1,
                            .high_freq_factor = 4 };
    float        a[64], b[64];

    lm_rope_frequencies(&plain, 1, NULL, NULL, a);
    near(lm_rope_frequencies(&scaled, 1, NULL, NULL, b), 1, 0);
    for (uint32_t i = 0; i < dim / 2; i++)
        near((double)a[i] / (double)b[i], i < first ? 1 : i < first + n ? middle[i - first] : factor, 2e-6);
}

static void llama3_divides_low_frequencies(void **state)
{
    static const double of_8b[] = { 1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327 };
    static const double of_1b[] = { 1.651329, 3.292263, 9.666730 };
    static const double of_3b[] = { 1.234937, 1.651329, 2.276659, 3.292263, 5.171597, 9.666730 };

    (void)state;
    divisors(128, 8, of_8b, 29, 6);
    divisors(64, 32, of_1b, 15, 3);
    divisors(128, 32, of_3b, 29, 6);
}

static void yarn_of_deepseek_v2(void **state)
{
    lm_rope_spec s = { .dim = 64,
                       .base = 10000,
                       .type = LM_ROPE_YARN,
                       .factor = 40,
                       .original_context = 4096,
                       .beta_fast = 32,
                       .beta_slow = 1,
                       .truncate = true,
                       .mscale = 0.707,
                       .mscale_all_dim = 0.707 };
    static const struct { uint32_t lane; double value; } known[] = {
        { 0, 1 }, { 10, 0.056234133 }, { 11, 0.039006927 }, { 16, 0.0055 }, { 23, 3.3338036e-5 }, { 31, 3.3338036e-6 },
    };
    float inv[32];

    (void)state;
    near(lm_rope_frequencies(&s, 1, NULL, NULL, inv), 1, 0);
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        near(inv[known[i].lane], known[i].value, 1e-6);
}

static void yarn_of_qwen_scales_cosines(void **state)
{
    lm_rope_spec s = { .dim = 128,
                       .base = 1e6,
                       .type = LM_ROPE_YARN,
                       .factor = 4,
                       .original_context = 32768,
                       .beta_fast = 32,
                       .beta_slow = 1,
                       .truncate = true };
    float        inv[64];

    (void)state;
    near(lm_rope_frequencies(&s, 1, NULL, NULL, inv), 1.13862944, 1e-7);
    near(inv[23], pow(1e6, -46.0 / 128), 1e-6);              /* unchanged up to lane 23, divided from lane 40
                                                                on */
    near(inv[40], pow(1e6, -80.0 / 128) / 4, 1e-6);
}

static void stored_divisors_divide(void **state)
{
    lm_rope_spec s    = { .dim = 4, .base = 10000, .factor = 1 };
    float        d[2] = { 1, 8 }, inv[2];

    (void)state;
    lm_rope_frequencies(&s, 1, d, NULL, inv);
    near(inv[0], 1, 0);
    near(inv[1], 0.01 / 8, 1e-6);
}

/* Beyond the trained length dynamic NTK changes the base, and longrope uses its other list of factors. */
static void some_depend_on_the_length(void **state)
{
    float        lists[2][2] = { { 1, 2 }, { 3, 4 } }, inv[2];
    lm_rope_spec d = { .dim = 4, .base = 10000, .type = LM_ROPE_DYNAMIC, .factor = 2, .max_context = 100 };
    lm_rope_spec l = { .dim = 4,
                       .base = 10000,
                       .type = LM_ROPE_LONGROPE,
                       .factor = 4,
                       .original_context = 50,
                       .max_context = 200,
                       .short_factors = lists[0],
                       .long_factors = lists[1] };

    (void)state;
    assert_true(lm_rope_depends_on_length(&d) && lm_rope_depends_on_length(&l));
    lm_rope_frequencies(&d, 100, NULL, NULL, inv);
    near(inv[1], 0.01, 1e-6);
    lm_rope_frequencies(&d, 150, NULL, NULL, inv);
    near(inv[1], 1 / sqrt(10000 * pow(2 * 1.5 - 1, 2)), 1e-6);
    near(lm_rope_frequencies(&l, 50, NULL, NULL, inv), sqrt(1 + log(4) / log(50)), 1e-6);
    near(inv[1], 0.01 / 2, 1e-6);
    lm_rope_frequencies(&l, 51, NULL, NULL, inv);
    near(inv[0], 1.0 / 3, 1e-6);
    near(inv[1], 0.01 / 4, 1e-6);
}

/* As in transformers, floor(share * dim / 2) pairs rotate, with the frequencies of all pairs divided by the
 * factor. */
static void proportional_turns_the_first_pairs(void **state)
{
    lm_rope_spec s = { .dim = 12, .base = 10000, .type = LM_ROPE_PROPORTIONAL, .factor = 4, .share = 0.4 };
    float        inv[6];

    (void)state;
    assert_int_equal(lm_rope_pairs(&s), 2);
    near(lm_rope_frequencies(&s, 1, NULL, NULL, inv), 1, 0);
    near(inv[0], 0.25, 1e-7);
    near(inv[1], pow(10000, -1.0 / 6) / 4, 1e-6);
    for (int i = 2; i < 6; i++)
        assert_true(inv[i] == 0);
    s.share = 1;
    assert_int_equal(lm_rope_pairs(&s), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama3_divides_low_frequencies), cmocka_unit_test(yarn_of_deepseek_v2),
        cmocka_unit_test(yarn_of_qwen_scales_cosines),    cmocka_unit_test(stored_divisors_divide),
        cmocka_unit_test(some_depend_on_the_length), cmocka_unit_test(proportional_turns_the_first_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
