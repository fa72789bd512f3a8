/* adapted.c - engines with adapters: logits equal PEFT's, rows of different adapters in one step equal each
 * alone, rows without an adapter equal those of an engine without adapters, and allocated bytes equal planned
 * ones. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/lamina.h"
#include "models.h"

enum { MAX = 64, LINE = 600 };

static const char *root(void)
{
    static char path[512];

    snprintf(path, sizeof path, "%.400s/golden", getenv("LAMINA_TESTS") ? getenv("LAMINA_TESTS") : "tests");
    return path;
}

/* ---- goldens of PEFT and llama.cpp ---- */

typedef struct golden_adapter { char name[64], folder[LINE], base[LINE]; } golden_adapter;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const golden_adapter *)a)->name, ((const golden_adapter *)b)->name);
}

static size_t golden_adapters(golden_adapter *out)
{
    char           path[LINE];
    size_t         n = 0;
    struct dirent *d;

    snprintf(path, sizeof path, "%.500s/adapters", root());
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while ((d = readdir(dir)) && n < MAX) {
        char line[128] = "";
        snprintf(path, sizeof path, "%.300s/adapters/%.60s/base.txt", root(), d->d_name);
        FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!f)
            continue;
        assert_non_null(fgets(line, sizeof line, f));
        fclose(f);
        line[strcspn(line, "\n")] = 0;
        snprintf(out[n].name, sizeof out[n].name, "%.60s", d->d_name);
        snprintf(out[n].folder, sizeof out[n].folder, "%.300s/adapters/%.60s", root(), d->d_name);
        snprintf(out[n++].base, sizeof out[n].base, "%.300s/%.100s", root(), line);
    }
    closedir(dir);
    qsort(out, n, sizeof *out, by_name);
    return n;
}

static bool is_there(const char *path)
{
    FILE *f = fopen(path, "r");

    if (f)
        fclose(f);
    return f;
}

static lm_model *open_model(const char *path)
{
    lm_model_options o = lm_model_defaults();
    lm_model        *m = NULL;
    lm_error         e = { 0 };

    o.mla = "naive";
    if (lm_model_open(path, &o, &m, &e) != LM_OK)
        fail_msg("%s: %s: %s", path, e.where, e.message);
    return m;
}

static lm_adapter *open_adapter(const lm_model *m, const char *path)
{
    lm_adapter *a = NULL;
    lm_error    e = { 0 };
    char        text[LINE];

    if (lm_adapter_open(m, path, &a, &e) != LM_OK)
        fail_msg("%s: %s", path, lm_error_text(&e, text, sizeof text));
    return a;
}

static void check_logits(const golden_adapter *g, const char *model, const char *adapter)
{
    char              golden[LINE];
    lm_model         *m = open_model(model);
    lm_adapter       *a = open_adapter(m, adapter);
    lm_verify_options o = { .engine = { .compute = LM_COMPUTE_F32, .kv = LM_KV_F32, .threads = 2,
                                        .adapters = (const lm_adapter *const[]){ a, NULL } } };
    lm_verdict        v;
    lm_error          e = { 0 };

    snprintf(golden, sizeof golden, "%.500s/golden.safetensors", g->folder);
    if (lm_verify(m, golden, &o, &v, &e) != LM_OK)
        fail_msg("%s: %s: %s", g->name, e.where, e.message);
    printf("  %-20s %-8s %-8s %3llu rows  %9.2e  bitwise %s\n", g->name,
           strstr(model, ".gguf") ? "gguf" : "folder", strstr(adapter, ".gguf") ? "gguf" : "peft",
           (unsigned long long)v.rows, v.max_rel_err,
           !v.bitwise_known          ? "by definition not"
           : v.chunked && v.stepwise ? "yes"
                                     : "NO");
    if (!v.agrees || v.max_rel_err > 1e-4 || (v.bitwise_known && !(v.chunked && v.stepwise)))
        fail_msg("%s on %s: error %.3g at row %llu", adapter, model, v.max_rel_err,
                 (unsigned long long)v.worst_row);
    lm_adapter_close(a);
    lm_model_close(m);
}

