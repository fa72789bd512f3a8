/* scored.c - score a text and append a line or a JSON object for each token. */
#include "cli/run/scored.h"

#include <math.h>

#include "cli/base/interrupt.h"
#include "cli/base/tokenjson.h"

enum { LOGIT_ROWS = 128 };               /* a row is as wide as the vocabulary */

uint32_t lm_scored_rows(uint32_t rows)
{
    return rows < LOGIT_ROWS ? rows : LOGIT_ROWS;
}

static void add_row(lm_scored *s, const lm_token_score *t)
{
    lm_text_printf(&s->lines, "%8zu  %7d  %9.4f  %6u  ", t->position, t->id, t->logprob, t->rank);
    for (uint32_t i = 0; i <= t->n_top; i++) {
        lm_token    id    = i ? t->top[i - 1].id : t->id;
        size_t      n     = 0;
        const char *piece = s->tokenizer && id >= 0 ? lm_tokenizer_piece(s->tokenizer, id, &n) : NULL;

        if (id < 0)
            break;
        if (i)
            lm_text_add_str(&s->lines, i == 1 ? "   ·  " : "  ");
        lm_add_piece(&s->lines, piece, n);
        if (i)
            lm_text_printf(&s->lines, " %.3f", (double)t->top[i - 1].logprob);
    }
    lm_text_add_char(&s->lines, '\n');
}

static bool on_token(void *arg, const lm_token_score *t)
{
    lm_scored *s = arg;

    lm_progress_show(&s->bar, (double)t->position / (double)s->n);
    if (s->tokens) {
        json_t *one = lm_token_json(s->tokenizer, t->id, (float)t->logprob);
        json_object_set_new(one, "rank", json_integer(t->rank));
        if (t->n_top)
            json_object_set_new(one, "top", lm_top_json(s->tokenizer, t->top, t->n_top));
        json_array_append_new(s->tokens, one);
    } else {
        add_row(s, t);
    }
    return !lm_interrupted();
}

lm_status lm_scored_run(lm_scored *s, lm_engine *g, const lm_tokens *ids, lm_score *out, lm_error *e)
{
    lm_score_options o = { .top = s->top, .token = on_token, .arg = s };
    lm_status        status;

    if (s->tokens) {
        json_array_clear(s->tokens);
        json_array_append_new(s->tokens, json_null());
    }
    s->n   = ids->n;
    s->bar = lm_progress_start("scoring");
    status = lm_score_text(g, ids->ids, ids->n, &o, out, e);
    lm_progress_end(&s->bar);
    if (status == LM_LIMIT)
        lm_fail_hint(e, "-c %zu holds it", ids->n);
    return status;
}

void lm_scored_head(const lm_scored *s, lm_text *out)
{
    lm_text_printf(out, "%8s  %7s  %9s  %6s  token%s\n", "position", "id", "log p", "rank",
                   s->top ? "   ·  most probable" : "");
}

void lm_scored_sum(const lm_score *score, lm_text *out)
{
    char tokens[LM_FORMATTED];

    lm_text_printf(out, "\ntokens scored    %s\nlog-probability  %.4f\n",
                   lm_format_count(tokens, score->n_tokens - 1), score->logprob);
    if (isfinite(score->perplexity))
        lm_text_printf(out, "perplexity       %.4f\n", score->perplexity);
}
