/* params.h - request parameters that several dialects share: sampling, stop conditions, what to return. */
#ifndef LM_SERVER_PARAMS_H
#define LM_SERVER_PARAMS_H

#include "server/ask/call.h"
#include "server/ask/constraints.h"
#include "server/ask/request_limits.h"
#include "server/store/api_keys.h"

typedef struct lm_params {
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
    lm_constraints constraints;
} lm_params;

/* The defaults of the server. */
void lm_params_defaults(const lm_service *s, lm_params *a);

extern const lm_field lm_params_fields[];         /* values: lm_params */

typedef struct lm_prompts { lm_tokens *items; size_t n; } lm_prompts;

/* Parameters in the form that the schedule takes, and what they point to. */
typedef struct lm_prepared {
    lm_sequence_options sequence;
    lm_sampler_options  sampling;    /* as clients write them: lm_sampler_literal has not been called */
    lm_whitespace whitespace;        /* between the parts of arguments of calls */
    uint32_t    wanted_slot;
    int32_t     priority;            /* as the schedule knows it: higher ones first */
    double      deadline;            /* seconds from now until each sequence ends with what it has; 0: none */
    double      most_seconds;        /* from a sequence's first token on, once it has a line feed; 0: any */
    lm_grammar *grammar;             /* that each answer matches; NULL: any, or before lm_params_grammar */
    float      *loras;               /* scales of the server's adapters; NULL: it has none */
    const char **stops, **breakers;
    lm_tokens   stop_ids, shown;
    lm_logit_bias *bias;
    lm_text     order;
} lm_prepared;

/* Convert all but the grammar. lm_prepared_free frees what `out` points to, also on failure; strings are in the body. */
lm_status lm_params_prepare(const lm_call *c, const lm_params *a, lm_prepared *out, lm_error *e);

/* Compile the grammar, which can take long, once the context and the queue are known to have room for all prompts. */
lm_status lm_params_grammar(const lm_call *c, const lm_params *a, const lm_prompts *prompts, lm_prepared *out, lm_error *e);
void      lm_prepared_free(lm_prepared *parts);

/* Read a prompt as OpenAI and llama.cpp write it: a string, ids, or an array of those. `most` is an entry of the table of limits.
 * lm_prompts_free frees `out`, also on failure. */
lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id most, lm_prompts *out, lm_error *e);

/* Make room for a single prompt. */
lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e);
void      lm_prompts_free(lm_prompts *p);

#endif
