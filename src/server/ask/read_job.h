/* read_job.h - process prompts without generating, for embeddings and scores. They are ordinary requests of
 * the schedule, a few at a time, so that no thread waits for them and other requests continue. A worker
 * starts a job, which then belongs to the exchange. */
#ifndef LM_SERVER_READ_JOB_H
#define LM_SERVER_READ_JOB_H

#include "server/ask/call.h"
#include "server/ask/prompts.h"
#include "server/store/api_keys.h"

typedef struct lm_read_job lm_read_job;

/* The functions called for a prompt: either `row` or `last`, by threads of the schedule, and `free` once, by
 * the last owner of `of`: the schedule or the job. `row` gets every row of the prompt, so nothing of it comes
 * from the cache; `last` gets the logits [n_vocab] after the prompt, once. */
typedef struct lm_read_job_hook {
    lm_status (*row)(void *of, size_t position, const float *logits, const float *hidden, lm_error *e);
    lm_status (*last)(void *of, const float *logits, lm_error *e);
    void      (*free)(void *of);
    bool        logits;              /* `row` gets logits */
} lm_read_job_hook;

typedef struct lm_read_job_options {
    lm_prompts  prompts;
    void      **of;                  /* [prompts.n] arguments of the hook; the array from lm_memory_zero; NULL
                                        if filling `o` failed before */
    int32_t     priority;            /* of the request; LM_PRIORITY_NONE: not given */
    json_t     *lora;                /* the request's adapter scales; NULL: the server's */
    lm_read_job_hook hook;
    json_t   *(*document)(const lm_read_job *r);      /* makes the answer once all prompts are processed;
                                                         NULL: out of memory */
    void       *own;                 /* for `document`, from lm_memory_zero; may be NULL */
} lm_read_job_options;

/* Start a job and hand the exchange over to it. `status` is the result of filling `o`: if it is not LM_OK, it
 * is returned. Takes prompts, of and own, also on failure. */
lm_status lm_read_job_start(lm_call *c, lm_read_job_options *o, lm_status status, lm_error *e);

/* For `document`. */
size_t      lm_read_job_count(const lm_read_job *r);
void       *lm_read_job_of(const lm_read_job *r, size_t i);
size_t      lm_read_job_tokens(const lm_read_job *r, size_t i);        /* of prompt i */
uint64_t    lm_read_job_all_tokens(const lm_read_job *r);
uint64_t    lm_read_job_cached_tokens(const lm_read_job *r);
const void *lm_read_job_own(const lm_read_job *r);
const lm_service *lm_read_job_service(const lm_read_job *r);

#endif
