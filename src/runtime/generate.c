/* generate.c - one sequence, from prompt to stop. */
#include "lamina/generate.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "runtime/draft.h"
#include "runtime/stops.h"

typedef struct run {
    lm_engine                 *g;
    const lm_model            *m;
    lm_sampler                *s;
    const lm_generate_options *o;
    uint32_t                   n_vocab;
    const char                *source;       /* the model's path */
    lm_draft                   draft;
    lm_row                    *rows;         /* [chunk], and room for a round */
    uint32_t                   chunk;
    lm_stream                 *stream;
    lm_text                    piece;        /* what the last token added */
    lm_buf                     pending;      /* decoded, not shown yet */
    lm_buf                     shown;
    bool                       closed;       /* a stop string ended the text */
    size_t                     read;         /* tokens of the prompt, those reused included */
    size_t                     row;          /* of the last step: the one with the logits */
    lm_logprob                *top;          /* [o->logprobs] */
    lm_generation              out;
} run;

const char *lm_stop_word(lm_stop s)
{
    static const char *const words[] = { "none", "eos", "length", "stop", "context", "cancelled" };

    return (size_t)s < sizeof words / sizeof *words ? words[s] : "none";
}

/* A step that was cancelled ends the generation; it is no failure. */
static lm_status step(run *r, const lm_row *rows, size_t n, lm_error *e)
{
    lm_status status = lm_engine_step(r->g, rows, n, e);

    if (status != LM_CANCELLED)
        return status;
    r->out.stop = LM_STOP_CANCELLED;
    return LM_OK;
}

/* ---- the prompt ---- */

static lm_status read_prompt(run *r, const lm_token *prompt, size_t n, size_t reuse, lm_error *e)
{
    size_t at = r->read = reuse;

    while (at < n && r->out.stop == LM_STOP_NONE) {
        size_t rows = n - at < r->chunk ? n - at : r->chunk;

        for (size_t i = 0; i < rows; i++)
            r->rows[i] = (lm_row){ r->o->sequence, prompt[at + i], (uint32_t)(at + i), at + i + 1 == n };
        LM_TRY(step(r, r->rows, rows, e));
        if (r->out.stop != LM_STOP_NONE)
            break;
        r->read = at += rows;
        r->row = rows - 1;
        if (r->o->prefill && !r->o->prefill(r->o->arg, at, n))
            r->out.stop = LM_STOP_CANCELLED;
    }
    return LM_OK;
}

/* The model that guesses reads it too. */
static lm_status read_for_guesses(run *r, size_t reuse, lm_error *e)
{
    lm_status status = lm_draft_read(&r->draft, reuse, e);

    if (status != LM_CANCELLED)
        return status;
    r->out.stop = LM_STOP_CANCELLED;
    return LM_OK;
}

/* The first reason counts. */
static void stop_for(run *r, lm_stop why)
{
    if (r->out.stop == LM_STOP_NONE)
        r->out.stop = why;
}

/* ---- the text ---- */

/* Show what is certain. `last`: nothing more will come. */
static lm_status show(run *r, bool last, lm_error *e)
{
    bool found;
    size_t n;

    lm_buf_add(&r->pending, r->piece.data, r->piece.n);
    r->piece.n = 0;
    n = lm_stop_scan(r->o->stops, r->pending.data, r->pending.size, last, &found);
    lm_buf_add(&r->shown, r->pending.data, n);
    if (r->pending.failed || r->shown.failed)
        return lm_fail_memory(e, "the generated text", r->shown.size);
    if (n && r->o->text && !r->o->text(r->o->arg, r->pending.data, n) && r->out.stop == LM_STOP_NONE)
        r->out.stop = LM_STOP_CANCELLED;
    if (found) {
        stop_for(r, LM_STOP_STRING);
        r->closed = true;
        n = r->pending.size;                             /* the stop and what follows it are never shown */
    }
    if (n)
        memmove(r->pending.data, r->pending.data + n, r->pending.size - n);
    r->pending.size -= n;
    return LM_OK;
}

static lm_status end_text(run *r, lm_error *e)
{
    if (r->closed)
        return LM_OK;
    LM_TRY(lm_stream_end(r->stream, &r->piece, e));
    return show(r, true, e);
}

/* ---- the loop ---- */

static bool is_stop_id(const lm_generate_options *o, lm_token id)
{
    for (size_t i = 0; i < o->n_stop_ids; i++)
        if (o->stop_ids[i] == id)
            return true;
    return false;
}

