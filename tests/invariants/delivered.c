/* delivered.c - the text that a sequence delivers: whole characters, no part of a stop string, the same
 * alongside any other sequences; continuing from cached tokens; memory; rejected calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "lamina/lamina.h"
#include "models.h"

enum { TEXTS = 5, ROWS = 16, MAX = 200 };

static lm_model  *m;
static lm_engine *g;
static lm_row     rows[ROWS];

static int open_all(void **state)
{
    lm_engine_options o = {
        .context = 160, .sequences = TEXTS, .max_rows = ROWS, .max_logits = ROWS, .threads = 2
    };

    (void)state;
    m = open_demo_model();
    return lm_engine_new(m, &o, &g, NULL) == LM_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    lm_engine_free(g);
    lm_model_close(m);
    return 0;
}

static lm_tokens tokens_of(const char *text)
{
    lm_tokens ids = { 0 };

    assert_int_equal(lm_tokenize(lm_model_tokenizer(m), text, strlen(text), LM_NO_PARSE_SPECIAL, &ids, NULL),
                     LM_OK);
    return ids;
}

static lm_sampler *greedy(uint32_t n_vocab)
{
    lm_sampler_options o = { .greedy = true };
    lm_sampler        *s = NULL;

    assert_int_equal(lm_sampler_new(&o, n_vocab, NULL, &s, NULL), LM_OK);
    return s;
}

static uint32_t vocabulary(void)
{
    lm_model_info info;

    lm_model_describe(m, &info);
    return info.n_vocab;
}

static void step(lm_sequence *const *all, size_t n)
{
    lm_batch b = { .rows = rows, .max_rows = ROWS };
    lm_error e = { 0 };

    if (lm_sequences_step(g, all, n, &b, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

/* ---- texts that the caller chooses, token by token ---- */

typedef struct spoken {
    const char        *says, *shown;         /* the chosen tokens as text; the part that is delivered */
    const char *const *stops;
    lm_stop            stop;
    lm_tokens          ids;
    size_t             chosen;
    lm_sequence       *s;
    char               text[MAX];
    size_t             size;
    lm_stop            ended;
} spoken;

/* Read all events, and choose the next token when one is requested. */
static void answer(spoken *x)
{
    lm_event e;

    while (lm_sequence_event(x->s, &e)) {
        if (e.kind == LM_EVENT_CHOICE) {
            assert_non_null(e.logits);
            if (x->chosen == x->ids.n)
                lm_sequence_cancel(x->s);
            else
                assert_int_equal(lm_sequence_choose(x->s, x->ids.ids[x->chosen++], NULL), LM_OK);
        } else if (e.kind == LM_EVENT_TOKEN) {
            assert_int_equal(e.id, x->ids.ids[x->chosen - 1]);
        } else if (e.kind == LM_EVENT_TEXT) {
            assert_true(e.size > 0 && x->size + e.size < MAX);
            /* never half a character */
            assert_int_equal(lm_utf8_valid_prefix(e.text, e.size), e.size);
            memcpy(x->text + x->size, e.text, e.size);
            x->size += e.size;
        } else if (e.kind == LM_EVENT_END) {
            x->ended = e.stop;
        }
    }
}