static void logits_equal_peft(void **state)
{
    static golden_adapter all[MAX];
    size_t                n = golden_adapters(all);

    (void)state;
    assert_true(n >= 10);
    for (size_t i = 0; i < n; i++) {
        char gguf[2 * LINE], adapter[2 * LINE];
        snprintf(gguf, sizeof gguf, "%s/model.gguf", all[i].base);
        snprintf(adapter, sizeof adapter, "%s/adapter.gguf", all[i].folder);
        for (int model = 0; model < 2; model++)
            for (int form = 0; form < 2; form++)
                if ((!model || is_there(gguf)) && (!form || is_there(adapter)))
                    check_logits(&all[i], model ? gguf : all[i].base, form ? adapter : all[i].folder);
    }
}

/* ---- rows of one step ---- */

enum { TEXTS = 5, LONG = 24, STEP = 7 };

static lm_engine *start(const lm_model *m, lm_engine_options o)
{
    lm_engine *g = NULL;
    lm_error   e = { 0 };
    lm_memory  planned, taken;

    o.context = 64;
    o.max_rows    = TEXTS * STEP;
    o.max_logits = o.max_rows;
    o.threads = o.threads ? o.threads : 2;
    assert_int_equal(lm_engine_predict(m, &o, &planned, &e), LM_OK);
    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    lm_engine_allocated(g, &taken);
    assert_memory_equal(&planned, &taken, sizeof taken);
    return g;
}

static lm_token token_of(uint32_t text, uint32_t position)
{
    return (lm_token)((text * 29 + position * 11 + position * position) % 90);
}

/* Compute the logits of every position of texts first … first + n - 1 in steps of uneven pieces: out
 * [n][LONG][n_vocab]. */
