/* needle.c - hide a number in a long text, and ask for it at the end. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os/journal.h"
#include "base/rng.h"
#include "base/str.h"
#include "lamina/eval.h"
#include "lamina/sampler.h"
#include "lamina/sequence.h"
#include "runtime/engine/state.h"
#include "runtime/measure/identity.h"

enum { SIDE_BY_SIDE = 16, DIGITS = 8 };

static const char noise[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";
static const char *const keys[] = { "amber",   "bridge", "candle", "desert", "engine", "forest", "garden",
                                    "harbor",  "island", "jacket", "kettle", "ladder", "mirror", "needle",
                                    "orchard", "pepper", "quarry", "ribbon", "saddle", "temple" };
static const char introduction[] =
    "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz "
    "you about the numbers afterwards.\n";

typedef struct cell { uint32_t length; double depth; uint32_t sample; size_t place; } cell;

typedef struct searching {
    lm_engine    *g;
    lm_needle_options o;
    uint32_t     *found;             /* [lengths × depths] */
    lm_view      *sentences;
    uint32_t     *tokens;            /* [sentences]: tokens of each, with a space before it */
    size_t        n_sentences;
    bool         *known;             /* [n_texts]: it has a result */
    uint64_t      n_texts;
    lm_journal   *journal;
    lm_sampler   *samplers[SIDE_BY_SIDE];
    lm_sequence  *sequences[SIDE_BY_SIDE];
    lm_text       written[SIDE_BY_SIDE];
    char          number[SIDE_BY_SIDE][DIGITS];
    cell          cells[SIDE_BY_SIDE];
    uint64_t      index[SIDE_BY_SIDE];
    lm_row       *rows;
} searching;

lm_needle_options lm_needle_defaults(void)
{
    return (lm_needle_options){ 0 };
}

/* ---- sentences ---- */

static bool ends_sentence(const char *s, size_t at, size_t n)
{
    return strchr(".!?\n", s[at]) && (at + 1 == n || s[at + 1] == ' ' || s[at + 1] == '\n' || s[at] == '\n');
}

static lm_status count_tokens(const searching *s, const char *text, size_t n, uint32_t *out, lm_error *e)
{
    lm_tokens ids    = { 0 };
    lm_status status = lm_tokenize(lm_model_tokenizer(s->g->model), text, n, LM_NO_PARSE_SPECIAL, &ids, e);

    *out = (uint32_t)ids.n;
    lm_tokens_free(&ids);
    return status;
}

static lm_status add_sentence(searching *s, lm_view v, lm_error *e)
{
    lm_text text = { 0 };

    lm_text_add_char(&text, ' ');
    lm_text_add_view(&text, v);
    lm_status status = text.failed ? lm_fail_memory(e, "sentences", v.size)
                                   : count_tokens(s, text.data, text.size, &s->tokens[s->n_sentences], e);
    lm_text_free(&text);
    s->sentences[s->n_sentences++] = v;
    return status;
}

static lm_status cut_sentences(searching *s, const char *filler, lm_error *e)
{
    size_t n = strlen(filler), max = 1;

    for (size_t i = 0; i < n; i++)
        max += ends_sentence(filler, i, n);
    s->sentences = lm_alloc_zero(max, sizeof *s->sentences);
    s->tokens    = lm_alloc_zero(max, sizeof *s->tokens);
    if (!s->sentences || !s->tokens)
        return lm_fail_memory(e, "sentences", max * sizeof *s->sentences);
    for (size_t from = 0, at = 0; at < n; at++) {
        if (!ends_sentence(filler, at, n) && at + 1 < n)
            continue;
        while (from < at && strchr(" \n\r\t", filler[from]))
            from++;
        size_t end = filler[at] == '\n' ? at : at + 1;
        if (end > from)
            LM_TRY(add_sentence(s, (lm_view){ filler + from, end - from }, e));
        from = at + 1;
    }
    return s->n_sentences ? LM_OK : lm_fail(e, LM_USAGE, "filler", LM_NO_OFFSET, "has no sentence");
}

/* ---- one text ---- */

