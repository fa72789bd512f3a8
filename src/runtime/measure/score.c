/* score.c - run a text through the engine, and score each of its tokens. */
#include "lamina/score.h"

#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/engine/state.h"

typedef struct scoring {
    lm_engine              *g;
    const lm_token         *ids;
    size_t                  n;
    const lm_score_options *o;
    uint32_t                n_vocab;
    lm_row                 *rows;        /* [lm_engine_max_rows] */
    lm_logprob             *top;         /* [o->top] */
    double                  logprob;
} scoring;

lm_score_options lm_score_defaults(void)
{
    return (lm_score_options){ 0 };
}

static lm_status check(const scoring *s, lm_error *e)
{
    uint32_t context = lm_engine_context(s->g), sequences = s->g->plan->options.sequences;

    if (s->n == 0)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "no tokens to score");
    if (s->n > context)
        return lm_fail(e, LM_LIMIT, "text", LM_NO_OFFSET, "%zu tokens; the context size is %u", s->n,
                       context);
    if (s->o->sequence >= sequences)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u; the engine has %u", s->o->sequence,
                       sequences);
    if (s->o->top > s->n_vocab)
        return lm_fail(e, LM_USAGE, "top", LM_NO_OFFSET, "%u of a vocabulary of %u tokens", s->o->top,
                       s->n_vocab);
    for (size_t i = 0; i < s->n; i++)
        if (s->ids[i] < 0 || (uint32_t)s->ids[i] >= s->n_vocab)
            return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           s->ids[i], s->n_vocab);
    return LM_OK;
}

static uint32_t rank_of(const float *logits, uint32_t n_vocab, lm_token id)
{
    uint32_t better = 0;

    for (uint32_t i = 0; i < n_vocab; i++)
        better += logits[i] > logits[id];
    return better;
}

/* Score the token at `position`, by the logits of the row before it. */
static lm_status score_token(scoring *s, size_t position, const float *logits, lm_error *e)
{
    lm_token_score t = { .position = position, .id = s->ids[position], .top = s->top, .n_top = s->o->top };

    t.logprob = (double)lm_logprobs(logits, s->n_vocab, t.id, s->top, s->o->top);
    if (isnan(t.logprob)) {
        lm_fail(e, LM_FAILED, "logits", LM_NO_OFFSET, "not a number at position %zu", position - 1);
        return lm_fail_in(e, s->g->model->source);
    }
    s->logprob += t.logprob;
    t.rank = s->o->token ? rank_of(logits, s->n_vocab, t.id) : 0;
    if (s->o->token && !s->o->token(s->o->arg, &t))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
    return LM_OK;
}

/* Process the text. The last token is scored but not processed. */
static lm_status read_text(scoring *s, lm_error *e)
{
    for (size_t at = 0; at + 1 < s->n;) {
        size_t rows = lm_engine_ahead(s->g, s->o->sequence);

        if (rows == 0)
            return lm_fail(e, LM_LIMIT, "text", LM_NO_OFFSET, "the cache is full at position %zu", at);
        rows = rows < s->n - 1 - at ? rows : s->n - 1 - at;
        for (size_t i = 0; i < rows; i++)
            s->rows[i] = (lm_row){ s->o->sequence, s->ids[at + i], (uint32_t)(at + i), true };
        LM_TRY(lm_engine_step(s->g, s->rows, rows, e));
        for (size_t i = 0; i < rows; i++)
            LM_TRY(score_token(s, at + i + 1, lm_engine_logits(s->g, i), e));
        at += rows;
    }
    return LM_OK;
}

static lm_status score(scoring *s, lm_error *e)
{
    LM_TRY(check(s, e));
    s->rows = lm_alloc_zero(lm_engine_max_rows(s->g), sizeof *s->rows);
    s->top = lm_alloc_zero(s->o->top + 1, sizeof *s->top);
    if (!s->rows || !s->top)
        return lm_fail_memory(e, "the scores", lm_engine_max_rows(s->g) * sizeof *s->rows);
    LM_TRY(lm_engine_truncate(s->g, s->o->sequence, 0, e));
    return read_text(s, e);
}

lm_status lm_score_text(lm_engine *g, const lm_token *ids, size_t n, const lm_score_options *o, lm_score *out,
                        lm_error *e)
{
    LM_REQUIRE(e, g && (ids || !n) && out);
    LM_CHECK_RESERVED(e, o);
    const lm_score_options defaults = lm_score_defaults();
    scoring s = { .g = g, .ids = ids, .n = n, .o = o ? o : &defaults };
    lm_status status;

    if (!g || !out || (!ids && n))
        return lm_fail(e, LM_USAGE, g ? "text" : "engine", LM_NO_OFFSET, "missing");
    s.n_vocab = g->program->n_vocab;
    status = score(&s, e);
    lm_free(s.rows);
    lm_free(s.top);
    if (status == LM_OK)
        *out = (lm_score){ .n_tokens = n,
                           .logprob = s.logprob,
                           .perplexity = exp(-s.logprob / (double)(n - 1)) };
    return status;
}