static void read_texts(lm_engine *g, uint32_t first, uint32_t n, uint32_t n_vocab, float *out)
{
    static lm_row rows[TEXTS * STEP];
    uint32_t      at[TEXTS] = { 0 }, turn = 0;
    lm_error      e = { 0 };

    for (bool left = true; left; turn++) {
        size_t k = 0;
        left     = false;
        for (uint32_t t = 0; t < n; t++) {
            uint32_t piece = at[t] >= 12 ? 1 : 1 + (turn + t) % STEP;
            for (uint32_t i = 0; i < piece && at[t] < LONG; i++, at[t]++)
                rows[k++] = (lm_row){
                    .sequence = t, .token = token_of(first + t, at[t]), .position = at[t], .logits = true
                };
        }
        if (!k)
            break;
        if (lm_engine_step(g, rows, k, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        for (size_t i = 0; i < k; i++)
            memcpy(out + ((size_t)rows[i].sequence * LONG + rows[i].position) * n_vocab,
                   lm_engine_logits(g, i), n_vocab * sizeof *out);
        left = true;
    }
}

static void compare(const float *a, const float *b, size_t n, const char *what)
{
    if (memcmp(a, b, n * sizeof *a) != 0)
        fail_msg("%s: other bits", what);
}

/* The scales of three adapters for each text. */
static const float scales[TEXTS][3] = { { 0, 0, 0 }, { 1, 0, 0 }, { 0, 0.5f, 0 }, { 0, 0, -1 }, { 1, 0, 2 } };

static void read_alone(const lm_model *m, lm_engine_options o, lm_adapter *const *adapters, uint32_t text,
                       uint32_t n_vocab, float *out)
{
    const lm_adapter *mine[4] = { NULL };
    float             at[4];
    uint32_t          n = 0;

    for (uint32_t k = 0; k < 3; k++)
        if (scales[text][k] != 0) {
            mine[n] = adapters[k];
            at[n++] = scales[text][k];
        }
    o.adapters       = n ? mine : NULL;
    o.adapter_scales = at;
    lm_engine *g     = start(m, o);
    read_texts(g, text, 1, n_vocab, out);
    lm_engine_free(g);
}

static void check_mixed(const char *model, lm_compute compute, uint32_t threads, bool no_repack)
{
    static const char *const names[] = { "llama", "llama-patterns", "llama-layer" };
    char                     path[LINE];
    lm_adapter              *adapters[4] = { NULL };
    lm_model_info            info;
    lm_error                 e = { 0 };

    snprintf(path, sizeof path, "%.400s/%s", root(), model);
    lm_model *m = open_model(path);
    lm_model_describe(m, &info);
    for (size_t k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%.400s/adapters/%s", root(), names[k]);
        adapters[k] = open_adapter(m, path);
    }
    size_t            each = (size_t)LONG * info.n_vocab;
    float *all = calloc(TEXTS * each, sizeof *all), *alone = calloc(each, sizeof *alone),
          *base = calloc(each, sizeof *base);
    lm_engine_options o = { .compute = compute, .threads = threads, .no_repack = no_repack };
    lm_engine_options mixed = o;
    mixed.sequences   = TEXTS;
    mixed.adapters    = (const lm_adapter *const *)adapters;
    lm_engine *g = start(m, mixed);
    assert_int_equal(lm_engine_n_adapters(g), 3);
    assert_true(lm_engine_adapters_of(g, 2)[1] == 1);
    for (uint32_t t = 0; t < TEXTS; t++)
        assert_int_equal(lm_engine_set_adapters(g, t, scales[t], &e), LM_OK);
    read_texts(g, 0, TEXTS, info.n_vocab, all);
    lm_engine_free(g);
    for (uint32_t t = 0; t < TEXTS; t++) {
        read_alone(m, o, adapters, t, info.n_vocab, alone);
        compare(all + t * each, alone, each, "a text beside others");
        if (t == 0)
            memcpy(base, alone, each * sizeof *base);
        else
            assert_memory_not_equal(all + t * each, base, each * sizeof *base);
    }
    free(all);
    free(alone);
    free(base);
    for (size_t k = 0; k < 3; k++)
        lm_adapter_close(adapters[k]);
    lm_model_close(m);
}

static void sequences_keep_their_own_adapters(void **state)
{
    (void)state;
    check_mixed("llama/gqa", LM_COMPUTE_F32, 2, false);
    check_mixed("llama/gqa/model.gguf", LM_COMPUTE_AUTO, 1, false);
    check_mixed("llama/gqa/model.gguf", LM_COMPUTE_AUTO, 3, false);
    check_mixed("llama/gqa", LM_COMPUTE_AUTO, 2, true);
}

/* With scale 0 the bits are those of the model alone, whatever is fused with the adapted product. */
static void without_a_scale_every_bit_is_the_models(void **state)
{
    static golden_adapter all[MAX];
    size_t                n = golden_adapters(all);

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (int f32 = 0; f32 < 2; f32++) {
            lm_model      *m = open_model(all[i].base);
            lm_adapter    *a = open_adapter(m, all[i].folder);
            lm_model_info  info;
            lm_engine_options o = { .compute = f32 ? LM_COMPUTE_F32 : LM_COMPUTE_AUTO };
            lm_model_describe(m, &info);
            size_t     each = (size_t)LONG * info.n_vocab;
            float     *with = calloc(each, sizeof *with), *without = calloc(each, sizeof *without);
            lm_engine *g    = start(m, o);
            read_texts(g, 1, 1, info.n_vocab, without);
            lm_engine_free(g);
            o.adapters       = (const lm_adapter *const[]){ a, NULL };
            o.adapter_scales = (const float[]){ 0 };
            g                = start(m, o);
            read_texts(g, 1, 1, info.n_vocab, with);
            compare(with, without, each, all[i].name);
            lm_engine_free(g);
            free(with);
            free(without);
            lm_adapter_close(a);
            lm_model_close(m);
        }
}

static void rejected_input(void **state)
{
    char       path[LINE];
    lm_error   e = { 0 };
    lm_engine *g = NULL;

    (void)state;
    snprintf(path, sizeof path, "%.400s/llama/gqa", root());
    lm_model *m = open_model(path), *other = open_model(path);
    snprintf(path, sizeof path, "%.400s/adapters/llama", root());
    lm_adapter       *a = open_adapter(m, path);
    lm_engine_options o = { .adapters = (const lm_adapter *const[]){ a, NULL },
                            .adapter_scales = (const float[]){ 1.0f / 0.0f } };
    assert_int_equal(lm_engine_new(m, &o, &g, &e), LM_USAGE);
    o.adapter_scales = NULL;
    assert_int_equal(lm_engine_new(other, &o, &g, &e), LM_USAGE);
    assert_string_equal(e.message, "opened for another model");
    g = start(m, o);
    assert_int_equal(lm_engine_set_adapters(g, 0, (const float[]){ 0.0f / 0.0f }, &e), LM_USAGE);
    assert_int_equal(lm_engine_set_adapters(g, 1, (const float[]){ 1 }, &e), LM_USAGE);
    lm_engine_free(g);
    lm_adapter_close(a);
    lm_model_close(m);
    lm_model_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_equal_peft),
        cmocka_unit_test(sequences_keep_their_own_adapters),
        cmocka_unit_test(without_a_scale_every_bit_is_the_models),
        cmocka_unit_test(rejected_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
