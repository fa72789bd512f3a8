/* pool.h - a fixed set of threads that run one job together.
 *
 * Workers spin briefly for the next job and then sleep. One job at a time; the caller is worker 0. Workers
 * are named lamina-1, lamina-2 … and block every signal except those that an instruction raises, so a handler
 * of the host never runs on them. */
#ifndef LM_BASE_POOL_H
#define LM_BASE_POOL_H

#include <stdbool.h>

#include "base/error.h"

typedef struct lm_pool lm_pool;

/* `threads` >= 1, including the caller. */
lm_status lm_pool_new(unsigned threads, lm_pool **out, lm_error *e);
void      lm_pool_free(lm_pool *p);
unsigned  lm_pool_threads(const lm_pool *p);

/* Run job(arg, worker, workers) once on every worker; return when all are done. Memory written by a job is
 * visible to the next one. Never allocates. */
typedef void (*lm_job)(void *arg, unsigned worker, unsigned workers);
void lm_pool_run(lm_pool *p, lm_job job, void *arg);

/* Set how many of the threads take chunks from now on; the others sleep. lm_pool_run uses all, and sets this
 * to all. */
void     lm_pool_use(lm_pool *p, unsigned threads);
unsigned lm_pool_used(const lm_pool *p);

enum { LM_POOL_CHUNKS = 0x7ffffffe };            /* maximum number of chunks of a job */

/* Run job(arg, worker, chunk) once per chunk 0 … chunks - 1, taken in ascending order by free workers; return
 * when all are done. A worker without a chunk is not waited for: one that is not scheduled delays nothing. */
typedef void (*lm_chunk_job)(void *arg, unsigned worker, unsigned chunk);
void lm_pool_run_chunks(lm_pool *p, lm_chunk_job job, void *arg, unsigned chunks);

/* Set what a worker does while it waits and does not sleep yet: idle(arg, worker), repeatedly until it
 * returns false or there is work; a call must take well below a microsecond. Set it while no job runs. */
typedef bool (*lm_idle)(void *arg, unsigned worker);
void lm_pool_idle(lm_pool *p, lm_idle idle, void *arg);

/* For jobs: split items [0, n) into `workers` contiguous chunks whose boundaries are multiples of `grain`. */
void lm_pool_range(uint64_t n, uint64_t grain, unsigned worker, unsigned workers, uint64_t *from,
                   uint64_t *to);

#endif
