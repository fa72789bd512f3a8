/* traced.c - traced.h: each token's trace is one list item, added by the schedule's thread and read by the
 * reader.
 *
 * Ownership. The schedule's thread takes a trace out of the tracer, and frees it after the reader has read
 * it: memory is counted by thread (lamina/heap.h), and that of the reader is its request's. The reader builds
 * the JSON, which its request holds. lm_traced_free gives everything to a thread of its own (`finish`), which
 * waits for the step that runs. */
#include "server/models/traced.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/thread.h"
#include "server/models/models.h"
#include "trace/tracejson.h"

/* The trace of a token. */
typedef struct piece {
    struct piece   *next;
    lm_trace_event *event;
    char           *error;               /* if there is no event; NULL: no memory */
} piece;

struct lm_traced {
    lm_service  *service;
    lm_tracer   *tracer;
    lm_traced_entry listed;              /* in the service's list; its schedule is of this request only */
    uint32_t     position;               /* of the next token; used by the schedule's thread */
    bool         keeps;
    pthread_mutex_t lock;
    piece       *first, **end;           /* under `lock`: not read yet */
    piece       *spent;                  /* under `lock`: read, freed by the schedule's thread */
};

static void free_pieces(piece *one)
{
    while (one) {
        piece *next = one->next;
        lm_trace_event_free(one->event);
        free(one->error);
        free(one);
        one = next;
    }
}

/* The hook on tokens. */
static void on_token(void *arg, lm_token id)
{
    lm_traced *t = arg;
    piece     *one = calloc(1, sizeof *one), *spent;
    lm_error   e;

    if (one && lm_trace_event_take(t->tracer, t->position, id, &one->event, &e) != LM_OK)
        one->error = strdup(e.message);
    t->position++;
    pthread_mutex_lock(&t->lock);
    spent    = t->spent;
    t->spent = NULL;
    if (one && t->keeps) {
        *t->end = one;
        t->end = &one->next;
    }
    pthread_mutex_unlock(&t->lock);
    free_pieces(spent);
    if (!t->keeps)
        free_pieces(one);
}

static json_t *piece_json(const lm_traced *t, const piece *one)
{
    json_t *o = NULL;

    if (one->event)
        lm_trace_event_json(t->tracer, one->event, &o, NULL);
    else if (one->error)
        o = json_pack("{s:s}", "error", one->error);
    return o;
}

json_t *lm_traced_next(lm_traced *t)
{
    pthread_mutex_lock(&t->lock);
    piece *one = t->first;
    if (one && !(t->first = one->next))
        t->end = &t->first;
    pthread_mutex_unlock(&t->lock);
    if (!one)
        return NULL;
    json_t *o = piece_json(t, one);
    pthread_mutex_lock(&t->lock);
    one->next = t->spent;
    t->spent  = one;
    pthread_mutex_unlock(&t->lock);
    return o;
}

lm_status lm_traced_failure(lm_traced *t, lm_error *e)
{
    return lm_trace_failure(t->tracer, e);
}

lm_schedule *lm_traced_schedule(lm_traced *t)
{
    return t->listed.schedule;
}

void lm_traced_into(lm_traced *t, lm_request *r)
{
    r->token = on_token;
    r->token_arg = t;
}

/* A request that is listed is drained with the service. Draining changes the state first, then reads the
 * list. */
static lm_status list(lm_traced *t, lm_error *e)
{
    lm_traced_list_add(&t->service->traced, &t->listed);
    if (lm_models_state(t->service->models, NULL) != LM_SERVICE_DRAINING)
        return LM_OK;
    lm_traced_list_remove(&t->service->traced, &t->listed);
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SERVER_ENDS);
}

/* ---- begin and end ---- */

/* Free everything, then end the uses of the service: it may be unloaded after the last of them. */
static void *finish(void *arg)
{
    lm_traced  *t = arg;
    lm_service *s = t->service;

    lm_traced_list_remove(&s->traced, &t->listed);
    if (t->listed.schedule)
        lm_schedule_free(t->listed.schedule);
    lm_tracer_free(t->tracer);
    free_pieces(t->first);
    free_pieces(t->spent);
    pthread_mutex_destroy(&t->lock);
    free(t);
    lm_models_release(s);
    lm_traced_list_leave(&s->traced);
    return NULL;
}

void lm_traced_free(lm_traced *t)
{
    pthread_t thread;

    if (!t)
        return;
    lm_engine_cancel(lm_tracer_engine(t->tracer));
    if (lm_thread_start(&thread, finish, t, "lamina-traced", 0) == 0)
        pthread_detach(thread);
    else
        finish(t);
}

lm_status lm_traced_new(lm_service *s, lm_tracer *tracer, size_t n_prompt, bool keeps, lm_traced **out,
                        lm_error *e)
{
    lm_schedule_options o = lm_schedule_defaults();
    lm_traced *t = calloc(1, sizeof *t);
    lm_status  status = t ? LM_OK : lm_fail_memory(e, "a trace", sizeof *t);

    if (status == LM_OK) {
        *t = (lm_traced){ .service = s, .tracer = tracer, .position = (uint32_t)n_prompt, .keeps = keeps };
        t->end = &t->first;
        if (!lm_traced_list_enter(&s->traced, lm_engine_sequences(s->engine)))
            status = lm_fail(e, LM_NO_FIT, "trace", LM_NO_OFFSET,
                             "%u requests are traced, which is as many as may",
                             lm_engine_sequences(s->engine));
    }
    if (status != LM_OK) {
        lm_tracer_free(tracer);
        free(t);
        return status;
    }
    pthread_mutex_init(&t->lock, NULL);
    lm_models_retain(s);
    o.queue = 1;
    o.ring_bytes = s->o.schedule.ring_bytes;
    o.stall_seconds = s->o.schedule.stall_seconds;
    o.no_prefixes = true;
    status = lm_schedule_new(lm_tracer_engine(tracer), &o, &t->listed.schedule, e);
    if (status == LM_OK)
        status = list(t, e);
    if (status == LM_OK)
        *out = t;
    else
        finish(t);
    return status;
}
