/* teardown.c - hooks of requests that are torn down at the worst moment: the argument of each is released
 * once, by the last user that could call it, and never called afterwards. The hook itself blocks the step, so
 * each moment occurs deterministically. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "request_cases.h"
#include "base/alloc.h"

/* The moment of the teardown. */
typedef enum moment {
    QUEUED,                          /* another request has the only slot */
    READING,                         /* its prompt is half processed, progress was reported, and the engine
                                        steps another request */
    IN_A_STEP,                       /* the hook is running */
    AT_THE_LAST_TOKEN,               /* the hook is running for the last token */
    ENDED,                           /* its end has not been read */
    MOMENTS,
} moment;

/* The kind of teardown. */
typedef enum way { FREED, CANCELLED, DRAINED, CLOSED, WAYS } way;

/* An argument of hooks: how often it was released, and a gate that blocks them. */
typedef struct watched {
    atomic_uint released, called, late;      /* late: calls after the release */
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    unsigned stop_at;                /* the call that blocks; 0: none */
    bool     stopped, go;
} watched;

enum { MAX = 6 };                    /* tokens of the request */

static void open_watched(watched *w, unsigned stop_at)
{
    *w = (watched){ .stop_at = stop_at };
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

static void close_watched(watched *w)
{
    assert_int_equal(atomic_load(&w->late), 0);
    assert_int_equal(atomic_load(&w->released), 1);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

static void release(void *arg)
{
    watched *w = arg;

    atomic_fetch_add(&w->released, 1);
}

static void called(watched *w)
{
    unsigned n = atomic_fetch_add(&w->called, 1) + 1;

    if (atomic_load(&w->released))
        atomic_fetch_add(&w->late, 1);
    if (n != w->stop_at)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopped = true;
    pthread_cond_broadcast(&w->changed);
    while (!w->go)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (atomic_load(&w->released))
        atomic_fetch_add(&w->late, 1);
}

static lm_status on_logits(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                           lm_error *e)
{
    (void)logits, (void)n_vocab, (void)ids, (void)n, (void)e;
    called(arg);
    return LM_OK;
}

static void on_wake(void *arg)
{
    called(arg);
}

static void on_token(void *arg, lm_token id)
{
    (void)id;
    called(arg);
}

static void wait_until_stopped(watched *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->stopped)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void let_go(watched *w)
{
    pthread_mutex_lock(&w->lock);
    w->go = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* ---- one row of the table ---- */

typedef struct text {
    watched   logits, wake, token;
    lm_token  prompt[96];
    lm_reply *reply;
} text;

static void ask(lm_schedule *s, text *t, unsigned stop_at, lm_status expected)
{
    lm_request r = { .prompt = t->prompt,
                     .n_prompt = 96,
                     .progress = true,
                     .wake = on_wake,
                     .wake_arg = &t->wake,
                     .wake_release = release,
                     .token = on_token,
                     .token_arg = &t->token,
                     .token_release = release,
                     .sequence = { .max_tokens = MAX,
                                   .ignore_eos = true,
                                   .logits = on_logits,
                                   .logits_arg = &t->logits,
                                   .logits_release = release } };

    for (size_t i = 0; i < 96; i++)
        t->prompt[i] = (lm_token)(1 + i % (stop_at ? 7 : 5));
    open_watched(&t->logits, stop_at);
    open_watched(&t->wake, 0);
    open_watched(&t->token, 0);
    assert_int_equal(lm_schedule_submit(s, &r, &t->reply, NULL), expected);
}

static void close_text(text *t)
{
    close_watched(&t->logits);
    close_watched(&t->wake);
    close_watched(&t->token);
}

static void *drain(void *s)
{
    lm_schedule_drain(s, 0);
    return NULL;
}

static void *close_schedule(void *s)
{
    lm_schedule_free(s);
    return NULL;
}

static void read_to(lm_reply *r, lm_event_kind kind)
{
    lm_reply_event x;

    do
        assert_true(lm_reply_wait(r, -1, &x));
    while (x.event.kind != kind);
}

static lm_reply_state state_of(lm_reply *r)
{
    return lm_reply_status(r, NULL);
}

/* Run both requests in one schedule: `t` is torn down at the moment, `other` shows that the rest continues if
 * it may. */
static void tear_down(lm_engine *g, moment m, way w)
{
    lm_schedule *s = start_schedule(g, (lm_schedule_options){ .itl_target = 1e-9 });
    text        *t = calloc(1, sizeof *t), *other = calloc(1, sizeof *other);
    watched     *gate;
    pthread_t    thread;
    bool         threads = w == DRAINED || w == CLOSED, both = m == QUEUED || m == READING;

    if (both) {
        ask(s, other, m == QUEUED ? 1 : MAX / 2, LM_OK);         /* the gate blocks the thread that steps */
        if (m == QUEUED) {
            wait_until_stopped(&other->logits);
            ask(s, t, 0, LM_OK);
            assert_int_equal(state_of(t->reply), LM_REPLY_WAITS);
        } else {
            ask(s, t, 0, LM_OK);
            wait_until_stopped(&other->logits);
        }
        gate = &other->logits;
    } else {
        ask(s, t, m == IN_A_STEP ? 2 : m == AT_THE_LAST_TOKEN ? MAX : 0, LM_OK);
        if (m == ENDED) {
            while (state_of(t->reply) != LM_REPLY_ENDED)         /* reads no event: the end stays unread */
                usleep(100);
        } else {
            wait_until_stopped(&t->logits);
        }
        gate = &t->logits;
    }
    if (w == FREED)
        lm_reply_free(t->reply);
    if (w == CANCELLED)
        lm_reply_cancel(t->reply);
    if (threads)
        assert_int_equal(pthread_create(&thread, NULL, w == DRAINED ? drain : close_schedule, s), 0);
    /* the hook still runs: nothing may be released yet */
    if (m == IN_A_STEP || m == AT_THE_LAST_TOKEN)
        assert_int_equal(atomic_load(&t->logits.released), 0);
    let_go(gate);
    if (w != FREED)
        read_to(t->reply, LM_EVENT_END);
    if (threads)
        pthread_join(thread, NULL);
    if (both)
        read_to(other->reply, LM_EVENT_END);
    if (w != FREED)
        lm_reply_free(t->reply);
    if (both)
        lm_reply_free(other->reply);
    if (w != CLOSED)
        lm_schedule_free(s);
    close_text(t);
    if (both)
        close_text(other);
    free(t);
    free(other);
}

static void at_every_moment_in_every_way(void **state)
{
    lm_model  *model = open_golden_model("llama/gqa", 0);
    lm_engine *one = NULL, *two = NULL;
    unsigned   n = 0;

    (void)state;
    assert_int_equal(lm_engine_new(model, &(lm_engine_options){ .sequences = 1 }, &one, NULL), LM_OK);
    assert_int_equal(lm_engine_new(model, &(lm_engine_options){ .sequences = 2, .max_rows = 16 }, &two, NULL),
                     LM_OK);
    for (unsigned round = 0; round < 4; round++)
        for (unsigned m = 0; m < MOMENTS; m++)
            for (unsigned w = 0; w < WAYS; w++, n++)
                tear_down(m == READING ? two : one, (moment)m, (way)w);
    printf("count: texts torn down %u\n", n);
    lm_engine_free(one);
    lm_engine_free(two);
    lm_model_close(model);
}

/* ---- memory of waiting requests ---- */

/* Requests use everything that grows with the vocabulary or the context: a hook on logits, penalties, DRY
 * over everything, n-gram drafts. A waiting request allocates none of it, only its prompt, its options and
 * its ring. */
static void queued_requests_are_small(void **state)
{
    enum { WAITING = 50, RING = 4096, OF_A_REQUEST = 8192 };
    lm_sampler_options sampling = lm_sampler_defaults();
    lm_model    *model = open_golden_model("llama/gqa", 0);
    lm_engine   *g = NULL;
    lm_schedule *s;
    lm_token     prompt[64];
    lm_reply    *replies[WAITING];
    text        *first = calloc(1, sizeof *first);
    lm_request r = { .prompt = prompt,
                     .n_prompt = 64,
                     .sampler = &sampling,
                     .sequence = {
                         .max_tokens = 2, .ignore_eos = true, .draft_ngram = 4, .logits = on_logits } };
    watched      w[WAITING];

    (void)state;
    sampling.dry_multiplier = 1;
    sampling.dry_penalty_last_n = -1;
    sampling.repeat_penalty = 1.1f;
    for (size_t i = 0; i < 64; i++)
        prompt[i] = (lm_token)(1 + i % 9);
    assert_int_equal(lm_engine_new(model, &(lm_engine_options){ .sequences = 1 }, &g, NULL), LM_OK);
    s = start_schedule(g, (lm_schedule_options){ .ring_bytes = RING });
    ask(s, first, 1, LM_OK);
    wait_until_stopped(&first->logits);

    uint64_t before = 0;
    for (size_t i = 0; i < WAITING; i++) {
        if (i == WAITING / 2)
            before = lm_alloc_statistics().live_bytes;
        open_watched(&w[i], 0);
        r.sequence.logits_arg = &w[i];
        r.sequence.logits_release = release;
        assert_int_equal(lm_schedule_submit(s, &r, &replies[i], NULL), LM_OK);
    }
    uint64_t each = (lm_alloc_statistics().live_bytes - before) / (WAITING - WAITING / 2);
    printf("count: bytes of a request that waits %llu\n", (unsigned long long)each);
    assert_true(each <= RING + OF_A_REQUEST);

    let_go(&first->logits);
    for (size_t i = 0; i < WAITING; i++) {
        read_to(replies[i], LM_EVENT_END);
        lm_reply_free(replies[i]);
    }
    read_to(first->reply, LM_EVENT_END);
    lm_reply_free(first->reply);
    lm_schedule_free(s);
    for (size_t i = 0; i < WAITING; i++) {
        assert_true(atomic_load(&w[i].called) >= 1);
        close_watched(&w[i]);
    }
    close_text(first);
    free(first);
    lm_engine_free(g);
    lm_model_close(model);
}

/* ---- requests that are never admitted ---- */

static void rejected_requests_release_their_hooks(void **state)
{
    lm_model    *model = open_golden_model("llama/gqa", 0);
    lm_engine   *g     = NULL;
    lm_schedule *s;
    lm_token     prompt[4] = { 1, 2, 3, 4 };
    watched      w[3];
    lm_reply    *reply = NULL;

    (void)state;
    assert_int_equal(lm_engine_new(model, &(lm_engine_options){ .sequences = 1 }, &g, NULL), LM_OK);
    s = start_schedule(g, (lm_schedule_options){ 0 });
    lm_request usual = { .prompt = prompt,
                         .n_prompt = 4,
                         .wake = on_wake,
                         .wake_arg = &w[1],
                         .wake_release = release,
                         .token = on_token,
                         .token_arg = &w[2],
                         .token_release = release,
                         .sequence = {
                             .logits = on_logits, .logits_arg = &w[0], .logits_release = release } };
    lm_request wrong[8];
    for (size_t i = 0; i < 8; i++)
        wrong[i] = usual;
    wrong[0].n_prompt           = 0;
    wrong[1].n_prompt           = SIZE_MAX;
    wrong[2].deadline           = -1;
    wrong[3].wanted_slot        = 7;
    wrong[4].sampler            = &(lm_sampler_options){ .temperature = NAN };
    wrong[5].sequence.logprobs  = INT32_MAX;
    wrong[6].reserved[0]        = 1;
    wrong[7].contributions      = true;
    for (size_t i = 0; i < 8; i++) {
        open_watched(&w[0], 0);
        open_watched(&w[1], 0);
        open_watched(&w[2], 0);
        assert_int_not_equal(lm_schedule_submit(s, &wrong[i], &reply, NULL), LM_OK);
        close_watched(&w[0]);
        close_watched(&w[1]);
        close_watched(&w[2]);
    }
    lm_schedule_drain(s, 0);
    open_watched(&w[0], 0);
    open_watched(&w[1], 0);
    open_watched(&w[2], 0);
    assert_int_equal(lm_schedule_submit(s, &usual, &reply, NULL), LM_CANCELLED);
    close_watched(&w[0]);
    close_watched(&w[1]);
    close_watched(&w[2]);
    lm_schedule_free(s);
    lm_engine_free(g);
    lm_model_close(model);
}

static void a_sequence_and_a_generation_release_their_hook(void **state)
{
    lm_model     *model = open_golden_model("llama/gqa", 0);
    lm_engine    *g     = NULL;
    lm_sampler   *sampler = NULL;
    lm_sequence  *x = NULL;
    lm_generation out;
    lm_token      prompt[4] = { 1, 2, 3, 4 };
    lm_model_info info;
    watched       w;
    lm_sequence_options o = {
        .max_tokens = 3, .logits = on_logits, .logits_arg = &w, .logits_release = release
    };

    (void)state;
    lm_model_describe(model, &info);
    assert_int_equal(lm_engine_new(model, &(lm_engine_options){ .sequences = 1 }, &g, NULL), LM_OK);
    assert_int_equal(lm_sampler_new(NULL, info.n_vocab, NULL, &sampler, NULL), LM_OK);

    open_watched(&w, 0);
    assert_int_equal(lm_sequence_new(g, sampler, &o, &x, NULL), LM_OK);
    assert_int_equal(atomic_load(&w.released), 0);
    lm_sequence_free(x);
    close_watched(&w);

    o.sequence = 9;
    open_watched(&w, 0);
    assert_int_equal(lm_sequence_new(g, sampler, &o, &x, NULL), LM_USAGE);
    close_watched(&w);

    o.sequence = 0;
    for (size_t n = 0; n < 5; n += 4) {                  /* without a prompt: LM_USAGE */
        lm_generate_options all = { .sequence = o };
        open_watched(&w, 0);
        assert_int_equal(lm_generate(g, sampler, prompt, n, 0, &all, &out, NULL), n ? LM_OK : LM_USAGE);
        close_watched(&w);
        if (n)
            lm_generation_free(&out);
    }
    lm_sampler_free(sampler);
    lm_engine_free(g);
    lm_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_moment_in_every_way),
        cmocka_unit_test(queued_requests_are_small),
        cmocka_unit_test(rejected_requests_release_their_hooks),
        cmocka_unit_test(a_sequence_and_a_generation_release_their_hook),
    };

    return cmocka_run_group_tests_name("teardown", tests, NULL, NULL);
}
