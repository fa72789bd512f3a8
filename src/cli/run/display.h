/* display.h - run one generation and show it: streamed text, a progress bar for the prompt, a summary,
 * JSON. */
#ifndef LM_CLI_DISPLAY_H
#define LM_CLI_DISPLAY_H

#include "cli/base/output.h"
#include "lamina/chat.h"

typedef struct lm_display {
    const lm_model *model;
    bool            stream;              /* write text to stdout as it is generated */
    uint32_t        logprobs;
    json_t         *positions;           /* with logprobs: [{id, piece, text, bytes, logprob, top}], owned */
    lm_wrap         wrap;                /* how the text is broken into lines; zero: not at all */
    lm_progress     bar;
    lm_error        write;               /* why stdout could not be written; code LM_OK: no error */
    bool            ended_line;          /* the last byte shown was a newline */
} lm_display;

/* Set the callbacks of `o` and run lm_generate, or lm_chat_cache_generate if there is a cache. LM_IO: stdout
 * could not be written. */
lm_status lm_display_run(lm_display *a, lm_engine *g, lm_sampler *s, const lm_tokens *prompt,
                         lm_chat_cache *cache, lm_generate_options *o, lm_generation *out, lm_error *e);

/* Return the number of tokens generated during generate_seconds: all but the first, whose logits come from
 * the last row of the prompt. */
size_t lm_display_continued(const lm_generation *x);

/* Warn about a draft model that failed during the generation; the second returns the same line for JSON, or
 * NULL. */
void    lm_display_warn(const lm_generation *x);
json_t *lm_display_warning(const lm_generation *x);

/* "prompt 21 tokens in 84 ms (250 tok/s)  ·  generated 64 tokens in …  ·  stopped: end of turn" */
void lm_display_summary(const lm_generation *x, lm_text *out);

/* Return the string of `stops` that ended the generation, or JSON null. */
json_t *lm_display_stop_string(const lm_generation *x, const char *const *stops);

/* {prompt_tokens, reused_tokens, generated_tokens, drafted_tokens, accepted_tokens, prompt_seconds,
 * generate_seconds, …_per_second}. A rate is null if nothing was timed. */
json_t *lm_display_timings(const lm_generation *x);

#endif
