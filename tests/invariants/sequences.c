/* sequences.c - many sequences in the steps of one engine: each is bit for bit what lm_generate makes of it
 * alone, whatever the other rows of a step, however steps are split, and whatever drafts, waits, is cancelled
 * or fails. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/lamina.h"
#include "models.h"

enum { TEXTS = 8, TOKENS = 40, TOP = 2, PROMPT = 40, ROWS = 24, CONTEXT = 120 };

/* The events that a sequence delivered. */
typedef struct delivery {
    lm_token   ids[TOKENS + 1];
    float      logprob[TOKENS + 1];
    lm_logprob top[TOKENS + 1][TOP];
    size_t     n, read;
    lm_stop    stop;
    lm_error   error;
} delivery;

/* One of the sequences. */
typedef struct task {
    lm_sequence_options o;
    lm_sampler_options  s;
    lm_token            prompt[PROMPT], stop_id;
    size_t              n;
    uint32_t            n_vocab;
    size_t              hooked;              /* calls of its hook */
    size_t              fail_at;             /* the hook's call that fails; 0: none */
    lm_sampler         *sampler;
    lm_sequence        *sequence;
    delivery            alone, got;
} task;

static uint64_t dice = 1;

static uint32_t roll(uint32_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % n;
}

static lm_engine *start(const lm_model *m, lm_engine_options o)
{
    lm_engine *g = NULL;
    lm_error   e = { 0 };

    o.context = o.context ? o.context : CONTEXT;
    o.max_rows    = o.max_rows ? o.max_rows : ROWS;
    o.threads = 2;
    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* ---- the sequences ---- */

/* Suppress the most probable token after every third token id, and check that the hook is called once per
 * token, in order. */
static lm_status hook(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e)
{
    task    *t    = arg;
    uint32_t best = 0;

    assert_int_equal(n_vocab, t->n_vocab);
    assert_int_equal(n, t->n + t->hooked);
    assert_memory_equal(ids, t->prompt, t->n * sizeof *ids);
    if (++t->hooked == t->fail_at)
        return lm_fail(e, LM_FAILED, "hook", LM_NO_OFFSET, "at %zu", n);
    for (uint32_t i = 1; i < n_vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    if ((uint32_t)ids[n - 1] % 3 == 0)
        logits[best] = -1e9f;
    return LM_OK;
}

/* Make sequence i. Prompts have all lengths; sequences are greedy or sampled, with penalties, stops and
 * hooks. */
static void make_task(task *t, unsigned i, uint32_t n_vocab)
{
    static const float temperatures[] = { -1, 0.6f, 1.2f };

    *t = (task){ .n_vocab = n_vocab, .n = 1 + i * 37 % PROMPT, .stop_id = (lm_token)(i * 5 % n_vocab) };
    for (size_t k = 0; k < t->n; k++)
        t->prompt[k] = (lm_token)((k % 7 * 2654435761u + (k / 14 + i) * 40503u) % n_vocab);
    t->s = (lm_sampler_options){ .seed = 100 + i,
                                 .temperature = temperatures[i % 3],
                                 .repeat_penalty = i % 4 == 3 ? 1.2f : 0 };
    t->o = (lm_sequence_options){ .draw = i,
                                  .max_tokens = TOKENS - (int64_t)(i % 5),
                                  .logprobs = TOP,
                                  .stop_ids = &t->stop_id,
                                  .n_stop_ids = i % 4 == 1,
                                  .ignore_eos = i % 2 };
    if (i % 4 == 2) {
        t->o.logits     = hook;
        t->o.logits_arg = t;
    }
}

static bool on_token(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k)
{
    delivery *x = arg;

    assert_true(k == TOP && x->n <= TOKENS);
    x->ids[x->n]     = id;
    x->logprob[x->n] = logprob;
    memcpy(x->top[x->n++], top, sizeof *x->top);
    return true;
}

static lm_sampler *new_sampler(const task *t)
{
    lm_sampler *s = NULL;

    assert_int_equal(lm_sampler_new(&t->s, t->n_vocab, NULL, &s, NULL), LM_OK);
    return s;
}

static void generate_alone(lm_engine *g, task *t)
{
    lm_generate_options o = { .sequence = t->o, .token = on_token, .arg = &t->alone };
    lm_sampler   *s = new_sampler(t);
    lm_generation x;
    lm_error      e = { 0 };

    if (lm_generate(g, s, t->prompt, t->n, 0, &o, &x, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    t->alone.stop = x.stop;
    assert_int_equal(x.ids.n, t->alone.n);
    assert_memory_equal(x.ids.ids, t->alone.ids, x.ids.n * sizeof *x.ids.ids);
    t->hooked = 0;
    lm_generation_free(&x);
    lm_sampler_free(s);
}

static void begin(lm_engine *g, task *t, uint32_t slot)
{
    lm_error e = { 0 };

    memset(&t->got, 0, sizeof t->got);
    t->hooked  = 0;
    t->o.sequence  = slot;
    t->sampler = new_sampler(t);
    if (lm_sequence_new(g, t->sampler, &t->o, &t->sequence, &e) != LM_OK ||
        lm_sequence_prompt(t->sequence, t->prompt, t->n, 0, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

static void end(task *t)
{
    lm_sequence_free(t->sequence);
    lm_sampler_free(t->sampler);
    t->sequence = NULL;
    t->sampler  = NULL;
}

/* Read all pending events. */
static void listen(task *t)
{
    lm_event x;

    while (lm_sequence_event(t->sequence, &x)) {
        assert_int_equal(t->got.stop, LM_STOP_NONE);         /* nothing after the end */
        if (x.kind == LM_EVENT_PROMPT) {
            assert_true(x.done > t->got.read && x.done <= t->n && x.total == t->n);
            t->got.read = x.done;
        } else if (x.kind == LM_EVENT_TOKEN) {
            assert_int_equal(t->got.read, t->n);
            on_token(&t->got, x.id, x.logprob, x.top, x.n_top);
        } else if (x.kind == LM_EVENT_END) {
            t->got.stop = x.stop;
            t->got.error = x.error ? *x.error : (lm_error){ 0 };
        }
    }
}

static void check(const char *what, const task *t)
{
    const delivery *a = &t->alone, *b = &t->got;

    if (a->n != b->n || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) != 0)
        fail_msg("%s: other tokens (%zu and %zu)", what, a->n, b->n);
    if (memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob) != 0 ||
        memcmp(a->top, b->top, a->n * sizeof *a->top) != 0)
        fail_msg("%s: other log-probabilities", what);
    if (a->stop != b->stop)
        fail_msg("%s: %s and %s", what, lm_stop_word(a->stop), lm_stop_word(b->stop));
    if (t->o.logits && t->hooked != t->got.n)
        fail_msg("%s: the hook was called %zu times for %zu tokens", what, t->hooked, t->got.n);
}

/* Check that the tokens so far are the first ones of the sequence alone, and that it ended with `stop`. */
static void check_prefix(const char *what, const task *t, lm_stop stop)
{
    if (t->got.n > t->alone.n || memcmp(t->alone.ids, t->got.ids, t->got.n * sizeof *t->got.ids) != 0 ||
        t->got.stop != stop)
        fail_msg("%s: %zu tokens, %s", what, t->got.n, lm_stop_word(t->got.stop));
}

static bool all_ended(const task *t)
{
    for (unsigned i = 0; i < TEXTS; i++)
        if (t[i].got.stop == LM_STOP_NONE)
            return false;
    return true;
}

static void make_tasks(lm_engine *alone, task *t, uint32_t n_vocab)
{
    for (unsigned i = 0; i < TEXTS; i++) {
        make_task(&t[i], i, n_vocab);
        generate_alone(alone, &t[i]);
    }
}

/* Step until all have ended; `each` (may be NULL) is called after every step. */
static void run_all(lm_engine *g, task *t, lm_batch *b, void (*each)(task *t))
{
    lm_sequence *all[TEXTS];
    lm_error     e = { 0 };

    for (unsigned i = 0; i < TEXTS; i++)
        all[i] = t[i].sequence;
    while (!all_ended(t)) {
        if (lm_sequences_step(g, all, TEXTS, b, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        for (unsigned i = 0; i < TEXTS; i++)
            listen(&t[i]);
        if (each)
            each(t);
    }
}

static uint32_t vocabulary(const lm_model *m)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    return info.n_vocab;
}

/* ---- any interleaving ---- */

/* Step some sequences in any order within random limits. Some steps are never run and others are cancelled;
 * these change nothing. */
static void step_somehow(lm_engine *g, task *t)
{
    lm_row   rows[ROWS];
    lm_batch b = { .rows = rows,
                   .max_rows = 1 + roll(ROWS),
                   .max_logits = 1 + roll(12),
                   .max_prompt = roll(9),
                   .no_draft = roll(5) == 0 };
    unsigned first = roll(TEXTS), n = 1 + roll(TEXTS), how = roll(8);
    lm_error e = { 0 };

    for (unsigned i = 0; i < n; i++)
        lm_sequence_rows(t[(first + i * 3) % TEXTS].sequence, &b);
    assert_true(b.n <= b.max_rows && b.n_logits <= b.max_logits &&
                (!b.max_prompt || b.n_prompt <= b.max_prompt));
    if (how == 0 || b.n == 0) {
        for (unsigned i = 0; i < TEXTS; i++)
            listen(&t[i]);
        return;
    }
    if (how == 1) {
        lm_engine_cancel(g);
        assert_int_equal(lm_engine_step(g, rows, b.n, &e), LM_CANCELLED);
        return;
    }
    if (lm_engine_step(g, rows, b.n, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    for (unsigned i = 0; i < n; i++)
        lm_sequence_ran(t[(first + i * 3) % TEXTS].sequence);
    for (unsigned i = 0; i < TEXTS; i++)
        listen(&t[i]);
}

static size_t drafted, accepted;

static void compare_interleaved(const char *name, int64_t window, bool models)
{
    lm_model   *m = open_golden_model(name, window);
    lm_engine  *alone = start(m, (lm_engine_options){ 0 });
    lm_engine  *g = start(m, (lm_engine_options){ .sequences = TEXTS, .max_logits = 12 });
    lm_engine *draft = models
                           ? start(m,
                                   (lm_engine_options){ .sequences = TEXTS, .max_logits = 1, .rollback = 8 })
                           : NULL;
    static task t[TEXTS];
    char        what[160];

    make_tasks(alone, t, vocabulary(m));
    for (unsigned i = 0; i < TEXTS; i++) {
        t[i].o.draft_always = true;
        t[i].o.draft_max    = 1 + i % 6;
        t[i].o.draft_ngram  = i % 3 == 1 ? 2 : 0;
        t[i].o.draft_engine = i % 3 == 2 ? draft : NULL;
        t[i].o.draft_sequence   = i;
        begin(g, &t[i], TEXTS - 1 - i);
    }
    while (!all_ended(t))
        step_somehow(g, t);
    for (unsigned i = 0; i < TEXTS; i++) {
        lm_sequence_info info;
        snprintf(what, sizeof what, "%s, text %u", name, i);
        check(what, &t[i]);
        lm_sequence_describe(t[i].sequence, &info);
        assert_true(info.n_accepted <= info.n_drafted && !info.draft_error && info.n_tokens == t[i].got.n);
        assert_true(info.n_held == t[i].n + t[i].got.n - 1 && info.stop == t[i].got.stop);
        drafted += info.n_drafted;
        accepted += info.n_accepted;
        end(&t[i]);
        /* rejected draft tokens are removed */
        assert_int_equal(lm_engine_length(g, t[i].o.sequence), info.n_held);
    }
    lm_engine_free(draft);
    lm_engine_free(alone);
    lm_engine_free(g);
    lm_model_close(m);
}

static void any_interleaving_equals_one_sequence(void **state)
{
    static const struct { const char *name; int64_t window; bool models; } cases[] = {
        { "llama/gqa", 0, true }, { "gemma2/plain", 0, true }, { "mistral/window", 20, true }, { "qwen2/windows", 65, true },
        { "mixtral/experts", 0, false }, { "deepseek_v2/lite", 0, true }, { "gpt2/plain", 0, false }, { "bloom/alibi", 0, true },
    };

    (void)state;
    for (unsigned round = 0; round < (EVERY == 1 ? 4 : 1); round++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i += EVERY / 2 + 1)
            compare_interleaved(cases[i].name, cases[i].window, cases[i].models);
    printf("  %zu of %zu draft tokens accepted\n", accepted, drafted);
    assert_true(accepted > 0 && accepted < drafted);
}

/* ---- one sequence ends, the others are unaffected ---- */

typedef struct fixture {
    lm_model  *m;
    lm_engine *alone, *g;
    task       t[TEXTS];
} fixture;

static fixture f;
static unsigned victim;
static size_t   after;               /* tokens of the victim */

static void open_fixture(lm_engine_options o)
{
    f.m     = open_golden_model("llama/gqa", 0);
    f.alone = start(f.m, (lm_engine_options){ 0 });
    o.sequences = TEXTS;
    f.g         = start(f.m, o);
    make_tasks(f.alone, f.t, vocabulary(f.m));
}

static void begin_all(void)
{
    for (unsigned i = 0; i < TEXTS; i++)
        begin(f.g, &f.t[i], i);
}

static void close_fixture(void)
{
    for (unsigned i = 0; i < TEXTS; i++)
        end(&f.t[i]);
    lm_engine_free(f.g);
    lm_engine_free(f.alone);
    lm_model_close(f.m);
}

static void check_others(const char *what)
{
    for (unsigned i = 0; i < TEXTS; i++)
        if (i != victim)
            check(what, &f.t[i]);
}

static void cancel_after(task *t)
{
    if (t[victim].got.n >= after)
        lm_sequence_cancel(t[victim].sequence);
}

static void on_signal(int number)
{
    (void)number;
    lm_sequence_cancel(f.t[victim].sequence);
}

static void signal_after(task *t)
{
    if (t[victim].got.n == after)
        raise(SIGUSR1);
}

static void one_is_cancelled(void **state)
{
    lm_batch b = { 0 };

    (void)state;
    open_fixture((lm_engine_options){ 0 });
    b.rows = calloc(ROWS, sizeof *b.rows);
    signal(SIGUSR1, on_signal);
    for (unsigned i = 0; i < 2 * TEXTS; i += EVERY) {
        victim = i % TEXTS;
        after  = i % 9;
        begin_all();
        run_all(f.g, f.t, &b, i % 2 ? signal_after : cancel_after);
        check_others("beside one that is cancelled");
        check_prefix("cancelled", &f.t[victim],
                     f.t[victim].got.n == f.t[victim].alone.n ? f.t[victim].alone.stop : LM_STOP_CANCELLED);
        for (unsigned k = 0; k < TEXTS; k++)
            end(&f.t[k]);
    }
    signal(SIGUSR1, SIG_DFL);
    free(b.rows);
    close_fixture();
}

static atomic_uint steps_seen, told_to_cancel;

static void count_step(task *t)
{
    (void)t;
    atomic_fetch_add(&steps_seen, 1);
    /* the other thread is awake by now */
    while (atomic_load(&steps_seen) > 3 && !atomic_load(&told_to_cancel))
        sched_yield();
}

static void *cancel_from_there(void *arg)
{
    while (atomic_load(&steps_seen) < 3)
        sched_yield();
    lm_sequence_cancel(arg);
    atomic_store(&told_to_cancel, 1);
    return NULL;
}

static void one_is_cancelled_by_another_thread(void **state)
{
    lm_batch  b = { .max_prompt = 5 };
    pthread_t there;

    (void)state;
    open_fixture((lm_engine_options){ 0 });
    b.rows = calloc(ROWS, sizeof *b.rows);
    for (victim = 0; victim < TEXTS; victim += EVERY) {
        atomic_store(&steps_seen, 0);
        atomic_store(&told_to_cancel, 0);
        begin_all();
        assert_int_equal(pthread_create(&there, NULL, cancel_from_there, f.t[victim].sequence), 0);
        run_all(f.g, f.t, &b, count_step);
        pthread_join(there, NULL);
        check_others("beside one that another thread cancels");
        check_prefix("cancelled by a thread", &f.t[victim], LM_STOP_CANCELLED);
        for (unsigned k = 0; k < TEXTS; k++)
            end(&f.t[k]);
    }
    free(b.rows);
    close_fixture();
}

static void a_failing_hook_ends_only_its_sequence(void **state)
{
    lm_batch b = { 0 };

    (void)state;
    open_fixture((lm_engine_options){ 0 });
    b.rows = calloc(ROWS, sizeof *b.rows);
    victim = 2;                                          /* a sequence with a hook */
    f.t[victim].fail_at = 5;
    begin_all();
    run_all(f.g, f.t, &b, NULL);
    check_others("beside one that fails");
    check_prefix("failed", &f.t[victim], LM_STOP_FAILED);
    assert_int_equal(f.t[victim].got.n, 4);
    assert_int_equal(f.t[victim].got.error.code, LM_FAILED);
    assert_string_equal(f.t[victim].got.error.where, "hook");
    free(b.rows);
    close_fixture();
}

/* ---- a cache that is too small for all ---- */

/* Free the cache of sequences that have ended. */
static void make_room(task *t)
{
    for (unsigned i = 0; i < TEXTS; i++)
        if (t[i].got.stop != LM_STOP_NONE)
            lm_engine_truncate(f.g, t[i].o.sequence, 0, NULL);
}

static void a_full_cache_delays_requests(void **state)
{
    lm_batch b = { 0 };
    size_t   whole = 0;

    (void)state;
    for (uint32_t pages = 1; pages <= 5; pages += 2) {
        open_fixture((lm_engine_options){ .kv_positions = 64 * pages, .max_logits = 10 });
        b.rows = calloc(ROWS, sizeof *b.rows);
        for (unsigned i = 0; i < TEXTS; i++)
            f.t[i].o.draft_ngram = i % 2 ? 2 : 0;
        begin_all();
        run_all(f.g, f.t, &b, make_room);
        for (unsigned i = 0; i < TEXTS; i++) {
            if (f.t[i].n + f.t[i].alone.n <= 64)
                check("in a small cache", &f.t[i]);      /* it fits in one page */
            whole += f.t[i].got.n == f.t[i].alone.n;
            check_prefix("in a small cache", &f.t[i],
                         f.t[i].got.n == f.t[i].alone.n ? f.t[i].alone.stop : LM_STOP_CONTEXT);
        }
        free(b.rows);
        close_fixture();
    }
    assert_true(whole > TEXTS);
}

/* A prompt that exceeds the whole cache is an error. */
static void a_prompt_that_fills_the_context_is_an_error(void **state)
{
    lm_batch b = { 0 };

    (void)state;
    f.m = open_golden_model("llama/gqa", 0);
    f.g = start(f.m, (lm_engine_options){ .kv_positions = 64 });
    task *t = &f.t[0];
    make_task(t, 0, vocabulary(f.m));
    begin(f.g, t, 0);
    lm_token many[100];
    for (size_t i = 0; i < 100; i++)
        many[i] = (lm_token)(i % 50);
    assert_int_equal(lm_sequence_prompt(t->sequence, many, 100, 0, NULL), LM_OK);
    t->n   = 100;
    b.rows = calloc(ROWS, sizeof *b.rows);
    while (t->got.stop == LM_STOP_NONE) {
        assert_int_equal(lm_sequences_step(f.g, &t->sequence, 1, &b, NULL), LM_OK);
        listen(t);
    }
    assert_int_equal(t->got.stop, LM_STOP_FAILED);
    assert_int_equal(t->got.error.code, LM_LIMIT);
    free(b.rows);
    end(t);
    lm_engine_free(f.g);
    lm_model_close(f.m);
}

/* ---- threads ---- */

static void *listen_there(void *arg)
{
    listen(arg);
    return NULL;
}

/* Events of each sequence are read by a separate thread, concurrently. */
static void events_are_read_by_many_threads(void **state)
{
    lm_batch     b = { 0 };
    lm_sequence *all[TEXTS];
    pthread_t    threads[TEXTS];

    (void)state;
    open_fixture((lm_engine_options){ .max_logits = 16 });
    b.rows = calloc(ROWS, sizeof *b.rows);
    for (unsigned i = 0; i < TEXTS; i++) {
        f.t[i].o.draft_ngram  = 2;
        f.t[i].o.draft_always = true;
    }
    begin_all();
    for (unsigned i = 0; i < TEXTS; i++)
        all[i] = f.t[i].sequence;
    while (!all_ended(f.t)) {
        assert_int_equal(lm_sequences_step(f.g, all, TEXTS, &b, NULL), LM_OK);
        for (unsigned i = 0; i < TEXTS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, listen_there, &f.t[i]), 0);
        for (unsigned i = 0; i < TEXTS; i++)
            pthread_join(threads[i], NULL);
    }
    victim = TEXTS;
    check_others("read by threads");
    free(b.rows);
    close_fixture();
}

/* ---- a draft model that fails ---- */

static void a_draft_model_that_fails_ends_nothing(void **state)
{
    lm_batch   b = { 0 };
    lm_engine *small[2];
    size_t     given_up = 0;

    (void)state;
    open_fixture((lm_engine_options){ .max_logits = 12 });
    /* space for one of them */
    small[0] = start(f.m, (lm_engine_options){ .sequences = TEXTS, .kv_positions = 64, .rollback = 8 });
    /* too short for some */
    small[1] = start(f.m, (lm_engine_options){ .sequences = TEXTS, .context = 30, .rollback = 8 });
    b.rows = calloc(ROWS, sizeof *b.rows);
    for (unsigned i = 0; i < TEXTS; i++) {
        f.t[i].o.draft_engine = small[i % 2];
        f.t[i].o.draft_sequence   = i;
        f.t[i].o.draft_always = true;
    }
    begin_all();
    run_all(f.g, f.t, &b, NULL);
    victim = TEXTS;
    check_others("beside a draft model without room");
    for (unsigned i = 0; i < TEXTS; i++) {
        lm_sequence_info info;
        lm_sequence_describe(f.t[i].sequence, &info);
        if (info.draft_error)
            assert_int_equal(info.draft_error->code, LM_LIMIT);
        given_up += info.draft_error != NULL;
    }
    assert_true(given_up >= 4);
    free(b.rows);
    for (unsigned i = 0; i < TEXTS; i++)
        end(&f.t[i]);
    lm_engine_free(small[0]);
    lm_engine_free(small[1]);
    close_fixture();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_interleaving_equals_one_sequence),
        cmocka_unit_test(one_is_cancelled),
        cmocka_unit_test(one_is_cancelled_by_another_thread),
        cmocka_unit_test(a_failing_hook_ends_only_its_sequence),
        cmocka_unit_test(a_full_cache_delays_requests),
        cmocka_unit_test(a_prompt_that_fills_the_context_is_an_error),
        cmocka_unit_test(events_are_read_by_many_threads),
        cmocka_unit_test(a_draft_model_that_fails_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
