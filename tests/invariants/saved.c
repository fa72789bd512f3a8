/* saved.c - a sequence in a file: a restored sequence continues with the same bits as one that was never
 * saved, for every family, type of cache and arithmetic; a damaged file or one of another model changes
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lamina/engine.h"
#include "lamina/sequence.h"
#include "lamina/synth.h"
#include "models.h"
#include "../unit/temporary.h"

enum { MAX = 1024, SAVED = 100, POSITIONS = 140 };       /* the last saved page is partly filled */

typedef struct setting {
    lm_compute compute;
    lm_kv_type kv;                       /* of keys */
    lm_kv_type values;
    bool       no_repack;
} setting;

static const setting settings[] = {
    { LM_COMPUTE_F32, LM_KV_F32, LM_KV_F32, false },    { LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16, false },
    { LM_COMPUTE_AUTO, LM_KV_Q8_0, LM_KV_Q8_0, false }, { LM_COMPUTE_F32, LM_KV_BF16, LM_KV_BF16, true },
    { LM_COMPUTE_FINE, LM_KV_BF16, LM_KV_F16, false },  { LM_COMPUTE_F32, LM_KV_Q8_0, LM_KV_Q4_0, false },
    { LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_Q5_1, false },
};

static char file[256], other[256];
static golden_model models[MAX];
static size_t       n_models;

static lm_token token_at(uint32_t i, uint32_t n_vocab)
{
    return (lm_token)((i * 2654435761u + 17) % n_vocab);
}

/* Open an engine. Returns NULL if the model has no such context or does not support such a cache. */
static lm_engine *open_engine(const lm_model *m, const setting *s, uint32_t sequences, uint32_t threads)
{
    lm_engine_options o = { .context = 192,
                            .sequences = sequences,
                            .max_rows = 100,
                            .max_logits = 1,
                            .kv = s->kv,
                            .kv_values = s->values,
                            .kv_apart = true,
                            .compute = s->compute,
                            .no_repack = s->no_repack,
                            .threads = threads };
    lm_engine        *g = NULL;
    lm_error          e = { 0 };
    lm_status         status = lm_engine_new(m, &o, &g, &e);

    if (status != LM_OK && status != LM_USAGE && status != LM_UNSUPPORTED)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

static uint32_t vocabulary(const lm_model *m)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    return info.n_vocab;
}

/* Run positions [from, to), at most `max` per step. Returns the logits of the last. Another `shift` means
 * other tokens. */
