/* checkpoints.c - models with sliding windows process no more of a prompt than models without them: prompts
 * that are asked again, conversations, edited messages, a shared system prompt, slots in files. The expected
 * number of cached tokens is full attention's; the answers are those of an engine that runs each alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/temporary.h"
#include "lamina/lamina.h"
#include "models.h"

enum { LONG = 3000, PAGE = 64 };

typedef struct model_case { const char *name; int64_t window; bool states; } model_case;

/* One window in all layers, windows beside full attention, and states beside it. */
static const model_case cases[] = {
    { "lfm2/convolutions", 0, true },
    { "mistral/window", 6, false },      { "mistral/window", 65, false },    { "mistral/window", 512, false },
    { "cohere2/interleaved", 5, false }, { "qwen2/windows", 100, false },    { "gpt_oss/floats", 128, false },
};
enum { CASES = sizeof cases / sizeof *cases };

static lm_model    *m;
static bool         states;                      /* it continues only where a page ends */
static lm_engine   *g, *alone;
static lm_schedule *s;
static uint32_t     n_vocab;

static void open_case(const model_case *c, uint32_t sequences)
{
    lm_engine_options   o  = { .context = LONG, .sequences = sequences, .max_rows = 512, .max_logits = 8,
                               .checkpoints = sequences, .threads = 2 };
    lm_schedule_options so = { 0 };
    lm_model_info       info;
    lm_error            e = { 0 };
    lm_engine_options   one = { .context = LONG, .threads = 2 };

    m      = open_golden_model(c->name, c->window);
    states = c->states;
    if (lm_engine_new(m, &one, &alone, &e) != LM_OK || lm_engine_new(m, &o, &g, &e) != LM_OK ||
        lm_schedule_new(g, &so, &s, &e) != LM_OK)
        fail_msg("%s: %s: %s", c->name, e.where, e.message);
    lm_model_describe(m, &info);
    n_vocab = info.n_vocab;
}

static void close_case(void)
{
    lm_schedule_free(s);
    lm_engine_free(g);
    lm_engine_free(alone);
    lm_model_close(m);
}

/* A sequence of tokens: a prompt, and then its answer. */
typedef struct dialogue { lm_token ids[LONG]; size_t n; } dialogue;

static void add_tokens(dialogue *d, uint32_t seed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d->ids[d->n++] = (lm_token)(((i + 1) * 2654435761u + seed * 40503u) % n_vocab);
}

