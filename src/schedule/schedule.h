/* schedule.h - what the parts of a schedule have in common. Interface and threads: lamina/schedule.h.
 *
 *   ring, monitor, prefixes, budget, ensemble, durations  do not use the rest
 *   reply.c        memory and events of a request, waking its reader
 *   slot_assign.c  a request is assigned a slot and releases it
 *   preempt.c      pages for a step: eviction, then preemption
 *   admission.c    the next request to admit, and whether it fits
 *   stepping.c     the rows of a step, and its results
 *   prefix_store.c prefixes in files
 *   slot_tasks.c   tasks of other threads between steps
 *   schedule.c     the thread
 *
 * Two locks: the monitor's, of what other threads post (inbox, tasks, draining), and each reply's, of those that wait
 * for it. None is held while the other is taken, nor during a step. All else is the thread's alone, or atomic. */
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
#include "schedule/prefixes.h"
#include "runtime/engine/save.h"
#include "schedule/ring.h"

enum { LM_AROUND = 12 };                 /* tokens of an explanation, to each side */

struct lm_reply {
    /* from the request */
    lm_sequence    *sequence;            /* NULL: it has ended and its events are delivered */
    lm_sampler     *sampler;
    uint64_t        key, salt, owner;    /* hashes; of the salt without the adapters */
    float          *adapters;            /* scales; NULL: the engine has none */
    uint64_t        connection;
    int32_t         priority;
    double          deadline;            /* by base/clock.h; 0: none */
    uint32_t        wanted;              /* 1 + slot; 0: any */
    bool            no_prefix, progress, explains;
    double         *contributions;       /* [most_contributions][1 + models]: of each token; NULL: not admitted yet */
    size_t          most_contributions;  /* 0: not requested */
    uint32_t        n_models;
    atomic_size_t   n_contributions;
    void          (*wake)(void *arg);
    void           *wake_arg;
    void          (*wake_release)(void *wake_arg);       /* by the last owner */
    uint32_t        token_bytes;         /* of the ring, that a token can take at most */
    uint32_t        most_text;           /* of a record */

    /* the thread's */
    struct lm_reply *next, *previous;    /* in the queue */
    uint64_t        number;              /* of the request: order of arrival */
    uint32_t        passed;              /* number of requests that were admitted before it */
    uint64_t        held_for;            /* number of the request whose prompt it waits for; 0: none … */
    uint32_t        held_pages;          /* … until so many pages of it are there */
    bool            has_slot;            /* now */
    bool            had_slot;            /* before */
    bool            in_step;             /* for rows of this step */
    bool            over;                /* its end has been seen */
    bool            keeps;               /* its pages go into the prefix cache */
    uint32_t        slot;
    lm_prefix      *node;                /* the last page that the cache has of it; pinned */
    uint32_t        pages;               /* of it that the cache has */
    uint32_t        prompt_rows;         /* rows of its prompt in this step */
    size_t          reported;            /* of its prompt, as progress */
    double          submitted, stalled_since;            /* 0: it is not */
    double          last_token;          /* when it was delivered, after submission */
    lm_stop         stop;
    int32_t         stopped_by;      /* which stop string; -1: none */
    lm_error        error;
    lm_usage        usage;

    /* seen by the reader */
    lm_monitor     *monitor;
    atomic_uint     owners;
    lm_ring         ring;
    atomic_bool     cancelled, ended, armed, stalled, explained;
    atomic_uint     state;               /* lm_reply_state */
    atomic_uint_fast64_t read;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    atomic_int      fd;                  /* -1: none */
    bool            closed;              /* under the lock: lm_reply_free */
    lm_cache_difference difference;      /* once explained */
    lm_token        around[3][LM_AROUND];
    uint32_t        n_around[3];

    /* the reader's */
    bool            reading_record;      /* a record of the ring */
    bool            end_delivered;
};

/* A task of another thread, run between steps or beside them. Owned by the schedule: freed when it is done. */
typedef struct lm_task {
    struct lm_task   *next;
    uint32_t    slot;                    /* that has to be free; UINT32_MAX: any, emptied */
    int         action;                  /* lm_slot_action; -1: `function` */
    lm_status (*function)(void *arg, lm_engine *g, uint32_t slot, lm_error *e);
    char       *path;
    uint64_t    owner;                   /* hash of its salt … */
    bool        any_owner;               /* … which need not be the slot's */
    bool        begun;                   /* the slot is its own, and the disk's thread has it */
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
    uint32_t    n;                       /* … so many, all held by the engine */
    uint64_t    salt, owner;             /* hashes: with the adapters, without */
    bool        held;                    /* a task has it: it is not assigned and keeps what it holds */
    uint64_t    used;                    /* order */
    atomic_uint busy, n_held, n_prompt, n_tokens;        /* for readers in other threads */
} lm_slot;

/* lm_histogram, counted by any thread. */
typedef struct lm_durations { atomic_uint_fast64_t counts[LM_HISTOGRAM_COUNTS], ns; } lm_durations;

