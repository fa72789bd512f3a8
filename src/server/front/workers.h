/* workers.h - a few threads that take work from a queue, in the order in which it came. */
#ifndef LM_SERVER_WORKERS_H
#define LM_SERVER_WORKERS_H

#include <stdbool.h>

#include "lamina/error.h"

typedef struct lm_workers lm_workers;

/* One piece of work, part of what it is about: lives until it has been done. */
typedef struct lm_work_item { struct lm_work_item *next; } lm_work_item;

lm_status lm_workers_new(uint32_t threads, uint32_t queue, void (*work)(lm_work_item *), lm_workers **out, lm_error *e);

/* What waits is done first. */
void lm_workers_free(lm_workers *w);

/* False: as many wait already as may. */
bool lm_workers_add(lm_workers *w, lm_work_item *item);

/* The same however many wait: what was let in before. */
void lm_workers_push(lm_workers *w, lm_work_item *item);

#endif
