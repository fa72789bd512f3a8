/* engines.c - several engines on one model, each in its own thread, and the calls that are allowed while one
 * of them steps. Each engine computes the same and allocates the same as alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/engine.h"

enum { ENGINES = 3, ROUNDS = 20, PROMPT = 70, POSITIONS = 90 };

static lm_model *open_model(void)
{
    const char *root = getenv("LAMINA_TESTS");
    lm_model   *m    = NULL;
    lm_error    e    = { 0 };
    char        path[600];

    snprintf(path, sizeof path, "%.400s/golden/gemma2/windows", root ? root : "tests");
    if (lm_model_open(path, NULL, &m, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return m;
}

/* The options of engine i of several: no two use the same amount of memory. */
static lm_engine_options options_of(uint32_t i)
{
    return (
        lm_engine_options){ .context = 128 + 64 * i, .max_rows = 80, .max_logits = 1, .threads = 1 + i % 2 };
}

/* Run a prompt and some tokens, and store the logits of the last one. Returns false if a step fails. */
static bool run(lm_engine *g, const lm_model *m, float *out)
{
    lm_row        rows[PROMPT];
    lm_model_info info;

    lm_model_describe(m, &info);
    for (uint32_t i = 0; i < PROMPT; i++)
        rows[i] = (lm_row){ 0, (lm_token)((i * 2654435761u + 17) % info.n_vocab), i, i + 1 == PROMPT };
    if (lm_engine_step(g, rows, PROMPT, NULL) != LM_OK)
        return false;
    for (uint32_t i = PROMPT; i < POSITIONS; i++)
        if (lm_engine_step(g, &(lm_row){ 0, (lm_token)(i % info.n_vocab), i, true }, 1, NULL) != LM_OK)
            return false;
    memcpy(out, lm_engine_logits(g, 0), info.n_vocab * sizeof *out);
    return true;
}

typedef struct task {
    const lm_model *m;
    uint32_t        number;
    lm_memory       planned;
    float          *alone, *got;
    const char     *wrong;
} task;

static void *make_and_run(void *arg)
{
    task             *t = arg;
    lm_engine_options o = options_of(t->number);
    lm_memory         allocated;
    lm_model_info     info;
    lm_engine        *g = NULL;

    lm_model_describe(t->m, &info);
    for (int round = 0; round < ROUNDS && !t->wrong; round++) {
        if (lm_engine_new(t->m, &o, &g, NULL) != LM_OK) {
            t->wrong = "cannot be made";
            break;
        }
        lm_engine_allocated(g, &allocated);
        if (memcmp(&allocated, &t->planned, sizeof allocated) != 0)
            t->wrong = "says that it has memory of another";
        else if (!run(g, t->m, t->got))
            t->wrong = "cannot step";
        else if (memcmp(t->got, t->alone, info.n_vocab * sizeof *t->got) != 0)
            t->wrong = "computes something else";
        lm_engine_free(g);
    }
    return NULL;
}

static void engines_in_threads_are_independent(void **state)
{
    lm_model     *m = open_model();
    task          tasks[ENGINES];
    pthread_t     threads[ENGINES];
    lm_model_info info;

    (void)state;
    lm_model_describe(m, &info);
    for (uint32_t i = 0; i < ENGINES; i++) {
        lm_engine_options o = options_of(i);
        lm_engine        *g = NULL;
        tasks[i] = (task){ .m = m, .number = i };
        tasks[i].alone = malloc(info.n_vocab * sizeof(float));
        tasks[i].got   = malloc(info.n_vocab * sizeof(float));
        assert_int_equal(lm_engine_predict(m, &o, &tasks[i].planned, NULL), LM_OK);
        assert_int_equal(lm_engine_new(m, &o, &g, NULL), LM_OK);
        assert_true(run(g, m, tasks[i].alone));
        lm_engine_free(g);
    }
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_run, &tasks[i]), 0);
    for (uint32_t i = 0; i < ENGINES; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < ENGINES; i++) {
        if (tasks[i].wrong)
            fail_msg("engine %u %s", i, tasks[i].wrong);
        free(tasks[i].alone);
        free(tasks[i].got);
    }
    lm_model_close(m);
}

typedef struct watch {
    lm_engine  *g;
    atomic_bool stop, seen;          /* seen: the watcher observed a step in progress or finished */
    const char *wrong;
} watch;

