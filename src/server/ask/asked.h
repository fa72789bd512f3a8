/* asked.h - what requests of several dialects say of a text in the same words: how to choose tokens, when to stop, what to tell. */
#ifndef LM_SERVER_ASKED_H
#define LM_SERVER_ASKED_H

#include "server/ask/allowed.h"
#include "server/ask/request_limits.h"
#include "server/ask/turn.h"
#include "server/store/api_keys.h"

typedef struct lm_asked {
    lm_sampler_options sampling;     /* as clients write them */
    int64_t   seed;                  /* -1: drawn */
    json_t   *stop, *stop_ids, *logit_bias, *samplers, *breakers, *lora, *preserved;
    int32_t   ping;                  /* seconds; < 0: never */
    int64_t   most_ms;               /* t_max_predict_ms; <= 0: any time */
    double    timeout;               /* seconds; 0: the server's */
    int64_t   max_tokens;            /* <= 0 with none given: the server's default */
    bool      stream, ignore_eos, no_cache, timings, explain_cache, contributions, progress, verbose, sampled;
    int32_t   slot;                  /* id_slot; -1: any */
    int32_t   priority;              /* LM_PRIORITY_NONE: its key's */
    uint32_t  n;
    lm_allowed limits;
} lm_asked;

/* The defaults of the server. */
void lm_asked_defaults(const lm_service *s, lm_asked *a);

extern const lm_field lm_asked_fields[];         /* values: lm_asked */

/* What lm_asked_options points to. */
typedef struct lm_asked_parts {
    const char **stops, **breakers;
    lm_tokens   stop_ids;
    lm_logit_bias *bias;
    lm_grammar *grammar;             /* NULL until lm_asked_grammar */
    const lm_allowed *limits;        /* that it is made of */
    lm_text     order;
    float      *loras;
    lm_tokens   shown;
} lm_asked_parts;

/* Into the options of a turn, all but the grammar. What they point to is in `parts`, freed by lm_asked_free, and in the body. */
lm_status lm_asked_options(const lm_call *c, const lm_asked *a, lm_turn_options *o, lm_asked_parts *parts, lm_error *e);

/* The grammar, which can be long work: when all prompts are known to be let in, and the queue has room. */
lm_status lm_asked_grammar(const lm_call *c, lm_asked_parts *parts, const lm_tokens *prompts, size_t n, lm_turn_options *o, lm_error *e);
void      lm_asked_free(lm_asked_parts *parts);

/* A prompt as OpenAI and llama.cpp have it: text, ids, or an array of those; tokens of each. `most`: of the
 * table of limits. Freed by lm_prompts_free, also on failure. */
typedef struct lm_prompts { lm_tokens *items; size_t n; } lm_prompts;
lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id most, lm_prompts *out, lm_error *e);
/* Room for a single one. */
lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e);
void      lm_prompts_free(lm_prompts *p);

#endif
