/* cached.c - prefixes: which requests share them, which are evicted first, their files, and slots. The bits
 * are always those of a request that was processed without a cache. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "request_cases.h"
#include "../unit/temporary.h"

static const lm_engine_options usual = { .max_logits = 40, .rollback = 16 };

/* Make request i of n prompt tokens, the first `same` of which all such requests share. */
static void make_similar(test_request *x, unsigned i, size_t same, size_t n)
{
    make_request(x, 4, f.m);                               /* sampled, no hook */
    for (size_t k = 0; k < n; k++)
        x->prompt[k] = (lm_token)((k * 31 + (k < same ? 0 : i * 7919)) % x->n_vocab);
    x->r.n_prompt = n;
    x->s.seed     = i;
    x->r.sequence.draw = i;
    x->r.sequence.n_stop_ids = 0;
    x->r.sequence.ignore_eos = true;
    run_alone(f.alone, x);
}

static size_t ask(test_request *x)
{
    submit(f.s, x);
    read_reply(x);
    check_request("beside what is cached", x);
    size_t cached = x->got.usage.n_cached;
    reset_request(x);
    return cached;
}

static size_t ask_similar(unsigned i, size_t same, size_t n)
{
    make_similar(&f.x[0], i, same, n);
    return ask(&f.x[0]);
}

static void prefixes_are_shared(void **state)
{
    static const struct { const char *name; int64_t window; } families[] = {
        { "llama/gqa", 0 }, { "mistral/window", 20 }, { "qwen2/windows", 65 }, { "deepseek_v2/lite", 0 },
    };

    (void)state;
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        open_fixture(families[k].name, families[k].window, usual, (lm_schedule_options){ 0 });
        assert_int_equal(ask_similar(1, 200, 200), 0);
        assert_int_equal(ask_similar(1, 200, 200), 192);
        assert_int_equal(ask_similar(2, 200, 192), 191); /* all of it is cached, but its last token is
                                                            processed for its logits */
        assert_int_equal(ask_similar(3, 128, 180), 128);
        assert_int_equal(ask_similar(4, 127, 180), 64);
        assert_int_equal(ask_similar(5, 63, 180), 0);
        assert_int_equal(ask_similar(5, 63, 180), 128);
        assert_int_equal(ask_similar(6, 200, 64), 63);
        assert_int_equal(ask_similar(6, 200, 63), 0);
        close_fixture();
    }
}

/* Generated tokens are cached like prompt tokens, so a conversation continues from the cache. */
static void answers_are_cached_too(void **state)
{
    test_request *x = &f.x[0];

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    make_similar(x, 1, 200, 100);
    ask(x);
    memcpy(x->prompt + 100, x->alone.ids, x->alone.n * sizeof *x->prompt);
    x->r.n_prompt = 100 + x->alone.n;
    assert_true(x->r.n_prompt > 130);
    memset(&x->alone, 0, sizeof x->alone);
    run_alone(f.alone, x);
    assert_int_equal(ask(x), 128);
    close_fixture();
}

static void different_salts_share_nothing(void **state)
{
    test_request *x = &f.x[0];

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    make_similar(x, 1, 200, 200);
    x->r.salt = "one";
    assert_int_equal(ask(x), 0);
    x->r.salt = "two";
    assert_int_equal(ask(x), 0);
    x->r.salt = NULL;
    assert_int_equal(ask(x), 0);
    x->r.salt = "one";
    assert_int_equal(ask(x), 192);
    x->r.no_prefix = true;
    assert_int_equal(ask(x), 0);
    close_fixture();
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .no_prefixes = true });
    make_similar(x, 1, 200, 200);
    assert_int_equal(ask(x) + ask(x), 0);
    close_fixture();
}

/* Submit on the engine's thread, so that no step runs before all requests are in the queue. */
static lm_status submit_eight(void *arg, lm_engine *g, uint32_t slot, lm_error *e)
{
    (void)arg, (void)g, (void)slot, (void)e;
    for (unsigned i = 0; i < 8; i++)
        submit(f.s, &f.x[i]);
    return LM_OK;
}

