/* Two tiny models on one text: each value equals the one computed from transformers' logits of both
 * (tools/oracle/diverge.py), whatever the number of rows in a step; invalid arguments are rejected. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "lamina/lamina.h"

enum { MAX = 64 };

static json_t    *golden;
static lm_model  *models[2], *other;
static lm_engine *engines[2];
static lm_token   ids[MAX];
static size_t     n;

static lm_model *open_model(const char *name)
{
    char path[512];
    lm_model *m = NULL;
    lm_error e;

    snprintf(path, sizeof path, "%s/golden/%s", getenv("LAMINA_TESTS"), name);
    if (lm_model_open(path, NULL, &m, &e) != LM_OK)
        fail_msg("%s: %s", path, e.message);
    return m;
}

static lm_engine *engine(const lm_model *m, uint32_t logit_rows)
{
    lm_engine_options o = {
        .context = 64, .max_rows = 32, .max_logits = logit_rows, .kv = LM_KV_F32, .compute = LM_COMPUTE_F32
    };
    lm_engine *g = NULL;
    lm_error e;

    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s", e.message);
    return g;
}

static double expected(const char *key)
{
    return json_number_value(json_object_get(golden, key));
}

static double expected_at(const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(golden, key), i));
}

static void same(const char *what, double ours, double theirs)
{
    if (!(fabs(ours - theirs) <= 1e-4 * fmax(0.1, fabs(theirs))))
        fail_msg("%s: %.9g, the reference has %.9g", what, ours, theirs);
}

static bool compare(void *arg, const lm_token_divergence *t)
{
    size_t *seen = arg, i = (*seen)++;

    assert_int_equal(t->position, i + 1);
    assert_int_equal(t->id, ids[i + 1]);
    same("KL", t->kl, expected_at("kl", i));
    same("log-probability", t->logprob, expected_at("logprobs", i));
    same("reference", t->reference_logprob, expected_at("reference_logprobs", i));
    assert_int_equal(t->same_top, json_is_true(json_array_get(json_object_get(golden, "same_top"), i)));
    return true;
}

static void numbers_equal_the_reference(void **state)
{
    size_t seen = 0, top = 0;
    lm_diverge_options o = { .token = compare, .arg = &seen };
    lm_divergence d;
    lm_error e;
    (void)state;

    if (lm_diverge_text(engines[0], engines[1], ids, n, &o, &d, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    assert_int_equal(seen, n - 1);
    assert_int_equal(d.n_tokens, n - 1);
    for (size_t i = 0; i + 1 < n; i++)
        top += json_is_true(json_array_get(json_object_get(golden, "same_top"), i));
    same("same top", d.same_top, (double)top / (double)(n - 1));
    same("mean", d.mean_kl, expected("mean_kl"));
    same("median", d.median_kl, expected("median_kl"));
    same("90 %", d.p90_kl, expected("p90_kl"));
    same("95 %", d.p95_kl, expected("p95_kl"));
    same("99 %", d.p99_kl, expected("p99_kl"));
    same("largest", d.max_kl, expected("max_kl"));
    assert_int_equal(d.max_position, (size_t)expected("max_position"));
    same("mean dp", d.mean_dp, expected("mean_dp"));
    same("RMS dp", d.rms_dp, expected("rms_dp"));
    same("largest dp", d.max_dp, expected("max_dp"));
    same("perplexity", d.perplexity, expected("perplexity"));
    same("reference", d.reference_perplexity, expected("reference_perplexity"));
}

static void rows_in_a_step_do_not_matter(void **state)
{
    lm_engine *one = engine(models[0], 1);
    lm_divergence a, b;
    (void)state;

    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, n, NULL, &a, NULL), LM_OK);
    assert_int_equal(lm_diverge_text(one, engines[1], ids, n, NULL, &b, NULL), LM_OK);
    assert_memory_equal(&a, &b, sizeof a);
    lm_engine_free(one);
}

/* Each window starts with an empty context: its result is that of its part of the text alone. */
static void windows_begin_anew(void **state)
{
    lm_divergence first, last, all;
    (void)state;

    assert_int_equal(n, 12);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, 6, NULL, &first, NULL), LM_OK);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids + 6, 6, NULL, &last, NULL), LM_OK);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, n, &(lm_diverge_options){ .window = 6 },
                                     &all, NULL),
                     LM_OK);
    assert_int_equal(all.n_tokens, 10);
    same("windows", all.mean_kl, (first.mean_kl + last.mean_kl) / 2);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, 11, &(lm_diverge_options){ .window = 5 },
                                     &all, NULL),
                     LM_OK);
    assert_int_equal(all.n_tokens, 8);                   /* a single token at the end is not compared */
}

