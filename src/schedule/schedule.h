/* schedule.h - what the parts of a schedule share. What it is and who may call what: lamina/schedule.h.
 *
 *   ring, bell, prefixes, budget, others, durations       know nothing of the rest
 *   reply.c        a request's memory, its events, who waits for them
 *   placing.c      a text gets a slot and gives it back
 *   room.c         pages where there are none: what others kept, then texts
 *   admission.c    who is next, and whether it fits
 *   stepping.c     the rows of a step, and what came of them
 *   prefix_store.c prefixes in files
 *   slots.c        what other threads want done between steps
 *   schedule.c     the thread
 *
 * Two locks: the bell's, of what other threads hand over (inbox, errands, draining), and each reply's, of those that wait
 * for it. None is held while the other is taken, nor during a step. All else is the thread's alone, or atomic. */
#ifndef LM_SCHEDULE_SCHEDULE_H
#define LM_SCHEDULE_SCHEDULE_H

#include "lamina/schedule.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/state.h"
#include "runtime/generate/sequence.h"
#include "schedule/bell.h"
#include "schedule/budget.h"
#include "schedule/others.h"
#include "runtime/sample/sampler.h"
#include "schedule/prefixes.h"
#include "runtime/engine/save.h"
#include "schedule/ring.h"

enum { LM_AROUND = 12 };                 /* tokens of an explanation, to each side */

struct lm_reply {
    /* as it was asked for */
    lm_sequence    *sequence;            /* NULL: the text has ended and is told */
    lm_sampler     *sampler;
    uint64_t        key, salt, owner;    /* hashes; of the salt without the adapters */
    float          *adapters;            /* scales; NULL: the engine has none */
    uint64_t        connection;
    int32_t         priority;
    double          deadline;            /* by base/clock.h; 0: none */
    uint32_t        wanted;              /* 1 + slot; 0: any */
    bool            no_prefix, progress, explains;
    double         *contributions;       /* [most_contributions][1 + models]: of each token; NULL: not let in yet */
    size_t          most_contributions;  /* 0: nobody asked */
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
    uint32_t        passed;              /* times that others were let in before it */
    uint64_t        held_for;            /* number of the request whose prompt it waits for; 0: none … */
    uint32_t        held_pages;          /* … until so many pages of it are there */
    bool            placed;              /* it has a slot */
    bool            was_placed;          /* it has had one */
    bool            in_step;             /* for rows of this step */
    bool            over;                /* its end has been seen */
    bool            keeps;               /* its pages go into the prefix cache */
    uint32_t        slot;
    lm_prefix      *node;                /* the last page that the cache has of it; pinned */
    uint32_t        pages;               /* of it that the cache has */
    uint32_t        share;               /* rows of its prompt in this step */
    size_t          told;                /* of its prompt, as progress */
    double          submitted, stalled_since;            /* 0: it is not */
    double          last_token;          /* when it was told, after submission */
    lm_stop         stop;
    int32_t         stopped_by;      /* which stop string; -1: none */
    lm_error        error;
    lm_usage        usage;

    /* seen by the reader */
    lm_bell        *bell;
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
    bool            looks;               /* at a record */
    bool            end_told;
};

/* What other threads want done between steps, or beside them. The schedule's: freed when it is done. */
typedef struct lm_errand {
    struct lm_errand *next;
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
} lm_errand;