static uint32_t bits(const searching *s, uint64_t text, unsigned which)
{
    uint32_t block[4];

    lm_rng_block(s->o.seed, text, 0, block);
    return block[which];
}

static const char *key_of(const searching *s, uint64_t text)
{
    return keys[bits(s, text, 0) % (sizeof keys / sizeof *keys)];
}

static void add_question(lm_text *out, const char *key)
{
    lm_text_printf(out, "\nWhat is the special magic number for %s mentioned in the provided text?\n", key);
    lm_text_printf(out, "Answer: The special magic number for %s mentioned in the provided text is", key);
}

static lm_status write_text(const searching *s, const cell *c, uint64_t index, const char *number,
                            uint32_t frame, lm_text *out, lm_error *e)
{
    const char *key  = key_of(s, index);
    uint64_t    n    = 0, used = (uint64_t)frame + s->o.predict;
    size_t      from = c->sample % s->n_sentences;

    while (used + s->tokens[(from + n) % s->n_sentences] <= c->length)
        used += s->tokens[(from + n++) % s->n_sentences];
    if (!n)
        return lm_fail(e, LM_USAGE, "lengths", LM_NO_OFFSET,
                       "%u tokens; question, number and answer take %" PRIu64, c->length, used);
    uint64_t before = (uint64_t)llround(c->depth * (double)n);
    lm_text_add_str(out, introduction);
    for (uint64_t i = 0; i <= n; i++) {
        if (i == before)
            lm_text_printf(out, "%sOne of the special magic numbers for %s is: %s.", i ? " " : "", key,
                           number);
        if (i < n) {
            lm_text_add_str(out, i || !before ? " " : "");
            lm_text_add_view(out, s->sentences[(from + i) % s->n_sentences]);
        }
    }
    add_question(out, key);
    return out->failed ? lm_fail_memory(e, "a text", out->size) : LM_OK;
}

static lm_status make_text(searching *s, uint32_t slot, uint64_t index, const cell *c, lm_tokens *ids,
                           lm_error *e)
{
    lm_text  text = { 0 };
    uint32_t frame = 0;

    s->cells[slot] = *c;
    s->index[slot] = index;
    snprintf(s->number[slot], DIGITS, "%07u", 1000000 + bits(s, index, 1) % 9000000);
    lm_text_printf(&text, "%s One of the special magic numbers for %s is: %s.", introduction,
                   key_of(s, index), s->number[slot]);
    add_question(&text, key_of(s, index));
    lm_status status = text.failed ? lm_fail_memory(e, "a text", 0)
                                   : count_tokens(s, text.data, text.size, &frame, e);
    lm_text_clear(&text);
    if (status == LM_OK)
        status = write_text(s, c, index, s->number[slot], frame + 4, &text, e);
    if (status == LM_OK)
        status = lm_tokenize(lm_model_tokenizer(s->g->model), text.data, text.size,
                             LM_ADD_SPECIAL | LM_NO_PARSE_SPECIAL, ids, e);
    lm_text_free(&text);
    return status;
}

static lm_status begin(searching *s, uint32_t slot, uint64_t index, const cell *c, lm_error *e)
{
    lm_tokens           ids = { 0 };
    lm_sequence_options o   = { .sequence = slot, .max_tokens = s->o.predict };

    lm_text_clear(&s->written[slot]);
    LM_TRY(lm_engine_truncate(s->g, slot, 0, e));
    lm_status status = make_text(s, slot, index, c, &ids, e);
    if (status == LM_OK && !s->sequences[slot])
        status = lm_sequence_new(s->g, s->samplers[slot], &o, &s->sequences[slot], e);
    if (status == LM_OK)
        status = lm_sequence_prompt(s->sequences[slot], ids.ids, ids.n, 0, e);
    lm_tokens_free(&ids);
    return status;
}

/* ---- concurrent texts ---- */

