/* scheduled.c - many requests at a schedule: each gets what lm_generate makes of it alone, to the bit, whatever is beside it, whatever is
 * cached, guessed, given back and read again, cancelled, refused or left unread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>

#include "asked.h"
#include "base/alloc.h"
#include "models.h"

enum { MANY = EVERY == 1 ? 48 : 24 };

static uint64_t dice = 1;

static uint32_t roll(uint32_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % n;
}

typedef struct fixture {
    lm_model    *m;
    lm_engine   *alone, *g, *draft;
    lm_schedule *s;
    asked        x[MANY];
} fixture;

static fixture f;

static int64_t longer;               /* tokens of each text, where they are more than usual */

static void open_fixture(const char *name, int64_t window, lm_engine_options o, lm_schedule_options so)
{
    f.m         = open_golden_model(name, window);
    f.alone     = start_engine(f.m, (lm_engine_options){ 0 });
    o.sequences = o.sequences ? o.sequences : 8;
    f.g         = start_engine(f.m, o);
    f.s         = start_schedule(f.g, so);
    for (unsigned i = 0; i < MANY; i++) {
        make_asked(&f.x[i], i, f.m);
        if (longer)
            f.x[i].r.sequence.max_tokens = longer - i % 5;
        ask_alone(f.alone, &f.x[i]);
    }
}

static void free_replies(void)
{
    for (unsigned i = 0; i < MANY; i++)
        begin_again(&f.x[i]);
}

static void close_fixture(void)
{
    uint64_t used;

    free_replies();
    lm_schedule_free(f.s);
    lm_engine_pages(f.g, &used, NULL);
    assert_int_equal(used, 0);                           /* every page has gone back */
    lm_engine_free(f.g);
    lm_engine_free(f.draft);
    lm_engine_free(f.alone);
    lm_model_close(f.m);
    memset(&f, 0, sizeof f);
}

static void run_all(const char *name)
{
    char what[160];

    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    for (unsigned i = 0; i < MANY; i++)
        read_reply(&f.x[i]);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(what, sizeof what, "%s, request %u", name, i);
        check_asked(what, &f.x[i]);
    }
}

static lm_schedule_statistics statistics(void)
{
    lm_schedule_statistics t;

    lm_schedule_describe(f.s, &t);
    return t;
}

/* Figures of now follow when the thread comes round. */
static void wait_until_quiet(void)
{
    lm_schedule_statistics t;

    do {
        usleep(1000);
        t = statistics();
    } while (t.waiting || t.reading || t.writing);
}

/* ---- each is alone ---- */

static const struct { const char *name; int64_t window; } families[] = {
    { "llama/gqa", 0 }, { "gemma2/plain", 0 }, { "mistral/window", 20 }, { "qwen2/windows", 65 }, { "mixtral/experts", 0 },
    { "deepseek_v2/lite", 0 }, { "gpt2/plain", 0 }, { "bloom/alibi", 0 }, { "mistral/window", 100 },
};

/* The second time prefixes are cached, and there are guesses; the third time they are not looked for. */
static void many_are_each_alone(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof families / sizeof *families; k += EVERY / 2 + 1) {
        open_fixture(families[k].name, families[k].window, (lm_engine_options){ .logit_rows = 40, .rollback = 16 },
                     (lm_schedule_options){ 0 });
        run_all(families[k].name);
        uint64_t cached = statistics().cached_tokens;
        free_replies();
        for (unsigned i = 0; i < MANY; i++) {
            f.x[i].r.sequence.draft_ngram  = i % 2 ? 3 : 0;
            f.x[i].r.sequence.draft_always = true;
        }
        run_all(families[k].name);
        lm_schedule_statistics t = statistics();
        if (t.cached_tokens <= cached)
            fail_msg("%s: nothing was cached", families[k].name);
        assert_true(t.submitted == 2 * MANY && t.ended[LM_STOP_FAILED] == 0);
        wait_until_quiet();
        free_replies();
        for (unsigned i = 0; i < MANY; i++)
            f.x[i].r.no_prefix = true;
        run_all(families[k].name);
        assert_int_equal(statistics().cached_tokens, t.cached_tokens);
        close_fixture();
    }
}

static void a_smaller_model_guesses(void **state)
{
    lm_schedule_options o = { .guess_texts = 8 };

    (void)state;
    f.m          = open_golden_model("llama/gqa", 0);
    lm_model *m  = f.m;
    f.draft      = start_engine(m, (lm_engine_options){ .sequences = 8, .rollback = 16 });
    lm_engine *d = o.draft_engine = f.draft;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .logit_rows = 40, .rollback = 16 }, o);
    f.draft = d;
    for (unsigned i = 0; i < MANY; i++) {
        f.x[i].r.draft                 = i % 2;
        f.x[i].r.sequence.draft_always = true;
    }
    run_all("with a smaller model");
    assert_true(statistics().guesses_right > 0);
    close_fixture();
    lm_model_close(m);
}

/* ---- too few pages ---- */

static void pages_are_given_back_and_read_again(void **state)
{
    (void)state;
    longer = 150;
    for (size_t k = 0; k < sizeof families / sizeof *families; k += EVERY / 2 + 1) {
        open_fixture(families[k].name, families[k].window, (lm_engine_options){ .logit_rows = 40, .kv_positions = 9 * 64, .rollback = 16 },
                     (lm_schedule_options){ 0 });
        for (unsigned i = 0; i < MANY; i++)
            f.x[i].r.sequence.draft_ngram = i % 2 ? 3 : 0;
        run_all(families[k].name);
        if (statistics().preempted == 0 && families[k].window == 0)
            fail_msg("%s: nobody gave way", families[k].name);
        close_fixture();
    }
    longer = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_are_each_alone),
        cmocka_unit_test(a_smaller_model_guesses),
        cmocka_unit_test(pages_are_given_back_and_read_again),
    };
    (void)roll;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