/* Choose the token at `position` and do everything that depends on it. */
static lm_status choose(run *r, const float *logits, uint32_t position, lm_error *e)
{
    const lm_generate_options *o = r->o;
    lm_token id;

    lm_status status = lm_sampler_pick(r->s, logits, o->sequence, position, &id, e);
    if (status == LM_FAILED)                             /* the model's own: its logits are no numbers */
        lm_fail_in(e, r->source);
    LM_TRY(status);
    lm_sampler_accept(r->s, id);
    lm_draft_add(&r->draft, id);
    LM_TRY(lm_tokens_add(&r->out.ids, id, e));
    if (o->token) {
        float logprob = lm_logprobs(logits, r->n_vocab, id, r->top, o->logprobs);
        if (!o->token(o->arg, id, logprob, r->top, o->logprobs))
            r->out.stop = LM_STOP_CANCELLED;
    }
    if (!o->ignore_eos && lm_model_is_end(r->m, id)) {
        stop_for(r, LM_STOP_EOS);
        if (!o->special)
            return LM_OK;
    }
    if (is_stop_id(o, id)) {
        stop_for(r, LM_STOP_STRING);
        return LM_OK;
    }
    if (!r->stream)
        return LM_OK;
    LM_TRY(lm_stream_push(r->stream, id, &r->piece, e));
    return show(r, false, e);
}

/* How many guesses can be of use. */
static uint32_t most_guesses(const run *r)
{
    const lm_generate_options *o = r->o;
    uint32_t ahead = lm_engine_ahead(r->g, o->sequence);
    uint64_t left = o->max_tokens < 0 ? UINT32_MAX : (uint64_t)o->max_tokens - r->out.ids.n;

    ahead = ahead ? ahead - 1 : 0;                       /* the token before them is a row too */
    return left <= ahead ? (uint32_t)left - 1 : ahead;
}

/* The step that reads the last token and the guesses: where the cache has no room for those, without them. */
static lm_status read_round(run *r, uint32_t at, lm_error *e)
{
    uint32_t n = r->draft.n_guesses;
    lm_status status;

    r->rows[0] = (lm_row){ r->o->sequence, r->out.ids.ids[r->out.ids.n - 1], at, true };
    for (uint32_t i = 0; i < n; i++)
        r->rows[1 + i] = (lm_row){ r->o->sequence, r->draft.guesses[i], at + 1 + i, true };
    status = step(r, r->rows, 1 + n, e);
    if (status != LM_LIMIT || n == 0)
        return status;
    r->draft.n_guesses = 0;
    return step(r, r->rows, 1, e);
}

/* One step, and every token that can be chosen after it: the first guess that is not what is chosen ends the round, for the
 * rows behind it continue another text. */
static lm_status round_of(run *r, uint32_t *at, lm_error *e)
{
    double started = lm_clock_seconds(), guessed, read;
    uint32_t right = 0, n;
    lm_status status = lm_draft_guess(&r->draft, most_guesses(r), e);

    if (status == LM_CANCELLED)
        r->out.stop = LM_STOP_CANCELLED;
    if (status != LM_OK)
        return status == LM_CANCELLED ? LM_OK : status;
    guessed = lm_clock_seconds();
    status = read_round(r, *at, e);
    if (status == LM_LIMIT) {                            /* other sequences have filled the cache */
        r->out.stop = LM_STOP_CONTEXT;
        return LM_OK;
    }
    if (status != LM_OK || r->out.stop != LM_STOP_NONE)
        return status;
    read = lm_clock_seconds();
    n = r->draft.n_guesses;
    r->out.n_drafted += n;
    for (uint32_t i = 0; i <= n && status == LM_OK; i++) {
        ++*at;
        status = choose(r, lm_engine_logits(r->g, i), *at, e);
        if (i == n || status != LM_OK || r->out.ids.ids[r->out.ids.n - 1] != r->draft.guesses[i])
            break;
        right++;
        if (r->out.stop != LM_STOP_NONE)
            break;
    }
    r->out.n_accepted += right;
    if (n)
        LM_TRY(lm_engine_truncate(r->g, r->o->sequence, *at, status == LM_OK ? e : NULL));
    LM_TRY(status);
    return lm_draft_judge(&r->draft, right, guessed - started, read - guessed, e);
}

static lm_status generate(run *r, size_t n, lm_error *e)
{
    const lm_generate_options *o = r->o;
    uint32_t at = (uint32_t)n, context = lm_engine_context(r->g);

    while (r->out.stop == LM_STOP_NONE) {
        if (o->max_tokens >= 0 && r->out.ids.n >= (uint64_t)o->max_tokens)
            r->out.stop = LM_STOP_LENGTH;
        else if (r->out.ids.n == 0)
            LM_TRY(choose(r, lm_engine_logits(r->g, r->row), at, e));
        else if (at == context)                          /* the token chosen last cannot be read */
            r->out.stop = LM_STOP_CONTEXT;
        else
            LM_TRY(round_of(r, &at, e));
    }
    return r->stream ? end_text(r, e) : LM_OK;
}

