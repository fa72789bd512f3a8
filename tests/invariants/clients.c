/* clients.c - the effects of clients on a schedule: many at once, leaving, not reading, requesting too much,
 * flooding with one key. The other clients get bit for bit what they get alone, and nothing is left
 * behind. */
#include <poll.h>
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

static const lm_engine_options usual = { .max_logits = 40, .rollback = 16 };

/* ---- many clients ---- */

enum { CLIENTS = 16, EACH = EVERY == 1 ? 16 : 3 };

/* A client submits requests one after the other and reads the replies in different ways. */
static void *client(void *arg)
{
    size_t         number = (size_t)arg;
    lm_reply_event e;

    for (size_t i = 0; i < EACH; i++) {
        test_request *x = malloc(sizeof *x);
        *x            = f.x[(number * 7 + i * 5) % MANY];
        x->r.prompt = x->prompt;
        x->r.sampler = &x->s;
        x->r.connection = number;
        if (x->r.sequence.logits)
            x->r.sequence.logits_arg = x;
        x->r.sequence.stop_ids = &x->stop_id;
        submit(f.s, x);
        if (i % 3 == 0) {
            struct pollfd p = { .fd = lm_reply_fd(x->reply), .events = POLLIN };
            while (!x->got.ended) {
                assert_int_equal(poll(&p, 1, 20000), 1);
                while (lm_reply_next(x->reply, &e))
                    take_event(x, &e);
            }
        } else if (i % 3 == 1) {
            while (!x->got.ended)
                if (lm_reply_wait(x->reply, 0.001, &e))
                    take_event(x, &e);
        } else {
            read_reply(x);
        }
        check_request("one of many clients", x);
        reset_request(x);
        free(x);
    }
    return NULL;
}

static void many_clients(void **state)
{
    pthread_t threads[CLIENTS];

    (void)state;
    open_fixture("llama/gqa", 0,
                 (lm_engine_options){ .sequences = 12, .max_logits = 40, .kv_positions = 24 * 64 },
                 (lm_schedule_options){ 0 });
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client, (void *)i), 0);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(statistics().submitted, CLIENTS * EACH);
    close_fixture();
}

/* All requests occupy slots concurrently. */
static void two_hundred_and_fifty_six_at_once(void **state)
{
    enum { ALL = EVERY == 1 ? 256 : 64 };
    test_request *x = calloc(ALL, sizeof *x);
    char          what[80];

    (void)state;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .sequences = ALL, .max_logits = 256, .max_rows = 300 },
                 (lm_schedule_options){ 0 });
    for (unsigned i = 0; i < ALL; i++) {
        make_request(&x[i], i, f.m);
        run_alone(f.alone, &x[i]);
    }
    for (unsigned i = 0; i < ALL; i++)
        submit(f.s, &x[i]);
    for (unsigned i = 0; i < ALL; i++) {
        read_reply(&x[i]);
        snprintf(what, sizeof what, "%u of 256", i);
        check_request(what, &x[i]);
        reset_request(&x[i]);
    }
    close_fixture();
    free(x);
}

/* An engine with other threads, rows and pages gives the same, as after a restart on another machine of the
 * same kind. */
static void another_engine_gives_the_same_tokens(void **state)
{
    char fingerprint[32];

    (void)state;
    open_fixture("qwen2/windows", 65, usual, (lm_schedule_options){ 0 });
    run_all("one engine");
    snprintf(fingerprint, sizeof fingerprint, "%s", lm_schedule_fingerprint(f.s));
    close_fixture();
    for (uint32_t threads = 1; threads < 4; threads++) {
        lm_engine_options o = {
            .threads = threads, .sequences = 3 + threads, .max_rows = 17 * threads, .rollback = 16
        };
        open_fixture("qwen2/windows", 65, o, (lm_schedule_options){ .itl_target = 1e-6 });
        assert_string_equal(fingerprint, lm_schedule_fingerprint(f.s));
        run_all("another engine");
        close_fixture();
    }
    open_fixture("qwen2/windows", 0, usual, (lm_schedule_options){ 0 });
    assert_string_not_equal(fingerprint, lm_schedule_fingerprint(f.s));
    close_fixture();
}

/* ---- clients that leave ---- */

