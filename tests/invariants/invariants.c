/* invariants.c - properties that must hold for every model, whatever its family: one loop over the goldens.
 *
 * On one instruction set the logits are bitwise the same for any split of a prompt and any number of threads,
 * alone or with other sequences, computed or on shared pages. Allocated bytes equal planned bytes, and a step
 * allocates nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef LM_WITHOUT_STUDY
#include "study/facts/counts.h"
#endif
#include "base/alloc.h"
#include "base/os/cpu.h"
#include "models.h"
#include "runtime/engine/state.h"

#define MAX      1024
#define POSITIONS 150            /* three pages of the cache, the last one partly filled */

static golden_model models[MAX];
static size_t       n_models;

/* The settings of a case. */
typedef struct setting {
    const char *cpu;
    lm_compute  compute;
    lm_kv_type  kv, values;
} setting;

static const setting settings[] = {
    { "ref", LM_COMPUTE_F32, LM_KV_F32, LM_KV_F32 },
    { "ref", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "sse41", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "avx2", LM_COMPUTE_F32, LM_KV_BF16, LM_KV_BF16 },
    { "avx2", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "avxvnni", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "avx512vnni", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "amx", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "i8mm", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "avx2", LM_COMPUTE_AUTO, LM_KV_Q8_0, LM_KV_Q8_0 },
    { "ref", LM_COMPUTE_AUTO, LM_KV_Q5_1, LM_KV_Q4_0 },
    { "avx2", LM_COMPUTE_F32, LM_KV_F16, LM_KV_Q4_0 },
    { "avx512bf16", LM_COMPUTE_AUTO, LM_KV_Q8_0, LM_KV_Q5_1 },
    { "avx512bf16", LM_COMPUTE_FINE, LM_KV_Q4_0, LM_KV_F32 },
    { "amx", LM_COMPUTE_AUTO, LM_KV_Q5_0, LM_KV_F16 },
    { "amx", LM_COMPUTE_FINE, LM_KV_Q4_1, LM_KV_Q4_1 },
};

/* Return token i of every test: spread over the vocabulary, always the same. */
static lm_token token_at(const lm_model *m, uint32_t i)
{
    return (lm_token)((i * 2654435761u + 17) % m->program->n_vocab);
}

static bool is_possible(const lm_model *m, const setting *s)
{
    lm_cpu mask = 0;

    if (lm_cpu_level(s->cpu, &mask, NULL) != LM_OK)
        return false;                    /* of another architecture */
    if (m->program->context_is_hard && m->program->context_length < 256)
        return false;                    /* fewer learned positions than these tests need */
    if (strcmp(s->cpu, lm_cpu_name(mask & lm_cpu_detected())) != 0)
        return false;
    lm_engine_options o = {
        .context = 256, .kv = s->kv, .kv_values = s->values, .kv_apart = true, .cpu = s->cpu
    };
    lm_memory         memory;
    /* not whole blocks, or a latent of two types */
    return lm_engine_predict(m, &o, &memory, NULL) != LM_UNSUPPORTED;
}

