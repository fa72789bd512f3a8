/* generate.c - the generation loop for one sequence. */
#include "runtime/generate/generate.h"

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "runtime/generate/sequence.h"

typedef struct run {
    lm_engine                 *g;
    lm_sequence               *s;
    const lm_generate_options *o;
    const lm_stepped          *stepped;
    lm_row                    *rows;         /* [lm_engine_max_rows] */
    double                     started, read;        /* clock, seconds: at the beginning, at the end of the
                                                        prompt */
    lm_generation              out;
} run;

lm_generate_options lm_generate_defaults(void)
{
    return (lm_generate_options){ 0 };
}

/* ---- callbacks ---- */

static lm_status on_token(run *r, const lm_event *t, lm_error *e)
{
    LM_TRY(lm_tokens_add(&r->out.ids, t->id, e));
    if (r->o->token && !r->o->token(r->o->arg, t->id, t->logprob, t->top, t->n_top))
        lm_sequence_cancel(r->s);
    return LM_OK;
}

static lm_status on_text(run *r, const lm_event *t, lm_error *e)
{
    lm_text_add(&r->out.text, t->text, t->size);
    if (r->out.text.failed)
        return lm_fail_memory(e, "the generated text", r->out.text.size);
    if (r->o->text && !r->o->text(r->o->arg, t->text, t->size))
        lm_sequence_cancel(r->s);
    return LM_OK;
}

static void on_prompt(run *r, const lm_event *t)
{
    if (t->done == t->total)
        r->read = lm_clock_seconds();
    if (r->o->prefill && !r->o->prefill(r->o->arg, t->done, t->total))
        lm_sequence_cancel(r->s);
}

static lm_status on_end(run *r, const lm_event *t, lm_error *e)
{
    r->out.stop = t->stop;
    r->out.stopped_by = t->id;
    if (t->stop != LM_STOP_FAILED)
        return LM_OK;
    if (e)
        *e = *t->error;
    return t->error->code;
}

static lm_status deliver(run *r, lm_error *e)
{
    lm_event t;

    while (lm_sequence_event(r->s, &t)) {
        if (t.kind == LM_EVENT_PROMPT)
            on_prompt(r, &t);
        else if (t.kind == LM_EVENT_TOKEN)
            LM_TRY(on_token(r, &t, e));
        else if (t.kind == LM_EVENT_TEXT)
            LM_TRY(on_text(r, &t, e));
        else
            LM_TRY(on_end(r, &t, e));
    }
    return LM_OK;
}

/* ---- the loop ---- */

/* Return the maximum number of prompt rows of the next step; 0: no maximum. */
static uint32_t max_prompt(const run *r)
{
    uint32_t rows = r->stepped && lm_sequence_reads(r->s) ? r->stepped->rows(r->stepped->arg, r->s) : 0;

    return rows && (!r->o->chunk || rows < r->o->chunk) ? rows : r->o->chunk;
}

/* Run the loop. A cancelled step ends the generation; it is not a failure. */
static lm_status generate(run *r, lm_error *e)
{
    lm_batch  b = { .rows = r->rows };
    lm_status status;

    while (r->out.stop == LM_STOP_NONE) {
        b.max_prompt = max_prompt(r);
        status = lm_sequences_step(r->g, &r->s, 1, &b, e);
        if (status == LM_CANCELLED)
            lm_sequence_cancel(r->s);
        else
            LM_TRY(status);
        LM_TRY(deliver(r, e));
        if (r->stepped)
            r->stepped->ran(r->stepped->arg, r->s);
    }
    lm_engine_cancelled(r->g);
    return LM_OK;
}

static lm_status prepare(run *r, lm_sampler *s, lm_error *e)
{
    lm_sequence_options o = r->o->sequence;

    if (!r->g || !s)
        return lm_fail(e, LM_USAGE, r->g ? "sampler" : "engine", LM_NO_OFFSET, "NULL");
    if (r->o->token && o.logprobs == 0)
        o.logprobs = -1;
    o.logits_release = o.row_release = NULL;             /* lm_generate calls them */
    r->rows = lm_alloc_zero(lm_engine_max_rows(r->g), sizeof *r->rows);
    if (!r->rows)
        return lm_fail_memory(e, "the generation", lm_engine_max_rows(r->g) * sizeof *r->rows);
    return lm_sequence_new(r->g, s, &o, &r->s, e);
}

static void finish(run *r, lm_generation *out)
{
    lm_sequence_info info;
    double           ended = lm_clock_seconds();

    lm_sequence_describe(r->s, &info);
    r->read                 = r->read > 0 ? r->read : ended;
    r->out.n_prompt         = info.n_read;
    r->out.n_reused         = info.n_reused;
    r->out.n_drafted        = info.n_drafted;
    r->out.n_accepted       = info.n_accepted;
    r->out.prompt_seconds   = r->read - r->started;
    r->out.generate_seconds = ended - r->read;
    if (info.draft_error)
        r->out.draft_error = *info.draft_error;
    *out   = r->out;
    r->out = (lm_generation){ 0 };
}

static lm_status generate_with(lm_engine *g, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                               const lm_generate_options *o, const lm_stepped *stepped, lm_generation *out,
                               lm_error *e)
{
    LM_REQUIRE(e, g && s && (prompt || !n) && out);
    LM_CHECK_RESERVED(e, o);
    lm_generate_options defaults = lm_generate_defaults();
    run       r = { .g = g, .o = o ? o : &defaults, .stepped = stepped, .started = lm_clock_seconds() };
    lm_status status;

    if (!out)
        return lm_fail(e, LM_USAGE, "out", LM_NO_OFFSET, "NULL");
    LM_TRY_GOTO(status, prepare(&r, s, e), done);
    LM_TRY_GOTO(status, lm_sequence_prompt(r.s, prompt, n, reuse, e), done);
    LM_TRY_GOTO(status, generate(&r, e), done);
    finish(&r, out);
done:
    lm_sequence_free(r.s);
    lm_generation_free(&r.out);
    lm_free(r.rows);
    return status;
}

lm_status lm_generate_stepped(lm_engine *g, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                              const lm_generate_options *o, const lm_stepped *stepped, lm_generation *out,
                              lm_error *e)
{
    lm_sequence_options given  = o ? o->sequence : lm_sequence_defaults();
    lm_status           status = generate_with(g, s, prompt, n, reuse, o, stepped, out, e);

    lm_sequence_release_hooks(&given);
    return status;
}

lm_status lm_generate(lm_engine *g, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                      const lm_generate_options *o, lm_generation *out, lm_error *e)
{
    return lm_generate_stepped(g, s, prompt, n, reuse, o, NULL, out, e);
}

void lm_generation_free(lm_generation *x)
{
    if (!x)
        return;
    lm_tokens_free(&x->ids);
    lm_text_free(&x->text);
    *x = (lm_generation){ 0 };
}