static void clients_that_leave(void **state)
{
    lm_reply_event e;

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    for (unsigned round = 0; round < (EVERY == 1 ? 20 : 5); round++) {
        bool leaves[MANY], frees[MANY];
        for (unsigned i = 0; i < MANY; i++) {
            leaves[i] = roll(2);
            frees[i]  = roll(2);
            submit(f.s, &f.x[i]);
            if (leaves[i] && roll(4) == 0)
                lm_reply_cancel(f.x[i].reply);           /* in the queue */
        }
        for (unsigned i = 0; i < MANY; i++) {
            test_request *x = &f.x[i];
            if (!leaves[i])
                continue;
            for (uint32_t k = roll(30); k && lm_reply_wait(x->reply, 0.002, &e); k--)
                take_event(x, &e);
            if (frees[i]) {
                reset_request(x);
                continue;
            }
            lm_reply_cancel(x->reply);
            lm_reply_cancel(x->reply);
            if (!x->got.ended)
                read_reply(x);
            if (x->got.stop == LM_STOP_CANCELLED)
                check_prefix("cancelled", x, LM_STOP_CANCELLED);
            else
                check_request("cancelled too late", x);
        }
        for (unsigned i = 0; i < MANY; i++)
            if (!leaves[i]) {
                read_reply(&f.x[i]);
                check_request("beside some that leave", &f.x[i]);
            }
        free_replies();
        wait_until_quiet();
        lm_schedule_statistics t = statistics();
        uint64_t ended = 0;
        for (int i = 0; i < 8; i++)
            ended += t.ended[i];
        assert_int_equal(ended, t.submitted);
        assert_int_equal(t.ended[LM_STOP_FAILED], 0);
    }
    assert_true(statistics().ended[LM_STOP_CANCELLED] > MANY / 4);
    close_fixture();
}

/* ---- clients that do not read ---- */

static void readers_that_do_not_read(void **state)
{
    enum { QUIET = 6 };
    lm_reply_event e;
    unsigned       full = 0;

    (void)state;
    f.longer = 160;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .ring_bytes = 1, .stall_seconds = 1 });
    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    for (unsigned ended = QUIET; ended < MANY;)          /* all along: no request waits for another one to be
                                                            read */
        for (unsigned i = QUIET; i < MANY; i++)
            while (lm_reply_next(f.x[i].reply, &e))
                ended += !take_event(&f.x[i], &e);
    for (unsigned i = QUIET; i < MANY; i++)
        check_request("beside some that do not read", &f.x[i]);
    wait_until_quiet();
    for (unsigned i = 0; i < QUIET; i++) {
        test_request *x = &f.x[i];
        assert_int_equal(lm_reply_status(x->reply, NULL), LM_REPLY_ENDED);
        read_reply(x);                                   /* events that fit in the ring are still available */
        if (x->got.stop != LM_STOP_FAILED) {
            check_request("short enough", x);
            continue;
        }
        full++;
        assert_int_equal(x->got.error.code, LM_CANCELLED);
        assert_string_equal(x->got.error.where, "reply");
        check_prefix("not read", x, LM_STOP_FAILED);
        assert_true(x->got.n > 0);
    }
    assert_true(full > 0 && statistics().stalled >= full);
    close_fixture();
}

/* A client that reads more slowly than tokens are generated, but within the time limit, gets everything. */
static void a_slow_reader(void **state)
{
    lm_reply_event e;

    (void)state;
    f.longer = 160;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .ring_bytes = 1, .stall_seconds = 20 });
    submit(f.s, &f.x[4]);
    for (unsigned n = 0; lm_reply_wait(f.x[4].reply, -1, &e); n++) {
        take_event(&f.x[4], &e);
        while (n == 3 && lm_reply_status(f.x[4].reply, NULL) != LM_REPLY_STALLED)
            usleep(1000);
    }
    check_request("read slowly", &f.x[4]);
    assert_true(statistics().stalled > 0);
    close_fixture();
}

static atomic_uint woken;

static void wake(void *arg)
{
    assert_ptr_equal(arg, &woken);
    atomic_fetch_add(&woken, 1);
}

static void the_wake_hook_is_called(void **state)
{
    lm_reply_event e;
    test_request  *x = &f.x[1];

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    atomic_store(&woken, 0);
    x->r.wake     = wake;
    x->r.wake_arg = &woken;
    x->r.progress = true;
    submit(f.s, x);
    while (!x->got.ended) {
        unsigned seen = atomic_load(&woken);
        while (lm_reply_next(x->reply, &e))
            take_event(x, &e);
        while (!x->got.ended && atomic_load(&woken) == seen)
            usleep(100);
    }
    check_request("woken", x);
    close_fixture();
}

/* ---- excessive requests ---- */

