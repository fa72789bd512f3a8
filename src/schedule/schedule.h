/* schedule.h - shared declarations of the schedule's parts. Interface and threads: lamina/schedule.h.
 *
 *   ring, monitor, prefixes, budget, ensemble, durations  do not use the rest
 *   reply.c        memory and events of a request, waking its reader
 *   slot_assign.c  assigning slots to requests, and releasing them
 *   preempt.c      pages for a step: eviction, then preemption
 *   admission.c    the next request to admit, and whether it fits
 *   stepping.c     the rows of a step, and its results
 *   prefix_store.c prefixes in files
 *   slot_tasks.c   tasks of other threads between steps
 *   schedule.c     the thread
 *
 * The monitor's lock protects what other threads post (inbox, tasks, draining); each reply's lock protects
 * its waiting readers. No thread takes one while it holds the other, or holds one during a step. Everything
 * else belongs to the schedule's thread, or is atomic. */
#ifndef LM_SCHEDULE_SCHEDULE_H
#define LM_SCHEDULE_SCHEDULE_H

#include "lamina/schedule.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/state.h"
#include "runtime/generate/sequence.h"
#include "schedule/monitor.h"
#include "schedule/budget.h"
#include "schedule/ensemble.h"
#include "runtime/sample/sampler.h"
#include "runtime/engine/prefixes.h"
#include "runtime/engine/save.h"
#include "schedule/ring.h"

/* The message of requests and tasks that are rejected while the schedule ends, as src/server words it. */
#define LM_SHUTTING_DOWN "the server is shutting down"

enum { LM_AROUND = 12 };                 /* tokens on each side, for lm_reply_explain */

struct lm_reply {
    /* from the request */
    lm_sequence    *sequence;            /* NULL: it has ended and its events are in the ring */
    lm_sampler     *sampler;
    uint64_t        key, salt, owner;    /* hashes; `owner`: the salt without the adapters */
    float          *adapters;            /* scales; NULL: the engine has none */
    uint64_t        connection;
    int32_t         priority;
    double          deadline;            /* by base/os/clock.h; 0: none */
    uint32_t        wanted;              /* 1 + slot; 0: any */
    bool            no_prefix, progress, explains;
    double         *contributions;       /* [max_contributions][1 + models], per token; NULL: not admitted
                                            yet */
    size_t          max_contributions;   /* 0: not requested */
    uint32_t        n_models;
    atomic_size_t   n_contributions;
    void          (*wake)(void *arg);
    void           *wake_arg;
    void          (*wake_release)(void *wake_arg);       /* called by the last owner */
    void          (*token)(void *arg, lm_token id);
    void           *token_arg;
    void          (*token_release)(void *token_arg);     /* likewise */
    uint32_t        token_bytes;         /* maximum bytes of a token in the ring */
    uint32_t        max_text;            /* maximum bytes of text in a record */

    /* used by the schedule's thread */
    struct lm_reply *next, *previous;    /* in the queue */
    uint64_t        number;              /* of the request: order of arrival */
    uint32_t        passed;              /* number of requests behind it that were admitted first */
    uint64_t        held_for;            /* number of the request whose prompt it waits for; 0: none … */
    uint32_t        held_pages;          /* … until so many pages of it are in the prefix cache */
    bool            has_slot;            /* now */
    bool            had_slot;            /* before */
    bool            in_step;             /* has rows in this step */
    bool            over;                /* its end event has been collected */
    bool            keeps;               /* its pages go into the prefix cache */
    uint32_t        slot;
    lm_prefix      *node;                /* its last page in the prefix cache; pinned */
    uint32_t        pages;               /* number of its pages in the prefix cache */
    uint32_t        prompt_rows;         /* rows of its prompt in this step */
    size_t          reported;            /* prompt tokens reported as progress */
    double          submitted, stalled_since;            /* stalled_since 0: not stalled */
    double          last_token;          /* seconds from submission to the last token */
    lm_stop         stop;
    int32_t         stopped_by;      /* which stop string; -1: none */
    lm_error        error;
    lm_usage        usage;

    /* shared with the reader */
    lm_monitor     *monitor;
    atomic_uint     owners;
    lm_ring         ring;
    atomic_bool     cancelled, ended, armed, stalled, explained;
    atomic_uint     state;               /* lm_reply_state */
    atomic_uint_fast64_t read;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    atomic_int      fd;                  /* -1: none */
    bool            closed;              /* set by lm_reply_free, under `lock` */
    lm_cache_difference difference;      /* once explained */
    lm_token        around[3][LM_AROUND];
    uint32_t        n_around[3];

