/* lm_generate with a scripted engine: what it requests from the engine, when it stops, and what it delivers.
 * The engine, the model and the text stream here are scripted; the real ones are tested with it elsewhere. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lamina/generate.h"

enum { V = 16, CONTEXT = 32, ROWS = 4, END = 1 };

/* Tokens and their bytes: 8 and 9 are two halves of é. */
static const char *const pieces[V] = {
    "<unk>", "<end>", "a", "b", "c", " the", "stop", "st", "\xc3", "\xa9", "op", "\n", "x", "y", "z", "!",
};

struct lm_engine {
    lm_token script[CONTEXT + 1];        /* the most probable token at each position */
    uint32_t length, steps, rows_seen, limit;
    lm_token held[CONTEXT];
    float    logits[V];
    size_t   wanted;
    bool     cancelled;
};
struct lm_model { int unused; };
struct lm_tokenizer { int unused; };
struct lm_stream { char bytes[8]; size_t n; };

static struct lm_tokenizer tokenizer;

/* ---- the scripted engine ---- */

uint32_t lm_engine_context(const lm_engine *g) { (void)g; return CONTEXT; }
uint32_t lm_engine_max_rows(const lm_engine *g) { (void)g; return ROWS; }
uint32_t lm_engine_length(const lm_engine *g, uint32_t sequence) { (void)sequence; return g->length; }
uint32_t lm_engine_max_logits(const lm_engine *g) { (void)g; return 1; }
uint32_t lm_engine_sequences(const lm_engine *g) { (void)g; return 1; }
uint32_t lm_engine_ahead(const lm_engine *g, uint32_t sequence) { (void)g, (void)sequence; return 1; }

bool lm_engine_cancelled(lm_engine *g)
{
    bool was = g->cancelled;

    g->cancelled = false;
    return was;
}

lm_status lm_engine_truncate(lm_engine *g, uint32_t sequence, uint32_t keep, lm_error *e)
{
    (void)sequence;
    if (keep > g->length)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "keep");
    g->length = keep;
    return LM_OK;
}

lm_status lm_engine_keep(lm_engine *g, uint32_t sequence, uint32_t keep, uint32_t *kept, lm_error *e)
{
    LM_TRY(lm_engine_truncate(g, sequence, keep, e));
    *kept = g->length;
    return LM_OK;
}

static lm_status room(const lm_engine *g, size_t n, lm_error *e)
{
    return g->length + n > (g->limit ? g->limit : CONTEXT) ? lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "full")
                                                           : LM_OK;
}

lm_status lm_engine_check(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    (void)rows;
    return room(g, n, e);
}

lm_status lm_engine_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    if (g->cancelled) {
        g->cancelled = false;
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
    }
    LM_TRY(room(g, n, e));
    assert_in_range(n, 1, ROWS);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows[i].position, g->length);
        g->held[g->length++] = rows[i].token;
        if (rows[i].logits)
            g->wanted = i;
        assert_true(rows[i].logits == (i + 1 == n) || !rows[i].logits);
    }
    for (int i = 0; i < V; i++)
        g->logits[i] = i == g->script[g->length] ? 5.0f : 0.0f;
    g->steps++;
    g->rows_seen += (uint32_t)n;
    return LM_OK;
}

const float *lm_engine_logits(const lm_engine *g, size_t i) { return i == g->wanted ? g->logits : NULL; }
const float *lm_engine_hidden(const lm_engine *g, size_t i) { (void)g, (void)i; return NULL; }
uint32_t lm_engine_hidden_width(const lm_engine *g) { (void)g; return 0; }

static const struct lm_model model;

const lm_model *lm_engine_model(const lm_engine *g) { (void)g; return &model; }

void lm_model_describe(const lm_model *m, lm_model_info *out)
{
    (void)m;
    *out = (lm_model_info){ .n_vocab = V };
}

bool lm_model_is_end(const lm_model *m, lm_token id) { (void)m; return id == END; }
const lm_tokenizer *lm_model_tokenizer(const lm_model *m) { (void)m; return &tokenizer; }

/* ---- the scripted stream: it waits for whole characters ---- */

lm_status lm_stream_new(const lm_tokenizer *t, unsigned flags, bool continues, lm_stream **out, lm_error *e)
{
    (void)t, (void)e;
    assert_true(continues && (flags & LM_SKIP_SPECIAL));
    *out = lm_alloc_zero(1, sizeof **out);
    return LM_OK;
}

