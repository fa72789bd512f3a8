/* workers.h - a few threads that process work from a queue, in order of arrival; small work does not wait for
 * large work. Threads: any; an item belongs to its owner, who keeps it until its work is done. */
#ifndef LM_SERVER_WORKERS_H
#define LM_SERVER_WORKERS_H

#include <stdbool.h>

#include "lamina/error.h"

typedef struct lm_workers lm_workers;

/* A piece of work, embedded in the object that it is about, which must live until it is done. Large ones
 * never occupy all threads: one is kept for the others, if there are two or more. */
typedef struct lm_work_item { struct lm_work_item *next; bool large; } lm_work_item;

lm_status lm_workers_new(uint32_t threads, uint32_t queue, void (*work)(lm_work_item *), lm_workers **out,
                         lm_error *e);

/* Process all waiting work, then end the threads and free them. */
void lm_workers_free(lm_workers *w);

/* Add work; false: the queue is full, or lm_workers_free was called. */
bool lm_workers_add(lm_workers *w, lm_work_item *item);

/* Add work regardless of the limit, if it was accepted before. */
void lm_workers_push(lm_workers *w, lm_work_item *item);

#endif