static void answer(dialogue *d, int64_t n, lm_usage *usage)
{
    lm_sampler_options greedy = { .greedy = true };
    lm_request         r      = { .prompt = d->ids, .n_prompt = d->n, .sampler = &greedy,
                                  .sequence = { .max_tokens = n, .ignore_eos = true } };
    lm_reply          *reply  = NULL;
    lm_reply_event     event;
    lm_error           e = { 0 };

    if (lm_schedule_submit(s, &r, &reply, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    while (lm_reply_wait(reply, -1, &event))
        if (event.event.kind == LM_EVENT_TOKEN)
            d->ids[d->n++] = event.event.id;
        else if (event.event.kind == LM_EVENT_END)
            *usage = *event.usage;
    lm_reply_free(reply);
}

static bool take(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t n_top)
{
    dialogue *d = arg;

    (void)logprob, (void)top, (void)n_top;
    d->ids[d->n++] = id;
    return true;
}

/* Answer with `n` tokens, by a cache, or without one (NULL). Returns how many tokens of the prompt were
 * processed. */
static size_t generate_by(lm_chat_cache *c, dialogue *d, int64_t n)
{
    lm_generate_options o = { .sequence = { .max_tokens = n, .ignore_eos = true }, .token = take, .arg = d };
    lm_sampler         *greedy = NULL;
    lm_generation       out;
    lm_error            e = { 0 };

    assert_int_equal(lm_sampler_new(&(lm_sampler_options){ .greedy = true }, n_vocab, NULL, &greedy, NULL),
                     LM_OK);
    lm_status status = c ? lm_chat_cache_generate(c, greedy, d->ids, d->n, &o, &out, &e)
                         : lm_generate(alone, greedy, d->ids, d->n, 0, &o, &out, &e);
    if (status != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    size_t processed = out.n_prompt - out.n_reused;
    lm_generation_free(&out);
    lm_sampler_free(greedy);
    return processed;
}

/* Answer with `n` tokens, which must be those of an engine that has no other sequence. Returns how many
 * tokens of the prompt were processed. */
static size_t read_by(dialogue *d, int64_t n)
{
    static dialogue same;
    lm_usage        usage;

    same = *d;
    generate_by(NULL, &same, n);
    answer(d, n, &usage);
    assert_int_equal(d->n, same.n);
    assert_memory_equal(d->ids, same.ids, d->n * sizeof *d->ids);
    return usage.n_prompt - usage.n_cached;
}

/* Return how many of `n` tokens remain after the full pages among the first `same`. */
static size_t rest(size_t n, size_t same)
{
    size_t cached = same / PAGE * PAGE;

    return n - (cached < n ? cached : states ? cached - PAGE : n - 1);
}

static void prompts_are_asked_again(void **state)
{
    static const size_t lengths[] = { 127, 128, 185, 700, 1400 };
    static dialogue     d;

    (void)state;
    for (size_t k = 0; k < CASES; k++)
        for (uint32_t slots = 1; slots <= 4; slots += 3) {
            open_case(&cases[k], slots);
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
                for (int again = 0; again < 3; again++) {
                    size_t n = lengths[i];
                    d.n      = 0;
                    add_tokens(&d, (uint32_t)i, n);
                    size_t got = read_by(&d, i == 4 ? 400 : 20), expected = again ? rest(n, n) : n;
                    if (got != expected)
                        fail_msg("%s, window %d, %u slots: %zu of %zu tokens", cases[k].name,
                                 (int)cases[k].window, slots, got, n);
                }
            close_case();
        }
}

/* The public report: six prompts twice each, then a longer one with a long answer, repeatedly. */
static void other_prompts_do_not_displace_it(void **state)
{
    static dialogue d;

    (void)state;
    for (size_t k = 0; k < CASES; k++) {
        open_case(&cases[k], 4);
        for (uint32_t i = 0; i < 12; i++) {
            d.n = 0;
            add_tokens(&d, i / 2, 700);
            assert_int_equal(read_by(&d, 4), i % 2 ? rest(700, 700) : 700);
        }
        for (int again = 0; again < 4; again++) {
            d.n = 0;
            add_tokens(&d, 99, 1400);
            assert_int_equal(read_by(&d, 400), again ? rest(1400, 1400) : 1400);
        }
        close_case();
    }
}

/* Four conversations alternate. A turn processes its own tokens and at most one page; an edited message, at
 * most one turn. The system prompt is processed twice at most: the first divergence from it is not known
 * before. */
static void conversations_continue(void **state)
{
    enum { TALKS = 4, SYSTEM = 600, QUESTION = 40, ANSWER = 90, TURNS = 5 };
    static dialogue d[TALKS];
    static size_t   before[TALKS];
    size_t          system = 0;

    (void)state;
    for (size_t k = 0; k < CASES; k++) {
        open_case(&cases[k], 4);
        system = 0;
        for (uint32_t turn = 0; turn < TURNS; turn++)
            for (uint32_t i = 0; i < TALKS; i++) {
                if (!turn) {
                    d[i].n = 0;
                    add_tokens(&d[i], 7, SYSTEM);
                }
                before[i] = d[i].n;
                add_tokens(&d[i], 100 * i + turn, QUESTION);
                size_t got = read_by(&d[i], ANSWER);
                if (turn && got > QUESTION + PAGE)
                    fail_msg("%s, window %d, turn %u: %zu tokens", cases[k].name, (int)cases[k].window,
                             turn, got);
                if (turn)
                    continue;
                system += got / SYSTEM;
            }
        assert_true(system <= (states ? 1 : 2));
        for (uint32_t i = 0; i < TALKS; i++) {                       /* the last question is edited */
            d[i].n = before[i];
            add_tokens(&d[i], 1000 + i, QUESTION);
            assert_true(read_by(&d[i], ANSWER) <= 2 * QUESTION + ANSWER + PAGE);
        }
        close_case();
    }
}

/* Sixty-four conversations at once, whose system prompt one request has processed before: in each turn, each
 * processes its own tokens, and at most one page or the end of the system prompt after the last step's. */
static void many_streams(void **state)
{
    enum { STREAMS = 64, SYSTEM = 600, QUESTION = 30, ANSWER = 40, TURNS = 3 };
    static dialogue    d[STREAMS], first;
    lm_sampler_options greedy = { .greedy = true };
    size_t             processed[TURNS] = { 0 };

    (void)state;
    open_case(&cases[0], STREAMS);
    first.n = 0;
    add_tokens(&first, 7, SYSTEM);
    read_by(&first, 4);
    for (uint32_t i = 0; i < STREAMS; i++) {
        d[i].n = 0;
        add_tokens(&d[i], 7, SYSTEM);
    }
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        static lm_reply *replies[STREAMS];
        for (uint32_t i = 0; i < STREAMS; i++) {
            add_tokens(&d[i], 100 * i + turn, QUESTION);
            lm_request r = { .prompt = d[i].ids, .n_prompt = d[i].n, .sampler = &greedy,
                             .sequence = { .max_tokens = ANSWER, .ignore_eos = true } };
            assert_int_equal(lm_schedule_submit(s, &r, &replies[i], NULL), LM_OK);
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            lm_reply_event event;
            while (lm_reply_wait(replies[i], -1, &event))
                if (event.event.kind == LM_EVENT_TOKEN)
                    d[i].ids[d[i].n++] = event.event.id;
                else if (event.event.kind == LM_EVENT_END)
                    processed[turn] += event.usage->n_prompt - event.usage->n_cached;
            lm_reply_free(replies[i]);
        }
    }
    assert_true(processed[0] <= STREAMS * (QUESTION + SYSTEM % 512));
    for (uint32_t turn = 1; turn < TURNS; turn++)
        if (processed[turn] > STREAMS * (QUESTION + PAGE))
            fail_msg("turn %u: %zu tokens for %d streams", turn, processed[turn], STREAMS);
    for (uint32_t i = 0; i < STREAMS; i += 21) {         /* the answers are those of an engine alone */
        static dialogue again;
        again   = d[i];
        again.n = d[i].n - ANSWER;
        read_by(&again, ANSWER);
        assert_memory_equal(again.ids, d[i].ids, d[i].n * sizeof *d[i].ids);
    }
    close_case();
}

static void slots_continue_from_files(void **state)
{
    static const size_t lengths[] = { 100, 185, 256, 700 };
    static dialogue     d;
    char                path[256];
    size_t              n;
    lm_error            e = { 0 };

    (void)state;
    temporary_path(path, "checkpoints");
    for (size_t k = 0; k < CASES; k++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            lm_usage usage;
            open_case(&cases[k], 1);
            d.n = 0;
            add_tokens(&d, 3, lengths[i]);
            answer(&d, 30, &usage);
            assert_int_equal(lm_schedule_slot_save(s, 0, path, &n, &e), LM_OK);
            close_case();
            open_case(&cases[k], 1);
            if (lm_schedule_slot_restore(s, 0, path, NULL, &n, &e) != LM_OK)
                fail_msg("%s: %s", e.where, e.message);
            assert_int_equal(n, d.n - 1);
            add_tokens(&d, 4, 50);
            size_t same = n, all = d.n;
            assert_int_equal(read_by(&d, 30), rest(all, same));
            close_case();
        }
    unlink(path);
}

/* A chat on one sequence: its template drops reasoning from earlier turns, its last question is edited, and
 * an answer is drawn again. */
static void chats_continue(void **state)
{
    enum { QUESTION = 150, REASONING = 170, ANSWER = 30, TURNS = 8 };
    static const model_case more[] = { { "falcon_mamba/tied", 0, true }, { "qwen3_5/two", 0, true },
                                       { "llama/gqa", 0, false } };
    static dialogue d, same, before;

    (void)state;
    for (size_t k = 0; k < CASES + 3; k++) {
        const model_case *c = k < CASES ? &cases[k] : &more[k - CASES];
        lm_engine_options o = { .context = LONG, .max_rows = 512, .checkpoints = LM_CHAT_CHECKPOINTS,
                                .threads = 2 };
        lm_engine        *engine = NULL;
        lm_chat_cache    *cache = NULL;
        size_t            page = c->states || c->window ? PAGE : 1, got;
        open_case(c, 1);
        assert_int_equal(lm_engine_new(m, &o, &engine, NULL), LM_OK);
        assert_int_equal(lm_chat_cache_new(engine, 0, &cache, NULL), LM_OK);
        d.n = 0;
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            add_tokens(&d, turn, QUESTION);
            same = before = d;
            got = generate_by(cache, &d, REASONING + ANSWER);
            if (got > QUESTION + (turn ? ANSWER + page - 1 : 0))
                fail_msg("%s, window %d, turn %u: %zu tokens", c->name, (int)c->window, turn, got);
            generate_by(NULL, &same, REASONING + ANSWER);
            assert_memory_equal(d.ids, same.ids, d.n * sizeof *d.ids);
            if (turn == TURNS - 1)
                break;
            d.n -= REASONING + ANSWER;                   /* the reasoning is dropped */
            memmove(d.ids + d.n, d.ids + d.n + REASONING, ANSWER * sizeof *d.ids);
            d.n += ANSWER;
        }
        d = before;                                      /* the answer again */
        assert_true(generate_by(cache, &d, 20) <= page);
        d.n = before.n - QUESTION;                       /* the last question is edited */
        add_tokens(&d, 99, QUESTION);
        assert_true(generate_by(cache, &d, 20) < 2 * QUESTION + ANSWER + page);
        lm_chat_cache_free(cache);
        lm_engine_free(engine);
        close_case();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_asked_again),
        cmocka_unit_test(other_prompts_do_not_displace_it),
        cmocka_unit_test(conversations_continue),
        cmocka_unit_test(many_streams),
        cmocka_unit_test(slots_continue_from_files),
        cmocka_unit_test(chats_continue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
