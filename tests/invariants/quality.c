/* quality.c - the error of the fast arithmetic on a real model: divergence from float32 and perplexity,
 * compared with llama.cpp's on the same data (tests/golden/smollm2, made by tools/oracle/smollm2.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "fidelity.h"

static char     folder[512];
static fidelity found;

static void divergence_is_below_that_of_llama_cpp(void **state)
{
    double bar = fidelity_peer(folder, "mean_kl_top");

    (void)state;
    printf("  %s: mean KL to float32 %.2e (llama.cpp %.2e), largest %.2e, %llu positions\n", found.level,
           found.mean_kl, bar, found.max_kl, (unsigned long long)found.positions);
    assert_true(bar > 0);
    assert_true(found.positions >= 500);
    assert_true(found.mean_kl <= bar);
}

static void perplexity_is_within_a_fifth_of_a_percent(void **state)
{
    double ratio = found.perplexity / found.reference;

    (void)state;
    printf("  %s: perplexity %.4f, float32 %.4f: %+.3f %% (llama.cpp %+.3f %%), %llu tokens\n", found.level,
           found.perplexity, found.reference, 100 * (ratio - 1),
           100 * (fidelity_peer(folder, "perplexity_ratio") - 1), (unsigned long long)found.tokens);
    assert_true(found.tokens >= 6000);
    assert_true(fabs(ratio - 1) <= 0.002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergence_is_below_that_of_llama_cpp),
        cmocka_unit_test(perplexity_is_within_a_fifth_of_a_percent),
    };
    const char       *assets = getenv("LAMINA_ASSETS"), *root = getenv("LAMINA_TESTS");
    lm_engine_options o     = { 0 };
    lm_model         *model = NULL;
    char              path[600];
    lm_error          e = { 0 };

    snprintf(path, sizeof path, "%s/smollm2-135m-instruct-q4_1.gguf", assets ? assets : "build/assets");
    snprintf(folder, sizeof folder, "%s/golden/smollm2", root ? root : "tests");
    if (access(path, R_OK) != 0 && getenv("LAMINA_ALLOW_MISSING_ASSETS"))
        return 77;
    if (lm_model_open(path, NULL, &model, &e) != LM_OK ||
        fidelity_of(model, folder, &o, &found, &e) != LM_OK) {
        fprintf(stderr, "%s: %s\n", e.where[0] ? e.where : path, e.message);
        lm_model_close(model);
        return 1;
    }
    lm_model_close(model);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