static void a_model_is_itself(void **state)
{
    lm_engine *twin = engine(models[0], 7);
    lm_divergence d;
    (void)state;

    assert_int_equal(lm_diverge_text(engines[0], twin, ids, n, NULL, &d, NULL), LM_OK);
    assert_true(d.mean_kl == 0 && d.max_kl == 0 && d.same_top == 1 && d.max_dp == 0 &&
                d.perplexity == d.reference_perplexity);
    lm_engine_free(twin);
}

static bool stop(void *arg, const lm_token_divergence *t)
{
    (void)arg;
    return t->position < 3;
}

static void wrong_input_is_rejected(void **state)
{
    lm_token beyond[] = { 5, 131 }, many[65] = { 0 };
    lm_engine *foreign = engine(other, 4);
    lm_divergence d = { .n_tokens = 77 };
    lm_error e;
    (void)state;

    assert_int_equal(lm_same_vocabulary(models[0], models[1], NULL), LM_OK);
    assert_int_equal(lm_same_vocabulary(models[0], other, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "131"));
    assert_int_equal(lm_diverge_text(engines[0], foreign, ids, n, NULL, &d, NULL), LM_USAGE);
    assert_int_equal(lm_diverge_text(engines[0], engines[0], ids, n, NULL, &d, NULL), LM_USAGE);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, 1, NULL, &d, NULL), LM_USAGE);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], beyond, 2, NULL, &d, NULL), LM_USAGE);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, n, &(lm_diverge_options){ .window = 1 }, &d,
                                     NULL),
                     LM_USAGE);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, n, &(lm_diverge_options){ .sequence = 1 },
                                     &d, NULL),
                     LM_USAGE);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], many, 65, &(lm_diverge_options){ .window = 65 },
                                     &d, NULL),
                     LM_LIMIT);
    assert_int_equal(lm_diverge_text(engines[0], engines[1], ids, n, &(lm_diverge_options){ .token = stop },
                                     &d, NULL),
                     LM_CANCELLED);
    assert_int_equal(d.n_tokens, 77);                    /* written on success only */
    assert_int_equal(lm_diverge_text(engines[0], engines[1], many, 65, NULL, &d, NULL), LM_OK);
    assert_int_equal(d.n_tokens, 63);                    /* a window of 64, and a single token */
    lm_engine_free(foreign);
}

static int open_all(void **state)
{
    char path[512];
    json_t *list;
    (void)state;

    snprintf(path, sizeof path, "%s/golden/diverge/llama.json", getenv("LAMINA_TESTS"));
    golden = json_load_file(path, 0, NULL);
    assert_non_null(golden);
    list = json_object_get(golden, "ids");
    n    = json_array_size(list);
    assert_in_range(n, 2, MAX);
    for (size_t i = 0; i < n; i++)
        ids[i] = (lm_token)json_integer_value(json_array_get(list, i));
    models[0] = open_model(json_string_value(json_object_get(golden, "model")));
    models[1] = open_model(json_string_value(json_object_get(golden, "reference")));
    other     = open_model("llama/head-dim");
    for (int i = 0; i < 2; i++)
        engines[i] = engine(models[i], 5);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        lm_engine_free(engines[i]);
        lm_model_close(models[i]);
    }
    lm_model_close(other);
    json_decref(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_equal_the_reference), cmocka_unit_test(rows_in_a_step_do_not_matter),
        cmocka_unit_test(windows_begin_anew), cmocka_unit_test(a_model_is_itself),
        cmocka_unit_test(wrong_input_is_rejected),
    };

    return cmocka_run_group_tests_name("runtime/diverge", tests, open_all, close_all);
}