    /* used by the reader */
    bool            reading_record;      /* the last event is a record of the ring */
    bool            end_delivered;
};

/* A task of another thread, run between steps or concurrently with them. Owned by the schedule, which frees
 * it when it is done. */
typedef struct lm_task {
    struct lm_task   *next;
    uint32_t    slot;                    /* it must be free; UINT32_MAX: any, emptied */
    int         action;                  /* lm_slot_action; -1: `function` */
    lm_status (*function)(void *arg, lm_engine *g, uint32_t slot, lm_error *e);
    char       *path;
    uint64_t    owner;                   /* hash of its salt … */
    bool        any_owner;               /* … which need not be the slot's */
    bool        begun;                   /* the slot is held for it; the disk thread writes or fills the
                                            pages */
    lm_restoring *restoring;             /* NULL until the head of the file has been read */
    void      (*done)(void *arg, lm_status status, size_t n, const lm_error *error);
    void      (*release)(void *arg);
    void       *arg;
    size_t      n;
    lm_error    error;
    lm_status   status;
} lm_task;

/* A sequence of the engine. */
typedef struct lm_slot {
    lm_reply   *reply;                   /* NULL: free */
    lm_token   *ids;                     /* [context + 1]: tokens of the last request … */
    uint32_t    n;                       /* … number of them, all held by the engine */
    uint64_t    salt;                    /* hash of the owner and the adapters */
    atomic_uint_fast64_t owner;          /* lm_prefixes_salt of the last request's salt; also for readers */
    bool        held;                    /* for a task: it is not assigned, and its content stays */
    uint64_t    used;                    /* order of use */
    atomic_uint busy, n_held, n_prompt, n_tokens;        /* for readers in other threads */
} lm_slot;

/* An lm_histogram to which any thread can add. */
typedef struct lm_durations { atomic_uint_fast64_t counts[LM_HISTOGRAM_COUNTS], ns; } lm_durations;

typedef struct lm_counts {
    lm_durations queue, prompt, first, between, generation, whole;
    atomic_uint_fast64_t steps, prompt_rows, written_rows, draft_rows, draft_accepted, tokens, submitted,
        refused, ended[8], preempted, stalled, prompt_tokens, cached_tokens, stored, restored, evicted, kept;
    atomic_uint_fast64_t step_ns, queue_ns, first_ns, target_ns;
    atomic_uint          waiting, reading, writing, budget;
} lm_counts;

struct lm_schedule {
    lm_engine          *g;
    const lm_tokenizer *tokenizer;
    uint32_t            n_vocab, longest_piece;
    lm_schedule_options o;               /* strings copied, defaults filled in */
    char                fingerprint[24];
    pthread_t           thread, disk;
    bool                running, has_disk;
    pthread_cond_t      disk_work;       /* with the monitor's lock */
    lm_monitor         *monitor;

    /* under the monitor's lock */
    lm_reply           *inbox, **inbox_end;
    lm_task            *tasks;           /* in order, until they begin */
    lm_task            *on_disk, *off_disk;          /* waiting for the disk thread, in order; finished by
                                                        it */
    bool                disk_ends;
    bool                draining, stopping, all_over;
    bool                cancel_all;
    uint64_t            numbers;

    /* used by the schedule's thread */
    lm_reply           *first, *last;    /* waiting requests: preempted ones first, the others in order of
                                            arrival */
    lm_slot            *slots;           /* [slots] */
    uint32_t            n_slots;
    lm_reply          **active;          /* [n_active]: requests with a slot, in order of admission */
    uint32_t            n_active;
    uint64_t            turn;            /* counts uses of slots and steps; rotates the order of rows */
    lm_batch            batch;
    lm_row             *rows;            /* [lm_engine_max_rows] */
    lm_prefixes         prefixes;
    lm_budget           budget;
    float              *adapters;        /* initial scales of the engine; NULL: it has no adapters */
    lm_engine_ensemble  others;
    double              idle_since;
    lm_token           *scratch;         /* [context + 1] */
    uint64_t            stored_bytes;    /* in the prefix store */
    uint64_t            rest_bytes;      /* of which were written since the last step … */
    uint32_t            rest_files;      /* … number of these files … */
    struct timespec     rest_began;      /* … CLOCK_REALTIME of the first */
    lm_breaker_cache    breakers;        /* has its own lock, never held together with another */
    lm_counts           counts;
};