static void oversized_requests_are_rejected(void **state)
{
    lm_token   *ids = calloc(1000, sizeof *ids);
    lm_request  r   = { .prompt = ids, .n_prompt = 251 };
    lm_reply   *reply = NULL;
    lm_error    e;

    (void)state;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .kv_positions = 2 * 64 },
                 (lm_schedule_options){ .queue = 3 });
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_LIMIT);
    assert_string_equal(e.message, "251 tokens; the context size is 250");
    r.n_prompt = 130;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_LIMIT);
    assert_string_equal(e.message, "130 tokens take 3 pages of the cache, which has 2");
    r.n_prompt = 0;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    r.n_prompt = 1;
    ids[0]     = -1;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    ids[0]          = 1;
    r.sequence.sequence = 1;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    r.sequence.sequence = 0;
    r.draft         = true;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    r.draft    = false;
    r.deadline = -1;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    r.deadline    = 0;
    r.wanted_slot = 9;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    r.wanted_slot = 0;
    r.reserved[1] = 1;
    assert_int_equal(lm_schedule_submit(f.s, &r, &reply, &e), LM_USAGE);
    assert_null(reply);
    assert_int_equal(statistics().refused, 9);
    free(ids);
    close_fixture();
}

static void a_full_queue_refuses(void **state)
{
    lm_error  e;
    lm_reply *reply = NULL, *kept[64];
    unsigned  n = 0;

    (void)state;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .sequences = 1 },
                 (lm_schedule_options){ .queue = 4, .ring_bytes = 1, .stall_seconds = 60 });
    f.x[4].r.sequence.max_tokens = 200;                  /* never read, so it keeps its slot */
    while (n < 64 && lm_schedule_submit(f.s, &f.x[4].r, &reply, &e) == LM_OK) {
        kept[n++] = reply;
        usleep(1000);
    }
    assert_true(n >= 4 && n <= 6);
    assert_int_equal(e.code, LM_NO_FIT);
    assert_string_equal(e.message, "4 requests wait, which is as many as may");
    for (unsigned i = 0; i < n; i++)
        lm_reply_free(kept[i]);
    wait_until_quiet();
    for (unsigned i = 0; i < 6000 && lm_schedule_submit(f.s, &f.x[4].r, &reply, &e) != LM_OK; i++)
        usleep(10000);                                   /* there is space again once cancelled requests have
                                                            left the queue */
    lm_reply_free(reply);
    wait_until_quiet();
    submit(f.s, &f.x[1]);
    read_reply(&f.x[1]);
    check_request("after a full queue", &f.x[1]);
    close_fixture();
}

static void time_passes(void **state)
{
    (void)state;
    f.longer = 160;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .sequences = 1, .max_logits = 2 },
                 (lm_schedule_options){ .ring_bytes = 1 });
    f.x[4].r.deadline = 0.2;                             /* generating, but not read */
    f.x[8].r.deadline = 1e-6;                            /* in the queue; it expires before any step */
    for (unsigned i = 4; i < 13; i += 4)
        submit(f.s, &f.x[i]);
    for (unsigned i = 8; i < 13; i += 4)
        read_reply(&f.x[i]);
    usleep(1000);
    read_reply(&f.x[4]);
    for (unsigned i = 4; i < 9; i += 4) {
        assert_int_equal(f.x[i].got.error.code, LM_LIMIT);
        assert_string_equal(f.x[i].got.error.where, "deadline");
        check_prefix("late", &f.x[i], LM_STOP_FAILED);
    }
    assert_int_equal(f.x[8].got.n, 0);
    check_request("in time", &f.x[12]);
    close_fixture();
}

static void a_failing_hook(void **state)
{
    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    f.x[2].fail_at = 7;
    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    for (unsigned i = 0; i < MANY; i++) {
        read_reply(&f.x[i]);
        if (i != 2)
            check_request("beside one whose hook fails", &f.x[i]);
    }
    check_prefix("its hook fails", &f.x[2], LM_STOP_FAILED);
    assert_true(f.x[2].got.n == 6 && f.x[2].got.error.code == LM_FAILED);
    assert_string_equal(f.x[2].got.error.where, "hook");
    close_fixture();
}

/* Each allocation fails once: the request is rejected, or ends at admission; other requests are
 * unaffected. */
