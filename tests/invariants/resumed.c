/* resumed.c - a sequence saved between any two of its steps and restored in another engine continues with the
 * same tokens, characters and log-probabilities as without saving. Saving has no side effects, and rejected
 * files change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "lamina/lamina.h"
#include "models.h"
#include "../unit/temporary.h"

enum { ROWS = 12, MAX = 48, TOP = 2, PROMPT = 40, CONTEXT = 160 };

/* The engine that generates first, the one that continues, a draft model for the first and one for the
 * second. */
enum { FIRST, SECOND, DRAFT, DRAFT_TOO, ENGINES };

typedef struct stage {
    lm_model  *m;
    lm_engine *g[ENGINES];
    lm_token   prompt[PROMPT];
    size_t     n;
    uint32_t   n_vocab;
} stage;

/* The events that a sequence delivered. */
typedef struct delivery {
    lm_token   ids[MAX];
    float      logprob[MAX];
    lm_logprob top[MAX][TOP];
    size_t     n, size;
    char       text[4096];
    lm_stop    stop;
} delivery;

typedef struct writer {
    lm_engine   *g;
    lm_sampler  *sampler;
    lm_sequence *s;
} writer;

static char file[256], other[256];

/* ---- models ---- */

static void open_engines(stage *t, uint32_t rollback)
{
    lm_engine_options o = {
        .context = CONTEXT, .max_rows = ROWS, .max_logits = ROWS, .rollback = rollback, .threads = 2
    };
    lm_model_info     info;

    lm_model_describe(t->m, &info);
    t->n_vocab = info.n_vocab;
    for (size_t i = 0; i < ENGINES; i++)
        assert_int_equal(lm_engine_new(t->m, &o, &t->g[i], NULL), LM_OK);
}

static stage open_demo(void)
{
    static const char text[] = "名前 🦙🦙: 1, 2, 3, the end. 🦙 1, 2, 3, the";
    stage     t = { .m = open_demo_model() };
    lm_tokens ids = { 0 };

    open_engines(&t, 0);
    assert_int_equal(lm_tokenize(lm_model_tokenizer(t.m), text, strlen(text), LM_NO_PARSE_SPECIAL, &ids,
                                 NULL),
                     LM_OK);
    assert_in_range(ids.n, ROWS + 1, PROMPT);            /* the prompt takes several steps, so it can be saved
                                                            between them */
    t.n = ids.n;
    memcpy(t.prompt, ids.ids, ids.n * sizeof *ids.ids);
    lm_tokens_free(&ids);
    return t;
}

static stage open_golden(const char *name, int64_t window)
{
    stage t = { .m = open_golden_model(name, window), .n = PROMPT };

    open_engines(&t, ROWS);
    for (uint32_t i = 0; i < PROMPT; i++)
        t.prompt[i] = (lm_token)((i % 11 * 2654435761u + 7) % t.n_vocab);
    return t;
}

static void close_stage(stage *t)
{
    for (size_t i = 0; i < ENGINES; i++)
        lm_engine_free(t->g[i]);
    lm_model_close(t->m);
}

/* ---- sequences ---- */