static inline void lm_count(atomic_uint_fast64_t *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* ---- durations.c ---- */

void lm_durations_add(lm_durations *d, double seconds);
lm_histogram lm_durations_now(const lm_durations *d);

/* ---- reply.c ---- */

/* Make the reply of a request. Takes ownership of the arguments of hooks, also on failure. */
lm_status lm_reply_make(lm_schedule *s, const lm_request *r, lm_reply **out, lm_error *e);
/* on admission: allocate its memory, or end it */
void      lm_reply_open(lm_reply *r);
void      lm_reply_release_hooks(const lm_request *r);                   /* of a request without a reply */
void      lm_reply_drop(lm_reply *r);                                    /* drop a reference */
/* move its sequence's events into the ring */
void      lm_reply_collect(lm_schedule *s, lm_reply *r);
void      lm_reply_notify(lm_reply *r);                                  /* wake the reader */
/* tokens that fit into the ring, up to `max` */
uint32_t  lm_reply_capacity(const lm_reply *r, uint32_t max);
/* set its usage, notify the reader of the end, drop a reference */
void      lm_reply_conclude(lm_schedule *s, lm_reply *r);

/* ---- slot_assign.c ---- */

/* Assign a free slot to the request. It begins with its first `cached` tokens, from the pages of `node`
 * (NULL: none). */
void lm_slot_assign(lm_schedule *s, lm_reply *r, uint32_t slot, lm_prefix *node, size_t cached);

/* Release its slot. Its pages stay in the free slot until they are needed; `preempted`: they are freed
 * now. */
void lm_slot_release(lm_schedule *s, lm_reply *r, bool preempted);

/* Add its full pages to the prefix cache. */
void lm_keep_pages(lm_schedule *s, lm_reply *r);

/* Empty a free slot. */
void lm_slot_clear(lm_schedule *s, uint32_t slot);

/* The free slot used longest ago, empty ones first; UINT32_MAX: all are busy. */
uint32_t lm_slot_find_free(const lm_schedule *s);

/* Add the full pages of a slot, which hold these tokens, to the prefix cache under a salt. Returns the last
 * node; NULL: none. */
lm_prefix *lm_keep_tokens(lm_schedule *s, uint32_t slot, uint64_t salt, const lm_token *ids, size_t n);

void lm_queue_add(lm_schedule *s, lm_reply *r, bool front);
void lm_queue_remove(lm_schedule *s, lm_reply *r);

/* ---- preempt.c ---- */

/* Preempt a request; false: there is none. Unless `last`, the oldest one of the highest priority stays while
 * its reader keeps up: it ends, and then the next one is the oldest. */
bool lm_preempt(lm_schedule *s, bool last);

/* Free the pages that the rows of the failed step lacked. Returns true if the step is to be assembled again;
 * false if a single request has all pages and is not preempted (`last`: lm_preempt). */
bool lm_reclaim_pages(lm_schedule *s, bool last);

/* The same for another model's engine: empty a free slot, otherwise preempt a request. */
bool lm_reclaim_any(lm_schedule *s);

/* Empty the free slot used longest ago; false: all free slots are empty. */
bool lm_evict_free_slot(lm_schedule *s);

/* ---- admission.c ---- */

/* LM_LIMIT: the prompt can never fit. */
lm_status lm_admission_check(const lm_schedule *s, size_t n, lm_error *e);

/* Admit the requests that fit. */
void lm_admit(lm_schedule *s);

/* ---- stepping.c ---- */

/* Run a step. Returns false if it had no rows and no request ended. */
bool lm_schedule_step(lm_schedule *s);

/* Release the slots of requests that ended, and notify their readers. */
void lm_schedule_collect(lm_schedule *s);

/* ---- prefix_store.c ---- */

lm_status lm_store_open(lm_schedule *s, lm_error *e);
/* write one prefix; false: none, or the store is full */
bool      lm_store_one(lm_schedule *s);
/* at the end: as many as the store holds, for a few seconds */
void      lm_store_last(lm_schedule *s);

/* ---- slot_tasks.c ---- */

lm_status lm_tasks_open(lm_schedule *s, lm_error *e);                    /* start the disk thread */
/* tasks whose slot is free; before requests are admitted */
void lm_tasks_run(lm_schedule *s);
/* at the end: finish those of the disk thread, reject the rest */
void lm_tasks_reject(lm_schedule *s);
void lm_tasks_close(lm_schedule *s);

/* Whether neither a request nor a task has the slot. */
static inline bool lm_slot_idle(const lm_slot *t)
{
    return !t->reply && !t->held;
}

#endif