/* One of several concurrent requests with a common prefix processes it, and the others wait for it. */
static void concurrent_requests_share_prefixes(void **state)
{
    size_t   cached = 0;
    lm_error e;

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    for (unsigned i = 0; i < 8; i++)
        make_similar(&f.x[i], i, 192, 200);
    assert_int_equal(lm_schedule_call(f.s, submit_eight, NULL, &e), LM_OK);
    for (unsigned i = 0; i < 8; i++) {
        read_reply(&f.x[i]);
        check_request("with others like it", &f.x[i]);
        cached += f.x[i].got.usage.n_cached == 192;
    }
    assert_int_equal(cached, 7);
    close_fixture();
}

/* ---- eviction ---- */

static void side_requests_do_not_evict_the_long_one(void **state)
{
    (void)state;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .sequences = 4, .kv_positions = 12 * 64 },
                 (lm_schedule_options){ 0 });
    ask_similar(1, 192, 200);
    assert_int_equal(ask_similar(2, 192, 200), 192);     /* the prefix is reused */
    for (unsigned i = 10; i < 20; i++)
        assert_int_equal(ask_similar(i, 0, 150), 0);     /* twenty pages of other requests */
    assert_int_equal(ask_similar(3, 192, 200), 192);
    /* no more than necessary */
    assert_true(statistics().evicted_pages >= 10 && statistics().evicted_pages <= 32);
    assert_int_equal(ask_similar(10, 0, 150), 0);        /* the first of those was evicted */
    close_fixture();
}

static void a_byte_limit_is_enforced(void **state)
{
    lm_memory m;

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    lm_engine_allocated(f.g, &m);
    uint64_t pages = 0;
    lm_engine_pages(f.g, NULL, &pages);
    close_fixture();
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .prefix_bytes = 5 * m.kv / pages });
    for (unsigned i = 0; i < 12; i++)
        ask_similar(i, 0, 150);
    wait_until_quiet();
    assert_true(statistics().prefixes <= 5 && statistics().prefixes >= 2);
    ask_similar(30, 200, 200);
    assert_int_equal(ask_similar(30, 200, 200), 192);
    close_fixture();
}

/* ---- explanation of cache misses ---- */

static void the_difference_is_reported(void **state)
{
    lm_cache_difference d;
    lm_text             t[3] = { 0 };
    test_request       *x    = &f.x[0];
    lm_error            e;

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    ask_similar(1, 150, 200);
    make_similar(x, 2, 150, 200);
    x->r.explain_cache = true;
    submit(f.s, x);
    read_reply(x);
    assert_int_equal(lm_reply_explain(x->reply, f.m, &d, &t[0], &t[1], &t[2], &e), LM_OK);
    assert_true(d.cached == 128 && d.same == 150 && d.known && !d.whole);
    assert_true(t[0].size && t[1].size && t[2].size && strcmp(t[1].data, t[2].data) != 0);
    reset_request(x);
    submit(f.s, x);
    read_reply(x);
    assert_int_equal(lm_reply_explain(x->reply, f.m, &d, NULL, NULL, NULL, &e), LM_OK);
    /* the next page was never full */
    assert_true(d.cached == 192 && d.same == 192 && !d.whole && !d.known);
    reset_request(x);
    x->r.explain_cache = false;
    submit(f.s, x);
    read_reply(x);
    assert_int_equal(lm_reply_explain(x->reply, f.m, &d, NULL, NULL, NULL, &e), LM_USAGE);
    for (int i = 0; i < 3; i++)
        lm_text_free(&t[i]);
    close_fixture();
}

/* ---- files ---- */

static char folder[256];

static unsigned files(char *last, size_t size)
{
    DIR           *d = opendir(folder);
    struct dirent *x;
    unsigned       n = 0;

    while (d && (x = readdir(d)))
        if (x->d_name[0] != '.') {
            n++;
            if (last)
                snprintf(last, size, "%s/%s", folder, x->d_name);
        }
    if (d)
        closedir(d);
    return n;
}

