/* limits.c - the best known speed of a machine never decreases, and nothing is measured or written unless
 * requested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lamina/study/fit.h"
#include "lamina/machine.h"
#include "lamina/preset.h"
#include "runtime/measure/limits.h"

static lm_limits limits(double int8, double memory, double busy, int64_t at)
{
    return (lm_limits){ .level = "ref",
                        .threads = 2,
                        .int8 = { int8 / 2, int8, int8, "x" },
                        .f32 = { 1e12, 2e12, 2e12, "y" },
                        .memory = { memory / 2, memory, memory, "z" },
                        .busy = busy,
                        .measured_at = at,
                        .seconds = 1 };
}

static void the_first_is_taken(void **state)
{
    lm_limits best = { .level = "ref" }, now = limits(470e9, 20e9, 0.4, 7);

    (void)state;
    lm_limits_commit(&best, &now);
    assert_true(now.int8.all == 470e9 && now.below == 0 && now.busy == 0.4);
    assert_true(best.int8.all == 470e9 && best.memory.all == 20e9 && best.busy == 0.4 &&
                best.measured_at == 7);
    assert_string_equal(best.int8.by, "x");
    assert_string_equal(lm_limits_mark(&now), "busy");
}

/* A measurement of half the best known speed is not the machine's limit. */
static void lower_measurements_are_not_the_limit(void **state)
{
    lm_limits best = limits(927e9, 20e9, 0.01, 7), now = limits(470e9, 19.5e9, 0.02, 9);

    (void)state;
    assert_true(lm_limits_below(&best, &now) > 0.49 && lm_limits_below(&best, &now) < 0.5);
    lm_limits_commit(&best, &now);
    assert_true(now.below > 0.49 && now.int8.all == 927e9 && now.int8.one == 463.5e9);
    /* within a tenth: the current value is used */
    assert_true(now.memory.all == 19.5e9);
    assert_true(best.int8.all == 927e9 && best.memory.all == 20e9 && best.busy == 0.01 &&
                best.measured_at == 7);
    assert_string_equal(lm_limits_mark(&now), "below the best known");
}

static void the_better_measurement_is_stored(void **state)
{
    lm_limits best = limits(470e9, 20e9, 0.4, 7), now = limits(927e9, 19e9, 0.03, 9);

    (void)state;
    lm_limits_commit(&best, &now);
    assert_true(now.below == 0 && now.int8.all == 927e9 && now.memory.all == 19e9);
    assert_true(best.int8.all == 927e9 && best.memory.all == 20e9 && best.busy == 0.03 &&
                best.measured_at == 9);
    assert_string_equal(lm_limits_mark(&now), "");
}

static char folder[64];

static void written_and_read(void **state)
{
    char      path[128];
    lm_limits x = limits(927e9, 20e9, 0.01, 7), y = { .level = "ref", .threads = 2 };

    (void)state;
    snprintf(path, sizeof path, "%s/new/limits.json", folder);
    assert_false(lm_limits_read(path, &y));
    assert_true(lm_limits_write(path, &x));
    assert_true(lm_limits_read(path, &y));
    assert_true(y.int8.all == 927e9 && y.int8.one == x.int8.one && y.memory.best == 20e9 && y.busy == 0.01 &&
                y.measured_at == 7 && y.kept);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"int8\": 3}", f);
    fclose(f);
    assert_false(lm_limits_read(path, &y));
    assert_true(y.int8.all == 927e9);                                /* a broken file changes nothing */
}

/* Check that a fit uses the limits that it is given, and no others. */
static void fit_looks_at(const lm_limits *known)
{
#ifdef LM_WITHOUT_STUDY
    (void)known;
#else
    lm_model     *m = NULL;
    lm_error      e = { 0 };
    static lm_fit fit;

    assert_int_equal(lm_model_open(LM_PRESET_PREFIX "llama-3.2-1b",
                                   &(lm_model_options){ .weights_optional = true }, &m, &e),
                     LM_OK);
    lm_fit_options o = { .engine = { .context = 1024, .threads = 2, .cpu = "ref" },
                         .sizes_only = true,
                         .precision = "f16" };
    assert_int_equal(lm_fit_model(m, &o, &fit, &e), LM_OK);
    assert_true(fit.rows[0].token.rate == 0 && fit.rows[0].prompt.rate == 0 && fit.rows[0].total > 0);
    o.limits = known;
    assert_int_equal(lm_fit_model(m, &o, &fit, &e), LM_OK);
    assert_true(fit.rows[0].token.rate > 0 && fit.rows[0].prompt.rate > 0);
    assert_string_equal(fit.rows[0].token.limited_by, "memory");
    lm_model_close(m);
#endif
}

/* Neither a fit nor a query of the stored limits creates a folder or measures anything. */
static void nothing_is_written_without_a_request(void **state)
{
    const lm_limits known = limits(927e9, 20e9, 0.01, 7);
    struct stat     st;
    char            cache[128];
    lm_limits       found;
    lm_error        e = { 0 };

    (void)state;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    assert_int_equal(setenv("LAMINA_CACHE", cache, 1), 0);
    assert_int_equal(lm_machine_measure(&(lm_measure_options){ .kept_only = true }, &found, &e),
                     LM_NOT_FOUND);
    fit_looks_at(&known);
    assert_int_not_equal(stat(cache, &st), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_taken),
        cmocka_unit_test(lower_measurements_are_not_the_limit),
        cmocka_unit_test(the_better_measurement_is_stored),
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(nothing_is_written_without_a_request),
    };
    char command[128];

    snprintf(folder, sizeof folder, "%s/lamina-limits-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
