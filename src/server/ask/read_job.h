/* read_job.h - prompts that are processed without generating: for embeddings and scores. They are requests of the schedule like any others,
 * a few at a time, so that no thread waits for them and other requests continue. */
#ifndef LM_SERVER_READ_JOB_H
#define LM_SERVER_READ_JOB_H

#include "server/ask/params.h"

typedef struct lm_read_job lm_read_job;

/* What happens to a text. `row` or `last`, whichever there is, is called by the thread that steps, `free`, once, by the last of it and the
 * reading. `row` sees every row, so nothing of the text comes from the cache; `last` [n_vocab] sees what comes behind the text, once. */
typedef struct lm_read_job_hook {
    lm_status (*row)(void *of, size_t position, const float *logits, const float *hidden, lm_error *e);
    lm_status (*last)(void *of, const float *logits, lm_error *e);
    void      (*free)(void *of);
    bool        logits;              /* rows have logits */
} lm_read_job_hook;

typedef struct lm_read_job_options {
    lm_prompts  prompts;
    void      **of;                  /* [prompts.n] or NULL, from malloc, and what is in it */
    int32_t     priority;            /* of the request; LM_PRIORITY_NONE: none */
    json_t     *lora;                /* the request's scales of adapters; NULL: the server's */
    lm_read_job_hook hook;
    json_t   *(*document)(const lm_read_job *r);      /* the answer, when all have been read; NULL: out of memory */
    void       *own;                 /* for `document`, from malloc; may be NULL */
} lm_read_job_options;

/* Hand the exchange over, if `status` of what filled `o` is LM_OK, else it is returned. Takes prompts, of and own, also on failure. */
lm_status lm_read_job_start(lm_call *c, lm_read_job_options *o, lm_status status, lm_error *e);

/* For `document`. */
size_t      lm_read_job_count(const lm_read_job *r);
void       *lm_read_job_of(const lm_read_job *r, size_t i);
size_t      lm_read_job_tokens(const lm_read_job *r, size_t i);        /* of text i */
uint64_t    lm_read_job_all_tokens(const lm_read_job *r);
uint64_t    lm_read_job_cached_tokens(const lm_read_job *r);
const void *lm_read_job_own(const lm_read_job *r);
const lm_service *lm_read_job_service(const lm_read_job *r);

#endif