static void *look_on(void *arg)
{
    watch    *w = arg;
    lm_memory planned, now;

    lm_engine_allocated(w->g, &planned);
    do {
        uint64_t used, total;
        uint32_t n = lm_engine_length(w->g, 0);
        lm_engine_pages(w->g, &used, &total);
        lm_engine_allocated(w->g, &now);
        if (n > POSITIONS || used > total || lm_engine_context(w->g) != 128 ||
            memcmp(&now, &planned, sizeof now) != 0)
            w->wrong = "what is seen beside a step is impossible";
        if (n > 0 && used > 0)
            atomic_store(&w->seen, true);
    } while (!atomic_load(&w->stop));
    return NULL;
}

/* While steps run, observed lengths and pages never exceed the limits; at the end they are those after the
 * last step. */
static void an_engine_can_be_watched(void **state)
{
    lm_model         *m = open_model();
    lm_engine_options o = options_of(0);
    watch             w = { 0 };
    pthread_t         thread;
    lm_model_info     info;

    (void)state;
    lm_model_describe(m, &info);
    float *logits = malloc(info.n_vocab * sizeof *logits);
    assert_int_equal(lm_engine_new(m, &o, &w.g, NULL), LM_OK);
    assert_int_equal(pthread_create(&thread, NULL, look_on, &w), 0);
    for (int round = 0; round < ROUNDS || !atomic_load(&w.seen); round++) {
        assert_int_equal(lm_engine_truncate(w.g, 0, 0, NULL), LM_OK);
        assert_true(run(w.g, m, logits));
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    if (w.wrong)
        fail_msg("%s", w.wrong);
    assert_int_equal(lm_engine_length(w.g, 0), POSITIONS);
    lm_engine_free(w.g);
    lm_model_close(m);
    free(logits);
}

/* A cancel from another thread ends a step, which then has changed nothing, and does not affect the next
 * step. */
static void *cancel_soon(void *arg)
{
    lm_engine_cancel(arg);
    return NULL;
}

static void another_thread_can_cancel(void **state)
{
    lm_model         *m = open_model();
    lm_engine_options o = options_of(0);
    lm_engine        *g = NULL;
    pthread_t         thread;
    lm_row            row = { 0, 1, 0, true };
    lm_error          e   = { 0 };

    (void)state;
    assert_int_equal(lm_engine_new(m, &o, &g, NULL), LM_OK);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, g), 0);
    while (lm_engine_step(g, &row, 1, &e) == LM_OK)
        if (++row.position == 128) {
            assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
            row.position = 0;
        }
    pthread_join(thread, NULL);
    assert_int_equal(e.code, LM_CANCELLED);
    assert_int_equal(lm_engine_length(g, 0), row.position);
    assert_int_equal(lm_engine_step(g, &row, 1, NULL), LM_OK);
    lm_engine_free(g);
    lm_model_close(m);
}

/* A progress callback that returns false after `left` more calls. */
static bool until(void *left, double fraction)
{
    assert_true(fraction >= 0 && fraction <= 1);
    return (*(int *)left)-- > 0;
}

/* Loading ends at any call at which its callback returns false, and leaks nothing; a complete load has made
 * all calls. */
static void loading_can_be_cancelled(void **state)
{
    lm_model         *m = open_model();
    lm_engine_options o = options_of(0);
    lm_engine        *g = NULL;
    int               calls, left;

    (void)state;
    o.progress     = until;
    o.progress_arg = &left;
    for (calls = 0;; calls++) {
        lm_error  e      = { 0 };
        uint64_t  before = lm_alloc_statistics().live_bytes;
        left             = calls;
        lm_status status = lm_engine_new(m, &o, &g, &e);
        if (status == LM_OK)
            break;
        assert_int_equal(status, LM_CANCELLED);
        assert_int_equal(e.code, LM_CANCELLED);
        assert_null(g);
        assert_true(lm_alloc_statistics().live_bytes == before);
    }
    assert_true(calls > 5 && left == 0);
    lm_engine_free(g);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_in_threads_are_independent),
        cmocka_unit_test(an_engine_can_be_watched),
        cmocka_unit_test(another_thread_can_cancel),
        cmocka_unit_test(loading_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
