/* params.h - request parameters that several dialects share: sampling, stop conditions, what to return. */
#ifndef LM_SERVER_PARAMS_H
#define LM_SERVER_PARAMS_H

#include "server/ask/call.h"
#include "server/ask/constraints.h"
#include "server/ask/request_limits.h"
#include "server/store/api_keys.h"

typedef struct lm_params {
    lm_sampler_options sampling;     /* as clients write them */
    int64_t   seed;                  /* -1: random */
    json_t   *trace, *intervene;     /* NULL: not given */
    json_t   *stop, *stop_ids, *logit_bias, *samplers, *breakers, *lora, *preserved;
    int32_t   ping;                  /* seconds; < 0: never */
    int64_t   most_ms;               /* t_max_predict_ms; <= 0: no limit */
    double    timeout;               /* seconds; 0: the server's */
    int64_t   max_tokens;            /* default: the server's `predict`; <= 0: until the context is full */
    bool      stream, ignore_eos, no_cache, timings, explain_cache, contributions, progress, verbose, sampled;
    int32_t   slot;                  /* id_slot; -1: any */
    int32_t   priority;              /* LM_PRIORITY_NONE: that of the key */
    uint32_t  n;
    lm_constraints constraints;
} lm_params;

/* Set the server's defaults. */
void lm_params_defaults(const lm_service *s, lm_params *a);

extern const lm_field lm_params_fields[];         /* values: lm_params */
extern const lm_field lm_params_traced[], lm_params_untraced[];     /* further ones: of dialects that can carry a trace, and that cannot */

typedef struct lm_prompts { lm_tokens *items; size_t n; } lm_prompts;

/* Parameters in the form that the schedule takes, and what they point to. */
typedef struct lm_prepared {
    lm_sequence_options sequence;
    lm_sampler_options  sampling;    /* as clients write them: 0 means 0 */
    lm_whitespace whitespace;        /* between the parts of tool call arguments */
    uint32_t    wanted_slot;
    int32_t     priority;            /* as the schedule defines it: higher ones first */
    double      deadline;            /* seconds from now until each sequence ends with its output so far; 0: none */
    double      most_seconds;        /* maximum from a sequence's first token on, once it has a line feed; 0: no limit */
    lm_grammar *grammar;             /* that each output must match; NULL: none, or before lm_params_grammar */
    float      *loras;               /* scales of the server's adapters; NULL: it has none */
    const char **stops, **breakers;
    lm_tokens   stop_ids, shown;
    lm_logit_bias *bias;
    lm_text     order;
} lm_prepared;

/* Convert everything except the grammar. lm_prepared_free frees what `out` points to, also on failure; strings point into the body. */
lm_status lm_params_prepare(const lm_call *c, const lm_params *a, lm_prepared *out, lm_error *e);

/* Check that the context and the queue have room for all prompts, then compile the grammar, which can take long. */
lm_status lm_params_grammar(const lm_call *c, const lm_params *a, const lm_prompts *prompts, lm_prepared *out, lm_error *e);
void      lm_prepared_free(lm_prepared *parts);

/* Read prompts in the form of OpenAI and llama.cpp: a string, ids, or an array of those. `most`: the limit of their number.
 * lm_prompts_free frees `out`, also on failure. */
lm_status lm_prompts_read(const lm_service *s, const json_t *value, lm_limit_id most, lm_prompts *out, lm_error *e);

/* Allocate a single empty prompt. */
lm_status lm_prompts_one(lm_prompts *p, lm_tokens **prompt, lm_error *e);
void      lm_prompts_free(lm_prompts *p);

#endif