static void characters_are_whole_and_stops_unseen(void **state)
{
    static const char *const done[] = { "DONE", NULL }, *const two[] = { "」。", "the end", NULL },
                             *const cut[] = { "日本国", NULL };
    spoken texts[TEXTS] = {
        { .says = "naïve café, 漢字 and 🦙🦙 ends", .shown = "naïve café, 漢字 and 🦙🦙 ends", .stop = LM_STOP_CANCELLED },
        { .says = "It is DON but not DO or D: DONE and more", .shown = "It is DON but not DO or D: ", .stops = done, .stop = LM_STOP_STRING },
        { .says = "「はい」。 the end", .shown = "「はい", .stops = two, .stop = LM_STOP_STRING },
        { .says = "日本 日本語 日本国", .shown = "日本 日本語 ", .stops = cut, .stop = LM_STOP_STRING },
        { .says = "held back: the en", .shown = "held back: the en", .stops = two, .stop = LM_STOP_CANCELLED },
    };
    lm_sequence *all[TEXTS];
    lm_tokens    prompt = tokens_of("Say:");
    bool         running = true;

    (void)state;
    for (uint32_t i = 0; i < TEXTS; i++) {
        lm_sequence_options o = { .sequence = i, .stops = texts[i].stops };
        texts[i].ids = tokens_of(texts[i].says);
        assert_int_equal(lm_sequence_new(g, NULL, &o, &all[i], NULL), LM_OK);
        assert_int_equal(lm_sequence_prompt(all[i], prompt.ids, prompt.n, 0, NULL), LM_OK);
        texts[i].s = all[i];
    }
    while (running) {
        running = false;
        step(all, TEXTS);
        for (uint32_t i = 0; i < TEXTS; i++) {
            answer(&texts[i]);
            running |= texts[i].ended == LM_STOP_NONE;
        }
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        if (texts[i].size != strlen(texts[i].shown) ||
            memcmp(texts[i].text, texts[i].shown, texts[i].size) != 0)
            fail_msg("\"%s\" became \"%.*s\"", texts[i].says, (int)texts[i].size, texts[i].text);
        assert_int_equal(texts[i].ended, texts[i].stop);
        assert_int_equal(lm_sequence_choose(all[i], 1, NULL), LM_USAGE);
        lm_sequence_free(all[i]);
        lm_tokens_free(&texts[i].ids);
    }
    lm_tokens_free(&prompt);
}

/* ---- continuation ---- */

/* Step this sequence alone until it ends. Returns the number of its tokens. */
static size_t run_to_end(lm_sequence *s, lm_token *ids, lm_stop *stop)
{
    lm_event e;
    size_t   n = 0;

    for (*stop = LM_STOP_NONE; *stop == LM_STOP_NONE;) {
        step(&s, 1);
        while (lm_sequence_event(s, &e)) {
            if (e.kind == LM_EVENT_TOKEN)
                ids[n++] = e.id;
            if (e.kind == LM_EVENT_END)
                *stop = e.stop;
        }
    }
    return n;
}

/* Appending more prompt to a sequence, twice, gives the same as processing it all at once: cached tokens are
 * not processed again. */
static void appended_text_continues_the_held_text(void **state)
{
    lm_sequence_options o = { .max_tokens = 9, .ignore_eos = true, .draft_ngram = 2 };
    lm_tokens           first = tokens_of("The sun is hot. The moon is"), more = tokens_of(" But the sun");
    lm_sampler         *sampler = greedy(vocabulary());
    lm_sequence        *s;
    lm_token            got[2][16], again[16], whole[MAX];
    lm_sequence_info    info;
    lm_stop             stop;
    size_t              n;

    (void)state;
    assert_int_equal(lm_sequence_new(g, sampler, &o, &s, NULL), LM_OK);
    /* to an empty sequence: its prompt */
    assert_int_equal(lm_sequence_append(s, first.ids, first.n, NULL), LM_OK);
    assert_int_equal(lm_sequence_append(s, more.ids, more.n, NULL), LM_USAGE);     /* it has not ended */
    assert_int_equal(run_to_end(s, got[0], &stop), 9);
    assert_int_equal(lm_sequence_append(s, more.ids, more.n, NULL), LM_OK);
    assert_int_equal(run_to_end(s, got[1], &stop), 9);
    lm_sequence_describe(s, &info);
    assert_int_equal(info.n_reused, first.n + 8);
    assert_int_equal(info.n_prompt, first.n + 9 + more.n);
    memcpy(whole, lm_sequence_ids(s, &n), info.n_prompt * sizeof *whole);
    assert_int_equal(n, info.n_prompt + 9);
    assert_memory_equal(whole + first.n, got[0], 9 * sizeof *whole);

    assert_int_equal(lm_sequence_prompt(s, whole, info.n_prompt, 0, NULL), LM_OK);
    assert_int_equal(run_to_end(s, again, &stop), 9);
    assert_memory_equal(again, got[1], 9 * sizeof *again);
    assert_int_equal(lm_sequence_prompt(s, whole, info.n_prompt, first.n, NULL), LM_OK);
    assert_int_equal(run_to_end(s, again, &stop), 9);
    assert_memory_equal(again, got[1], 9 * sizeof *again);
    lm_sequence_free(s);
    lm_sampler_free(sampler);
    lm_tokens_free(&first);
    lm_tokens_free(&more);
}