static void remove_files(void)
{
    char path[512];

    while (files(path, sizeof path))
        assert_int_equal(unlink(path), 0);
    rmdir(folder);
}

static void new_folder(void)
{
    temporary_path(folder, "cached-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static void prefixes_are_reused(void **state)
{
    static const struct {
        const char *name;
        int64_t window;
    } families[] = { { "llama/gqa", 0 }, { "qwen2/windows", 65 } };
    lm_schedule_options o = { .prefix_store = folder };
    char                path[512];

    (void)state;
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        new_folder();
        open_fixture(families[k].name, families[k].window, usual, o);
        make_similar(&f.x[0], 1, 200, 200);
        f.x[0].r.salt = "whose";
        ask(&f.x[0]);
        close_fixture();
        assert_int_equal(files(path, sizeof path), 1);
        open_fixture(families[k].name, families[k].window, usual, o);
        assert_int_equal(statistics().restored, 1);
        make_similar(&f.x[0], 1, 200, 200);
        f.x[0].r.salt = "whose";
        assert_int_equal(ask(&f.x[0]), 192);
        f.x[0].r.salt = "another";
        assert_int_equal(ask(&f.x[0]), 0);
        close_fixture();
        assert_int_equal(files(path, sizeof path), 2);
        open_fixture("gpt2/plain", 0, usual, o);         /* files of other models remain, unused */
        assert_int_equal(statistics().restored, 0);
        close_fixture();
        assert_int_equal(files(path, sizeof path), 2);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size / 2), 0);
        open_fixture(families[k].name, families[k].window, usual, o);
        assert_int_equal(statistics().restored, 1);      /* the damaged one was removed */
        assert_int_equal(files(NULL, 0), 1);
        close_fixture();
        remove_files();
    }
}

/* A longer file replaces those that are its prefixes; the limit is enforced; the name of a file states its
 * salt and its tokens. */
static void the_store_stays_small(void **state)
{
    char path[512], other[560];

    (void)state;
    new_folder();
    for (size_t n = 130; n < 200; n += 64) {
        open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .prefix_store = folder });
        ask_similar(1, 200, n);
        close_fixture();
    }
    assert_int_equal(files(path, sizeof path), 1);
    snprintf(other, sizeof other, "%s/0123456789abcdef%s", folder, path + strlen(folder) + 17);
    assert_int_equal(rename(path, other), 0);            /* another salt in the name, which still fits the
                                                            tokens */
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .prefix_store = folder });
    assert_int_equal(statistics().restored, 1);
    assert_int_equal(ask_similar(1, 200, 200), 0);
    close_fixture();
    remove_files();
    new_folder();
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .prefix_store = folder, .store_bytes = 1 });
    ask_similar(1, 200, 200);
    close_fixture();
    assert_int_equal(files(NULL, 0), 0);
    remove_files();
    lm_schedule *s = NULL;
    lm_error     e;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    lm_schedule_free(f.s);
    f.s = NULL;
    assert_int_equal(
        lm_schedule_new(f.g, &(lm_schedule_options){ .prefix_store = "/dev/null/x" }, &s, &e),
        LM_IO);
    close_fixture();
}

/* If the store cannot hold all prefixes, it holds the most recently used; it never writes more than its
 * limit. */
