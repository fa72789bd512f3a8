/* The number of prompt rows in a step, on a simulated machine that takes a known time per row, and the
 * resulting gap between tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/budget.h"

static double step_seconds(uint32_t written, uint32_t prompt)
{
    return 0.005 + 0.0002 * written + 0.0004 * prompt;
}

static void gaps_come_near_the_target(void **state)
{
    static const double targets[] = { 0, 0.02, 0.05 };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        lm_budget b      = { .target = targets[i], .max = 512 };
        double    target = targets[i] > 0 ? targets[i] : 2 * step_seconds(8, 0);
        assert_int_equal(lm_budget_rows(&b, 0), 512);    /* no sequence is generating */
        assert_int_equal(lm_budget_rows(&b, 8), 0);      /* measures a step without prompts */
        lm_budget_ran(&b, 8, 0, step_seconds(8, 0));
        for (int step = 0; step < 100; step++) {
            uint32_t rows = lm_budget_rows(&b, 8);
            lm_budget_ran(&b, 8, rows, step_seconds(8, rows));
        }
        double gap = step_seconds(8, lm_budget_rows(&b, 8));
        if (gap > 1.1 * target || gap < 0.85 * target)
            fail_msg("target %f, gap %f", target, gap);
    }
}

/* Prompts make progress even if the target cannot be met; the rows of a step are limited. */
static void some_rows_are_always_read(void **state)
{
    lm_budget b = { .target = 1e-9, .max = 512 };

    (void)state;
    lm_budget_ran(&b, 8, 0, 0.01);
    lm_budget_ran(&b, 8, 100, 0.1);
    assert_int_equal(lm_budget_rows(&b, 8), LM_BUDGET_LEAST);
    assert_int_equal(lm_budget_rows(&b, 505), 7);
    assert_int_equal(lm_budget_rows(&b, 512), 0);
    b.target = 1000;
    assert_int_equal(lm_budget_rows(&b, 8), 504);
}

/* A few steps that were delayed from outside change little. */
static void one_slow_step_does_not_decide(void **state)
{
    lm_budget b = { .max = 512 };

    (void)state;
    lm_budget_ran(&b, 8, 0, 0.01);
    lm_budget_ran(&b, 8, 100, 0.05);
    uint32_t before = lm_budget_rows(&b, 8);
    lm_budget_ran(&b, 8, 0, 3);
    lm_budget_ran(&b, 8, 10, 3);
    assert_true(lm_budget_rows(&b, 8) > before / 2 && lm_budget_rows(&b, 8) < 2 * before);
}

/* The first step may have read the weights from disk: what is learned from it does not last. */
static void a_slow_first_step_is_soon_forgotten(void **state)
{
    lm_budget b = { .target = 0.05, .max = 512 };

    (void)state;
    lm_budget_ran(&b, 0, 100, 20);
    lm_budget_ran(&b, 8, 0, 5);
    for (int step = 0; step < 2; step++) {
        lm_budget_ran(&b, 8, 0, step_seconds(8, 0));
        lm_budget_ran(&b, 8, 100, step_seconds(8, 100));
    }
    double gap = step_seconds(8, lm_budget_rows(&b, 8));
    assert_true(gap > 0.8 * b.target && gap < 1.1 * b.target);
}

/* A size that no step without prompts had yet is estimated from a smaller one. */
static void more_sequences_take_more_time(void **state)
{
    lm_budget b = { .max = 512 };

    (void)state;
    lm_budget_ran(&b, 0, 100, step_seconds(0, 100));
    lm_budget_ran(&b, 1, 0, step_seconds(1, 0));
    double one = lm_budget_target(&b, 1), many = lm_budget_target(&b, 32);
    assert_true(many > one && many < 2 * step_seconds(0, 32) + one);
    lm_budget_ran(&b, 32, 0, step_seconds(32, 0));
    assert_true(lm_budget_target(&b, 32) == 2 * step_seconds(32, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_come_near_the_target),
        cmocka_unit_test(some_rows_are_always_read),
        cmocka_unit_test(one_slow_step_does_not_decide),
        cmocka_unit_test(a_slow_first_step_is_soon_forgotten),
        cmocka_unit_test(more_sequences_take_more_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