/* A cancel before the first row takes effect; a cancel after the end does not affect what is appended
 * next. */
static void cancelling_ends_one_sequence(void **state)
{
    lm_sequence_options o = { .max_tokens = 3, .ignore_eos = true };
    lm_tokens           prompt = tokens_of("One");
    lm_sampler         *sampler = greedy(vocabulary());
    lm_sequence        *s;
    lm_token            ids[8];
    lm_stop             stop;

    (void)state;
    assert_int_equal(lm_sequence_new(g, sampler, &o, &s, NULL), LM_OK);
    lm_sequence_cancel(s);
    assert_int_equal(lm_sequence_prompt(s, prompt.ids, prompt.n, 0, NULL), LM_OK);
    assert_int_equal(run_to_end(s, ids, &stop), 0);
    assert_int_equal(stop, LM_STOP_CANCELLED);
    assert_int_equal(lm_sequence_append(s, prompt.ids, prompt.n, NULL), LM_OK);
    assert_int_equal(run_to_end(s, ids, &stop), 3);
    lm_sequence_cancel(s);
    assert_int_equal(lm_sequence_append(s, prompt.ids, prompt.n, NULL), LM_OK);
    assert_int_equal(run_to_end(s, ids, &stop), 3);
    assert_int_equal(stop, LM_STOP_LENGTH);
    lm_sequence_free(s);
    lm_sampler_free(sampler);
    lm_tokens_free(&prompt);
}

static lm_status allow_all(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                           lm_error *e)
{
    (void)logits, (void)n_vocab, (void)ids, (void)n, (void)e;
    ++*(size_t *)arg;
    return LM_OK;
}

static void tokens_allocate_nothing(void **state)
{
    static const char *const stops[] = { "never this", NULL };
    size_t              hooked = 0;
    lm_sequence_options o = { .max_tokens = 60,
                              .ignore_eos = true,
                              .draft_ngram = 3,
                              .draft_always = true,
                              .logprobs = 3,
                              .stops = stops,
                              .logits = allow_all,
                              .logits_arg = &hooked };
    lm_tokens           prompt = tokens_of("1, 2, 3, 1, 2, 3, 1, 2,");
    lm_sampler         *sampler = greedy(vocabulary());
    lm_sequence        *s;
    lm_token            ids[64];
    lm_stop             stop;

    (void)state;
    assert_int_equal(lm_sequence_new(g, sampler, &o, &s, NULL), LM_OK);
    assert_int_equal(lm_sequence_prompt(s, prompt.ids, prompt.n, 0, NULL), LM_OK);
    uint64_t calls = lm_alloc_statistics().calls;
    assert_int_equal(run_to_end(s, ids, &stop), 60);
    assert_int_equal(lm_alloc_statistics().calls, calls);
    assert_int_equal(hooked, 60);
    lm_sequence_free(s);
    lm_sampler_free(sampler);
    lm_tokens_free(&prompt);
}

/* ---- rejected calls and failing hooks ---- */

static lm_status poison(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                        lm_error *e)
{
    (void)ids, (void)n, (void)e;
    for (uint32_t i = 0; i < n_vocab; i++)
        logits[i] = *(float *)arg;
    return LM_OK;
}

static lm_status refuse(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                        lm_error *e)
{
    (void)arg, (void)logits, (void)n_vocab, (void)ids, (void)n, (void)e;
    return LM_UNSUPPORTED;                               /* without filling the error */
}

static void end_of(const lm_sequence_options *o, lm_status code, const char *words)
{
    lm_tokens    prompt = tokens_of("One");
    lm_sampler  *sampler = greedy(vocabulary());
    lm_sequence *s;
    lm_event     e;

    assert_int_equal(lm_sequence_new(g, sampler, o, &s, NULL), LM_OK);
    assert_int_equal(lm_sequence_prompt(s, prompt.ids, prompt.n, 0, NULL), LM_OK);
    step(&s, 1);
    assert_true(lm_sequence_event(s, &e) && e.kind == LM_EVENT_PROMPT);
    assert_true(lm_sequence_event(s, &e) && e.kind == LM_EVENT_END);
    assert_int_equal(e.stop, LM_STOP_FAILED);
    assert_int_equal(e.error->code, code);
    assert_non_null(strstr(e.error->message, words));
    assert_false(lm_sequence_event(s, &e));
    lm_sequence_free(s);
    lm_sampler_free(sampler);
    lm_tokens_free(&prompt);
}

