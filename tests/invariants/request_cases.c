#include "request_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

uint32_t vocabulary(const lm_model *m)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    return info.n_vocab;
}

lm_engine *start_engine(const lm_model *m, lm_engine_options o)
{
    lm_engine *g = NULL;
    lm_error   e = { 0 };

    o.context = o.context ? o.context : CONTEXT;
    o.max_rows    = o.max_rows ? o.max_rows : 40;
    o.threads = o.threads ? o.threads : 2;
    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* Suppress the most probable token after every third token id, and check that the hook is called once per
 * token, in order. */
static lm_status hook(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e)
{
    test_request *x    = arg;
    uint32_t      best = 0;

    if (n != x->r.n_prompt + x->hooked || memcmp(ids, x->prompt, x->r.n_prompt * sizeof *ids) != 0)
        return lm_fail(e, LM_DIFFERS, "hook", LM_NO_OFFSET, "called out of order");
    if (++x->hooked == x->fail_at)
        return lm_fail(e, LM_FAILED, "hook", LM_NO_OFFSET, "at %zu", n);
    for (uint32_t i = 1; i < n_vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    if ((uint32_t)ids[n - 1] % 3 == 0)
        logits[best] = -1e9f;
    return LM_OK;
}

void make_request(test_request *x, unsigned i, const lm_model *m)
{
    static const float temperatures[] = { -1, 0.6f, 1.2f };
    uint32_t           n_vocab        = vocabulary(m);

    *x = (test_request){ .n_vocab = n_vocab, .stop_id = (lm_token)(i * 5 % n_vocab) };
    x->r.n_prompt = 1 + i * 37 % LONGEST;
    for (size_t k = 0; k < x->r.n_prompt; k++)               /* three beginnings; prompts that share one
                                                                diverge after 130 tokens */
        x->prompt[k] = (lm_token)((k % 7 * 2654435761u + (k / 14 + i % 3 + (k > 130 ? i : 0)) * 40503u) %
                                  n_vocab);
    x->s = (lm_sampler_options){ .seed = 100 + i,
                                 .temperature = temperatures[i % 3],
                                 .repeat_penalty = i % 4 == 3 ? 1.2f : 0 };
    x->r.prompt   = x->prompt;
    x->r.sampler  = &x->s;
    x->stops[0]   = "qz";
    x->r.sequence = (lm_sequence_options){ .draw = i,
                                           .max_tokens = 40 - (int64_t)(i % 5),
                                           .logprobs = TOP,
                                           .stop_ids = &x->stop_id,
                                           .n_stop_ids = i % 4 == 1,
                                           .ignore_eos = i % 2,
                                           .stops = i % 5 ? NULL : x->stops };
    if (i % 4 == 2) {
        x->r.sequence.logits     = hook;
        x->r.sequence.logits_arg = x;
    }
}

static void take_token(delivery *t, lm_token id, float logprob, const lm_logprob *top, uint32_t n_top)
{
    assert_true(n_top == TOP && t->n <= TOKENS);
    t->ids[t->n]     = id;
    t->logprob[t->n] = logprob;
    memcpy(t->top[t->n++], top, sizeof *t->top);
}

static bool on_token(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k)
{
    take_token(arg, id, logprob, top, k);
    return true;
}

void run_alone(lm_engine *g, test_request *x)
{
    lm_generate_options o = { .sequence = x->r.sequence, .token = on_token, .arg = &x->alone };
    lm_sampler   *s = NULL;
    lm_generation out;
    lm_error      e = { 0 };

    assert_int_equal(lm_sampler_new(&x->s, x->n_vocab, NULL, &s, NULL), LM_OK);
    o.sequence.draft_ngram = 0;
    if (lm_generate(g, s, x->prompt, x->r.n_prompt, 0, &o, &out, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    x->alone.stop = out.stop;
    x->alone.size = out.text.size;
    assert_true(out.text.size < TEXT_BYTES);
    if (out.text.size)
        memcpy(x->alone.text, out.text.data, out.text.size);
    x->hooked = 0;
    lm_generation_free(&out);
    lm_sampler_free(s);
}

lm_schedule *start_schedule(lm_engine *g, lm_schedule_options o)
{
    lm_schedule *s = NULL;
    lm_error     e = { 0 };

    if (lm_schedule_new(g, &o, &s, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return s;
}

void submit(lm_schedule *s, test_request *x)
{
    lm_error e = { 0 };

    x->hooked = 0;
    if (lm_schedule_submit(s, &x->r, &x->reply, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

bool take_event(test_request *x, const lm_reply_event *e)
{
    delivery *t = &x->got;

    assert_false(t->ended);
    switch (e->event.kind) {
    case LM_EVENT_TOKEN: take_token(t, e->event.id, e->event.logprob, e->event.top, e->event.n_top); break;
    case LM_EVENT_TEXT:
        assert_true(t->size + e->event.size < TEXT_BYTES);
        memcpy(t->text + t->size, e->event.text, e->event.size);
        t->size += e->event.size;
        break;
    case LM_EVENT_END:
        t->ended = true;
        t->stop  = e->event.stop;
        t->error = e->event.error ? *e->event.error : (lm_error){ 0 };
        t->usage = *e->usage;
        assert_int_equal(t->usage.n_tokens, t->n);
        assert_int_equal(t->usage.n_prompt, x->r.n_prompt);
        return false;
    case LM_EVENT_PROMPT: case LM_EVENT_CHOICE: break;
    }
    return true;
}

void read_reply(test_request *x)
{
    lm_reply_event e;

    while (lm_reply_wait(x->reply, -1, &e))
        take_event(x, &e);
    assert_true(x->got.ended);
}

void check_request(const char *what, const test_request *x)
{
    const delivery *a = &x->alone, *b = &x->got;

    if (b->stop == LM_STOP_FAILED)
        fail_msg("%s: %s: %s", what, b->error.where, b->error.message);
    if (a->n != b->n || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) != 0)
        fail_msg("%s: other tokens (%zu and %zu)", what, a->n, b->n);
    if (memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob) != 0 ||
        memcmp(a->top, b->top, a->n * sizeof *a->top) != 0)
        fail_msg("%s: other log-probabilities", what);
    if (a->size != b->size || memcmp(a->text, b->text, a->size) != 0)
        fail_msg("%s: another text", what);
    if (a->stop != b->stop)
        fail_msg("%s: %s and %s", what, lm_stop_word(a->stop), lm_stop_word(b->stop));
    if (x->r.sequence.logits && x->hooked != b->n)
        fail_msg("%s: the hook was called %zu times for %zu tokens", what, x->hooked, b->n);
}

void check_prefix(const char *what, const test_request *x, lm_stop stop)
{
    const delivery *a = &x->alone, *b = &x->got;

    if (b->n > a->n || memcmp(a->ids, b->ids, b->n * sizeof *b->ids) != 0 || b->size > a->size ||
        memcmp(a->text, b->text, b->size) != 0 || b->stop != stop)
        fail_msg("%s: %zu tokens, %s", what, b->n, lm_stop_word(b->stop));
}

void reset_request(test_request *x)
{
    lm_reply_free(x->reply);
    x->reply = NULL;
    memset(&x->got, 0, sizeof x->got);
}

/* ---- a schedule with requests ---- */

static uint64_t dice = 1;

uint32_t roll(uint32_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % n;
}

fixture f;

void open_fixture(const char *name, int64_t window, lm_engine_options o, lm_schedule_options so)
{
    f.m         = open_golden_model(name, window);
    f.alone     = start_engine(f.m, (lm_engine_options){ 0 });
    o.sequences = o.sequences ? o.sequences : 8;
    f.g         = start_engine(f.m, o);
    f.s         = start_schedule(f.g, so);
    for (unsigned i = 0; i < MANY; i++) {
        make_request(&f.x[i], i, f.m);
        if (f.longer)
            f.x[i].r.sequence.max_tokens = f.longer - i % 5;
        run_alone(f.alone, &f.x[i]);
    }
}

void free_replies(void)
{
    for (unsigned i = 0; i < MANY; i++)
        reset_request(&f.x[i]);
}

void close_fixture(void)
{
    uint64_t used;

    free_replies();
    lm_schedule_free(f.s);
    lm_engine_pages(f.g, &used, NULL);
    assert_int_equal(used, 0);                           /* every page is free again */
    lm_engine_free(f.g);
    lm_engine_free(f.draft);
    lm_engine_free(f.alone);
    lm_model_close(f.m);
    memset(&f, 0, sizeof f);
}

void run_all(const char *name)
{
    char what[160];

    for (unsigned i = 0; i < MANY; i++)
        submit(f.s, &f.x[i]);
    for (unsigned i = 0; i < MANY; i++)
        read_reply(&f.x[i]);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(what, sizeof what, "%s, request %u", name, i);
        check_request(what, &f.x[i]);
    }
}

lm_schedule_statistics statistics(void)
{
    lm_schedule_statistics t;

    lm_schedule_describe(f.s, &t);
    return t;
}

/* Current statistics lag until the schedule's thread runs again, so poll them. */
void wait_until_quiet(void)
{
    lm_schedule_statistics t;

    do {
        usleep(1000);
        t = statistics();
    } while (t.waiting || t.reading || t.writing);
}