static void no_memory(void **state)
{
    unsigned  refused = 0, ended = 0;
    lm_error  e;

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    for (unsigned n = 1; n < 40; n++) {
        test_request *x = &f.x[n % MANY];
        x->hooked = 0;
        lm_alloc_fail_at(n);
        lm_status status = lm_schedule_submit(f.s, &x->r, &x->reply, &e);
        while (status == LM_OK && lm_reply_status(x->reply, NULL) == LM_REPLY_WAITS)
            usleep(100);
        lm_alloc_fail_at(0);
        if (status == LM_OK)
            read_reply(x);
        bool at_admission = status == LM_OK && x->got.stop == LM_STOP_FAILED;
        if (status != LM_OK || at_admission) {
            assert_int_equal(at_admission ? x->got.error.code : status, LM_NO_MEMORY);
            refused += !at_admission;
            ended += at_admission;
            if (at_admission)
                reset_request(x);
            x->hooked = 0;
            submit(f.s, x);
            read_reply(x);
        }
        check_request("after a lack of memory", x);
        reset_request(x);
    }
    assert_true(refused > 4 && ended > 4);
    close_fixture();
}

/* ---- fairness ---- */

static const test_request *order[MANY];
static atomic_uint         placed;

static lm_status note_order(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                            lm_error *e)
{
    test_request *x = arg;

    (void)logits, (void)n_vocab, (void)ids, (void)e;
    if (n == x->r.n_prompt)
        order[atomic_fetch_add(&placed, 1)] = x;
    return LM_OK;
}

/* Return the rank of request i by the time of its first token. */
static unsigned place_of(unsigned i)
{
    unsigned p = 0;

    while (p < MANY && order[p] != &f.x[i])
        p++;
    return p;
}

/* The schedule's thread is held while requests are submitted, so that it sees all of them at once. */
static atomic_bool held, all_there;

static lm_status hold(void *arg, lm_engine *g, uint32_t slot, lm_error *e)
{
    (void)arg, (void)g, (void)slot, (void)e;
    atomic_store(&held, true);
    while (!atomic_load(&all_there))
        usleep(100);
    return LM_OK;
}

static void *hold_schedule(void *arg)
{
    lm_error e;

    assert_int_equal(lm_schedule_call(f.s, hold, arg, &e), LM_OK);
    return NULL;
}

/* The hook on logits, which runs at the first token, records the order. */
static void submit_in_order(uint32_t slots, void (*arrange)(unsigned i, lm_request *r))
{
    lm_error  e;
    lm_status status;
    pthread_t holder;

    open_fixture("llama/gqa", 0, (lm_engine_options){ .sequences = slots, .max_logits = 40 },
                 (lm_schedule_options){ 0 });
    atomic_store(&placed, 0);
    memset(order, 0, sizeof order);
    atomic_store(&held, false);
    atomic_store(&all_there, false);
    assert_int_equal(pthread_create(&holder, NULL, hold_schedule, NULL), 0);
    while (!atomic_load(&held))
        usleep(100);
    for (unsigned i = 0; i < MANY; i++) {
        f.x[i].r.sequence.logits     = note_order;
        f.x[i].r.sequence.logits_arg = &f.x[i];
        f.x[i].r.sequence.max_tokens = 30;
        f.x[i].r.no_prefix           = true;
        arrange(i, &f.x[i].r);
        status = lm_schedule_submit(f.s, &f.x[i].r, &f.x[i].reply, &e);
        assert_int_equal(status, LM_OK);
    }
    atomic_store(&all_there, true);
    pthread_join(holder, NULL);
    for (unsigned i = 0; i < MANY; i++) {
        read_reply(&f.x[i]);
        assert_int_not_equal(f.x[i].got.stop, LM_STOP_FAILED);
    }
}

/* One key floods the schedule; another key submits two requests at the end. */
static void by_key(unsigned i, lm_request *r)
{
    r->key        = i >= MANY - 2 ? "small" : "large";
    r->connection = i % 3;
}

static void by_priority(unsigned i, lm_request *r)
{
    r->priority = i >= MANY - 2 ? 5 : 0;
}

static void by_arrival(unsigned i, lm_request *r)
{
    (void)i, (void)r;
}

static void keys_share_slots(void **state)
{
    (void)state;
    submit_in_order(4, by_key);
    for (unsigned i = MANY - 2; i < MANY; i++)
        if (place_of(i) > MANY / 3)
            fail_msg("the small one came at place %u of %d", place_of(i), MANY);
    close_fixture();
    submit_in_order(4, by_priority);
    for (unsigned i = MANY - 2; i < MANY; i++)
        if (place_of(i) > MANY / 3)
            fail_msg("the urgent one came at place %u of %d", place_of(i), MANY);
    close_fixture();
    submit_in_order(1, by_arrival);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(place_of(i), i);
    close_fixture();
}

