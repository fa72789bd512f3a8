/* traced.h - a request whose output is traced while it is generated. The tracer has its own engine, with the
 * service's weights, and the request its own schedule on that engine. So other requests are not traced and
 * cost nothing, and tokens are chosen as by the service's schedule.
 *
 * Threads: the schedule's thread traces; lm_traced_next is called by the thread that reads the reply. */
#ifndef LM_SERVER_TRACED_H
#define LM_SERVER_TRACED_H

#include "lamina/trace.h"
#include "server/models/service.h"

typedef struct lm_traced lm_traced;

/* Create it for a prompt of n_prompt tokens. It owns the tracer, also on failure, and uses the service until
 * its memory is freed. LM_NO_FIT: as many requests are traced as the service has sequences. LM_CANCELLED: the
 * server is shutting down. */
lm_status lm_traced_new(lm_service *s, lm_tracer *tracer, size_t n_prompt, bool keeps, lm_traced **out,
                        lm_error *e);

/* The schedule for its only request, whose hook on tokens is set by lm_traced_into. */
lm_schedule *lm_traced_schedule(lm_traced *t);
void         lm_traced_into(lm_traced *t, lm_request *r);

/* Return the trace of the next token of the reply, as lm_tracer_event describes it, or {"error"}; available
 * before the token's event. The caller owns it. NULL: no memory, or nothing is kept (`keeps`). */
json_t      *lm_traced_next(lm_traced *t);

/* Return why the request could not be traced, which explains its failure; LM_OK: it was. */
lm_status    lm_traced_failure(lm_traced *t, lm_error *e);

/* End the request, whose reply is not read any more; NULL: no effect. Returns at once: a thread waits for the
 * end of the current step and frees the memory. */
void         lm_traced_free(lm_traced *t);

#endif