static lm_status take_events(searching *s, uint32_t slot, bool *ended, lm_error *e)
{
    lm_event event;

    while (lm_sequence_event(s->sequences[slot], &event)) {
        if (event.kind == LM_EVENT_TEXT)
            lm_text_add(&s->written[slot], event.text, event.size);
        if (event.kind == LM_EVENT_END && event.stop == LM_STOP_FAILED)
            return lm_error_set(e, event.error->code, event.error->where, event.error->offset,
                                event.error->message);
        *ended |= event.kind == LM_EVENT_END;
    }
    return LM_OK;
}

static lm_status write_on(searching *s, uint32_t n, lm_error *e)
{
    lm_batch b       = { .rows = s->rows };
    bool     ended[SIDE_BY_SIDE] = { false };
    uint32_t left    = n;

    while (left) {
        LM_TRY(lm_sequences_step(s->g, s->sequences, n, &b, e));
        for (uint32_t i = 0; i < n; i++) {
            bool before = ended[i];
            LM_TRY(take_events(s, i, &ended[i], e));
            left -= ended[i] && !before;
        }
        if (!b.n && left)
            return lm_fail(e, LM_LIMIT, "lengths", LM_NO_OFFSET, "the cache is too small for them");
    }
    return LM_OK;
}

static lm_status settle(searching *s, uint32_t slot, lm_error *e)
{
    const lm_text *t     = &s->written[slot];
    uint8_t        right = t->data && memmem(t->data, t->size, s->number[slot], DIGITS - 1);

    if (t->failed)
        return lm_fail_memory(e, "an answer", t->size);
    s->found[s->cells[slot].place] += right;
    return lm_journal_add(s->journal, s->index[slot], &right, 1, e);
}

static cell cell_of(const searching *s, uint64_t index)
{
    size_t place = index / s->o.samples;

    return (cell){ s->o.lengths[place / s->o.n_depths], s->o.depths[place % s->o.n_depths],
                   (uint32_t)(index % s->o.samples), place };
}

static lm_status search(searching *s, lm_error *e)
{
    uint32_t max = lm_engine_sequences(s->g) < SIDE_BY_SIDE ? lm_engine_sequences(s->g) : SIDE_BY_SIDE;
    uint64_t done = 0;

    for (uint64_t i = 0; i < s->n_texts; i++)
        done += s->known[i];
    for (uint64_t i = 0; i < s->n_texts;) {
        uint32_t n = 0;
        for (; i < s->n_texts && n < max; i++) {
            cell c = cell_of(s, i);
            if (!s->known[i])
                LM_TRY(begin(s, n++, i, &c, e));
        }
        if (n)
            LM_TRY(write_on(s, n, e));
        for (uint32_t k = 0; k < n; k++)
            LM_TRY(settle(s, k, e));
        done += n;
        if (s->o.progress && !s->o.progress(s->o.progress_arg, done, s->n_texts))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    }
    return LM_OK;
}

/* ---- the whole grid ---- */

static lm_status take_record(void *arg, uint64_t index, const void *data, size_t n, lm_error *e)
{
    searching *s = arg;

    if (index >= s->n_texts || n != 1 || s->known[index])
        return lm_fail(e, LM_BAD_MODEL, s->o.state, LM_NO_OFFSET,
                       "a record of text %" PRIu64 " that cannot be", index);
    s->known[index] = true;
    s->found[cell_of(s, index).place] += *(const uint8_t *)data != 0;
    return LM_OK;
}

static lm_status open_state(searching *s, const char *filler, lm_error *e)
{
    lm_blake2b h;
    char       key[2 * LM_BLAKE2B_BYTES + 1];
    uint64_t numbers[] = {
        3, s->o.samples, s->o.predict, s->o.seed, s->o.n_lengths, s->o.n_depths, lm_engine_context(s->g)
    };

    if (!s->o.state)
        return LM_OK;
    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, numbers, sizeof numbers);
    lm_blake2b_add(&h, s->o.lengths, s->o.n_lengths * sizeof *s->o.lengths);
    lm_blake2b_add(&h, s->o.depths, s->o.n_depths * sizeof *s->o.depths);
    lm_blake2b_add(&h, filler, strlen(filler));
    LM_TRY(lm_identity_add(&h, s->g, e));
    lm_blake2b_hex(&h, key);
    return lm_journal_open(s->o.state, key, take_record, s, &s->journal, e);
}

