/* opened.c - a model opened from a descriptor or from memory equals the one opened by path; failures report
 * their reason. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/engine.h"

static char path[600];

static uint8_t *read_model(size_t *size)
{
    FILE    *f    = fopen(path, "rb");
    uint8_t *data = malloc(1 << 22);

    assert_true(f && data);
    *size = fread(data, 1, 1 << 22, f);
    assert_true(*size > 0 && *size < 1 << 22);
    fclose(f);
    return data;
}

/* Return the logits after five tokens; the caller frees them. */
static float *logits_of(const lm_model *m, uint32_t *n_vocab)
{
    lm_engine_options o = {
        .context = 16, .max_rows = 16, .kv = LM_KV_F32, .compute = LM_COMPUTE_F32, .threads = 1
    };
    lm_row            rows[5];
    lm_model_info     info;
    lm_engine        *g = NULL;
    lm_error          e = { 0 };

    lm_model_describe(m, &info);
    for (uint32_t i = 0; i < 5; i++)
        rows[i] = (lm_row){ 0, (lm_token)(i * 7 + 3), i, i == 4 };
    if (lm_engine_new(m, &o, &g, &e) != LM_OK || lm_engine_step(g, rows, 5, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    float *out = malloc(info.n_vocab * sizeof *out);
    memcpy(out, lm_engine_logits(g, 4), info.n_vocab * sizeof *out);
    *n_vocab = info.n_vocab;
    lm_engine_free(g);
    return out;
}

/* Check that the model computes the same as the one opened by path, has this name and the same fingerprint.
 * Closes it. */
static void check_same(lm_model *m, const char *name)
{
    lm_model     *of_path = NULL;
    lm_model_info info;
    uint32_t      n, same;
    char          a[65], b[65];

    assert_int_equal(lm_model_open(path, NULL, &of_path, NULL), LM_OK);
    float *expected = logits_of(of_path, &n), *got = logits_of(m, &same);
    assert_int_equal(n, same);
    assert_memory_equal(expected, got, n * sizeof *got);
    assert_int_equal(lm_model_fingerprint(of_path, a, NULL), LM_OK);
    assert_int_equal(lm_model_fingerprint(m, b, NULL), LM_OK);
    assert_string_equal(a, b);
    lm_model_describe(m, &info);
    assert_string_equal(info.source, name);
    free(expected);
    free(got);
    lm_model_close(of_path);
    lm_model_close(m);
}

static void a_model_opens_from_a_descriptor(void **state)
{
    (void)state;
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        lm_model_options o = { .no_mmap = no_mmap };
        lm_model        *m = NULL;
        lm_error         e = { 0 };
        int              fd = open(path, O_RDONLY);
        assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
        if (lm_model_open_fd(fd, no_mmap ? NULL : "the tiny one", &o, &m, &e) != LM_OK)
            fail_msg("%s: %s: %s", e.file, e.where, e.message);
        assert_int_equal(lseek(fd, 0, SEEK_CUR), 100);
        char number[32];
        snprintf(number, sizeof number, "descriptor %d", fd);
        close(fd);
        check_same(m, no_mmap ? number : "the tiny one");
    }
}

/* The bytes may lie at any alignment. */
static void a_model_opens_from_memory(void **state)
{
    size_t   size;
    uint8_t *data = read_model(&size), *elsewhere = malloc(size + 64);

    (void)state;
    for (size_t at = 0; at < 64; at += 13) {
        lm_model *m = NULL;
        lm_error  e = { 0 };
        memcpy(elsewhere + at, data, size);
        if (lm_model_open_memory(elsewhere + at, size, at ? "bytes" : NULL, NULL, &m, &e) != LM_OK)
            fail_msg("%s: %s: %s", e.file, e.where, e.message);
        check_same(m, at ? "bytes" : "memory");
    }
    free(elsewhere);
    free(data);
}

static void refuse(lm_status status, lm_status expected, const lm_error *e, const char *file)
{
    assert_int_equal(status, expected);
    assert_int_equal(e->code, expected);
    assert_string_equal(e->file, file);
}

static void files_that_are_not_models_are_rejected(void **state)
{
    static const char json[] = "{\"model_type\": \"llama\"}";
    size_t            size;
    uint8_t          *data = read_model(&size);
    lm_model         *m = NULL;
    lm_error          e = { 0 };
    int               ends[2];

    (void)state;
    uint64_t before = lm_alloc_statistics().live_bytes;
    refuse(lm_model_open_memory(NULL, 10, "x", NULL, &m, &e), LM_USAGE, &e, "x");
    refuse(lm_model_open_memory(data, 0, "x", NULL, &m, &e), LM_USAGE, &e, "x");
    refuse(lm_model_open_memory(json, sizeof json, "x", NULL, &m, &e), LM_UNSUPPORTED, &e, "x");
    refuse(lm_model_open_memory(data, 3, "x", NULL, &m, &e), LM_UNSUPPORTED, &e, "x");
    for (size_t cut = 4; cut < size; cut += 211)
        refuse(lm_model_open_memory(data, cut, "x", NULL, &m, &e), LM_BAD_MODEL, &e, "x");
    refuse(lm_model_open_fd(-1, NULL, NULL, &m, &e), LM_IO, &e, "descriptor -1");
    assert_int_equal(pipe(ends), 0);
    refuse(lm_model_open_fd(ends[0], "a pipe", NULL, &m, &e), LM_IO, &e, "a pipe");
    close(ends[0]);
    close(ends[1]);
    assert_null(m);
    assert_true(lm_alloc_statistics().live_bytes == before);
    free(data);
}

static bool stop(void *calls, double fraction)
{
    assert_true(fraction > 0 && fraction <= 1);
    ++*(int *)calls;
    return false;
}

static void reading_can_be_cancelled(void **state)
{
    int              calls = 0;
    lm_model_options o = { .no_mmap = true, .progress = stop, .progress_arg = &calls };
    lm_model        *m = NULL;
    lm_error         e = { 0 };
    uint64_t         before = lm_alloc_statistics().live_bytes;

    (void)state;
    assert_int_equal(lm_model_open(path, &o, &m, &e), LM_CANCELLED);
    assert_int_equal(calls, 1);
    assert_null(m);
    assert_true(lm_alloc_statistics().live_bytes == before);
}

typedef struct log_lines { char text[8][512]; lm_log_level level[8]; size_t n; } log_lines;

static void remember(void *arg, lm_log_level level, const char *text)
{
    log_lines *t = arg;

    assert_true(t->n < 8 && strlen(text) < 512 && !strchr(text, '\n') && !strchr(text, 27));
    t->level[t->n] = level;
    snprintf(t->text[t->n++], 512, "%s", text);
}

/* Each object has its own log, which receives its messages. Warnings are those of lm_model_warning, and names
 * cannot break the line. */
static void objects_describe_what_they_do(void **state)
{
    log_lines              of_model = { 0 }, of_engine = { 0 };
    lm_model_options  o = { .yarn_orig_ctx = 7, .log = { remember, &of_model } };
    lm_engine_options engine = {
        .context = 1000000, .max_rows = 8, .kv_positions = 64, .log = { remember, &of_engine }
    };
    lm_model         *m = NULL;
    lm_engine        *g = NULL;
    size_t            size, warnings = 0;
    uint8_t          *data = read_model(&size);

    (void)state;
    assert_int_equal(lm_model_open_memory(data, size, "two\nlines \033[1m", &o, &m, NULL), LM_OK);
    while (lm_model_warning(m, warnings)) {
        assert_int_equal(of_model.level[warnings], LM_LOG_WARNING);
        assert_string_equal(of_model.text[warnings], lm_model_warning(m, warnings));
        warnings++;
    }
    assert_true(warnings > 0 && of_model.n == warnings + 1 && of_model.level[warnings] == LM_LOG_INFO);
    assert_non_null(strstr(of_model.text[warnings], "llama, gguf"));
    assert_int_equal(lm_engine_new(m, &engine, &g, NULL), LM_OK);
    assert_true(of_engine.n == 2 && of_engine.level[0] == LM_LOG_WARNING &&
                of_engine.level[1] == LM_LOG_INFO);
    assert_non_null(strstr(of_engine.text[0], "1000000 positions is longer"));
    assert_int_equal(of_model.n, warnings + 1);
    lm_engine_free(g);
    lm_model_close(m);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_opens_from_a_descriptor),
        cmocka_unit_test(a_model_opens_from_memory),
        cmocka_unit_test(files_that_are_not_models_are_rejected),
        cmocka_unit_test(reading_can_be_cancelled),
        cmocka_unit_test(objects_describe_what_they_do),
    };
    const char *root = getenv("LAMINA_TESTS");

    snprintf(path, sizeof path, "%.400s/golden/llama/gqa/model.gguf", root ? root : "tests");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
