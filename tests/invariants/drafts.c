/* drafts.c - drafts change nothing: ids, text, log-probabilities, the stop reason and the contents of the
 * cache are those of the same generation without drafts, greedy and sampled, with penalties, stops, windows
 * and small caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/lamina.h"
#include "models.h"
#include "runtime/model/model.h"

enum { TOKENS = 420, TOP = 3 };

static size_t drafted, accepted, compared;

/* Engines without drafts use one thread, engines with drafts two; with tiny models a second thread mostly
 * waits. */
static lm_engine *start(const lm_model *m, lm_engine_options o, uint32_t threads)
{
    lm_engine *g = NULL;
    lm_error   e = { 0 };

    o.threads = threads;
    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* ---- one generation, recorded ---- */

typedef struct record {
    lm_generation x;
    uint32_t      length;                /* positions that the cache holds afterwards */
    bool          has_state;             /* which goes back to earlier positions only */
    size_t        n;
    struct { float logprob; lm_logprob top[TOP]; } at[TOKENS];
} record;

static bool on_token(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k)
{
    record *r = arg;

    (void)id;
    assert_int_equal(k, TOP);
    assert_true(r->n < TOKENS);
    r->at[r->n].logprob = logprob;
    memcpy(r->at[r->n++].top, top, sizeof r->at->top);
    return true;
}

static void generate(lm_engine *g, const lm_model *m, const lm_sampler_options *s, const lm_token *prompt,
                     size_t n, size_t reuse, lm_generate_options o, record *r)
{
    lm_sampler   *sampler = NULL;
    lm_model_info info;
    lm_error      e = { 0 };

    memset(r, 0, sizeof *r);
    lm_model_describe(m, &info);
    o.token        = on_token;
    o.arg          = r;
    o.sequence.logprobs     = TOP;
    o.sequence.draft_always = true;      /* whatever the cost of drafts on this machine */
    if (lm_sampler_new(s, info.n_vocab, lm_model_tokenizer(m), &sampler, &e) != LM_OK ||
        lm_generate(g, sampler, prompt, n, reuse, &o, &r->x, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    r->length    = lm_engine_length(g, o.sequence.sequence);
    r->has_state = m->program->n_states > 0;
    lm_sampler_free(sampler);
}

static void check_same(const char *what, record *plain, record *with)
{
    compared++;
    drafted += with->x.n_drafted;
    accepted += with->x.n_accepted;
    assert_true(plain->x.n_drafted == 0 && with->n == with->x.ids.n);
    assert_true(with->x.n_accepted <= with->x.n_drafted);
    if (plain->x.ids.n != with->x.ids.n ||
        memcmp(plain->x.ids.ids, with->x.ids.ids, plain->x.ids.n * sizeof(lm_token)) != 0)
        fail_msg("%s: other ids (%zu and %zu)", what, plain->x.ids.n, with->x.ids.n);
    if (plain->x.text.size != with->x.text.size ||
        (plain->x.text.size && memcmp(plain->x.text.data, with->x.text.data, plain->x.text.size) != 0))
        fail_msg("%s: another text", what);
    /* a stop within drafts may leave less of a state */
    if (plain->x.stop != with->x.stop || with->length > plain->length ||
        (!plain->has_state && with->length != plain->length))
        fail_msg("%s: stopped by %s at %u, not by %s at %u", what, lm_stop_word(with->x.stop), with->length,
                 lm_stop_word(plain->x.stop), plain->length);
    if (plain->n != with->n || memcmp(plain->at, with->at, plain->n * sizeof *plain->at) != 0)
        fail_msg("%s: other log-probabilities", what);
    lm_generation_free(&plain->x);
    lm_generation_free(&with->x);
}

/* Make tokens with repetitions, so that there is something to draft. */
static void repeat(lm_token *ids, size_t n, uint32_t n_vocab, unsigned salt)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (lm_token)((i % 11 * 2654435761u + (i / 22 + salt) * 40503u) % n_vocab);
}

static lm_sampler_options sampling(unsigned i)
{
    lm_sampler_options s = lm_sampler_defaults();

    s.seed        = 1000 + i;
    s.temperature = (const float[]){ -1, 0.4f, 0.8f, 1.3f }[i % 4];
    if (i % 5 == 3) {
        s.repeat_penalty    = 1.2f;
        s.frequency_penalty = 0.3f;
        s.presence_penalty  = 0.1f;
    }
    if (i % 7 == 5) {
        s.temperature = 0.9f;
        s.mirostat    = 2;
    }
    if (i % 6 == 4)
        s.dry_multiplier = 0.8f;
    return s;
}

/* ---- random models ---- */

static void compare_golden(const char *name, int64_t window, const char *draft, lm_engine_options o,
                           bool must_accept)
{
    lm_model *m = open_golden_model(name, window), *small = draft ? open_golden_model(draft, window) : NULL;
    lm_engine_options  many = o, own = o;
    size_t             right = accepted;

    o.max_logits    = 1;
    many.max_logits = many.max_rows < 9 ? many.max_rows : 9;
    own.rollback    = 8;
    own.max_logits  = 1;
    lm_engine *plain = start(m, o, 1), *with = start(m, many, 2), *g = small ? start(small, own, 1) : NULL;
    lm_model_info info;
    lm_model_describe(m, &info);
    for (unsigned i = 0; i < 16; i++) {
        static record      a, b;
        lm_token           prompt[48];
        lm_token           stop = (lm_token)(i % 3 == 2 ? 7 : -1);
        lm_sampler_options s    = sampling(i);
        size_t             n    = 3 + i * 3;
        char               what[160];
        repeat(prompt, n, info.n_vocab, i);
        lm_generate_options p = { .sequence = { .max_tokens = i % 4 == 3 ? -1 : 60,
                                                .stop_ids = &stop,
                                                .n_stop_ids = stop >= 0,
                                                .ignore_eos = i % 2 } };
        lm_generate_options d = p;
        d.sequence.draft_ngram  = g && i % 4 == 1 ? 0 : 1 + i % 4;
        d.sequence.draft_max    = 8;
        d.sequence.draft_engine = i % 2 ? g : NULL;
        snprintf(what, sizeof what, "%s, prompt %u", name, i);
        generate(plain, m, &s, prompt, n, 0, p, &a);
        generate(with, m, &s, prompt, n, 0, d, &b);
        /* The caches have the same contents too: both continue alike. */
        if (a.length + 4 < lm_engine_context(plain) && a.x.stop != LM_STOP_CONTEXT && b.length == a.length) {
            lm_token longer[48 + TOKENS + 1];
            static record c, k;
            size_t   held = a.length;
            memcpy(longer, prompt, n * sizeof *prompt);
            memcpy(longer + n, a.x.ids.ids, a.x.ids.n * sizeof *prompt);
            size_t all = n + a.x.ids.n;
            p.sequence.max_tokens = d.sequence.max_tokens = 12;
            generate(plain, m, &s, longer, all, held, p, &c);
            generate(with, m, &s, longer, all, held, d, &k);
            check_same(what, &c, &k);
        }
        check_same(what, &a, &b);
    }
    lm_engine_free(plain);
    lm_engine_free(with);
    lm_engine_free(g);
    lm_model_close(m);
    lm_model_close(small);
    if (must_accept && accepted == right)
        fail_msg("%s: no draft was accepted, so nothing was tested", name);
}

static void random_models(void **state)
{
    static const char *const names[] = {
        "llama/gqa",     "gpt2/plain",   "mixtral/experts", "qwen3/head-norm", "deepseek_v2/lite",
        "gpt_oss/plain", "gemma2/plain", "bloom/alibi",     "mpt/alibi",       "falcon/grouped",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_golden(names[i], 0, names[i], (lm_engine_options){ .context = 120, .max_rows = 32 }, true);
}

/* Keys that leave the window still exist when drafts are rejected, and the planned cache is large enough for
 * that. */
static void windows(void **state)
{
    static const int64_t sizes[] = { 5, 65, 100 };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        compare_golden("mistral/window", sizes[i], NULL, (lm_engine_options){ .context = 400, .max_rows = 9 },
                       false);
        compare_golden("qwen2/windows", sizes[i], "qwen2/windows",
                       (lm_engine_options){ .context = 400, .max_rows = 16 }, true);
        compare_golden("mistral/window", sizes[i], "mistral/window",
                       (lm_engine_options){ .context = 400, .max_rows = 9 }, true);
    }
}

/* With frequencies that depend on the length of the forward pass, no step crosses the length at which they
 * change. */
static void lengths(void **state)
{
    static const char *const names[] = { "llama/rope-dynamic", "llama/rope-longrope", "phi3/longrope" };

    (void)state;
    for (size_t i = 0; i < 3; i++)
        compare_golden(names[i], 0, names[i], (lm_engine_options){ .context = 100, .max_rows = 32 }, true);
}

/* Where a draft is rejected, a state goes back to an earlier position, and the accepted tokens are processed
 * again. */
static void states(void **state)
{
    (void)state;
    compare_golden("lfm2/convolutions", 0, NULL, (lm_engine_options){ .context = 400, .max_rows = 9 }, false);
    compare_golden("lfm2/convolutions", 0, "lfm2/convolutions",
                   (lm_engine_options){ .context = 120, .max_rows = 32 }, true);
    compare_golden("lfm2/biased", 0, "llama/gqa", (lm_engine_options){ .context = 200, .max_rows = 16 },
                   false);
}

static void small_caches_and_steps(void **state)
{
    (void)state;
    compare_golden("llama/gqa", 0, "llama/gqa", (lm_engine_options){ .context = 128, .max_rows = 2 }, true);
    compare_golden("llama/gqa", 0, "llama/gqa", (lm_engine_options){ .context = 128, .max_rows = 1 }, false);
    compare_golden("llama/gqa", 0, "llama/gqa",
                   (lm_engine_options){ .context = 128, .max_rows = 16, .kv_positions = 64 }, true);
}

/* Drafts of the model itself are nearly always accepted, drafts of another model nearly never. */
static void draft_models(void **state)
{
    (void)state;
    compare_golden("llama/gqa", 0, "llama/gqa", (lm_engine_options){ .context = 120, .max_rows = 32 }, true);
    compare_golden("llama/mqa", 0, "gpt2/plain", (lm_engine_options){ .context = 120, .max_rows = 32 },
                   false);
    compare_golden("llama/gqa", 0, "llama/rope-dynamic",
                   (lm_engine_options){ .context = 120, .max_rows = 32 }, false);
}

/* ---- a real model ---- */

static const char *const starts[] = {
    "def load(path):\n    with open(path) as f:\n        return f.read()\n\ndef save(path, data):\n    with open(path",
    "The capital of France is",
    "<|im_start|>user\nRepeat this three times: the quick brown fox jumps over the lazy dog.<|im_end|>\n<|im_start|>assistant\n",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
    "| city | country |\n| --- | --- |\n| Paris | France |\n| Rome | Italy |\n| Berlin |",
    "{\"name\": \"a\", \"value\": 1}\n{\"name\": \"b\", \"value\": 2}\n{\"name\": \"c\",",
    "Once upon a time there was a small",
    "for (int i = 0; i < n; i++)\n    for (int j = 0; j < n; j++)\n        for (int k = 0;",
    "Row, row, row your boat, gently down the stream. Row, row,",
};

static const char *const openings[] = { "", "Please go on.\n", "// file: a.c\n",
                                        "Q: and then?\nA: ", "It is said:\n\n" };

static void fifty_prompts(void **state)
{
    static const char *const stops[] = { "\n\n", "the", NULL };
    lm_model     *m     = open_demo_model();
    lm_engine    *plain = start(m, (lm_engine_options){ .context = 160 }, 1);
    lm_engine    *with  = start(m, (lm_engine_options){ .context = 160, .max_logits = 9 }, 2);

    (void)state;
    for (unsigned i = 0; i < 50; i += 2 * EVERY - 1) {
        char      text[600], what[64];
        lm_tokens ids = { 0 };
        lm_error  e   = { 0 };
        int       n   = snprintf(text, sizeof text, "%s%s", openings[i / 10], starts[i % 10]);
        assert_int_equal(lm_tokenize(lm_model_tokenizer(m), text, (size_t)n, LM_ADD_SPECIAL, &ids, &e),
                         LM_OK);
        static record       a, b;
        unsigned            kind = i % 3;      /* greedy, sampled, sampled with stops: each for all starts and
                                                  openings */
        lm_sampler_options  s    = sampling(kind == 0 ? 0 : 1 + i + 50 * kind);
        lm_generate_options p = { .sequence = { .max_tokens = 24, .stops = kind == 2 ? stops : NULL } },
                            d = p;
        d.sequence.draft_ngram   = 1 + i % 4;
        d.sequence.draft_max     = 8;
        snprintf(what, sizeof what, "prompt %u, kind %u", i, kind);
        generate(plain, m, &s, ids.ids, ids.n, 0, p, &a);
        generate(with, m, &s, ids.ids, ids.n, 0, d, &b);
        check_same(what, &a, &b);
        lm_tokens_free(&ids);
    }
    lm_engine_free(plain);
    lm_engine_free(with);
    lm_model_close(m);
}

static void other_tokens_are_rejected(void **state)
{
    lm_model *m = open_demo_model(), *other = open_golden_model("llama/gqa", 0), *same = open_demo_model();
    lm_error  e = { 0 };

    (void)state;
    assert_int_equal(lm_draft_fits(same, m, &e), LM_OK);
    assert_int_equal(lm_draft_fits(other, m, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "tokens"));
    lm_model_close(m);
    lm_model_close(other);
    lm_model_close(same);
}

static int report(void **state)
{
    (void)state;
    printf("  %zu generations the same, %zu of %zu draft tokens accepted\n", compared, accepted, drafted);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models), cmocka_unit_test(windows),
        cmocka_unit_test(lengths),       cmocka_unit_test(states), cmocka_unit_test(small_caches_and_steps),
        cmocka_unit_test(draft_models),  cmocka_unit_test(fifty_prompts),
        cmocka_unit_test(other_tokens_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, report);
}