/* A sequence of the engine. */
typedef struct lm_seat {
    lm_reply   *reply;                   /* NULL: free */
    lm_token   *ids;                     /* [context + 1]: what a text left here … */
    uint32_t    n;                       /* … so many, all held by the engine */
    uint64_t    salt, owner;             /* hashes: with the adapters, without */
    bool        held;                    /* an errand has it: no text, and what it holds stays */
    uint64_t    used;                    /* order */
    atomic_uint busy, n_held, n_prompt, n_tokens;        /* as told */
} lm_seat;

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
    pthread_cond_t      disk_work;       /* with the bell's lock */
    lm_bell            *bell;

    /* under the bell's lock */
    lm_reply           *inbox, **inbox_end;
    lm_errand          *errands;         /* in order, until they are done */
    lm_errand          *on_disk, *off_disk;          /* for the disk's thread, in order; that it is done with */
    bool                disk_ends;
    bool                draining, stopping, all_over;
    bool                cancel_all;
    uint64_t            numbers;

    /* the thread's */
    lm_reply           *first, *last;    /* those that wait, in order of arrival; those that were preempted first */
    lm_seat            *seats;           /* [slots] */
    uint32_t            n_seats;
    lm_reply          **texts;           /* [n_texts]: those with slots, as they were let in */
    uint32_t            n_texts;
    uint64_t            turn;            /* order of use of seats; whose row is first */
    lm_batch            batch;
    lm_row             *rows;            /* [engine's most] */
    lm_prefixes         prefixes;
    lm_budget           budget;
    float              *adapters;        /* scales that the engine began with; NULL: it has none */
    lm_others           others;
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
void      lm_reply_open(lm_reply *r);                                    /* it is let in: the memory that it needs for that, or its end */
void      lm_reply_release_hooks(const lm_request *r);                   /* of a request that becomes no reply */
void      lm_reply_drop(lm_reply *r);                                    /* one owner less */
void      lm_reply_listen(lm_schedule *s, lm_reply *r);                  /* its sequence's events into the ring */
void      lm_reply_tell(lm_reply *r);                                    /* whoever waits for them */
uint32_t  lm_reply_room(const lm_reply *r, uint32_t most);               /* tokens that the ring can take, `most` at most */
void      lm_reply_conclude(lm_schedule *s, lm_reply *r);                /* it is over: usage, the end for its reader; one owner less */

/* ---- placing.c ---- */

/* Let it have the slot, which is free, and begin with what `node` has of it. */
void lm_place(lm_schedule *s, lm_reply *r, uint32_t slot, lm_prefix *node, size_t cached);

/* It gives its slot back. What it left there stays as a leftover, or (`preempted`) goes. */
void lm_unplace(lm_schedule *s, lm_reply *r, bool preempted);

/* Full pages of it into the prefix cache. */
void lm_keep_pages(lm_schedule *s, lm_reply *r);

/* What the free seat's last text left goes. */
void lm_seat_clear(lm_schedule *s, uint32_t slot);

/* The free seat used longest ago, empty ones first; UINT32_MAX: all are busy. */
uint32_t lm_seat_free(const lm_schedule *s);

/* Pages of a slot into the prefix cache, under a salt; the last node. */
lm_prefix *lm_keep_tokens(lm_schedule *s, uint32_t slot, uint64_t salt, const lm_token *ids, size_t n);

void lm_queue_add(lm_schedule *s, lm_reply *r, bool front);
void lm_queue_remove(lm_schedule *s, lm_reply *r);

/* ---- room.c ---- */

/* Pages for the rows that the engine had none for: true when they are to be put together again; false when a single text has
 * all there are. */
bool lm_make_room(lm_schedule *s);

/* The same for another model's engine: what a free slot holds goes, then a text. */
bool lm_make_room_anywhere(lm_schedule *s);

/* What the free slot used longest ago still holds goes; false: none holds anything. */
bool lm_clear_leftover(lm_schedule *s);

/* ---- admission.c ---- */

/* LM_LIMIT: the prompt can never fit. */
lm_status lm_admission_check(const lm_schedule *s, size_t n, lm_error *e);

/* Those that may be, are let in. */
void lm_admit(lm_schedule *s);

/* ---- stepping.c ---- */

/* Whether there was something to step. */
bool lm_schedule_step(lm_schedule *s);

/* What ended since: slots given back, readers told. */
void lm_schedule_collect(lm_schedule *s);

/* ---- prefix_store.c ---- */

lm_status lm_store_open(lm_schedule *s, lm_error *e);
bool      lm_store_one(lm_schedule *s);                                  /* false: there is nothing to write */
void      lm_store_last(lm_schedule *s);                                 /* at the end: as much as the store holds, and not for long */

/* ---- slots.c ---- */

lm_status lm_errands_open(lm_schedule *s, lm_error *e);                  /* the disk's thread */
void lm_errands_run(lm_schedule *s);                                     /* those whose slot is free: before others are let in */
void lm_errands_refuse(lm_schedule *s);                                  /* at the end; what the disk's thread has is waited for */
void lm_errands_close(lm_schedule *s);

/* A slot that nobody has. */
static inline bool lm_seat_idle(const lm_seat *t)
{
    return !t->reply && !t->held;
}

#endif