static writer start(stage *t, size_t engine, lm_sequence_options o, const lm_sampler_options *so)
{
    writer   w = { .g = t->g[engine] };
    lm_error e = { 0 };

    if (o.draft_engine)
        o.draft_engine = t->g[engine == FIRST ? DRAFT : DRAFT_TOO];
    assert_int_equal(lm_engine_truncate(w.g, 0, 0, NULL), LM_OK);
    if (lm_sampler_new(so, t->n_vocab, lm_model_tokenizer(t->m), &w.sampler, &e) != LM_OK ||
        lm_sequence_new(w.g, w.sampler, &o, &w.s, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return w;
}

static void finish(writer *w)
{
    lm_sequence_free(w->s);
    lm_sampler_free(w->sampler);
}

static void listen(lm_sequence *s, delivery *out)
{
    lm_event e;

    while (lm_sequence_event(s, &e)) {
        if (e.kind == LM_EVENT_TOKEN) {
            assert_true(out->n < MAX);
            out->ids[out->n]     = e.id;
            out->logprob[out->n] = e.logprob;
            memcpy(out->top[out->n++], e.top, sizeof *out->top);
        } else if (e.kind == LM_EVENT_TEXT) {
            assert_true(out->size + e.size <= sizeof out->text);
            memcpy(out->text + out->size, e.text, e.size);
            out->size += e.size;
        } else if (e.kind == LM_EVENT_END) {
            out->stop = e.stop;
        }
    }
}

/* Run at most `steps` steps. Returns how many ran. */
static size_t run(writer *w, size_t steps, delivery *out)
{
    lm_row   rows[ROWS];
    lm_error e = { 0 };
    size_t   ran = 0;

    for (; ran < steps && out->stop == LM_STOP_NONE; ran++) {
        lm_batch b = { .rows = rows, .max_rows = ROWS };
        if (lm_sequences_step(w->g, &w->s, 1, &b, &e) != LM_OK)
            fail_msg("%s: %s", e.where, e.message);
        listen(w->s, out);
    }
    return ran;
}

static void same(const char *what, size_t cut, const delivery *a, const delivery *b)
{
    if (a->n != b->n || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) != 0)
        fail_msg("%s, cut after %zu steps: other tokens", what, cut);
    if (memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob) != 0 ||
        memcmp(a->top, b->top, a->n * sizeof *a->top) != 0)
        fail_msg("%s, cut after %zu steps: other log-probabilities", what, cut);
    if (a->size != b->size || memcmp(a->text, b->text, a->size) != 0)
        fail_msg("%s, cut after %zu steps: \"%.*s\" became \"%.*s\"", what, cut, (int)a->size, a->text,
                 (int)b->size, b->text);
    assert_int_equal(a->stop, b->stop);
}

