/* ranges.c - attention over a deep cache, which workers split into ranges of positions, gives the bits of one
 * thread with all rows at once for any number of threads, rows and sequences, with windows, sinks, soft caps,
 * biases and latents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/os/cpu.h"
#include "models.h"
#include "runtime/engine/state.h"

#define POSITIONS (2 * LM_RANGE + 150)      /* three ranges */
#define DEEP      (2 * LM_RANGE - 40)       /* from here on a few rows at a time */
#define CONTEXT   (3 * LM_RANGE)

/* The settings of a case. */
typedef struct deep_case {
    const char *golden;
    int64_t     window;          /* of lm_model_options */
    const char *cpu;
    lm_compute  compute;
    lm_kv_type  kv, values;
} deep_case;

static const deep_case cases[] = {
    /* one key/value head */
    { "llama/mqa", 0, "ref", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "llama/mqa", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "llama/mqa", 0, "avx512bf16", LM_COMPUTE_F32, LM_KV_F32, LM_KV_F32 },
    { "llama/gqa", 0, "avx2", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 }, /* two */
    { "llama/gqa", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_BF16, LM_KV_BF16 },
    { "llama/gqa", 0, "avx512bf16", LM_COMPUTE_FINE, LM_KV_F16, LM_KV_F16 },
    { "mistral/window", LM_RANGE + 90, "avx2", LM_COMPUTE_F32, LM_KV_F32,
      LM_KV_F32 }, /* a window across an edge, and one up to it */
    { "mistral/window", LM_RANGE, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "mistral/window", 20, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16,
      LM_KV_F16 }, /* one range or two, depending on the position */
    { "ernie4_5/biases", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_Q8_0, LM_KV_Q4_0 },
    { "ernie4_5/biases", LM_RANGE + 90, "avx512bf16", LM_COMPUTE_FINE, LM_KV_Q5_1, LM_KV_F16 },
    { "ernie4_5/biases", 20, "avx2", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_Q5_1 },
    { "deepseek_v2/lite-plain", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_Q4_0, LM_KV_Q4_0 },
    { "gemma2/caps", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "gpt_oss/plain", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 }, /* sinks */
    { "gpt_oss/plain", 0, "ref", LM_COMPUTE_F32, LM_KV_F32, LM_KV_F32 },
    { "falcon/alibi-long", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "bloom/alibi", 0, "avx2", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "deepseek_v2/lite", 0, "avx512bf16", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 }, /* one latent */
    { "deepseek_v2/lite", 0, "avx2", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "llama/mqa", 0, "i8mm", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
    { "deepseek_v2/lite", 0, "neon", LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 },
};

static lm_model *open_model(const deep_case *c)
{
    const char      *root = getenv("LAMINA_TESTS");
    lm_model_options o    = { .sliding_window = c->window };
    lm_model        *m    = NULL;
    lm_error         e    = { 0 };
    char             path[600];

    snprintf(path, sizeof path, "%.400s/golden/%.100s", root ? root : "tests", c->golden);
    if (lm_model_open(path, &o, &m, &e) != LM_OK)
        fail_msg("%s: %s: %s", c->golden, e.where, e.message);
    assert_false(m->program->context_is_hard && m->program->context_length < CONTEXT);
    return m;
}

static lm_engine_options options(const deep_case *c, uint32_t threads, uint32_t sequences, uint32_t rows)
{
    return (lm_engine_options){ .context = CONTEXT,
                                .sequences = sequences,
                                .max_rows = rows,
                                .max_logits = rows,
                                .kv = c->kv,
                                .kv_values = c->values,
                                .kv_apart = true,
                                .compute = c->compute,
                                .threads = threads,
                                .cpu = c->cpu };
}

static lm_engine *start(const lm_model *m, const lm_engine_options *o)
{
    lm_engine *g = NULL;
    lm_error   e = { 0 };

    if (lm_engine_new(m, o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* Append rows for positions [from, to) of a sequence; the token depends on the position only. Returns the new
 * number of rows. */
static size_t add_rows(const lm_engine *g, lm_row *rows, size_t n, uint32_t sequence, uint32_t from,
                       uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        rows[n++] = (lm_row){ sequence, (lm_token)((i * 2654435761u + 17) % g->program->n_vocab), i, true };
    return n;
}

/* Run the rows and store the logits of those of `sequence` in `out` [POSITIONS][V]. */
static void run(lm_engine *g, const lm_row *rows, size_t n, uint32_t sequence, float *out)
{
    lm_error e = { 0 };
    size_t   v = g->program->n_vocab;

    if (lm_engine_step(g, rows, n, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    for (size_t i = 0; i < n; i++)
        if (rows[i].sequence == sequence)
            memcpy(out + rows[i].position * v, lm_engine_logits(g, i), v * sizeof *out);
}

static lm_row rows[POSITIONS];

static void feed(lm_engine *g, uint32_t sequence, uint32_t from, uint32_t to, float *out)
{
    run(g, rows, add_rows(g, rows, 0, sequence, from, to), sequence, out);
}

static void compare(const char *what, const deep_case *c, uint32_t threads, const lm_engine *g, uint32_t from,
                    const float *x, const float *y)
{
    size_t v = g->program->n_vocab;

    for (uint32_t i = from; i < POSITIONS; i++)
        if (memcmp(x + i * v, y + i * v, v * sizeof *x) != 0)
            fail_msg("%s, %s, window %d, %s, %u threads: position %u differs", what, c->golden,
                     (int)c->window, c->cpu, threads, i);
}

/* A prompt in pieces, then a few rows at a time and one by one. Allocated bytes equal planned bytes. */
static void one_sequence(const deep_case *c, const lm_model *m, uint32_t threads, const float *expected,
                         float *got)
{
    lm_engine_options o = options(c, threads, 1, 300);
    lm_engine        *g = start(m, &o);
    lm_memory         planned, allocated;
    uint32_t          at = 0;

    assert_int_equal(lm_engine_predict(m, &o, &planned, NULL), LM_OK);
    lm_engine_allocated(g, &allocated);
    assert_memory_equal(&planned, &allocated, sizeof planned);
    for (; at < DEEP; at += at + 300 < DEEP ? 300 : DEEP - at)
        feed(g, 0, at, at + 300 < DEEP ? at + 300 : DEEP, got);
    uint64_t calls = lm_alloc_statistics().calls;
    for (uint32_t n = 1; at < POSITIONS; at += n, n = n % 9 + 1)
        feed(g, 0, at, at + n < POSITIONS ? at + n : POSITIONS, got);
    assert_true(lm_alloc_statistics().calls == calls);
    compare("a few rows", c, threads, g, 0, expected, got);
    if (lm_engine_truncate(g, 0, DEEP, NULL) == LM_OK)       /* fails if a window has dropped keys that would
                                                                be needed again */
        for (at = DEEP; at < POSITIONS; at++)
            feed(g, 0, at, at + 1, got);
    else
        assert_true(g->plan->n_groups > 1 || g->plan->groups[0].window);
    compare("row by row", c, threads, g, 0, expected, got);
    lm_engine_free(g);
}

/* Three sequences generate together at different depths, one of them on pages of another. */
static void crowd(const deep_case *c, const lm_model *m, uint32_t threads, const float *expected, float *got)
{
    lm_engine_options o = options(c, threads, 3, 200);
    lm_engine        *g = start(m, &o);
    uint32_t          at[3] = { DEEP, DEEP, 0 };

    for (uint32_t i = 0; i < DEEP; i += i + 200 < DEEP ? 200 : DEEP - i)
        feed(g, 0, i, i + 200 < DEEP ? i + 200 : DEEP, got);
    assert_int_equal(lm_engine_share(g, 0, 1, DEEP, NULL), LM_OK);
    for (uint32_t round = 0; at[1] < POSITIONS; round++) {
        size_t n = add_rows(g, rows, 0, 0, at[0], at[0] + (at[0] + 1 < POSITIONS));
        n = add_rows(g, rows, n, 2, at[2], at[2] + round % 3);
        n = add_rows(g, rows, n, 1, at[1], at[1] + 1);
        run(g, rows, n, 1, got);
        at[0] += at[0] + 1 < POSITIONS;
        at[2] += round % 3;
        at[1]++;
    }
    compare("in a crowd", c, threads, g, DEEP, expected, got);
    lm_engine_free(g);
}

static void results_do_not_depend_on_which_thread_takes_a_range(void **state)
{
    size_t ran = 0;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += 1 + (EVERY > 1)) {
        const deep_case *c = &cases[i];
        lm_cpu mask = 0;
        if (lm_cpu_level(c->cpu, &mask, NULL) != LM_OK ||
            strcmp(c->cpu, lm_cpu_name(mask & lm_cpu_detected())) != 0)
            continue;
        lm_model *m = open_model(c);
        size_t    bytes = (size_t)POSITIONS * m->program->n_vocab * sizeof(float);
        float    *expected = malloc(bytes), *got = malloc(bytes);
        lm_engine_options o = options(c, 1, 1, POSITIONS);
        lm_engine        *g = start(m, &o);
        feed(g, 0, 0, POSITIONS, expected);
        lm_engine_free(g);
        for (uint32_t threads = 1; threads <= 4; threads++) {
            one_sequence(c, m, threads, expected, got);
            if (threads % 2 == 0)
                crowd(c, m, threads, expected, got);
        }
        free(expected);
        free(got);
        lm_model_close(m);
        ran++;
    }
    assert_true(ran > 0);
    print_message("             %zu models and settings\n", ran);
}

/* These tests do exercise ranges: two workers have one head of one row and share its ranges. */
static void parts_are_planned_where_heads_are_few(void **state)
{
    const deep_case c = { "llama/mqa",     0,         lm_cpu_name(lm_cpu_detected()),
                          LM_COMPUTE_AUTO, LM_KV_F16, LM_KV_F16 };
    lm_model         *m = open_model(&c);
    lm_engine_options o = options(&c, 1, 1, 8);
    lm_engine        *one = start(m, &o);
    uint64_t          spec = one->plan->layers[0].ranges;

    (void)state;
    o.threads      = 2;
    lm_engine *two = start(m, &o);
    assert_int_equal(spec, 3);
    assert_int_equal(one->plan->state.workers, one->plan->state.partials);
    assert_true(two->plan->state.workers > two->plan->state.partials);
    lm_engine_free(one);
    lm_engine_free(two);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_which_thread_takes_a_range),
        cmocka_unit_test(parts_are_planned_where_heads_are_few),
    };
    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