static void append(lm_text *t, const char *s, size_t n)
{
    t->data = lm_realloc(t->data, t->size + n + 1);
    memcpy(t->data + t->size, s, n);
    t->size += n;
    t->data[t->size] = 0;
}

lm_status lm_stream_push(lm_stream *s, lm_token id, lm_text *out, lm_error *e)
{
    (void)e;
    if (id <= END)
        return LM_OK;
    size_t n = strlen(pieces[id]);
    memcpy(s->bytes + s->n, pieces[id], n);
    s->n += n;
    if (s->n == 1 && s->bytes[0] == '\xc3')
        return LM_OK;
    append(out, s->bytes, s->n);
    s->n = 0;
    return LM_OK;
}

lm_status lm_stream_end(lm_stream *s, lm_text *out, lm_error *e)
{
    (void)e;
    if (s->n)
        append(out, "\xef\xbf\xbd", 3);
    s->n = 0;
    return LM_OK;
}

void lm_stream_free(lm_stream *s) { lm_free(s); }

/* The sampler references these only for breakers. */
uint32_t lm_tokenizer_size(const lm_tokenizer *t) { (void)t; return V; }
bool lm_tokenizer_is_special(const lm_tokenizer *t, lm_token id) { (void)t, (void)id; return false; }
const char *lm_tokenizer_piece(const lm_tokenizer *t, lm_token id, size_t *size)
{
    (void)t, (void)id, (void)size;
    return NULL;
}
lm_status lm_tokenize(const lm_tokenizer *t, const char *x, size_t n, unsigned f, lm_tokens *o, lm_error *e)
{
    (void)t, (void)x, (void)n, (void)f, (void)o, (void)e;
    return LM_OK;
}
lm_status lm_detokenize(const lm_tokenizer *t, const lm_token *x, size_t n, unsigned f, lm_text *o,
                        lm_error *e)
{
    (void)t, (void)x, (void)n, (void)f, (void)o, (void)e;
    return LM_OK;
}

/* ---- callbacks ---- */

typedef struct seen {
    char     text[256];
    size_t   n, pieces, tokens, prefills, stop_after;      /* stop_after: the callback of `text` that returns
                                                              false */
    size_t   done[16];
    lm_token top;
    float    logprob;
} seen;

static bool on_text(void *arg, const char *piece, size_t size)
{
    seen *s = arg;
    assert_true(size > 0);
    /* never the second half of a character */
    assert_true(((unsigned char)piece[0] & 0xC0) != 0x80);
    memcpy(s->text + s->n, piece, size);
    s->n += size;
    return ++s->pieces != s->stop_after;
}

static bool on_token(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k)
{
    seen *s = arg;
    assert_int_equal(k, 2);
    assert_int_equal(top[0].id, id);
    s->top = top[0].id;
    s->logprob = logprob;
    s->tokens++;
    return true;
}

static bool on_prefill(void *arg, size_t done, size_t total)
{
    seen *s = arg;
    assert_in_range(done, 1, total);
    s->done[s->prefills++] = done;
    return true;
}

static lm_generation run(lm_engine *g, const lm_token *prompt, size_t n, size_t reuse, lm_generate_options o,
                         seen *s)
{
    lm_sampler_options greedy = lm_sampler_defaults();
    lm_generation out;
    lm_sampler *sampler;
    lm_error e;

    greedy.greedy = true;
    o.text = on_text;
    o.prefill = on_prefill;
    o.arg = s;
    assert_int_equal(lm_sampler_new(&greedy, V, NULL, &sampler, NULL), LM_OK);
    if (lm_generate(g, sampler, prompt, n, reuse, &o, &out, &e) != LM_OK)
        fail_msg("%s %s", e.where, e.message);
    assert_int_equal(out.text.size, s->n);
    assert_memory_equal(out.text.data ? out.text.data : "", s->text, s->n);
    s->text[s->n] = 0;
    lm_sampler_free(sampler);
    return out;
}

/* Make an engine that generates the script's tokens from position 3 on; the prompt has three tokens. */
static lm_engine scripted(const lm_token *ids, size_t n)
{
    lm_engine g = { 0 };
    for (size_t i = 0; i <= CONTEXT; i++)
        g.script[i] = i < 3 ? 0 : i - 3 < n ? ids[i - 3] : 2;
    return g;
}

static const lm_token prompt3[3] = { 2, 3, 4 };
#define SCRIPT(...) scripted((const lm_token[]){ __VA_ARGS__ }, \
                             sizeof((lm_token[]){ __VA_ARGS__ }) / sizeof(lm_token))

