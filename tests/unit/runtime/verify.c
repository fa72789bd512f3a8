/* Errors that verify must detect: one golden with one error in it at a time. (Every model tests that verify
 * finds no error in correct goldens.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "formats/container.h"
#include "formats/safetensors.h"
#include "lamina/lamina.h"

static lm_model *model, *gguf;
static char     *golden;                 /* the bytes of the correct file */
static size_t    golden_size;
static lm_container *container;
static char      path[] = "/tmp/lamina-golden-XXXXXX.safetensors";

static lm_tensor_info tensor(const char *name)
{
    const lm_tensor_info *t = lm_container_find(container, name);

    if (!t)
        fail_msg("the golden has no %s", name);
    return *t;
}

static void write_golden(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Write the golden with `n` bytes at offset `at` of a tensor replaced. */
static void change(const char *name, uint64_t at, const void *with, size_t n)
{
    char *copy = lm_alloc(golden_size);

    memcpy(copy, golden, golden_size);
    memcpy(copy + tensor(name).offset + at, with, n);
    write_golden(copy, golden_size);
    lm_free(copy);
}

static float value(const char *name, uint64_t i)
{
    float x;

    memcpy(&x, golden + tensor(name).offset + i * sizeof x, sizeof x);
    return x;
}

static lm_verdict judge(const lm_model *m, const lm_verify_options *o)
{
    lm_verdict v;
    lm_error e = { 0 };

    if (lm_verify(m, path, o, &v, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return v;
}

static void the_true_one_agrees(void **state)
{
    lm_verdict v, w;

    (void)state;
    write_golden(golden, golden_size);
    v = judge(model, NULL);
    assert_true(v.agrees && v.bitwise_known && v.chunked && v.stepwise && v.has_greedy && v.greedy_agrees &&
                !v.diverges);
    assert_int_equal(v.greedy_common, v.greedy_total);
    assert_true(v.max_rel_err < 1e-5 && v.max_kl < 1e-9 && v.argmax_agreement == 1);
    assert_true(v.taps >= 20);
    assert_non_null(strstr(v.source, "transformers"));

    /* The same weights as GGUF, which stores q and k rows in another order. */
    w = judge(gguf, NULL);
    assert_true(w.agrees && !w.diverges);
    assert_int_equal(w.taps, v.taps);
}

static void a_logit_is_wrong(void **state)
{
    lm_tensor_info t = tensor("logits");
    /* the last row of the last sequence */
    uint64_t width = t.dims[2], row = t.dims[0] * t.dims[1] - 1;
    float x, largest = 0;
    lm_verdict v;

    (void)state;
    for (uint64_t i = 0; i < width; i++) {
        float y = value("logits", row * width + i);
        largest = y > largest ? y : -y > largest ? -y : largest;
    }
    x = value("logits", row * width + 3) + 3e-3f * largest;
    change("logits", (row * width + 3) * sizeof x, &x, sizeof x);
    v = judge(model, NULL);
    assert_false(v.agrees);
    assert_int_equal(v.worst_row, row);
    assert_true(v.max_rel_err > 2.9e-3 && v.max_rel_err < 3.1e-3);

    v = judge(model,
              &(lm_verify_options){ .engine.kv = LM_KV_F32, .engine.compute = LM_COMPUTE_F32, .tol = 4e-3 });
    assert_true(v.agrees);
    /* Judged by KL divergence, one logit of many has little effect. */
    v = judge(model, &(lm_verify_options){
                         .engine.kv = LM_KV_F32, .engine.compute = LM_COMPUTE_F32, .kl_max = 1e-3 });
    assert_true(v.agrees && v.mean_kl > 1e-12);
    v = judge(model, &(lm_verify_options){
                         .engine.kv = LM_KV_F32, .engine.compute = LM_COMPUTE_F32, .kl_max = v.mean_kl / 2 });
    assert_false(v.agrees);
}

/* Values that are not finite are rejected: a comparison with NaN never finds a difference. */
static void values_that_are_not_finite_are_rejected(void **state)
{
    static const char *const names[] = { "logits", "tap.model.layers.1.self_attn.k_proj", "tap.model.norm" };
    const float values[] = { NAN, INFINITY, -INFINITY };
    lm_verdict v;
    lm_error e;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        change(names[i], 4 * i, &values[i], sizeof *values);
        assert_int_equal(lm_verify(model, path, NULL, &v, &e), LM_BAD_MODEL);
        assert_string_equal(e.where, names[i]);
        assert_string_equal(e.file, path);
        assert_int_equal(e.offset, tensor(names[i]).offset + 4 * i);
    }
}

/* A small file has more positions than the model supports. */
static void longer_than_the_context(void **state)
{
    static const int64_t ids[3000];
    static const uint64_t input[] = { 1, 2 }, logits[] = { 1, 2, 1 }, greedy[] = { 1, 3000 };
    lm_safetensors_writer *w;
    lm_verdict v;
    lm_error e;

    (void)state;
    assert_int_equal(lm_safetensors_create(path, &w, &e), LM_OK);
    lm_safetensors_add_tensor(w, "input_ids", LM_I64, 2, input);
    lm_safetensors_add_tensor(w, "logits", LM_F32, 3, logits);
    lm_safetensors_add_tensor(w, "greedy_ids", LM_I64, 2, greedy);
    assert_int_equal(lm_safetensors_begin(w, &e), LM_OK);
    assert_int_equal(lm_safetensors_write(w, ids, 16, &e), LM_OK);
    assert_int_equal(lm_safetensors_write(w, ids, 8, &e), LM_OK);
    assert_int_equal(lm_safetensors_write(w, ids, sizeof ids, &e), LM_OK);
    assert_int_equal(lm_safetensors_commit(w, &e), LM_OK);
    assert_int_equal(lm_verify(model, path, NULL, &v, &e), LM_LIMIT);
    assert_string_equal(e.where, "greedy_ids");
    assert_string_equal(e.file, path);
}

static void a_greedy_id_is_wrong(void **state)
{
    lm_tensor_info t = tensor("greedy_ids");
    uint64_t n = t.dims[1];
    int64_t id;
    lm_verdict v;

    (void)state;
    for (uint64_t k = 0; k < n; k += n - 1) {                              /* the first and the last */
        memcpy(&id, golden + t.offset + k * sizeof id, sizeof id);
        id = id ? 0 : 1;
        change("greedy_ids", k * sizeof id, &id, sizeof id);
        v = judge(model, NULL);
        assert_false(v.agrees || v.greedy_agrees);
        assert_int_equal(v.greedy_common, v.greedy_total - n + k);
        assert_true(v.max_rel_err < 1e-5);
    }
}

static void a_tap_is_wrong(void **state)
{
    lm_tensor_info t = tensor("tap.model.layers.1.self_attn.k_proj");
    /* position 2 of the second sequence */
    uint64_t width = t.dims[2], at = (t.dims[1] + 2) * width;
    float x = value(t.name, at) + 1;
    lm_verdict v;

    (void)state;
    if (t.dims[0] < 2)
        at = 2 * width;
    change(t.name, at * sizeof x, &x, sizeof x);
    v = judge(model, NULL);
    /* reported, but not part of the verdict */
    assert_true(v.agrees && v.diverges);
    assert_string_equal(v.first_path, "model.layers.1.self_attn.k_proj");
    assert_int_equal(v.first_position, 2);
    v = judge(gguf, NULL);
    assert_true(v.diverges);
    assert_string_equal(v.first_path, "model.layers.1.self_attn.k_proj");
}

/* Models with states cannot go back to where their greedy tokens differ; they are reported like any other. */
static void another_model_with_states_diverges(void **state)
{
    static const char *const pairs[][2] = {
        { "qwen3_5/two", "qwen3_5/further" },
        { "lfm2/convolutions", "lfm2/biased" },
        { "falcon_mamba/tied", "falcon_mamba/untied" },
        { "granitemoehybrid/experts", "granitemoehybrid/rotated" },      /* one greedy token in common */
    };
    char file[512], reference[544];
    lm_verdict v;
    lm_error e = { 0 };
    lm_model *m;

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        snprintf(file, sizeof file, "%s/golden/%s", getenv("LAMINA_TESTS"), pairs[i][0]);
        snprintf(reference, sizeof reference, "%s/golden/%s/golden.safetensors", getenv("LAMINA_TESTS"),
                 pairs[i][1]);
        assert_int_equal(lm_model_open(file, NULL, &m, &e), LM_OK);
        if (lm_verify(m, reference, NULL, &v, &e) != LM_OK)
            fail_msg("%s, %s: %s: %s", pairs[i][0], pairs[i][1], e.where, e.message);
        assert_true(v.diverges && v.first_path[0] && !v.agrees && !v.greedy_agrees);
        assert_true(v.chunked && v.stepwise);
        assert_true(v.greedy_common + 1 < v.greedy_total);
        lm_model_close(m);
    }
}

static void invalid_goldens(void **state)
{
    int64_t id = 1 << 30;
    lm_verdict v;
    lm_error e;

    (void)state;
    change("input_ids", 8, &id, sizeof id);
    assert_int_equal(lm_verify(model, path, NULL, &v, &e), LM_BAD_MODEL);
    assert_string_equal(e.where, "input_ids");
    assert_int_equal(e.offset, tensor("input_ids").offset + 8);
    id = -1;
    change("greedy_ids", 0, &id, sizeof id);
    assert_int_equal(lm_verify(model, path, NULL, &v, &e), LM_BAD_MODEL);
    assert_string_equal(e.where, "greedy_ids");

    /* A tensor renamed in place in the header: the file lacks a required tensor. */
    char *copy = lm_alloc(golden_size), *name;
    memcpy(copy, golden, golden_size);
    name = memmem(copy, golden_size, "\"input_ids\"", 11);
    assert_non_null(name);
    memcpy(name, "\"input_idz\"", 11);
    write_golden(copy, golden_size);
    assert_int_equal(lm_verify(model, path, NULL, &v, &e), LM_BAD_MODEL);
    assert_string_equal(e.where, "input_ids");
    lm_free(copy);

    write_golden(golden, golden_size / 2);
    assert_int_equal(lm_verify(model, path, NULL, &v, &e), LM_BAD_MODEL);
}

/* A dump is itself a golden, and the engine agrees with it bit for bit. */
static void a_dump_is_a_golden(void **state)
{
    char dump[64];
    lm_verify_options o = { .engine.kv = LM_KV_F32, .engine.compute = LM_COMPUTE_F32, .dump = dump };
    lm_verdict v;
    lm_error e;

    (void)state;
    snprintf(dump, sizeof dump, "%s.dump.safetensors", path);
    write_golden(golden, golden_size);
    judge(model, &o);
    o.dump = NULL;
    if (lm_verify(model, dump, &o, &v, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    unlink(dump);
    assert_true(v.agrees && v.max_rel_err == 0 && v.has_greedy);
    assert_int_equal(v.greedy_common, v.greedy_total);
    assert_non_null(strstr(v.source, "lamina"));

    /* the reference itself is not equal bit for bit */
    o.tol = -1;
    v = judge(model, &o);
    assert_true(!v.agrees && v.tol == 0);
    o.kl_max = -1;
    v = judge(model, &o);
    assert_false(v.agrees);
}

static int open_models(void **state)
{
    char file[512], weights[544];
    lm_error e = { 0 };

    (void)state;
    snprintf(file, sizeof file, "%s/golden/llama/gqa", getenv("LAMINA_TESTS"));
    snprintf(weights, sizeof weights, "%s/model.gguf", file);
    if (lm_model_open(file, NULL, &model, &e) != LM_OK || lm_model_open(weights, NULL, &gguf, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    snprintf(file, sizeof file, "%s/golden/llama/gqa/golden.safetensors", getenv("LAMINA_TESTS"));
    assert_int_equal(lm_file_read(file, 1 << 24, &golden, &golden_size, &e), LM_OK);
    assert_int_equal(lm_container_open(file, NULL, &container, &e), LM_OK);
    assert_true(mkstemps(path, 12) >= 0);
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    unlink(path);
    lm_container_close(container);
    lm_free(golden);
    lm_model_close(model);
    lm_model_close(gguf);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_true_one_agrees),
        cmocka_unit_test(a_logit_is_wrong),
        cmocka_unit_test(values_that_are_not_finite_are_rejected),
        cmocka_unit_test(longer_than_the_context),
        cmocka_unit_test(a_greedy_id_is_wrong),
        cmocka_unit_test(a_tap_is_wrong),
        cmocka_unit_test(another_model_with_states_diverges),
        cmocka_unit_test(invalid_goldens),
        cmocka_unit_test(a_dump_is_a_golden),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