static void the_store_holds_the_most_recently_used(void **state)
{
    struct stat st;
    char path[512];

    (void)state;
    new_folder();
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .prefix_store = folder });
    ask_similar(1, 200, 200);
    close_fixture();
    assert_int_equal(files(path, sizeof path), 1);
    assert_int_equal(stat(path, &st), 0);
    remove_files();
    for (unsigned more = 0; more < 2; more++) {          /* space for exactly two files, and for two and one
                                                            byte */
        lm_schedule_options o = { .prefix_store = folder, .store_bytes = 2 * (uint64_t)st.st_size + more };
        new_folder();
        open_fixture("llama/gqa", 0, usual, o);
        for (unsigned i = 1; i <= 5; i++)
            ask_similar(i, 0, 200);
        close_fixture();
        assert_int_equal(files(NULL, 0), 2);
        open_fixture("llama/gqa", 0, usual, o);
        assert_int_equal(ask_similar(5, 0, 200), 192);
        assert_int_equal(ask_similar(4, 0, 200), 192);
        assert_int_equal(ask_similar(3, 0, 200), 0);
        close_fixture();
        remove_files();
    }
}

/* Idle schedules write the files without a request to do so. */
static void idle_time_is_used(void **state)
{
    (void)state;
    new_folder();
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ .prefix_store = folder });
    ask_similar(1, 200, 200);
    /* ten minutes, like PATIENCE in the other tests */
    for (unsigned i = 0; i < 12000 && statistics().stored == 0; i++)
        usleep(50000);
    assert_int_equal(files(NULL, 0), 1);
    assert_int_equal(ask_similar(1, 200, 200), 192);
    close_fixture();
    remove_files();
}

/* ---- slots ---- */

static void slots_are_saved(void **state)
{
    test_request *x = &f.x[0];
    lm_slot_info  info;
    size_t        n = 0;
    char          path[300];
    lm_error      e;

    (void)state;
    new_folder();
    snprintf(path, sizeof path, "%s/slot", folder);
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    make_similar(x, 1, 200, 200);
    x->r.wanted_slot = 4;
    ask(x);
    assert_int_equal(lm_schedule_slot(f.s, 3, &info, &e), LM_OK);
    assert_true(!info.busy && info.n_prompt == 200 && info.n_held == 200 + x->alone.n - 1);
    assert_int_equal(lm_schedule_slot(f.s, 8, &info, &e), LM_USAGE);
    assert_int_equal(lm_schedule_slot_save(f.s, 2, path, &n, &e), LM_USAGE);
    assert_string_equal(e.message, "the slot 2 is empty");
    assert_int_equal(lm_schedule_slot_save(f.s, 3, path, &n, &e), LM_OK);
    assert_int_equal(n, info.n_held);
    assert_int_equal(lm_schedule_slot_erase(f.s, 3, &n, &e), LM_OK);
    assert_int_equal(n, info.n_held);
    x->r.wanted_slot = 0;
    assert_int_equal(ask(x), 0);                         /* forgotten */
    close_fixture();
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    assert_int_equal(lm_schedule_slot_restore(f.s, 1, path, "mine", &n, &e), LM_OK);
    make_similar(x, 1, 200, 200);
    assert_int_equal(ask(x), 0);
    x->r.salt = "mine";
    assert_int_equal(ask(x), 192);
    assert_int_equal(lm_schedule_slot_restore(f.s, 1, "/nowhere", NULL, &n, &e), LM_NOT_FOUND);
    assert_int_equal(lm_schedule_slot_restore(f.s, 9, path, NULL, &n, &e), LM_USAGE);
    close_fixture();
    remove_files();
}

static lm_status embed(void *arg, lm_engine *g, uint32_t slot, lm_error *e)
{
    lm_row row = { slot, 1, 0, true };

    assert_int_equal(lm_engine_length(g, slot), 0);
    if (!arg)
        return lm_fail(e, LM_FAILED, "here", LM_NO_OFFSET, "no");
    return lm_engine_step(g, &row, 1, e);
}

/* Process *arg * 40 tokens. */
static lm_status embed_more(void *arg, lm_engine *g, uint32_t slot, lm_error *e)
{
    lm_row    rows[40];
    lm_status status = LM_OK;

    assert_int_equal(lm_engine_length(g, slot), 0);
    for (uint32_t at = 0; at < *(const uint32_t *)arg * 40 && status == LM_OK; at += 40) {
        for (uint32_t i = 0; i < 40; i++)
            rows[i] = (lm_row){ slot, 1, at + i, false };
        status = lm_engine_step(g, rows, 40, e);
    }
    return status;
}