static void ends_at_the_end_token(void **state)
{
    lm_engine g = SCRIPT(2, 5, END);
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 } }, &s);

    (void)state;
    assert_int_equal(x.stop, LM_STOP_EOS);
    assert_string_equal(s.text, "a the");
    assert_int_equal(x.ids.n, 3);
    assert_int_equal(x.ids.ids[2], END);
    assert_int_equal(x.n_prompt, 3);
    lm_generation_free(&x);
}

static void end_of_text_can_be_ignored(void **state)
{
    lm_engine g = SCRIPT(2, END, 3, 4);
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0,
                          (lm_generate_options){ .sequence = { .max_tokens = 4, .ignore_eos = true } }, &s);

    (void)state;
    assert_int_equal(x.stop, LM_STOP_LENGTH);
    assert_string_equal(s.text, "abc");
    assert_int_equal(x.ids.n, 4);
    lm_generation_free(&x);
}

static void length(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 3; n++) {
        lm_engine g = SCRIPT(2, 3, 4);
        seen s = { 0 };
        lm_generation x = run(&g, prompt3, 3, 0,
                              (lm_generate_options){ .sequence = { .max_tokens = n, .prompt_only = n == 0 } },
                              &s);
        assert_int_equal(x.stop, LM_STOP_LENGTH);
        assert_int_equal(x.ids.n, n);
        /* the last token is not processed needlessly */
        assert_int_equal(g.rows_seen, 3 + (n ? n - 1 : 0));
        lm_generation_free(&x);
    }
}

static void a_full_context_stops_and_never_shifts(void **state)
{
    lm_engine g = SCRIPT(2);
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 } }, &s);

    (void)state;
    assert_int_equal(x.stop, LM_STOP_CONTEXT);
    assert_int_equal(x.ids.n, CONTEXT - 3 + 1);
    assert_int_equal(g.length, CONTEXT);
    lm_generation_free(&x);

    /* other sequences hold the rest of the cache */
    g = SCRIPT(2);
    g.limit = 10;
    s = (seen){ 0 };
    x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 } }, &s);
    assert_int_equal(x.stop, LM_STOP_CONTEXT);
    assert_int_equal(x.ids.n, 8);
    lm_generation_free(&x);
}

static void stop_strings_reach_over_tokens(void **state)
{
    static const char *const stops[] = { "the stop", NULL };
    lm_engine g = SCRIPT(2, 5, 11, 5, 12, 2);                        /* "a the\n thexa" */
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0,
                          (lm_generate_options){ .sequence = { .max_tokens = 6, .stops = stops } }, &s);

    (void)state;
    assert_int_equal(x.stop, LM_STOP_LENGTH);
    assert_int_equal(x.stopped_by, -1);
    assert_string_equal(s.text, "a the\n thexa");
    lm_generation_free(&x);

    static const char *const stop[] = { "", "stop", "\n\n", NULL };    /* an empty one never matches */
    g = SCRIPT(5, 7, 7, 10, 2, 2);                                   /* " theststopaa" */
    s = (seen){ 0 };
    x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1, .stops = stop } }, &s);
    assert_int_equal(x.stop, LM_STOP_STRING);
    assert_int_equal(x.stopped_by, 1);
    assert_string_equal(s.text, " thest");
    assert_int_equal(x.ids.n, 4);
    lm_generation_free(&x);
}

static void stop_ids(void **state)
{
    const lm_token ids[] = { 13, 14 };
    lm_engine g = SCRIPT(2, 8, 14, 2);
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0,
                          (lm_generate_options){
                              .sequence = { .max_tokens = -1, .stop_ids = ids, .n_stop_ids = 2 } },
                          &s);

    (void)state;
    assert_int_equal(x.stop, LM_STOP_STRING);
    /* half a character is shown as a replacement character */
    assert_string_equal(s.text, "a\xef\xbf\xbd");
    assert_int_equal(x.ids.n, 3);
    lm_generation_free(&x);
}

static void characters_come_whole(void **state)
{
    lm_engine g = SCRIPT(2, 8, 9, 3, END);
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 } }, &s);

    (void)state;
    assert_string_equal(s.text, "a\xc3\xa9" "b");
    assert_int_equal(s.pieces, 3);
    lm_generation_free(&x);
}