static lm_engine *open_engine(const lm_model *m, const setting *s, uint32_t threads, uint32_t sequences)
{
    lm_error          e = { 0 };
    lm_engine        *g = NULL;
    lm_engine_options o = { .context = 256,
                            .sequences = sequences,
                            .max_rows = 192,
                            .max_logits = 192,
                            .kv = s->kv,
                            .kv_values = s->values,
                            .kv_apart = true,
                            .compute = s->compute,
                            .threads = threads,
                            .threads_batch = threads == 2   ? 3
                                             : threads == 3 ? 1
                                                            : 0,
                            .cpu = s->cpu };

    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* Run positions [from, to) of a sequence in one step and store their logits at those positions of `out`
 * [POSITIONS][V]. */
static void feed(lm_engine *g, uint32_t sequence, uint32_t from, uint32_t to, float *out)
{
    lm_row   rows[192] = { 0 };
    lm_error e = { 0 };
    size_t   v = g->program->n_vocab;

    for (uint32_t i = from; i < to; i++)
        rows[i - from] = (lm_row){ sequence, token_at(g->model, i), i, true };
    if (lm_engine_step(g, rows, to - from, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    for (uint32_t i = from; i < to; i++)
        memcpy(out + i * v, lm_engine_logits(g, i - from), v * sizeof *out);
}

/* Return the logits of all positions in one step, on one thread, with one sequence: the reference for
 * everything else. The caller frees. */
static float *expected_logits(const lm_model *m, const setting *s)
{
    float     *out = malloc((size_t)POSITIONS * m->program->n_vocab * sizeof *out);
    lm_engine *g   = open_engine(m, s, 1, 1);

    feed(g, 0, 0, POSITIONS, out);
    lm_engine_free(g);
    return out;
}

static void compare(const char *what, const golden_model *name, const setting *s, const lm_model *m,
                    const float *x, const float *y)
{
    size_t v = m->program->n_vocab;

    for (uint32_t i = 0; i < POSITIONS; i++)
        if (memcmp(x + i * v, y + i * v, v * sizeof *x) != 0)
            fail_msg("%s, %s, %s: position %u differs", what, name->name, s->cpu, i);
}

typedef void check(const golden_model *name, const lm_model *m, const setting *s, const float *expected,
                   float *got);

/* A prompt in uneven pieces, or token by token, gives the same logits: no sum depends on the batch. */
static void check_chunks(const golden_model *name, const lm_model *m, const setting *s, const float *expected,
                         float *got)
{
    static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 42 };
    lm_engine            *g       = open_engine(m, s, 1, 1);

    for (uint32_t at = 0, k = 0; at < POSITIONS; k++) {
        uint32_t n = sizes[k % 12] < POSITIONS - at ? sizes[k % 12] : POSITIONS - at;
        feed(g, 0, at, at + n, got);
        at += n;
    }
    compare("in pieces", name, s, m, expected, got);
    assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    for (uint32_t at = 0; at < POSITIONS; at++)
        feed(g, 0, at, at + 1, got);
    compare("token by token", name, s, m, expected, got);
    lm_engine_free(g);
}

static void check_threads(const golden_model *name, const lm_model *m, const setting *s,
                          const float *expected, float *got)
{
    for (uint32_t threads = 2; threads <= 3; threads++) {
        lm_engine *g = open_engine(m, s, threads, 1);
        feed(g, 0, 0, 100, got);
        for (uint32_t at = 100; at < POSITIONS; at++)
            feed(g, 0, at, at + 1, got);
        compare("threads", name, s, m, expected, got);
        lm_engine_free(g);
    }
}

/* Sequence 1 of three advances by uneven pieces while the others process their prompts and generate in the
 * same steps. */
static void check_crowd(const golden_model *name, const lm_model *m, const setting *s, const float *expected,
                        float *got)
{
    lm_engine *g = open_engine(m, s, 2, 3);
    size_t     v = m->program->n_vocab;
    lm_row     rows[192] = { 0 };
    lm_error   e = { 0 };
    uint32_t   at[3] = { 0 };

    for (uint32_t round = 0; at[1] < POSITIONS; round++) {
        uint32_t want[3] = { 1 + round % 11, 1 + round * 7 % 13, round % 3 ? 1 : 0 };
        size_t   n = 0, first = 0;
        for (uint32_t q = 0; q < 3; q++) {
            first = q == 1 ? n : first;
            for (uint32_t k = 0; k < want[q] && at[q] < POSITIONS; k++, at[q]++)
                rows[n++] = (lm_row){ q, token_at(m, q == 1 ? at[q] : at[q] + 31), at[q], q == 1 };
        }
        if (lm_engine_step(g, rows, n, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        for (size_t i = first; i < n && rows[i].sequence == 1; i++)
            memcpy(got + rows[i].position * v, lm_engine_logits(g, i), v * sizeof *got);
    }
    compare("in a crowd", name, s, m, expected, got);
    lm_engine_free(g);
}

/* A prefix on shared pages, whose last page is copied when both sequences continue, equals a computed
 * prefix. */
static void check_sharing(const golden_model *name, const lm_model *m, const setting *s,
                          const float *expected, float *got)
{
    lm_engine *g      = open_engine(m, s, 1, 2);
    bool       states = m->program->n_states > 0;
    uint32_t   share = states ? 64 : 80, back = states ? 128 : 70;
    uint64_t   used, total, before;

    feed(g, 0, 0, 64, got);              /* states are kept where a step ends with a page */
    feed(g, 0, 64, 90, got);
    lm_engine_pages(g, &before, &total);
    if (states) {
        assert_int_equal(lm_engine_share(g, 0, 1, 80, NULL), LM_LIMIT);
        assert_int_equal(lm_engine_truncate(g, 0, 80, NULL), LM_LIMIT);
    }
    assert_int_equal(lm_engine_share(g, 0, 1, share, NULL), LM_OK);
    lm_engine_pages(g, &used, &total);
    assert_true(used == before);
    feed(g, 1, share, 128, got);
    feed(g, 1, 128, POSITIONS, got);
    compare("on shared pages", name, s, m, expected, got);
    feed(g, 0, 90, POSITIONS, got);      /* the second did not write to the first one's page */
    compare("after sharing", name, s, m, expected, got);
    assert_int_equal(lm_engine_truncate(g, 1, back, NULL), LM_OK);
    feed(g, 1, back, POSITIONS, got);
    compare("after going back", name, s, m, expected, got);
    assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    assert_int_equal(lm_engine_truncate(g, 1, 0, NULL), LM_OK);
    lm_engine_pages(g, &used, &total);
    assert_true(used == 0);
    lm_engine_free(g);
}

/* Probing values does not change them. */
static void check_probes(const golden_model *name, const lm_model *m, const setting *s, const float *expected,
                         float *got)
{
    const char       *paths[64] = { 0 };
    lm_error          e         = { 0 };
    lm_engine        *g         = NULL;
    size_t            n         = 0;
    lm_engine_options o = { .context = 256,
                            .max_rows = 192,
                            .max_logits = 192,
                            .kv = s->kv,
                            .kv_values = s->values,
                            .kv_apart = true,
                            .compute = s->compute,
                            .threads = 1,
                            .cpu = s->cpu,
                            .probes = paths };

    for (uint32_t i = 0; i < m->program->n_modules && n < 63; i++)
        if (m->program->modules[i].out != LM_NONE && m->program->modules[i].path[0])
            paths[n++] = m->program->modules[i].path;
    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    feed(g, 0, 0, POSITIONS, got);
    compare("with probes", name, s, m, expected, got);
    for (size_t i = 0; i < n; i++)
        assert_non_null(lm_engine_probe(g, paths[i], POSITIONS - 1, NULL));
    lm_engine_free(g);
}

static void check_work(const golden_model *name, const lm_model *m, const lm_engine *g)
{
#ifdef LM_WITHOUT_STUDY
    (void)name, (void)m, (void)g;
#else
    lm_work        work;
    lm_flop_counts flops;

    lm_engine_work(g, &work);
    lm_count_flops(m->program, &flops);
    uint64_t ops = work.row.int8 + work.row.bf16 + work.row.f32 + work.logits.int8 + work.logits.bf16 +
                   work.logits.f32;
    if (ops != flops.per_token_matmul)
        fail_msg("%s: the plan multiplies %llu, the analysis counts %llu", name->name,
                 (unsigned long long)ops, (unsigned long long)flops.per_token_matmul);
#endif
}

static void check_memory(const golden_model *name, const lm_model *m, const setting *s, const float *expected,
                         float *got)
{
    lm_engine_options o = { .context = 256, .sequences = 2, .max_rows = 192, .max_logits = 192, .kv = s->kv,
                            .kv_values = s->values, .kv_apart = true,
                            .compute = s->compute,
                            .threads = 2, .threads_batch = 3, .cpu = s->cpu };
    lm_memory planned, allocated;

    (void)expected;
    uint64_t before = lm_alloc_statistics().aligned_bytes;
    assert_int_equal(lm_engine_predict(m, &o, &planned, NULL), LM_OK);
    assert_true(lm_alloc_statistics().aligned_bytes == before);
    lm_engine *g = open_engine(m, s, 2, 2);
    lm_engine_allocated(g, &allocated);
    check_work(name, m, g);
    if (memcmp(&planned, &allocated, sizeof planned) != 0)
        fail_msg("%s, %s: planned %llu bytes, allocated %llu", name->name, s->cpu,
                 (unsigned long long)planned.total, (unsigned long long)allocated.total);
    feed(g, 0, 0, 60, got);
    uint64_t calls = lm_alloc_statistics().calls;
    for (uint32_t at = 60; at < POSITIONS; at++)
        feed(g, 0, at, at + 1, got);
    assert_true(lm_alloc_statistics().calls == calls);
    lm_engine_free(g);
    assert_true(lm_alloc_statistics().aligned_bytes == before);
}

static check *const checks[] = { check_chunks, check_threads, check_crowd,
                                 check_sharing, check_probes, check_memory };
enum { CHECKS = sizeof checks / sizeof *checks };

/* Run every check of one model with one setting (under sanitizers one in EVERY, in rotation). Plain C takes
 * as long as all other levels together: one check in three there. Returns how many ran. */
static size_t check_all(const golden_model *name, const lm_model *m, const setting *s, size_t turn)
{
    size_t every = EVERY == 1 && strcmp(s->cpu, "ref") == 0 ? 3 : EVERY;
    float *expected = NULL, *got = malloc((size_t)POSITIONS * m->program->n_vocab * sizeof *got);
    size_t ran = 0;

    for (size_t c = 0; c < CHECKS; c++) {
        if ((turn + c) % every)
            continue;
        if (!expected)
            expected = expected_logits(m, s);
        checks[c](name, m, s, expected, got);
        ran++;
    }
    free(expected);
    free(got);
    return ran;
}

/* Neither chunks nor threads, other sequences, shared pages or probes change a bit; planned bytes are
 * allocated bytes. */
static void nothing_changes_the_logits(void **state)
{
    size_t ran = 0, turn = 0;

    (void)state;
    for (size_t i = 0; i < n_models; i++) {
        lm_error  e = { 0 };
        lm_model *m = NULL;
        if (lm_model_open(models[i].path, NULL, &m, &e) != LM_OK)
            fail_msg("%s: %s: %s", models[i].name, e.where, e.message);
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
            if (is_possible(m, &settings[k]) && !lm_model_length_dependent(m, NULL))
                ran += check_all(&models[i], m, &settings[k], turn++);
        lm_model_close(m);
    }
    assert_true(ran >= CHECKS);
    print_message("             %zu checks of models and settings\n", ran);
}

/* A rejected step changes nothing. */
static void rejected_steps_change_nothing(void **state)
{
    lm_error   e = { 0 };
    lm_model  *m = NULL;
    lm_row     rows[192] = { 0 };
    setting    s = settings[1];

    (void)state;
    assert_int_equal(lm_model_open(models[0].path, NULL, &m, &e), LM_OK);
    float     *expected = expected_logits(m, &s);
    float     *got      = malloc((size_t)POSITIONS * m->program->n_vocab * sizeof *got);
    lm_engine *g        = open_engine(m, &s, 1, 2);
    feed(g, 0, 0, 60, got);
    for (uint32_t i = 0; i < 192; i++)
        rows[i] = (lm_row){ 0, token_at(m, 60 + i), 60 + i, false };
    assert_int_equal(lm_engine_step(g, rows, 0, &e), LM_USAGE);
    assert_int_equal(lm_engine_step(g, rows, 193, &e), LM_USAGE);
    rows[191].position = 500;
    assert_int_equal(lm_engine_step(g, rows, 192, &e), LM_USAGE);
    rows[191] = (lm_row){ 0, -1, 251, false };
    assert_int_equal(lm_engine_step(g, rows, 192, &e), LM_USAGE);
    rows[191] = (lm_row){ 7, 1, 0, false };
    assert_int_equal(lm_engine_step(g, rows, 192, &e), LM_USAGE);
    lm_engine_cancel(g);
    assert_int_equal(lm_engine_step(g, rows, 100, &e), LM_CANCELLED);
    assert_int_equal(lm_engine_length(g, 0), 60);
    feed(g, 0, 60, POSITIONS, got);
    compare("after refusals", &models[0], &s, m, expected, got);
    for (uint32_t i = 0; i < 192; i++)
        rows[i] = (lm_row){ 0, 1, POSITIONS + i, false };
    assert_int_equal(lm_engine_step(g, rows, 106, &e), LM_OK);
    rows[0] = (lm_row){ 0, 1, 256, false };
    assert_int_equal(lm_engine_step(g, rows, 1, &e), LM_LIMIT);
    lm_engine_free(g);
    lm_model_close(m);
    free(expected);
    free(got);
}

/* Return the path of a model that stores only keys and values. */
static const char *without_states(void)
{
    for (size_t i = 0; *models[i].path; i++)
        if (strncmp(models[i].name, "llama/", 6) == 0)
            return models[i].path;
    fail_msg("no golden of llama");
    return NULL;
}

/* Two owners write to a page that they share: one copies it, the other writes in place. */
static void the_last_owner_keeps_a_page(void **state)
{
    lm_error          e = { 0 };
    lm_model         *m = NULL;
    lm_engine        *g = NULL;
    lm_engine_options o = {
        .context = 128, .sequences = 3, .max_rows = 16, .kv_positions = 128, .kv = LM_KV_F16, .threads = 1
    };
    lm_row            rows[10];
    uint64_t          used, total;

    (void)state;
    assert_int_equal(lm_model_open(without_states(), NULL, &m, &e), LM_OK);
    assert_int_equal(lm_engine_new(m, &o, &g, &e), LM_OK);
    for (uint32_t i = 0; i < 10; i++)
        rows[i] = (lm_row){ 0, token_at(m, i), i, false };
    assert_int_equal(lm_engine_step(g, rows, 10, &e), LM_OK);
    assert_int_equal(lm_engine_share(g, 0, 1, 10, &e), LM_OK);
    assert_int_equal(lm_engine_share(g, 0, 2, 10, &e), LM_OK);
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = (lm_row){ i, 1, 10, false };
    /* needs two copies, but one page is free */
    assert_int_equal(lm_engine_step(g, rows, 3, &e), LM_LIMIT);
    assert_int_equal(lm_engine_truncate(g, 2, 0, &e), LM_OK);
    assert_int_equal(lm_engine_step(g, rows, 2, &e), LM_OK);
    lm_engine_pages(g, &used, &total);
    assert_int_equal(used, total);
    lm_engine_free(g);
    lm_model_close(m);
}

typedef struct canceller {
    lm_engine  *g;
    unsigned    wait;                /* iterations before it cancels */
    atomic_bool done;
} canceller;

static void *cancel_soon(void *arg)
{
    canceller *c = arg;

    for (volatile unsigned i = 0; i < c->wait; i++)
        continue;
    lm_engine_cancel(c->g);
    atomic_store(&c->done, true);
    return NULL;
}

/* However late in a step a cancel comes, it ends that step or the next one. */
static void no_cancel_is_lost(void **state)
{
    lm_error  e = { 0 };
    lm_model *m = NULL;

    (void)state;
    assert_int_equal(lm_model_open(models[0].path, NULL, &m, &e), LM_OK);
    lm_engine *g   = open_engine(m, &settings[0], 1, 1);
    lm_row     row = { 0, 1, 0, true };
    for (unsigned k = 0; k < 400; k++) {
        canceller c    = { .g = g, .wait = k * 97 % 20000 };
        unsigned  late = 0;
        pthread_t thread;
        lm_status status = LM_OK;
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
        while (status == LM_OK && late < 3) {
            late += atomic_load(&c.done);
            status = lm_engine_step(g, &row, 1, &e);
            assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
        }
        pthread_join(thread, NULL);
        assert_int_equal(status, LM_CANCELLED);
        assert_int_equal(lm_engine_step(g, &row, 1, &e), LM_OK);      /* and only that one */
        assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    }
    lm_engine_cancel(g);
    assert_true(lm_engine_cancelled(g));
    assert_false(lm_engine_cancelled(g));
    lm_engine_free(g);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes_the_logits),
        cmocka_unit_test(rejected_steps_change_nothing),
        cmocka_unit_test(the_last_owner_keeps_a_page),
        cmocka_unit_test(no_cancel_is_lost),
    };

    n_models = golden_models(models, MAX);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
