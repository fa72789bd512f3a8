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
    uint32_t chunk;                  /* prompt rows per step; 0: the engine's maximum */
    /* Callbacks, each may be NULL, called by the thread of lm_generate. `text`: new text, whole characters.
     * `token`: a chosen token; `top` has sequence.logprobs entries. `prefill`: progress of the prompt. A
     * callback that returns false stops the generation (LM_STOP_CANCELLED). */
    bool   (*text)(void *arg, const char *piece, size_t size);
    bool   (*token)(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k);
    bool   (*prefill)(void *arg, size_t done, size_t total);
    void    *arg;
    uint64_t reserved[4];            /* zero */
} lm_generate_options;

lm_generate_options lm_generate_defaults(void);

typedef struct lm_generation {
    lm_tokens ids;                   /* chosen tokens, including the one that ended the generation */
    lm_text   text;                  /* generated text */
    lm_stop   stop;                  /* never LM_STOP_FAILED: that is an error */
    int32_t   stopped_by;            /* index of the stop string that matched; -1: none did */
    size_t    n_prompt, n_reused;    /* prompt tokens; of which reused from the cache */
    size_t    n_drafted, n_accepted; /* draft tokens; of which accepted. They depend on the machine's speed,
                                        the text does not */
    lm_error  draft_error;           /* why the draft engine is no longer used; code LM_OK: it is */
    double    prompt_seconds, generate_seconds;      /* the first of n tokens is part of prompt_seconds, the
                                                        others of generate_seconds */
    uint64_t  reserved[4];           /* zero */
} lm_generation;

/* Process `prompt` (n tokens, the whole conversation) and generate until a stop condition. The engine's
 * sequence already holds the first `reuse` positions from an earlier generation; if a sliding window has
 * discarded what they need, all are processed. Resets the sampler and gives it the prompt. A cancelled step
 * ends the generation with LM_STOP_CANCELLED, a full context or cache with LM_STOP_CONTEXT; neither is an
 * error. A cancellation after the last step has no effect. Releases the arguments of hooks before it returns.
 * `o` NULL: the defaults. LM_LIMIT: the prompt does not fit; LM_USAGE: as lm_sequence_new and
 * lm_sequence_prompt. */
lm_status lm_generate(lm_engine *g, lm_sampler *s, const lm_token *prompt, size_t n, size_t reuse,
                      const lm_generate_options *o, lm_generation *out, lm_error *e);
void      lm_generation_free(lm_generation *x);

#ifdef __cplusplus
}
#endif
#endif