static void hooks_affect_only_their_own_sequence(void **state)
{
    float nan = __builtin_nanf(""), none = -__builtin_inff();

    (void)state;
    end_of(&(lm_sequence_options){ .logits = poison, .logits_arg = &nan }, LM_FAILED, "NaN");
    end_of(&(lm_sequence_options){ .logits = poison, .logits_arg = &none }, LM_FAILED,
           "no token has a finite logit");
    end_of(&(lm_sequence_options){ .logits = refuse }, LM_UNSUPPORTED, "rejected");
}

static void rows_before_events_are_an_error(void **state)
{
    lm_tokens    prompt = tokens_of("One");
    lm_sampler  *sampler = greedy(vocabulary());
    lm_sequence *s;
    lm_event     e = { 0 };

    (void)state;
    assert_int_equal(lm_sequence_new(g, sampler, NULL, &s, NULL), LM_OK);
    assert_false(lm_sequence_event(s, &e));              /* no prompt yet */
    assert_int_equal(lm_sequence_prompt(s, prompt.ids, prompt.n, 0, NULL), LM_OK);
    step(&s, 1);
    step(&s, 1);
    while (lm_sequence_event(s, &e))
        assert_int_not_equal(e.kind, LM_EVENT_TOKEN);
    assert_int_equal(e.kind, LM_EVENT_END);
    assert_int_equal(e.error->code, LM_USAGE);
    lm_sequence_free(s);
    lm_sampler_free(sampler);
    lm_tokens_free(&prompt);
}

static void impossible_options_are_named(void **state)
{
    lm_sampler  *right = greedy(vocabulary()), *other = greedy(vocabulary() + 1);
    lm_sequence *s = NULL;
    lm_token     id = 1;
    lm_generation out;
    lm_error     e = { 0 };
    const struct { lm_sequence_options o; lm_sampler *sampler; const char *where; } bad[] = {
        { { 0 }, other, "sampler" },
        { { .sequence = TEXTS }, right, "sequence" },
        { { .logprobs = (int32_t)vocabulary() + 1 }, right, "logprobs" },
        { { .logprobs = -2 }, right, "logprobs" },
        { { .n_stop_ids = 2 }, right, "stop_ids" },
        { { .draft_engine = g }, right, "draft_engine" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lm_sequence_new(g, bad[i].sampler, &bad[i].o, &s, &e), LM_USAGE);
        assert_string_equal(e.where, bad[i].where);
        assert_null(s);
    }
    assert_int_equal(lm_generate(g, other, &id, 1, 0, NULL, &out, &e), LM_USAGE);
    assert_int_equal(lm_generate(g, NULL, &id, 1, 0, NULL, &out, &e), LM_USAGE);
    assert_int_equal(lm_generate(NULL, right, &id, 1, 0, NULL, &out, &e), LM_USAGE);
    assert_int_equal(lm_generate(g, right, NULL, 1, 0, NULL, &out, &e), LM_USAGE);
    assert_int_equal(lm_generate(g, right, &id, 1, 0, NULL, NULL, &e), LM_USAGE);
    assert_int_equal(lm_sequence_new(NULL, right, NULL, &s, &e), LM_USAGE);
    assert_int_equal(lm_sequence_new(g, right, NULL, NULL, &e), LM_USAGE);
    assert_int_equal(lm_sequence_prompt(NULL, &id, 1, 0, &e), LM_USAGE);
    assert_int_equal(lm_sequences_step(g, NULL, 1, NULL, &e), LM_USAGE);
    assert_int_equal(lm_sequence_rows(NULL, NULL), 0);
    assert_false(lm_sequence_event(NULL, NULL));
    lm_sequence_cancel(NULL);
    lm_sequence_free(NULL);
    lm_sampler_free(right);
    lm_sampler_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_whole_and_stops_unseen),
        cmocka_unit_test(appended_text_continues_the_held_text),
        cmocka_unit_test(cancelling_ends_one_sequence),
        cmocka_unit_test(tokens_allocate_nothing),
        cmocka_unit_test(hooks_affect_only_their_own_sequence),
        cmocka_unit_test(rows_before_events_are_an_error),
        cmocka_unit_test(impossible_options_are_named),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
