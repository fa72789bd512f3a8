/* stored.c - a model that runs from its file gives bit for bit the logits of the repacked one on every
 * instruction set, and allocates no memory for weights that it maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/lamina.h"
#include "models.h"

enum { MAX = 1024, TOKENS = 21 };

static lm_engine *start(const lm_model *m, const char *level, bool no_repack, lm_compute compute)
{
    lm_engine_options o = {
        .context = 24, .max_rows = 16, .threads = 2, .cpu = level, .no_repack = no_repack, .compute = compute
    };
    lm_memory         planned, taken;
    lm_engine        *g = NULL;
    lm_error          e = { 0 };

    if (lm_engine_predict(m, &o, &planned, &e) != LM_OK || lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    lm_engine_allocated(g, &taken);
    assert_memory_equal(&planned, &taken, sizeof taken);
    return g;
}

/* Run 16 rows at once, then 5 one by one, and store the logits of each step's last row. */
static void feed(lm_engine *g, uint32_t n_vocab, float *out)
{
    lm_error e = { 0 };
    lm_row   rows[16];

    for (uint32_t at = 0; at < TOKENS;) {
        uint32_t n = at == 0 ? 16 : 1;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = (lm_row){ 0, (lm_token)((at + i) * 2654435761u % n_vocab), at + i, i + 1 == n };
        if (lm_engine_step(g, rows, n, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        memcpy(out, lm_engine_logits(g, n - 1), n_vocab * sizeof *out);
        out += n_vocab;
        at += n;
    }
}

static size_t compared, smaller;

static void compare(const lm_model *m, const char *name, const char *level, lm_compute compute)
{
    lm_engine    *packed = start(m, level, false, compute), *stored = start(m, level, true, compute);
    lm_memory     a, b;
    lm_model_info info;

    lm_model_describe(m, &info);
    size_t bytes = (size_t)info.n_vocab * (TOKENS - 15) * sizeof(float);
    float *x = calloc(1, bytes), *y = calloc(1, bytes);
    feed(packed, info.n_vocab, x);
    feed(stored, info.n_vocab, y);
    if (memcmp(x, y, bytes) != 0)
        fail_msg("%s at %s: other logits", name, level);
    lm_engine_allocated(packed, &a);
    lm_engine_allocated(stored, &b);
    assert_true(b.weights <= a.weights && b.mapped >= a.mapped);
    smaller += b.weights < a.weights;
    compared++;
    free(x);
    free(y);
    lm_engine_free(packed);
    lm_engine_free(stored);
}

static void the_same_logits(void **state)
{
    static golden_model models[MAX];
    size_t              n = golden_models(models, MAX);
    lm_machine          machine;
    lm_error            e = { 0 };

    (void)state;
    assert_int_equal(lm_machine_describe(&machine, &e), LM_OK);
    for (size_t i = 0; i < n; i += EVERY) {
        lm_model *m = NULL;
        if (lm_model_open(models[i].path, NULL, &m, &e) != LM_OK)
            fail_msg("%s: %s: %s", models[i].name, e.where, e.message);
        for (size_t k = 0; machine.levels[k]; k++)
            compare(m, models[i].name, machine.levels[k], LM_COMPUTE_AUTO);
        compare(m, models[i].name, machine.levels[0], LM_COMPUTE_F32);
        lm_model_close(m);
    }
    printf("  %zu pairs of engines the same, %zu of them with less memory\n", compared, smaller);
    assert_true(smaller > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_logits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