static void prompts_go_in_chunks(void **state)
{
    const lm_token prompt[] = { 2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3 };
    lm_engine g = { 0 };
    seen s = { 0 };
    lm_generation x;

    (void)state;
    for (size_t i = 0; i <= CONTEXT; i++)
        g.script[i] = i == 11 ? 12 : END;
    x = run(&g, prompt, 11, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 }, .chunk = 3 }, &s);
    assert_int_equal(s.prefills, 4);
    assert_int_equal(s.done[0], 3);
    assert_int_equal(s.done[3], 11);
    assert_string_equal(s.text, "x");
    lm_generation_free(&x);

    /* The same conversation, two tokens longer: cached tokens are reused. */
    const lm_token longer[] = { 2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3, 12, 5 };
    g.rows_seen = 0;
    s = (seen){ 0 };
    x = run(&g, longer, 13, 11, (lm_generate_options){ .sequence = { .max_tokens = 1 } }, &s);
    assert_int_equal(x.n_reused, 11);
    assert_int_equal(g.rows_seen, 2);
    assert_memory_equal(g.held, longer, sizeof longer);
    lm_generation_free(&x);

    /* All tokens are cached: the last one is processed again for its logits. */
    g.rows_seen = 0;
    s = (seen){ 0 };
    x = run(&g, longer, 13, 13, (lm_generate_options){ .sequence = { .max_tokens = 1 } }, &s);
    assert_int_equal(x.n_reused, 12);
    assert_int_equal(g.rows_seen, 1);
    lm_generation_free(&x);
}

static void cancelling(void **state)
{
    lm_engine g = SCRIPT(2, 3, 4);
    seen s = { .stop_after = 2 };
    lm_generation x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 } }, &s);

    (void)state;
    assert_int_equal(x.stop, LM_STOP_CANCELLED);
    assert_string_equal(s.text, "ab");
    lm_generation_free(&x);

    g = SCRIPT(2, 3, 4);
    g.cancelled = true;                                              /* as lm_engine_cancel leaves it */
    s = (seen){ 0 };
    x = run(&g, prompt3, 3, 0, (lm_generate_options){ .sequence = { .max_tokens = -1 } }, &s);
    assert_int_equal(x.stop, LM_STOP_CANCELLED);
    assert_int_equal(x.ids.n, 0);
    assert_int_equal(x.n_prompt, 0);                                 /* nothing was processed */
    assert_false(g.cancelled);
    lm_generation_free(&x);
}

static void log_probabilities_are_those_before_sampling(void **state)
{
    lm_engine g = SCRIPT(2, END);
    seen s = { 0 };
    lm_generation x = run(&g, prompt3, 3, 0,
                          (lm_generate_options){ .sequence = { .max_tokens = -1, .logprobs = 2 },
                                                 .token = on_token },
                          &s);

    (void)state;
    assert_int_equal(s.tokens, 2);
    assert_float_equal(s.logprob, -0.096272f, 1e-5);                 /* -log(1 + 15 exp(-5)) */
    lm_generation_free(&x);
}

static void impossible_prompts_are_rejected(void **state)
{
    const lm_generate_options o = { .sequence = { .max_tokens = 1 } };
    lm_token many[CONTEXT + 1] = { 2 }, outside[1] = { V };
    lm_engine g = { 0 };
    lm_generation x = { .n_prompt = 77 };
    lm_sampler *s;
    lm_error e;

    (void)state;
    assert_int_equal(lm_sampler_new(NULL, V, NULL, &s, NULL), LM_OK);
    assert_int_equal(lm_generate(&g, s, many, 0, 0, &o, &x, &e), LM_USAGE);
    assert_int_equal(lm_generate(&g, s, many, CONTEXT + 1, 0, &o, &x, &e), LM_LIMIT);
    assert_string_equal(e.message, "33 tokens; the context size is 32");
    assert_int_equal(lm_generate(&g, s, outside, 1, 0, &o, &x, &e), LM_USAGE);
    assert_int_equal(lm_generate(&g, s, many, 3, 2, &o, &x, &e), LM_USAGE);
    assert_int_equal(x.n_prompt, 77);                                /* written only on success */
    assert_int_equal(g.steps, 0);
    lm_sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_the_end_token),
        cmocka_unit_test(end_of_text_can_be_ignored),
        cmocka_unit_test(length),
        cmocka_unit_test(a_full_context_stops_and_never_shifts),
        cmocka_unit_test(stop_strings_reach_over_tokens),
        cmocka_unit_test(stop_ids),
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(prompts_go_in_chunks),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(log_probabilities_are_those_before_sampling),
        cmocka_unit_test(impossible_prompts_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