static const float *feed(lm_engine *g, uint32_t n_vocab, uint32_t sequence, uint32_t from, uint32_t to,
                         uint32_t max, uint32_t shift)
{
    lm_row   rows[POSITIONS];
    lm_error e = { 0 };
    uint32_t n = 0;

    for (uint32_t at = from; at < to; at += n) {
        n = to - at < max ? to - at : max;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = (lm_row){ sequence, token_at(at + i + shift, n_vocab), at + i, at + i + 1 == to };
        if (lm_engine_step(g, rows, n, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
    }
    return lm_engine_logits(g, n - 1);
}

static void save(lm_engine *g, uint32_t n_vocab, uint32_t sequence, uint32_t n, const char *path)
{
    lm_token tokens[POSITIONS];
    lm_error e = { 0 };

    for (uint32_t i = 0; i < n; i++)
        tokens[i] = token_at(i, n_vocab);
    if (lm_engine_save(g, sequence, tokens, n, path, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

static void restore(lm_engine *g, uint32_t n_vocab, uint32_t sequence, uint32_t n, const char *path)
{
    lm_tokens tokens = { 0 };
    lm_error  e = { 0 };

    if (lm_engine_restore(g, sequence, path, &tokens, &e) != LM_OK)
        fail_msg("%s: %s: %s", e.where, e.file, e.message);
    assert_int_equal(tokens.n, n);
    assert_int_equal(lm_engine_length(g, sequence), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(tokens.ids[i], token_at(i, n_vocab));
    lm_tokens_free(&tokens);
}

static void compare_files(const char *name)
{
    static char a[1 << 20], b[1 << 20];
    FILE       *x = fopen(file, "rb"), *y = fopen(other, "rb");
    size_t      n;

    assert_true(x && y);
    do {
        n = fread(a, 1, sizeof a, x);
        if (fread(b, 1, sizeof b, y) != n || memcmp(a, b, n) != 0)
            fail_msg("%s: one sequence gives two files", name);
    } while (n);
    fclose(x);
    fclose(y);
}

static bool check(const golden_model *name, const lm_model *m, const setting *s)
{
    uint32_t   v = vocabulary(m);
    lm_engine *g = open_engine(m, s, 1, 1), *crowd;
    float     *expected;

    if (!g)
        return false;
    expected = malloc(v * sizeof *expected);
    feed(g, v, 0, 0, SAVED, 100, 0);
    save(g, v, 0, SAVED, file);
    memcpy(expected, feed(g, v, 0, SAVED, POSITIONS, 1, 0), v * sizeof *expected);

    /* with other sequences, on reused pages, in another engine */
    crowd = open_engine(m, s, 3, 2);
    feed(crowd, v, 1, 0, POSITIONS, 70, 5);
    feed(crowd, v, 2, 0, 80, 33, 9);
    assert_int_equal(lm_engine_truncate(crowd, 1, 0, NULL), LM_OK);
    restore(crowd, v, 1, SAVED, file);
    if (memcmp(expected, feed(crowd, v, 1, SAVED, POSITIONS, 1, 0), v * sizeof *expected) != 0)
        fail_msg("%s: what was restored goes on otherwise", name->name);
    assert_int_equal(lm_engine_truncate(crowd, 1, 0, NULL), LM_OK);
    restore(crowd, v, 1, SAVED, file);
    save(crowd, v, 1, SAVED, other);
    compare_files(name->name);
    if (memcmp(expected, feed(crowd, v, 1, SAVED, POSITIONS, 7, 0), v * sizeof *expected) != 0)
        fail_msg("%s: what was restored goes on otherwise in pieces", name->name);
    lm_engine_free(crowd);
    lm_engine_free(g);
    free(expected);
    return true;
}

static void restored_sequences_go_on_with_the_same_bits(void **state)
{
    size_t ran = 0, pair = 0;

    (void)state;
    for (size_t i = 0; i < n_models; i++) {
        lm_model *m = NULL;
        assert_int_equal(lm_model_open(models[i].path, NULL, &m, NULL), LM_OK);
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
            if (!strstr(models[i].name, "dynamic") && !strstr(models[i].name, "longrope") &&
                pair++ % EVERY == 0)
                ran += check(&models[i], m, &settings[k]);
        lm_model_close(m);
    }
    print_message("             %zu models and settings\n", ran);
    assert_true(ran * EVERY > n_models);
}

/* ---- rejected files ---- */

static lm_model *open_golden(const char *name)
{
    const char *root = getenv("LAMINA_TESTS");
    lm_model   *m    = NULL;
    char        path[600];

    snprintf(path, sizeof path, "%.400s/golden/%.100s", root ? root : "tests", name);
    assert_int_equal(lm_model_open(path, NULL, &m, NULL), LM_OK);
    return m;
}

typedef struct engine_state {
    uint64_t used, total;
    uint32_t length;
} engine_state;

static engine_state state_of(const lm_engine *g)
{
    engine_state s = { .length = lm_engine_length(g, 0) };

    lm_engine_pages(g, &s.used, &s.total);
    return s;
}

/* Check that the file is rejected with this status and an error that names it, and that nothing has
 * changed. */
static void refuse(lm_engine *g, const char *path, lm_status status, const char *where)
{
    engine_state before = state_of(g), after;
    lm_tokens    tokens = { 0 };
    lm_error     e = { 0 };
    lm_status    got = lm_engine_restore(g, 0, path, &tokens, &e);

    if (got != status || (where && strcmp(e.where, where) != 0))
        fail_msg("%s, not %s: %s: %s", lm_status_word(got), lm_status_word(status), e.where, e.message);
    after = state_of(g);
    assert_memory_equal(&before, &after, sizeof before);
    assert_string_equal(e.file, path);
    assert_null(tokens.ids);
}

static size_t read_file(const char *path, char *out, size_t max)
{
    FILE  *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, max, f) : 0;

    assert_true(n > 0 && n < max);
    fclose(f);
    return n;
}

static void write_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void damaged_files_change_nothing(void **state)
{
    static char bytes[1 << 20];
    lm_model   *m = open_golden("gemma2/windows");
    lm_engine  *g = open_engine(m, &settings[0], 1, 1);
    uint32_t    v = vocabulary(m);
    lm_tokens   tokens = { 0 };

    (void)state;
    feed(g, v, 0, 0, SAVED, 100, 0);
    save(g, v, 0, SAVED, file);
    assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    size_t n = read_file(file, bytes, sizeof bytes);
    for (size_t i = 0; i < n; i += i < 1024 ? 1 : 499) {     /* one bit of every byte of the first 1024, and
                                                                of some later bytes */
        bytes[i] ^= (char)(1 << i % 8);
        write_file(other, bytes, n);
        bytes[i] ^= (char)(1 << i % 8);
        assert_int_not_equal(lm_engine_restore(g, 0, other, &tokens, NULL), LM_OK);
        assert_int_equal(lm_engine_length(g, 0), 0);
        assert_null(tokens.ids);
    }
    for (size_t cut = 0; cut < n; cut += cut < 1024 ? 1 : 997) {
        write_file(other, bytes, cut);
        refuse(g, other, LM_BAD_MODEL, NULL);
    }
    write_file(other, bytes, n - 1);
    refuse(g, other, LM_BAD_MODEL, "checksum");
    write_file(other, bytes, n + 1);
    refuse(g, other, LM_BAD_MODEL, "end");
    bytes[n - 5000] ^= 1;
    write_file(other, bytes, n);
    refuse(g, other, LM_BAD_MODEL, "checksum");
    refuse(g, "/", LM_IO, NULL);
    refuse(g, "/nowhere/at/all", LM_NOT_FOUND, NULL);
    restore(g, v, 0, SAVED, file);
    assert_int_equal(lm_engine_restore(g, 0, file, &tokens, NULL), LM_USAGE);        /* slot not empty */
    assert_int_equal(lm_engine_restore(g, 1, file, &tokens, NULL), LM_USAGE);
    lm_engine_free(g);
    lm_model_close(m);
}

/* Engines reject the file if one setting changes the arithmetic, or if they have too little space. */
static void other_engines_reject(void **state)
{
    static const struct { lm_engine_options o; lm_status status; const char *where;
    } others[] = {
        { { .context = 192, .compute = LM_COMPUTE_AUTO, .kv = LM_KV_F32 }, LM_DIFFERS, "arithmetic" },
        { { .context = 192, .compute = LM_COMPUTE_F32, .kv = LM_KV_F16 }, LM_DIFFERS, "type of cache" },
        { { .context = 192,
            .compute = LM_COMPUTE_F32,
            .kv = LM_KV_F32,
            .kv_values = LM_KV_F16,
            .kv_apart = true },
          LM_DIFFERS,
          "type of cache" },
        { { .context = 192, .compute = LM_COMPUTE_F32, .kv = LM_KV_F32, .cpu = "ref" },
          LM_DIFFERS,
          "instruction set" },
        { { .context = 96, .compute = LM_COMPUTE_F32, .kv = LM_KV_F32 }, LM_LIMIT, "positions" },
        { { .context = 192, .kv_positions = 64, .compute = LM_COMPUTE_F32, .kv = LM_KV_F32 },
          LM_LIMIT,
          "cache" },
    };
    lm_model  *m = open_golden("llama/gqa");
    lm_engine *g = open_engine(m, &settings[0], 1, 1);
    uint32_t   v = vocabulary(m);
    bool       plain = strcmp(lm_engine_cpu(g), "ref") == 0;

    (void)state;
    feed(g, v, 0, 0, SAVED, 100, 0);
    save(g, v, 0, SAVED, file);
    lm_engine_free(g);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i].o.cpu && plain)
            continue;
        assert_int_equal(lm_engine_new(m, &others[i].o, &g, NULL), LM_OK);
        refuse(g, file, others[i].status, others[i].where);
        lm_engine_free(g);
    }
    lm_model_close(m);
}

static void other_models_reject(void **state)
{
    static const lm_model_options longer = { .rope_scaling = "linear", .rope_freq_scale = 0.5 };
    char              path[2][80];
    lm_model         *m[3] = { NULL };
    lm_engine        *g[3] = { NULL };

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        lm_synth_options o = { .type = "f16", .layers = 1, .seed = i + 1, .overwrite = true, .threads = 1 };
        const char      *root = getenv("LAMINA_TESTS");
        char             config[600];
        lm_error         e = { 0 };
        snprintf(path[i], sizeof path[i], "%.60s-%d.gguf", file, (int)i);
        snprintf(config, sizeof config, "%.400s/golden/llama/gqa", root ? root : "tests");
        if (lm_synth(config, path[i], &o, NULL, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
    }
    assert_int_equal(lm_model_open(path[0], NULL, &m[0], NULL), LM_OK);
    assert_int_equal(lm_model_open(path[1], NULL, &m[1], NULL), LM_OK);
    assert_int_equal(lm_model_open(path[0], &longer, &m[2], NULL), LM_OK);
    for (size_t i = 0; i < 3; i++)
        g[i] = open_engine(m[i], &settings[0], 1, 1);
    feed(g[0], vocabulary(m[0]), 0, 0, SAVED, 100, 0);
    save(g[0], vocabulary(m[0]), 0, SAVED, file);
    refuse(g[1], file, LM_DIFFERS, "model");
    refuse(g[2], file, LM_DIFFERS, "model options");
    for (size_t i = 0; i < 3; i++) {
        lm_engine_free(g[i]);
        lm_model_close(m[i]);
    }
    unlink(path[0]);
    unlink(path[1]);
}

/* A failed save leaves the existing file unchanged. */
static void a_failed_save_leaves_the_file(void **state)
{
    lm_model  *m = open_golden("llama/gqa");
    lm_engine *g = open_engine(m, &settings[0], 1, 1);
    uint32_t   v = vocabulary(m);
    lm_token   tokens[SAVED] = { 0 };
    lm_error   e = { 0 };

    (void)state;
    feed(g, v, 0, 0, SAVED, 100, 0);
    save(g, v, 0, SAVED, file);
    assert_int_equal(lm_engine_save(g, 0, tokens, SAVED - 1, file, &e), LM_USAGE);
    assert_int_equal(lm_engine_save(g, 1, tokens, SAVED, file, &e), LM_USAGE);
    assert_int_equal(lm_engine_save(g, 0, tokens, SAVED, "/nowhere/at/all", &e), LM_NOT_FOUND);
    assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    restore(g, v, 0, SAVED, file);
    lm_engine_free(g);
    lm_model_close(m);
}

/* A sequence of an engine with much rollback is restored in one with little, which stores fewer keys, and the
 * other way round. */
static void windows_keep_what_the_next_query_sees(void **state)
{
    lm_model         *m = open_golden_model("gemma2/windows", 40);
    lm_engine_options much = { .context = 192,
                               .max_rows = 100,
                               .max_logits = 1,
                               .rollback = 80,
                               .kv = LM_KV_F32,
                               .compute = LM_COMPUTE_F32 };
    lm_engine_options little = much;
    lm_engine        *g = NULL, *less = NULL;
    uint32_t          v = vocabulary(m);

    (void)state;
    little.rollback = 0;
    assert_int_equal(lm_engine_new(m, &much, &g, NULL), LM_OK);
    assert_int_equal(lm_engine_new(m, &little, &less, NULL), LM_OK);
    feed(g, v, 0, 0, SAVED, 1, 0);
    save(g, v, 0, SAVED, file);
    restore(less, v, 0, SAVED, file);
    float *expected = malloc(v * sizeof *expected);
    memcpy(expected, feed(g, v, 0, SAVED, POSITIONS, 1, 0), v * sizeof *expected);
    assert_memory_equal(expected, feed(less, v, 0, SAVED, POSITIONS, 1, 0), v * sizeof *expected);
    save(less, v, 0, POSITIONS, file);
    assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    restore(g, v, 0, POSITIONS, file);
    /* the other engine had not stored these keys */
    assert_int_equal(lm_engine_truncate(g, 0, POSITIONS - 40, NULL), LM_LIMIT);
    free(expected);
    lm_engine_free(g);
    lm_engine_free(less);
    lm_model_close(m);
}

/* Step a sequence until it has generated `n` tokens. */
static void choose(lm_engine *g, lm_sequence *s, lm_token *ids, size_t n)
{
    lm_row rows[64];

    for (size_t got = 0; got < n;) {
        lm_batch b = { .rows = rows, .max_rows = 64, .max_logits = 1 };
        lm_event event;
        lm_error e = { 0 };
        if (lm_sequences_step(g, &s, 1, &b, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        while (lm_sequence_event(s, &event))
            if (event.kind == LM_EVENT_TOKEN)
                ids[got++] = event.id;
    }
}

static lm_sequence *open_text(lm_engine *g, lm_sampler **sampler)
{
    lm_sampler_options  o = { .greedy = true };
    lm_sequence_options options = { .no_text = true, .ignore_eos = true };
    lm_sequence        *s = NULL;

    assert_int_equal(lm_sampler_new(&o, vocabulary(lm_engine_model(g)), NULL, sampler, NULL), LM_OK);
    assert_int_equal(lm_sequence_new(g, *sampler, &options, &s, NULL), LM_OK);
    return s;
}

/* A sequence saved during generation and restored in another engine continues with the same tokens. */
static void a_sequence_continues_where_it_was_saved(void **state)
{
    enum { PROMPT = 70, BEFORE = 9, AFTER = 20 };
    lm_model        *m = open_golden("llama/gqa");
    uint32_t         v = vocabulary(m);
    lm_token         prompt[PROMPT], all[BEFORE + AFTER], begun[BEFORE], rest[AFTER];
    lm_sampler      *sampler[3];
    lm_sequence     *s[3];
    lm_engine       *g[3];
    lm_sequence_info info;
    lm_tokens        held = { 0 };
    size_t           n;

    (void)state;
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = token_at(i, v);
    for (size_t i = 0; i < 3; i++) {
        g[i] = open_engine(m, &settings[1], 1, 1);
        s[i] = open_text(g[i], &sampler[i]);
    }
    assert_int_equal(lm_sequence_prompt(s[0], prompt, PROMPT, 0, NULL), LM_OK);
    choose(g[0], s[0], all, BEFORE + AFTER);
    assert_int_equal(lm_sequence_prompt(s[1], prompt, PROMPT, 0, NULL), LM_OK);
    choose(g[1], s[1], begun, BEFORE);
    assert_memory_equal(begun, all, sizeof begun);

    lm_sequence_describe(s[1], &info);
    const lm_token *ids = lm_sequence_ids(s[1], &n);
    assert_int_equal(n, PROMPT + BEFORE);
    assert_int_equal(lm_engine_save(g[1], 0, ids, info.n_held, file, NULL), LM_OK);
    assert_int_equal(lm_engine_restore(g[2], 0, file, &held, NULL), LM_OK);
    assert_int_equal(held.n, info.n_held);
    assert_int_equal(lm_sequence_prompt(s[2], ids, n, held.n, NULL), LM_OK);
    choose(g[2], s[2], rest, AFTER);
    assert_memory_equal(rest, all + BEFORE, sizeof rest);
    lm_sequence_describe(s[2], &info);
    assert_int_equal(info.n_reused, held.n);
    lm_tokens_free(&held);
    for (size_t i = 0; i < 3; i++) {
        lm_sequence_free(s[i]);
        lm_sampler_free(sampler[i]);
        lm_engine_free(g[i]);
    }
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_sequences_go_on_with_the_same_bits),
        cmocka_unit_test(damaged_files_change_nothing),
        cmocka_unit_test(other_engines_reject),
        cmocka_unit_test(other_models_reject),
        cmocka_unit_test(a_failed_save_leaves_the_file),
        cmocka_unit_test(windows_keep_what_the_next_query_sees),
        cmocka_unit_test(a_sequence_continues_where_it_was_saved),
    };

    char folder[256];
    temporary_path(folder, "saved-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof file, "%.240s/file", folder);
    snprintf(other, sizeof other, "%.240s/other", folder);
    n_models = golden_models(models, MAX);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    unlink(other);
    rmdir(folder);
    return failed;
}
