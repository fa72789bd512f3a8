/* goldens.c - every golden model compared with its reference, on every instruction set that has its own
 * kernels. Float32 arithmetic must agree to 1e-4, and bitwise however the prompt is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/cpu.h"
#include "kernels/kernels.h"
#include "lamina/lamina.h"
#include "models.h"

#define MAX       1024
#define MAX_FILES 8

/* Whether the processor has a level whose float32 kernels differ from those of the previous level. Sanitizers
 * do not check kernels, so for them one level covers all other code. */
static bool is_here(const char *level)
{
    static lm_kernels last;
    static char       last_level[16];
    lm_kernels        k;
    lm_cpu            mask = 0;

    if (lm_cpu_level(level, &mask, NULL) != LM_OK)
        return false;                    /* of another architecture */
    if (strcmp(level, lm_cpu_name(mask & lm_cpu_detected())) != 0)
        return false;
    lm_kernels_init(&k, mask & lm_cpu_detected());
    bool same = last_level[0] && strcmp(level, "ref") != 0 &&
                memcmp(k.exact, last.exact, sizeof k.exact) == 0 &&
                memcmp(&k.row, &last.row, sizeof k.row) == 0 &&
                memcmp(&k.attention, &last.attention, sizeof k.attention) == 0;
#ifdef __SANITIZE_ADDRESS__
    same |= strcmp(level, "avx2") != 0 && strcmp(level, "neon") != 0;
#endif
    last = k;
    snprintf(last_level, sizeof last_level, "%s", level);
    return !same;
}

/* Verify one golden on one level; it must agree in everything. */
static void verify(const char *name, const lm_model *m, const char *file, const char *level, lm_verdict *v)
{
    lm_verify_options o = { .engine = {
                                .compute = LM_COMPUTE_F32, .kv = LM_KV_F32, .threads = 2, .cpu = level } };
    lm_error          e = { 0 };
    char              text[600];

    if (lm_verify(m, file, &o, v, &e) != LM_OK)
        fail_msg("%s: %s", name, lm_error_text(&e, text, sizeof text));
    if (!v->agrees || v->max_rel_err > 1e-4 || (v->bitwise_known && !(v->chunked && v->stepwise)) ||
        (v->has_greedy && !v->greedy_agrees))
        fail_msg("%s, %s: error %.3g at row %llu, chunked %d, stepwise %d, greedy %llu of %llu, first "
                 "divergence %s",
                 name, level, v->max_rel_err, (unsigned long long)v->worst_row, v->chunked, v->stepwise,
                 (unsigned long long)v->greedy_common, (unsigned long long)v->greedy_total,
                 v->diverges ? v->first_path : "none");
}

static const char *mark(bool known, bool good)
{
    return !known ? "by definition not" : good ? "yes" : "NO";
}

static void report(const char *name, const char *path, char (*files)[512], size_t n_files, size_t first,
                   size_t *count)
{
    lm_model *m = NULL;
    lm_error  e = { 0 };
    char      text[600];

    if (lm_model_open(path, NULL, &m, &e) != LM_OK)
        fail_msg("%s: %s", name, lm_error_text(&e, text, sizeof text));
    for (size_t f = 0; f < n_files; f++)
        for (size_t l = first; lm_cpu_level_name(l); l++) {
            lm_verdict  v;
            const char *level = lm_cpu_level_name(l);
            if (!is_here(level))
                continue;
            verify(name, m, files[f], level, &v);
            printf("  %-36s %-11s %5llu rows  %9.2e  bitwise %-17s greedy %2llu/%-2llu  taps %llu\n", name,
                   level, (unsigned long long)v.rows, v.max_rel_err,
                   mark(v.bitwise_known, v.chunked && v.stepwise), (unsigned long long)v.greedy_common,
                   (unsigned long long)v.greedy_total, (unsigned long long)v.taps);
            ++*count;
        }
    lm_model_close(m);
}

static void goldens_agree(void **state)
{
    static golden_model models[MAX];
    static char         files[MAX_FILES][512];
    size_t              n = golden_models(models, MAX), count = 0, goldens = 0;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        size_t n_files = golden_files(&models[i], files, MAX_FILES);
        assert_true(n_files > 0);
        report(models[i].name, models[i].path, files, n_files, 0, &count);
        goldens += n_files;
    }
    printf("golden cases: %zu models and containers, %zu goldens, %zu verdicts, all agree\n", n, goldens,
           count);
}

/* The real model of the demo agrees, if it has been fetched, at every level but plain C, where it takes as
 * long as at all others. Skipped under an emulator, where 135 million parameters take more than a quarter of
 * an hour. */
static void the_demo_model_agrees(void **state)
{
    const char *assets = getenv("LAMINA_ASSETS"), *root = getenv("LAMINA_TESTS");
    char        model[600], golden[1][512];
    size_t      count = 0;

    (void)state;
    snprintf(model, sizeof model, "%s/smollm2-135m-instruct-q4_1.gguf", assets ? assets : "build/assets");
    snprintf(golden[0], sizeof golden[0], "%.400s/golden/smollm2/golden.safetensors", root ? root : "tests");
    if (getenv("MESON_EXE_WRAPPER") || (access(model, R_OK) != 0 && getenv("LAMINA_ALLOW_MISSING_ASSETS")))
        skip();
    report("smollm2-135m q4_1 gguf", model, golden, 1, 1, &count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_agree),
        cmocka_unit_test(the_demo_model_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
