/* scored.h - what each token of a given text costs, as commands show it. */
#ifndef LM_CLI_SCORED_H
#define LM_CLI_SCORED_H

#include "cli/output.h"

typedef struct lm_scored {
    const lm_tokenizer *tokenizer;       /* NULL: the model has none */
    uint32_t            top;             /* most probable tokens beside each */
    json_t             *tokens;          /* null for the first, then {id, piece, text, logprob, rank, top}; NULL: lines are wanted */
    lm_text             lines;           /* position, id, log-probability, rank, piece; without a heading */
    size_t              n;
    lm_progress         bar;
} lm_scored;

/* Logit rows of a step that scoring makes use of. */
uint32_t lm_scored_rows(uint32_t rows);

/* Fills `tokens` anew, or appends to `lines`. Errors of lm_score_text. */
lm_status lm_scored_run(lm_scored *s, lm_engine *g, const lm_tokens *ids, lm_score *out, lm_error *e);

/* The heading of the lines, and what comes below them. */
void lm_scored_head(const lm_scored *s, lm_text *out);
void lm_scored_sum(const lm_score *score, lm_text *out);

#endif
