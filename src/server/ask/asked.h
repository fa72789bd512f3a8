/* asked.h - what requests of several dialects say of a text in the same words: how to choose tokens, when to stop, what to tell. */
#ifndef LM_SERVER_ASKED_H
#define LM_SERVER_ASKED_H

#include "server/ask/allowed.h"
#include "server/ask/request_limits.h"
#include "server/ask/call.h"
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

typedef struct lm_prompts { lm_tokens *items; size_t n; } lm_prompts;

/* What is made of it, for the schedule; and what that points to. */
typedef struct lm_asked_parts {
    lm_sequence_options sequence;
    lm_sampler_options  sampling;    /* as clients write them: lm_sampler_literal has not been called */
    lm_whitespace whitespace;        /* between the parts of arguments of calls */
    uint32_t    wanted_slot;
    int32_t     priority;            /* as the schedule knows it: higher ones first */
    double      deadline;            /* seconds from now until each text ends with what it has; 0: none */
    double      most_seconds;        /* from a text's first token on, once it has a line feed; 0: any */
    lm_grammar *grammar;             /* that each text fits; NULL: any, or before lm_asked_grammar */
    float      *loras;               /* scales of the server's adapters; NULL: it has none */
    const char **stops, **breakers;
    lm_tokens   stop_ids, shown;
    lm_logit_bias *bias;
    lm_text     order;
} lm_asked_parts;

/* All but the grammar. What is pointed to is freed by lm_asked_free, also on failure, or in the body. */
lm_status lm_asked_options(const lm_call *c, const lm_asked *a, lm_asked_parts *out, lm_error *e);

/* The grammar, which can be long work: when all prompts are known to be let in, and the queue has room. */
lm_status lm_asked_grammar(const lm_call *c, const lm_asked *a, const lm_prompts *prompts, lm_asked_parts *out, lm_error *e);
void      lm_asked_free(lm_asked_parts *parts);

/* A prompt as OpenAI and llama.cpp have it: text, ids, or an array of those; tokens of each. `most`: of the
 * table of limits. Freed by lm_prompts_free, also on failure. */
lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id most, lm_prompts *out, lm_error *e);
/* Room for a single one. */
lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e);
void      lm_prompts_free(lm_prompts *p);

#endif