static lm_status check(const run *r, const lm_token *prompt, size_t n, size_t reuse, lm_error *e)
{
    uint32_t context = lm_engine_context(r->g);

    if (n == 0)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "nothing to continue: the prompt has no tokens");
    if (n > context)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET, "%zu tokens, the context holds %u", n, context);
    if (reuse > lm_engine_length(r->g, r->o->sequence))
        return lm_fail(e, LM_USAGE, "reuse", LM_NO_OFFSET, "%zu positions, the sequence holds %u", reuse,
                       lm_engine_length(r->g, r->o->sequence));
    for (size_t i = 0; i < n; i++)
        if (prompt[i] < 0 || (uint32_t)prompt[i] >= r->n_vocab)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "token %d is outside the vocabulary of %u", prompt[i], r->n_vocab);
    return LM_OK;
}

static lm_status prepare(run *r, lm_error *e)
{
    const lm_tokenizer *t = lm_model_tokenizer(r->m);
    lm_model_info info;

    lm_model_describe(r->m, &info);
    r->n_vocab = info.n_vocab;
    r->source = info.source;
    if (r->o->logprobs > r->n_vocab)
        return lm_fail(e, LM_USAGE, "logprobs", LM_NO_OFFSET, "%u of a vocabulary of %u tokens", r->o->logprobs, r->n_vocab);
    r->chunk = lm_engine_max_rows(r->g);
    if (r->o->chunk && r->o->chunk < r->chunk)
        r->chunk = r->o->chunk;
    LM_TRY(lm_draft_open(&r->draft, r->o, r->s, r->n_vocab, lm_engine_context(r->g), e));
    r->rows = lm_alloc_zero(r->chunk + 1 + LM_DRAFT_MOST, sizeof *r->rows);
    r->top = lm_alloc_zero(r->o->logprobs + 1, sizeof *r->top);
    if (!r->rows || !r->top)
        return lm_fail_memory(e, "the generation", r->chunk * sizeof *r->rows);
    return t ? lm_stream_new(t, r->o->special ? 0 : LM_SKIP_SPECIAL, true, &r->stream, e) : LM_OK;
}

lm_status lm_generate(lm_engine *g, const lm_model *m, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                      const lm_generate_options *o, lm_generation *out, lm_error *e)
{
    run r = { .g = g, .m = m, .s = s, .o = o };
    double started = lm_clock_seconds(), read;
    uint32_t kept;
    lm_status status;

    LM_TRY_GOTO(prepare(&r, e));
    reuse = reuse < n ? reuse : n ? n - 1 : 0;           /* the last prompt token's logits are needed */
    LM_TRY_GOTO(check(&r, prompt, n, reuse, e));
    LM_TRY_GOTO(lm_engine_keep(g, o->sequence, (uint32_t)reuse, &kept, e));
    reuse = kept;
    lm_sampler_reset(s);
    for (size_t i = 0; i < n; i++) {
        lm_sampler_accept(s, prompt[i]);
        lm_draft_add(&r.draft, prompt[i]);
    }
    LM_TRY_GOTO(read_prompt(&r, prompt, n, reuse, e));
    if (r.out.stop == LM_STOP_NONE)
        LM_TRY_GOTO(read_for_guesses(&r, reuse, e));
    read = lm_clock_seconds();
    LM_TRY_GOTO(generate(&r, n, e));

    lm_engine_cancelled(g);
    r.out.n_prompt = r.read;
    r.out.n_reused = reuse;
    r.out.prompt_seconds = read - started;
    r.out.generate_seconds = lm_clock_seconds() - read;
    r.out.text = (lm_text){ r.shown.data, r.shown.size, r.shown.capacity };
    r.shown = (lm_buf){ 0 };
    *out = r.out;
    r.out = (lm_generation){ 0 };
done:
    lm_generation_free(&r.out);
    lm_draft_close(&r.draft);
    lm_stream_free(r.stream);
    lm_text_free(&r.piece);
    lm_buf_free(&r.pending);
    lm_buf_free(&r.shown);
    lm_free(r.rows);
    lm_free(r.top);
    return status;
}

void lm_generation_free(lm_generation *x)
{
    lm_tokens_free(&x->ids);
    lm_text_free(&x->text);
    *x = (lm_generation){ 0 };
}
