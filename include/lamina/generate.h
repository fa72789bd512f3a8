/* generate.h - the usual loop: one text, from prompt to stop. Many at once: lamina/sequence.h. */
#ifndef LAMINA_GENERATE_H
#define LAMINA_GENERATE_H

#include "lamina/sequence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: the defaults. */
typedef struct lm_generate_options {
    lm_sequence_options sequence;
    uint32_t chunk;                  /* prompt rows in a step; 0: the engine's most */
    /* Each may be NULL. `text`: new text, whole characters. `token`: after each choice, `top` has sequence.logprobs entries.
     * `prefill`: prompt tokens done. A callback that returns false stops the generation (LM_STOP_CANCELLED). */
    bool   (*text)(void *arg, const char *piece, size_t size);
    bool   (*token)(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k);
    bool   (*prefill)(void *arg, size_t done, size_t total);
    void    *arg;
    uint64_t reserved[4];            /* zero */
} lm_generate_options;

lm_generate_options lm_generate_defaults(void);

typedef struct lm_generation {
    lm_tokens ids;                   /* what was chosen, the ending token included */
    lm_text   text;                  /* what was emitted */
    lm_stop   stop;                  /* never LM_STOP_FAILED: that is an error */
    size_t    n_prompt, n_reused;    /* prompt tokens that were read; of which were in the cache already */
    size_t    n_drafted, n_accepted; /* guesses made; of which were right. They depend on the machine's speed, the text does not */
    lm_error  draft_error;           /* why the guessing engine was given up; code LM_OK: it was not */
    double    prompt_seconds, generate_seconds;      /* the first token comes with the prompt: of n tokens n - 1 took the latter */
    uint64_t  reserved[4];           /* zero */
} lm_generation;

/* Read `prompt` (the whole conversation so far: what the slot already holds of it, as its caller knows from the last
 * generation, is given as `reuse` positions that stay; where a window has forgotten what they need, none does), then choose
 * tokens until something stops it. The sampler is reset and told the prompt first. A cancelled step ends the generation with
 * LM_STOP_CANCELLED, a full context or cache with LM_STOP_CONTEXT; neither is an error. A cancel that comes after the last step
 * is forgotten. The argument of the hook on logits is taken: released before this returns. `o` NULL: the defaults.
 * LM_LIMIT: the prompt itself does not fit; LM_USAGE: as lm_sequence_new and
 * lm_sequence_prompt. */
lm_status lm_generate(lm_engine *g, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse, const lm_generate_options *o,
                      lm_generation *out, lm_error *e);
void      lm_generation_free(lm_generation *x);

#ifdef __cplusplus
}
#endif
#endif
