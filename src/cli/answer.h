/* answer.h - one generation as commands show it: text as it comes, a bar while the prompt is read, a summary, JSON. */
#ifndef LM_CLI_ANSWER_H
#define LM_CLI_ANSWER_H

#include "cli/output.h"

typedef struct lm_answer {
    const lm_model *model;
    bool            stream;              /* text goes to stdout as it comes */
    uint32_t        logprobs;
    json_t         *positions;           /* with logprobs: [{id, piece, text, logprob, top}], owned */
    lm_progress     bar;
    lm_error        write;               /* why stdout could not be written; code LM_OK */
    bool            ended_line;          /* the last byte shown was a newline */
} lm_answer;

/* Fills the callbacks of `o` and runs lm_generate. LM_IO when stdout could not be written. */
lm_status lm_answer_run(lm_answer *a, lm_engine *g, lm_sampler *s, const lm_tokens *prompt, size_t reuse,
                        lm_generate_options *o, lm_generation *out, lm_error *e);

/* Tokens that the time after the prompt went into: the first comes with the prompt, whose last row has its logits. */
size_t lm_answer_continued(const lm_generation *x);

/* Warn of what went wrong beside the answer: a draft model that failed; the same line for JSON, or NULL. */
void    lm_answer_warn(const lm_generation *x);
json_t *lm_answer_warning(const lm_generation *x);

/* "prompt 21 tokens in 84 ms (250 tok/s)  ·  generated 64 tokens in …  ·  stopped: end of turn" */
void lm_answer_summary(const lm_generation *x, lm_text *out);

/* The stop string that ended the text, of `stops`; null: none did. */
json_t *lm_answer_stop_string(const lm_generation *x, const char *const *stops);

/* {prompt_tokens, reused_tokens, generated_tokens, drafted_tokens, accepted_tokens, prompt_seconds, generate_seconds,
 * …_per_second}: null where nothing was timed. */
json_t *lm_answer_timings(const lm_generation *x);

#endif