static lm_status check(const searching *s, lm_error *e)
{
    if (!lm_model_tokenizer(s->g->model))
        return lm_fail(e, LM_USAGE, "model", LM_NO_OFFSET, "has no tokenizer");
    for (size_t i = 0; i < s->o.n_lengths; i++)
        if (s->o.lengths[i] > lm_engine_context(s->g))
            return lm_fail(e, LM_USAGE, "lengths", LM_NO_OFFSET, "%u tokens; the context size is %u",
                           s->o.lengths[i], lm_engine_context(s->g));
    for (size_t i = 0; i < s->o.n_depths; i++)
        if (!(s->o.depths[i] >= 0 && s->o.depths[i] <= 1))
            return lm_fail(e, LM_USAGE, "depths", LM_NO_OFFSET, "%g; from 0 to 1", s->o.depths[i]);
    return LM_OK;
}

static lm_status prepare(searching *s, lm_error *e)
{
    const lm_sampler_options greedy = { .greedy = true };

    s->n_texts = (uint64_t)s->o.n_lengths * s->o.n_depths * s->o.samples;
    s->known   = lm_alloc_zero(s->n_texts + 1, sizeof *s->known);
    s->rows    = lm_alloc_zero(lm_engine_max_rows(s->g), sizeof *s->rows);
    if (!s->known || !s->rows)
        return lm_fail_memory(e, "texts", s->n_texts);
    for (uint32_t i = 0; i < SIDE_BY_SIDE && i < lm_engine_sequences(s->g); i++)
        LM_TRY(lm_sampler_new(&greedy, s->g->program->n_vocab, NULL, &s->samplers[i], e));
    return LM_OK;
}

static lm_status run(searching *s, const char *filler, lm_error *e)
{
    LM_TRY(check(s, e));
    LM_TRY(prepare(s, e));
    LM_TRY(cut_sentences(s, filler, e));
    LM_TRY(open_state(s, filler, e));
    LM_TRY(search(s, e));
    lm_journal *journal = s->journal;
    s->journal          = NULL;
    return lm_journal_close(journal, e);
}

lm_status lm_eval_needle(lm_engine *g, const lm_needle_options *o, uint32_t *found, lm_error *e)
{
    LM_REQUIRE(e, g && found);
    LM_CHECK_RESERVED(e, o);
    static const uint32_t lengths[] = { 512, 1024, 2048 };
    static const double   depths[]  = { 0, 0.25, 0.5, 0.75, 1 };
    searching s = { .g = g, .o = o ? *o : (lm_needle_options){ 0 } };

    if (!s.o.lengths || !s.o.n_lengths) {
        s.o.lengths   = lengths;
        s.o.n_lengths = sizeof lengths / sizeof *lengths;
    }
    if (!s.o.depths || !s.o.n_depths) {
        s.o.depths   = depths;
        s.o.n_depths = sizeof depths / sizeof *depths;
    }
    s.o.samples = s.o.samples ? s.o.samples : 4;
    s.o.predict = s.o.predict ? s.o.predict : 32;
    s.found     = lm_alloc_zero(s.o.n_lengths * s.o.n_depths, sizeof *s.found);
    if (!s.found)
        return lm_fail_memory(e, "a grid", s.o.n_lengths * s.o.n_depths);
    lm_status status = run(&s, s.o.filler ? s.o.filler : noise, e);
    if (status == LM_OK)
        memcpy(found, s.found, s.o.n_lengths * s.o.n_depths * sizeof *found);
    lm_journal_close(s.journal, NULL);
    for (uint32_t i = 0; i < SIDE_BY_SIDE; i++) {
        lm_sequence_free(s.sequences[i]);
        lm_sampler_free(s.samplers[i]);
        lm_text_free(&s.written[i]);
    }
    lm_free(s.sentences);
    lm_free(s.tokens);
    lm_free(s.known);
    lm_free(s.rows);
    lm_free(s.found);
    return status;
}