/* Two requests whose readers do not read hold all pages but the one that is left for their growth. */
static void hold_pages(void)
{
    uint64_t used, total, stalled = statistics().stalled;

    for (unsigned i = 0; i < 2; i++) {
        make_similar(&f.x[i], i, 0, 200);
        f.x[i].r.wanted_slot = 1 + i;
        submit(f.s, &f.x[i]);
    }
    while (statistics().stalled < stalled + 2)
        usleep(100);
    lm_engine_pages(f.g, &used, &total);
    assert_int_equal(used, total - 1);
}

static void read_both(void)
{
    for (unsigned i = 0; i < 2; i++) {
        read_reply(&f.x[i]);
        check_request("after its pages were taken", &f.x[i]);
        reset_request(&f.x[i]);
    }
}

/* Tasks between steps take pages of running requests, also those of the last one, which lose nothing. */
static void tasks_preempt_requests(void **state)
{
    lm_engine_options o = usual;
    char              path[300];
    size_t            n;
    lm_error          e = { 0 };

    (void)state;
    o.kv_positions = 9 * 64;
    o.context      = 400;
    new_folder();
    snprintf(path, sizeof path, "%s/slot", folder);
    open_fixture("llama/gqa", 0, o, (lm_schedule_options){ .ring_bytes = 1, .stall_seconds = 600 });
    make_similar(&f.x[0], 9, 200, 200);
    f.x[0].r.wanted_slot = 4;
    ask(&f.x[0]);
    assert_int_equal(lm_schedule_slot_save(f.s, 3, path, &n, &e), LM_OK);
    hold_pages();
    assert_int_equal(lm_schedule_call(f.s, embed_more, &(uint32_t){ 2 }, &e), LM_OK);
    assert_int_equal(statistics().preempted, 1);
    read_both();
    hold_pages();
    assert_int_equal(lm_schedule_call(f.s, embed_more, &(uint32_t){ 9 }, &e), LM_OK);
    assert_int_equal(statistics().preempted, 3);
    read_both();
    hold_pages();
    assert_int_equal(lm_schedule_slot_restore(f.s, 3, path, NULL, &n, &e), LM_OK);
    assert_int_equal(statistics().preempted, 4);
    read_both();
    close_fixture();
    remove_files();
}

static void functions_are_called_between_steps(void **state)
{
    int      x;
    lm_error e;

    (void)state;
    open_fixture("llama/gqa", 0, usual, (lm_schedule_options){ 0 });
    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(lm_schedule_call(f.s, embed, &x, &e), LM_OK);
    assert_int_equal(lm_schedule_call(f.s, embed, NULL, &e), LM_FAILED);
    assert_string_equal(e.where, "here");
    for (unsigned i = 0; i < MANY; i++) {
        read_reply(&f.x[i]);
        check_request("beside other work", &f.x[i]);
    }
    assert_true(lm_schedule_drain(f.s, 1));
    assert_int_equal(lm_schedule_call(f.s, embed, &x, &e), LM_CANCELLED);
    assert_string_equal(e.message, "the server is shutting down");
    close_fixture();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_shared),
        cmocka_unit_test(answers_are_cached_too),
        cmocka_unit_test(different_salts_share_nothing),
        cmocka_unit_test(concurrent_requests_share_prefixes),
        cmocka_unit_test(side_requests_do_not_evict_the_long_one),
        cmocka_unit_test(a_byte_limit_is_enforced),
        cmocka_unit_test(the_difference_is_reported),
        cmocka_unit_test(prefixes_are_reused),
        cmocka_unit_test(the_store_stays_small),
        cmocka_unit_test(the_store_holds_the_most_recently_used),
        cmocka_unit_test(idle_time_is_used),
        cmocka_unit_test(slots_are_saved),
        cmocka_unit_test(tasks_preempt_requests),
        cmocka_unit_test(functions_are_called_between_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
