/* prompt_rows.c - a hook sees every row of a prompt once, in order, with the bits of a separate step,
 * whatever else is in the steps of a schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "request_cases.h"

enum { LENGTH = 90, TEXTS = 6 };

typedef struct seen {
    size_t   n, fail_at;             /* rows seen; the row at which the hook fails, 0: none */
    uint32_t n_vocab, width;
    float   *logits, *hidden;        /* [LENGTH][…] */
    unsigned released;
} seen;

static lm_status see(void *arg, size_t position, const float *logits, const float *hidden, lm_error *e)
{
    seen *s = arg;

    (void)e;
    assert_int_equal(position, s->n);
    assert_true((logits != NULL) == (s->logits != NULL));
    if (logits)
        memcpy(s->logits + s->n * s->n_vocab, logits, s->n_vocab * sizeof *logits);
    assert_non_null(hidden);
    memcpy(s->hidden + s->n * s->width, hidden, s->width * sizeof *hidden);
    return ++s->n == s->fail_at ? LM_UNSUPPORTED : LM_OK;
}

static void release(void *arg)
{
    ((seen *)arg)->released++;
}

static void open_seen(seen *s, const lm_engine *g, uint32_t n_vocab, bool logits)
{
    *s = (seen){ .n_vocab = n_vocab, .width = lm_engine_hidden_width(g) };
    s->logits = logits ? calloc((size_t)LENGTH * n_vocab, sizeof *s->logits) : NULL;
    s->hidden = calloc((size_t)LENGTH * s->width, sizeof *s->hidden);
}

static void close_seen(seen *s)
{
    assert_int_equal(s->released, 1);
    free(s->logits);
    free(s->hidden);
}

/* Run the tokens one by one, alone. */
static void alone(lm_engine *g, const lm_token *ids, seen *out)
{
    for (size_t i = 0; i < LENGTH; i++) {
        lm_row row = { .token = ids[i], .position = (uint32_t)i, .logits = true };
        assert_int_equal(lm_engine_step(g, &row, 1, NULL), LM_OK);
        if (out->logits)
            memcpy(out->logits + i * out->n_vocab, lm_engine_logits(g, 0),
                   out->n_vocab * sizeof *out->logits);
        memcpy(out->hidden + i * out->width, lm_engine_hidden(g, 0), out->width * sizeof *out->hidden);
    }
    lm_engine_truncate(g, 0, 0, NULL);
}

static void in_steps_with_other_sequences(void **state)
{
    lm_model    *m = open_golden_model("llama/gqa", 0);
    lm_engine   *single = NULL, *g = NULL;
    lm_schedule *s;
    lm_reply    *replies[TEXTS], *writers[2];
    lm_token     ids[TEXTS][LENGTH];
    seen         got[TEXTS], right;
    uint32_t     n_vocab = vocabulary(m);

    (void)state;
    assert_int_equal(lm_engine_new(m, &(lm_engine_options){ .hidden = true }, &single, NULL), LM_OK);
    lm_engine_options few = { .hidden = true, .sequences = 4, .max_rows = 40, .max_logits = 12 };
    assert_int_equal(lm_engine_new(m, &few, &g, NULL), LM_OK);
    s = start_schedule(g, (lm_schedule_options){ 0 });
    for (size_t i = 0; i < 2; i++) {
        lm_token   prompt = (lm_token)(3 + i);
        lm_request r = { .prompt = &prompt,
                         .n_prompt = 1,
                         .sequence = { .max_tokens = 60, .ignore_eos = true } };
        assert_int_equal(lm_schedule_submit(s, &r, &writers[i], NULL), LM_OK);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        for (size_t k = 0; k < LENGTH; k++)
            ids[i][k] = (lm_token)((k * 31 + i * 7) % n_vocab);
        open_seen(&got[i], g, n_vocab, i % 2 == 0);
        got[i].fail_at = i == TEXTS - 1 ? 20 : 0;
        lm_request r = { .prompt = ids[i],
                         .n_prompt = LENGTH,
                         .no_prefix = true,
                         .sequence = { .prompt_only = true,
                                       .row = see,
                                       .row_arg = &got[i],
                                       .row_release = release,
                                       .prompt_logits = i % 2 == 0 } };
        assert_int_equal(lm_schedule_submit(s, &r, &replies[i], NULL), LM_OK);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        lm_reply_event e;
        do
            assert_true(lm_reply_wait(replies[i], -1, &e));
        while (e.event.kind != LM_EVENT_END);
        if (got[i].fail_at) {
            assert_int_equal(e.event.stop, LM_STOP_FAILED);
            assert_int_equal(e.event.error->code, LM_UNSUPPORTED);
            assert_int_equal(got[i].n, got[i].fail_at);
        } else {
            assert_int_equal(e.event.stop, LM_STOP_LENGTH);
            assert_int_equal(got[i].n, LENGTH);
            open_seen(&right, single, n_vocab, got[i].logits != NULL);
            alone(single, ids[i], &right);
            if (right.logits)
                assert_memory_equal(got[i].logits, right.logits,
                                    (size_t)LENGTH * n_vocab * sizeof *right.logits);
            assert_memory_equal(got[i].hidden, right.hidden,
                                (size_t)LENGTH * right.width * sizeof *right.hidden);
            right.released = 1;
            close_seen(&right);
        }
        lm_reply_free(replies[i]);
        close_seen(&got[i]);
    }
    lm_reply_free(writers[0]);
    lm_reply_free(writers[1]);
    lm_schedule_free(s);
    lm_engine_free(g);
    lm_engine_free(single);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_steps_with_other_sequences) };

    return cmocka_run_group_tests_name("rows of prompts", tests, NULL, NULL);
}