static void save(const writer *w)
{
    lm_error e = { 0 };

    if (lm_sequence_save(w->s, file, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

static void restore(const writer *w)
{
    lm_error e = { 0 };

    if (lm_sequence_restore(w->s, file, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

/* Check a sequence that is saved after `cut` steps and continues, and one that continues from the file.
 * Returns the remaining steps. */
static size_t cut_at(stage *t, const char *what, size_t cut, const delivery *whole, lm_sequence_options o,
                     const lm_sampler_options *so)
{
    static delivery a, b;
    writer      w = start(t, FIRST, o, so), v = start(t, SECOND, o, so);
    size_t      left;

    a = b = (delivery){ 0 };
    assert_int_equal(lm_sequence_prompt(w.s, t->prompt, t->n, 0, NULL), LM_OK);
    run(&w, cut, &a);
    b = a;
    save(&w);
    restore(&v);
    left = run(&w, SIZE_MAX, &a);
    run(&v, SIZE_MAX, &b);
    same(what, cut, whole, &a);
    same(what, cut, whole, &b);
    finish(&w);
    finish(&v);
    return left;
}

static void cut_everywhere(stage *t, const char *what, lm_sequence_options o, const lm_sampler_options *so)
{
    static delivery whole;
    writer      w = start(t, FIRST, o, so);

    whole = (delivery){ 0 };
    assert_int_equal(lm_sequence_prompt(w.s, t->prompt, t->n, 0, NULL), LM_OK);
    run(&w, SIZE_MAX, &whole);
    finish(&w);
    for (size_t cut = 0; cut_at(t, what, cut, &whole, o, so) > 0;)
        cut += cut < 5 ? 1 : 5;
}

static void sequences_continue_wherever_they_are_cut(void **state)
{
    static const char *const stops[] = { "\n\n\n\n", ", 2, 3, the end.", NULL };
    const lm_sequence_options plain = {
        .max_tokens = 24, .ignore_eos = true, .logprobs = TOP, .draw = 3, .stops = stops, .draft_always = true
    };
    lm_sequence_options       drafted = plain, looked = plain;
    stage t = open_demo();

    (void)state;
    drafted.draft_engine = t.g[DRAFT];
    drafted.draft_max    = 3;
    looked.draft_ngram   = 2;
    cut_everywhere(&t, "sampled, a model drafts", drafted,
                   &(lm_sampler_options){ .seed = 5, .temperature = 1.3f });
    cut_everywhere(&t, "mirostat", looked,
                   &(lm_sampler_options){ .seed = 6, .temperature = 0.9f, .mirostat = 2 });
    cut_everywhere(&t, "penalties", plain,
                   &(lm_sampler_options){ .seed = 7, .repeat_penalty = 1.2f, .dry_multiplier = 0.8f });
    cut_everywhere(&t, "greedy", looked, &(lm_sampler_options){ .greedy = true });
    close_stage(&t);
}

static void sequences_with_windows_continue(void **state)
{
    const lm_sequence_options o = {
        .max_tokens = 40, .ignore_eos = true, .logprobs = TOP, .draft_ngram = 2, .draft_always = true
    };
    stage t = open_golden("mistral/window", 20);

    (void)state;
    cut_everywhere(&t, "window", o, &(lm_sampler_options){ .seed = 8 });
    close_stage(&t);
}

/* A sequence that ended, was saved and restored accepts more prompt and continues like the original. */
static void ended_sequences_take_more_prompt(void **state)
{
    const lm_sequence_options o = { .max_tokens = 9, .ignore_eos = true, .logprobs = TOP };
    const lm_sampler_options  so = { .seed = 9, .frequency_penalty = 0.3f };
    static delivery a, b;
    stage  t = open_demo();
    writer w = start(&t, FIRST, o, &so), v = start(&t, SECOND, o, &so);

    (void)state;
    a = b = (delivery){ 0 };
    assert_int_equal(lm_sequence_append(w.s, t.prompt, t.n, NULL), LM_OK);
    run(&w, SIZE_MAX, &a);
    save(&w);
    restore(&v);
    listen(v.s, &b);
    /* everything was delivered already */
    assert_true(b.n == 0 && b.size == 0 && b.stop == LM_STOP_NONE);
    b      = a;
    a.stop = b.stop = LM_STOP_NONE;
    assert_int_equal(lm_sequence_append(w.s, t.prompt, 5, NULL), LM_OK);
    assert_int_equal(lm_sequence_append(v.s, t.prompt, 5, NULL), LM_OK);
    run(&w, SIZE_MAX, &a);
    run(&v, SIZE_MAX, &b);
    same("more prompt", 0, &a, &b);
    assert_int_equal(a.n, 18);

    /* restored over a sequence that has ended; a file of keys and values only counts as a processed prompt */
    assert_int_equal(lm_engine_save(w.g, 0, lm_sequence_ids(w.s, NULL), lm_engine_length(w.g, 0), file, NULL),
                     LM_OK);
    assert_int_equal(lm_engine_truncate(v.g, 0, 0, NULL), LM_OK);
    restore(&v);
    lm_sequence_info info;
    lm_sequence_describe(v.s, &info);
    assert_int_equal(info.n_prompt, t.n + 9 + 5 + 8);
    assert_int_equal(info.n_held, info.n_prompt - 1);
    b = (delivery){ 0 };
    run(&v, 1, &b);
    assert_int_equal(b.ids[0], a.ids[17]);
    finish(&w);
    finish(&v);
    close_stage(&t);
}

/* ---- rejected files and calls ---- */

static size_t read_file(uint8_t *out, size_t max)
{
    FILE  *f = fopen(file, "rb");
    size_t n = f ? fread(out, 1, max, f) : 0;

    assert_true(n > 0 && n < max);
    fclose(f);
    return n;
}

static void write_other(const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(other, "wb");

    assert_true(f && fwrite(bytes, 1, n, f) == n);
    assert_int_equal(fclose(f), 0);
}

static void refuse(const writer *w, lm_status status)
{
    lm_error  e = { 0 };
    lm_status got = lm_sequence_restore(w->s, other, &e);
    size_t    n = 1;

    if (got != status)
        fail_msg("%s, not %s: %s: %s", lm_status_word(got), lm_status_word(status), e.where, e.message);
    assert_string_equal(e.file, other);
    assert_null(strchr(e.message, '\n'));
    lm_sequence_ids(w->s, &n);
    assert_int_equal(n, 0);
    assert_int_equal(lm_engine_length(w->g, 0), 0);
}

/* Return the address of positions, tokens, prompt and stop, which follow the strings on which the contents
 * depend. */
static uint8_t *numbers_of(uint8_t *file_bytes)
{
    uint8_t *at = file_bytes + 20;
    uint64_t size;

    for (int i = 0; i < 8; i++) {                        /* the last string names the adapters */
        memcpy(&size, at, sizeof size);
        at += sizeof size + size;
    }
    return at;
}

static void binary_files_change_nothing(void **state)
{
    /* rejected even with a correct checksum */
    static const struct { uint32_t numbers[4]; lm_status status; } bad[] = {
        { { 40, 41, 0, 0 }, LM_BAD_MODEL },  { { 40, 41, 42, 0 }, LM_BAD_MODEL },          { { 40, 39, 39, 0 }, LM_BAD_MODEL },
        { { 40, 41, 40, 6 }, LM_BAD_MODEL }, { { 40, 41, 40, UINT32_MAX }, LM_BAD_MODEL }, { { 40, UINT32_MAX, 40, 0 }, LM_LIMIT },
    };
    static uint8_t bytes[1 << 20];
    const lm_sequence_options o = { .max_tokens = 6, .ignore_eos = true, .logprobs = TOP };
    const lm_sampler_options  so = { .seed = 10 };
    static delivery a, b;
    stage    t = open_golden("llama/gqa", 0);
    writer   w = start(&t, FIRST, o, &so), v = start(&t, SECOND, o, &so);
    lm_error e = { 0 };

    (void)state;
    a = b = (delivery){ 0 };
    assert_int_equal(lm_sequence_save(w.s, file, &e), LM_USAGE);                   /* no prompt yet */
    assert_int_equal(lm_sequence_prompt(w.s, t.prompt, t.n, 0, NULL), LM_OK);
    run(&w, 4, &a);
    assert_int_equal(a.n, 1);
    save(&w);
    /* it is still generating */
    assert_int_equal(lm_sequence_restore(w.s, file, &e), LM_USAGE);

    size_t n = read_file(bytes, sizeof bytes);
    for (size_t i = 0; i < n; i += i < 600 ? 1 : 499) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        write_other(bytes, n);
        bytes[i] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(lm_sequence_restore(v.s, other, NULL), LM_OK);
    }
    for (size_t cut = 0; cut < n; cut += 997) {
        write_other(bytes, cut);
        refuse(&v, LM_BAD_MODEL);
    }
    uint8_t *numbers = numbers_of(bytes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_blake2b hash;
        memcpy(numbers, bad[i].numbers, sizeof bad[i].numbers);
        lm_blake2b_begin(&hash);
        lm_blake2b_add(&hash, bytes, n - LM_BLAKE2B_BYTES);
        lm_blake2b_end(&hash, bytes + n - LM_BLAKE2B_BYTES);
        write_other(bytes, n);
        refuse(&v, bad[i].status);
    }

    restore(&v);
    assert_int_equal(lm_engine_length(v.g, 0), t.n);
    b = a;
    run(&w, SIZE_MAX, &a);
    run(&v, SIZE_MAX, &b);
    same("after files that were refused", 4, &a, &b);
    assert_int_equal(lm_sequence_restore(v.s, file, &e), LM_USAGE);                /* the slot is not empty */
    finish(&w);
    finish(&v);
    close_stage(&t);
}

/* A sequence cannot be saved before its events are read, nor after it has failed. */
static void undelivered_text_is_not_saved(void **state)
{
    const lm_sequence_options o = { .ignore_eos = true };
    stage    t = open_golden("llama/gqa", 0);
    writer   w = start(&t, FIRST, o, NULL);
    lm_row   rows[ROWS];
    lm_event event;
    lm_error e = { 0 };

    (void)state;
    unlink(file);
    assert_int_equal(lm_sequence_prompt(w.s, t.prompt, 5, 0, NULL), LM_OK);
    lm_batch b = { .rows = rows, .max_rows = ROWS };
    assert_int_equal(lm_sequences_step(w.g, &w.s, 1, &b, NULL), LM_OK);
    for (lm_event_kind last = LM_EVENT_PROMPT; last != LM_EVENT_TOKEN; last = event.kind) {
        assert_int_equal(lm_sequence_save(w.s, file, &e), LM_USAGE);
        assert_true(lm_sequence_event(w.s, &event));
    }
    lm_sequence_end(w.s, LM_STOP_FAILED, NULL);
    assert_int_equal(lm_sequence_save(w.s, file, &e), LM_USAGE);
    while (lm_sequence_event(w.s, &event))
        continue;
    assert_int_equal(lm_sequence_save(w.s, file, &e), LM_USAGE);
    assert_int_equal(access(file, F_OK), -1);
    finish(&w);
    close_stage(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_continue_wherever_they_are_cut),
        cmocka_unit_test(sequences_with_windows_continue),
        cmocka_unit_test(ended_sequences_take_more_prompt),
        cmocka_unit_test(binary_files_change_nothing),
        cmocka_unit_test(undelivered_text_is_not_saved),
    };

    char folder[256];
    temporary_path(folder, "resumed-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof file, "%.240s/file", folder);
    snprintf(other, sizeof other, "%.240s/other", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    unlink(other);
    rmdir(folder);
    return failed;
}