typedef struct lm_counts {
    lm_durations queue, prompt, first, between, generation, whole;
    atomic_uint_fast64_t steps, prompt_rows, written_rows, draft_rows, draft_accepted, tokens, submitted, refused, ended[8], preempted,
        stalled, prompt_tokens, cached_tokens, stored, restored, evicted, kept;
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
    lm_task            *tasks;           /* in order, until they are done */
    lm_task            *on_disk, *off_disk;          /* for the disk's thread, in order; that it is done with */
    bool                disk_ends;
    bool                draining, stopping, all_over;
    bool                cancel_all;
    uint64_t            numbers;

    /* the thread's */
    lm_reply           *first, *last;    /* those that wait, in order of arrival; those that were preempted first */
    lm_slot            *slots;           /* [slots] */
    uint32_t            n_slots;
    lm_reply          **active;          /* [n_active]: requests with a slot, in order of admission */
    uint32_t            n_active;
    uint64_t            turn;            /* order of use of slots; whose row is first */
    lm_batch            batch;
    lm_row             *rows;            /* [engine's most] */
    lm_prefixes         prefixes;
    lm_budget           budget;
    float              *adapters;        /* scales that the engine began with; NULL: it has none */
    lm_engine_ensemble  others;
    double              idle_since;
    lm_token           *scratch;         /* [context + 1] */
    uint64_t            stored_bytes;    /* in the prefix store */
    uint64_t            rest_bytes;      /* of which were written since the last step … */
    uint32_t            rest_files;      /* … in so many files, … */
    struct timespec     rest_began;      /* … the first of them at this time of day */
    lm_breaker_cache    breakers;        /* under a lock of its own, which is held while nothing else is */
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

/* Takes the arguments of hooks, also on failure. */
lm_status lm_reply_make(lm_schedule *s, const lm_request *r, lm_reply **out, lm_error *e);
void      lm_reply_open(lm_reply *r);                                    /* on admission: takes the memory that it needs, or ends it */
void      lm_reply_release_hooks(const lm_request *r);                   /* of a request that becomes no reply */
void      lm_reply_drop(lm_reply *r);                                    /* drop a reference */
void      lm_reply_collect(lm_schedule *s, lm_reply *r);                 /* its sequence's events into the ring */
void      lm_reply_notify(lm_reply *r);                                  /* wakes the reader */
uint32_t  lm_reply_capacity(const lm_reply *r, uint32_t most);           /* tokens that the ring can take, `most` at most */
void      lm_reply_conclude(lm_schedule *s, lm_reply *r);                /* it is over: usage, the end for its reader; drop a reference */

/* ---- slot_assign.c ---- */

/* Let it have the slot, which is free, and begin with what `node` has of it. */
void lm_slot_assign(lm_schedule *s, lm_reply *r, uint32_t slot, lm_prefix *node, size_t cached);

/* Release its slot. Its pages stay there as long as the slot is free, or (`preempted`) are freed. */
void lm_slot_release(lm_schedule *s, lm_reply *r, bool preempted);

/* Full pages of it into the prefix cache. */
void lm_keep_pages(lm_schedule *s, lm_reply *r);

/* Empty a free slot. */
void lm_slot_clear(lm_schedule *s, uint32_t slot);

/* The free slot used longest ago, empty ones first; UINT32_MAX: all are busy. */
uint32_t lm_slot_find_free(const lm_schedule *s);

/* Pages of a slot into the prefix cache, under a salt; the last node. */
lm_prefix *lm_keep_tokens(lm_schedule *s, uint32_t slot, uint64_t salt, const lm_token *ids, size_t n);

void lm_queue_add(lm_schedule *s, lm_reply *r, bool front);
void lm_queue_remove(lm_schedule *s, lm_reply *r);

/* ---- preempt.c ---- */

/* Free pages for the rows that the engine had none for: true if the step is to be assembled again; false if a single request has
 * all pages. */
bool lm_reclaim_pages(lm_schedule *s);

/* The same for another model's engine: a free slot is emptied, else a request is preempted. */
bool lm_reclaim_any(lm_schedule *s);

/* Empty the free slot used longest ago; false: all free slots are empty. */
bool lm_evict_free_slot(lm_schedule *s);

/* ---- admission.c ---- */

/* LM_LIMIT: the prompt can never fit. */
lm_status lm_admission_check(const lm_schedule *s, size_t n, lm_error *e);

/* Admit the requests that fit. */
void lm_admit(lm_schedule *s);

/* ---- stepping.c ---- */

/* Whether there was something to step. */
bool lm_schedule_step(lm_schedule *s);

/* Requests that ended: release their slots, notify their readers. */
void lm_schedule_collect(lm_schedule *s);

/* ---- prefix_store.c ---- */

lm_status lm_store_open(lm_schedule *s, lm_error *e);
bool      lm_store_one(lm_schedule *s);                                  /* false: there is nothing to write */
void      lm_store_last(lm_schedule *s);                                 /* at the end: as much as the store holds, and not for long */

/* ---- slot_tasks.c ---- */

lm_status lm_tasks_open(lm_schedule *s, lm_error *e);                    /* the disk's thread */
void lm_tasks_run(lm_schedule *s);                                       /* those whose slot is free: before requests are admitted */
void lm_tasks_reject(lm_schedule *s);                                    /* at the end; waits for those that the disk's thread has */
void lm_tasks_close(lm_schedule *s);

/* Whether neither a request nor a task has the slot. */
static inline bool lm_slot_idle(const lm_slot *t)
{
    return !t->reply && !t->held;
}

#endif
