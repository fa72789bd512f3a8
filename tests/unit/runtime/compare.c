/* The distances that verify uses, compared with values computed by hand, and differences that they must not
 * miss. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "runtime/measure/compare.h"

static void relative_error(void **state)
{
    const float ref[4] = { 1, -4, 2, 0 }, ours[4] = { 1, -3.9f, 2.2f, 0 };
    const float nan[4] = { 1, -4, NAN, 0 }, inf[4] = { 1, -4, INFINITY, 0 }, zero[4] = { 0 },
                tiny[4] = { 0, 1e-30f, 0, 0 };
    const float masked[4] = { 1, -4, 2, -INFINITY };

    (void)state;
    assert_true(fabs(lm_relative_error(ours, ref, 4) - 0.2 / 4) < 1e-7);
    assert_true(lm_relative_error(ref, ref, 4) == 0);
    assert_true(lm_relative_error(nan, ref, 4) == INFINITY);
    assert_true(lm_relative_error(nan, nan, 4) == INFINITY);
    assert_true(lm_relative_error(inf, ref, 4) == INFINITY);
    assert_true(lm_relative_error(zero, zero, 4) == 0);
    assert_true(lm_relative_error(tiny, zero, 4) == INFINITY);
    assert_true(lm_relative_error(masked, masked, 4) == 0);
    assert_true(lm_relative_error(ref, masked, 4) == INFINITY);
}

static void divergence(void **state)
{
    /* 1/4 1/2 1/4 against thirds */
    const float ref[3] = { 0, logf(2), 0 }, ours[3] = { 5, 5, 5 };
    const float masked[3] = { 0, logf(2), -INFINITY };
    double expected = 0.5 * log(0.25 * 3) + 0.5 * log(0.5 * 3);

    (void)state;
    assert_true(fabs(lm_kl(ours, ref, 3) - expected) < 1e-6);
    assert_true(lm_kl(ref, ref, 3) < 1e-12);
    assert_true(lm_kl(masked, ref, 3) == INFINITY);
    assert_true(fabs(lm_kl(ours, masked, 3) - (log(3.0) + log(1.0 / 3) / 3 + log(2.0 / 3) * 2 / 3)) < 1e-6);
    assert_true(isnan(lm_kl((float[3]){ 0, NAN, 0 }, ref, 3)));
    assert_true(isnan(lm_kl(ref, (float[3]){ NAN, 0, 0 }, 3)));
}

static void largest(void **state)
{
    (void)state;
    assert_int_equal(lm_argmax((float[4]){ 1, 3, 3, 2 }, 4), 1);
    assert_true(lm_magnitude((float[3]){ 1, -3, -INFINITY }, 3) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relative_error),
        cmocka_unit_test(divergence),
        cmocka_unit_test(largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