/* ---- allocations ---- */

/* Return the number of allocations of twelve requests with this many tokens: those of lm_schedule_submit and
 * of admission. */
static uint64_t allocations(int64_t tokens)
{
    lm_reply_event e;
    uint64_t       before;

    f.longer = tokens;
    open_fixture("mistral/window", 100,
                 (lm_engine_options){ .max_logits = 40, .rollback = 16, .kv_positions = 9 * 64 },
                 (lm_schedule_options){ 0 });
    before = lm_alloc_statistics().calls;
    for (unsigned i = 0; i < 12; i++) {
        f.x[i].r.sequence.draft_ngram = 3;
        f.x[i].r.sequence.n_stop_ids  = 0;
        f.x[i].r.sequence.ignore_eos  = true;
        f.x[i].r.sequence.stops       = NULL;
        submit(f.s, &f.x[i]);
    }
    for (unsigned i = 0; i < 12; i++)
        while (lm_reply_wait(f.x[i].reply, -1, &e))
            ;
    before = lm_alloc_statistics().calls - before;
    assert_true(statistics().tokens > 6 * (uint64_t)tokens && statistics().prompt_rows > 500);
    wait_until_quiet();
    close_fixture();
    return before;
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    assert_int_equal(allocations(160), allocations(80));
}

/* ---- draining ---- */

static void *drain(void *arg)
{
    *(bool *)arg = lm_schedule_drain(f.s, 20);
    return NULL;
}

static void draining(void **state)
{
    bool      over = false;
    unsigned  whole = 0, refused = 0;
    pthread_t thread;
    lm_reply *reply;
    lm_error  e;

    (void)state;
    f.longer = 100;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    lm_reply_event first;
    assert_true(lm_reply_wait(f.x[0].reply, -1, &first));
    take_event(&f.x[0], &first);
    assert_int_equal(pthread_create(&thread, NULL, drain, &over), 0);
    for (unsigned i = 0; i < MANY; i++) {
        read_reply(&f.x[i]);
        if (f.x[i].got.stop == LM_STOP_FAILED) {
            assert_int_equal(f.x[i].got.error.code, LM_CANCELLED);
            assert_string_equal(f.x[i].got.error.message, "the server is shutting down");
            assert_true(f.x[i].got.n == 0);
            refused++;
        } else {
            check_request("while it drains", &f.x[i]);
            whole++;
        }
    }
    pthread_join(thread, NULL);
    assert_true(over && whole >= 1 && refused >= 1);
    assert_int_equal(lm_schedule_submit(f.s, &f.x[0].r, &reply, &e), LM_CANCELLED);
    assert_string_equal(e.message, "the server is shutting down");
    close_fixture();

    f.longer = 160;                                      /* some do not finish in time */
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .ring_bytes = 1, .stall_seconds = 60 });
    for (unsigned i = 0; i < 4; i++)
        submit(f.s, &f.x[i]);
    while (statistics().stalled == 0)
        usleep(1000);
    assert_false(lm_schedule_drain(f.s, 0.05));
    for (unsigned i = 0; i < 4; i++)
        read_reply(&f.x[i]);
    close_fixture();
}

/* A schedule may be freed before its replies. */
static void replies_outlive_the_schedule(void **state)
{
    (void)state;
    f.longer = 160;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    lm_schedule_free(f.s);
    f.s = NULL;
    for (unsigned i = 0; i < MANY; i++) {
        read_reply(&f.x[i]);
        lm_reply_cancel(f.x[i].reply);
        if (f.x[i].got.stop == LM_STOP_CANCELLED)
            check_prefix("cancelled by the end", &f.x[i], LM_STOP_CANCELLED);
    }
    close_fixture();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_clients),
        cmocka_unit_test(two_hundred_and_fifty_six_at_once),
        cmocka_unit_test(another_engine_gives_the_same_tokens),
        cmocka_unit_test(clients_that_leave),
        cmocka_unit_test(readers_that_do_not_read),
        cmocka_unit_test(a_slow_reader),
        cmocka_unit_test(the_wake_hook_is_called),
        cmocka_unit_test(oversized_requests_are_rejected),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(time_passes),
        cmocka_unit_test(a_failing_hook),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(keys_share_slots),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(draining),
        cmocka_unit_test(replies_outlive_the_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
