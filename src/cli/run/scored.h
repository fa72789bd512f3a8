/* scored.h - the log-probability of each token of a given text, as lines or as JSON. */
#ifndef LM_CLI_SCORED_H
#define LM_CLI_SCORED_H

#include "cli/base/output.h"

typedef struct lm_scored {
    const lm_tokenizer *tokenizer;       /* NULL: the model has none */
    uint32_t            top;             /* number of most probable tokens to show per position */
    /* null for the first, then {id, piece, text, bytes, logprob, rank, top}; NULL: use `lines` */
    json_t             *tokens;
    lm_text             lines;           /* position, id, log-probability, rank, piece; without a heading */
    size_t              n;
    lm_progress         bar;
} lm_scored;

/* Return the number of logit rows per step that scoring uses with an engine of `rows` rows. */
uint32_t lm_scored_rows(uint32_t rows);

/* Score a text: replace the content of `tokens`, or append to `lines`. Errors are those of lm_score_text. */
lm_status lm_scored_run(lm_scored *s, lm_engine *g, const lm_tokens *ids, lm_score *out, lm_error *e);

/* Append the heading of the lines, and the sum below them. */
void lm_scored_head(const lm_scored *s, lm_text *out);
void lm_scored_sum(const lm_score *score, lm_text *out);

#endif
