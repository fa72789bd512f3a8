/* scheduled.c - many requests in a schedule: each gets bit for bit what lm_generate gives it alone, whatever
 * else runs and whatever is cached, drafted, preempted and recomputed, cancelled, rejected or left unread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "request_cases.h"

static const lm_engine_options usual = { .max_logits = 40, .rollback = 16 };

/* ---- independence of requests ---- */

static const struct { const char *name; int64_t window; } families[] = {
    { "llama/gqa", 0 }, { "gemma2/plain", 0 }, { "mistral/window", 20 }, { "qwen2/windows", 65 }, { "mixtral/experts", 0 },
    { "deepseek_v2/lite", 0 }, { "gpt2/plain", 0 }, { "bloom/alibi", 0 }, { "mistral/window", 100 },
};

/* In the second run prefixes are cached and tokens are drafted; in the third run prefixes are not looked
 * up. */
static void many_sequences_equal_each_alone(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof families / sizeof *families; k += EVERY / 2 + 1) {
        open_fixture(families[k].name, families[k].window,
                     (lm_engine_options){ .max_logits = 40, .rollback = 16 }, (lm_schedule_options){ 0 });
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

static void a_smaller_model_drafts(void **state)
{
    lm_schedule_options o = { .draft_sequences = 8 };

    (void)state;
    f.m          = open_golden_model("llama/gqa", 0);
    lm_model *m  = f.m;
    f.draft      = start_engine(m, (lm_engine_options){ .sequences = 8, .rollback = 16 });
    lm_engine *d = o.draft_engine = f.draft;
    open_fixture("llama/gqa", 0, (lm_engine_options){ .max_logits = 40, .rollback = 16 }, o);
    f.draft = d;
    for (unsigned i = 0; i < MANY; i++) {
        f.x[i].r.draft                 = i % 2;
        f.x[i].r.sequence.draft_always = true;
    }
    run_all("with a smaller model");
    assert_true(statistics().draft_accepted > 0);
    close_fixture();
    lm_model_close(m);
}

/* ---- too few pages ---- */

static void preempted_sequences_are_recomputed(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof families / sizeof *families; k += EVERY / 2 + 1) {
        f.longer = 150;
        open_fixture(families[k].name, families[k].window,
                     (lm_engine_options){ .max_logits = 40, .kv_positions = 9 * 64, .rollback = 16 },
                     (lm_schedule_options){ 0 });
        for (unsigned i = 0; i < MANY; i++)
            f.x[i].r.sequence.draft_ngram = i % 2 ? 3 : 0;
        run_all(families[k].name);
        if (statistics().preempted == 0 && families[k].window == 0)
            fail_msg("%s: nobody gave way", families[k].name);
        close_fixture();
    }
}

/* If rotations depend on the length of the forward pass, prompts are split where they change, so that the
 * same holds. The reference is a schedule that runs one request after the other, row by row where that
 * matters. */
static void rotations_that_follow_the_length(void **state)
{
    static const char *const names[] = { "phi3/longrope", "llama/rope-longrope", "llama/rope-dynamic" };

    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        open_fixture(names[k], 0, usual, (lm_schedule_options){ .no_prefixes = true });
        for (unsigned i = 0; i < MANY; i++) {
            submit(f.s, &f.x[i]);
            read_reply(&f.x[i]);
            f.x[i].alone = f.x[i].got;
            reset_request(&f.x[i]);
        }
        lm_schedule_free(f.s);
        f.s = start_schedule(f.g, (lm_schedule_options){ .itl_target = 1e-6 });
        run_all(names[k]);
        free_replies();
        for (unsigned i = 0; i < MANY; i++) {
            f.x[i].r.sequence.draft_ngram  = 3;
            f.x[i].r.sequence.draft_always = true;
        }
        run_all(names[k]);
        assert_true(statistics().cached_tokens > 0);
        close_fixture();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_sequences_equal_each_alone),
        cmocka_unit_test(a_smaller_model_drafts),
        cmocka_unit_test(preempted_sequences_are_recomputed),
        cmocka_unit_test(rotations_that_follow_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
