/* schedule.h - many sequences on one engine: requests are submitted, each has a reply, and a separate thread
 * steps the engine.
 *
 *   lm_schedule_new(g, NULL, &s, &e);                 the schedule uses the engine until lm_schedule_free
 *   lm_request r = { .prompt = ids, .n_prompt = n, .sequence = { .max_tokens = 100 } };
 *   lm_schedule_submit(s, &r, &reply, &e);            from any thread, while the queue has room
 *   while (lm_reply_wait(reply, -1, &event) && event.kind != LM_EVENT_END)
 *       …                                             from any thread, one at a time per reply
 *   lm_reply_free(reply);                             cancels an unfinished request
 *
 * Steps. A step contains the next row of every generating sequence (with draft tokens if few sequences run),
 * then as many prompt rows as keep the time between two tokens of the others near `itl_target`. Prompts are
 * processed in the order of admission; the oldest gets half of the rows and the others share the rest, so a
 * long prompt does not delay short ones.
 *
 * Admission. Each sequence needs a slot (a sequence of the engine) and pages of its cache. lm_schedule_submit
 * rejects a request whose prompt can never fit. Other requests wait for a slot and pages. The waiting request
 * with the highest priority is admitted first; among equals the one whose key, then whose connection, has the
 * fewest sequences in slots, then the earliest. A request that was passed LM_SCHEDULE_PASSED times is next,
 * whatever its key and priority. A request whose prompt has the same prefix as one that is being processed
 * waits for what that one adds to the prefix cache. An admitted request never fails because the cache is
 * full: the newest one is preempted and recomputed. Only a sequence that is alone and fills the whole cache
 * ends, with LM_STOP_CONTEXT.
 *
 * Prefix cache. Full pages of processed and generated tokens stay in the cache until room is needed, in a
 * tree keyed by tokens. Requests with the same prefix and `salt` share them. The least recently used pages
 * are evicted first, and before them pages that no second request has used, so single requests do not evict a
 * prefix that many turns share.
 *
 * Reproducibility. The result of a request depends only on its prompt, its options, and the engine's model
 * and options: not on other requests, their order, preemption, draft tokens, the cache, the number of
 * threads, or a restart. lm_schedule_fingerprint identifies what it depends on.
 *
 * Threads. lm_schedule_submit, _check, _describe, _fingerprint, _drain and the slot functions may be called
 * by any thread at any time; lm_schedule_free once, when none of them runs. A reply is read by one thread at
 * a time; lm_reply_cancel and lm_reply_status may be called by any thread. Hooks of requests
 * (`sequence.logits`, `wake`) are called by threads of the schedule: they must not call this schedule, and
 * must not block.
 *
 * After fork the child has no such thread: requests are rejected with LM_FAILED, and nothing waits.
 *
 * Memory. A waiting request holds its prompt, its options and its ring. What grows with the vocabulary or the
 * context is allocated at admission; if that fails, the request ends with LM_STOP_FAILED and LM_NO_MEMORY.
 * All of it is freed at the end of the request, the ring by lm_reply_free. Steps allocate nothing. */
#ifndef LAMINA_SCHEDULE_H
#define LAMINA_SCHEDULE_H

#include "lamina/mixture.h"
#include "lamina/sequence.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LM_SCHEDULE_PASSED 64        /* how many later requests may be admitted before an earlier one */

/* Further models of an ensemble: each token is chosen by all models together. */
typedef struct lm_schedule_others {
    lm_engine *const *engines;       /* [mixture.n - 1], used by this schedule only; with at least the
                                        context, sequences, rows and rows with logits of the schedule's
                                        engine */
    lm_mixture mixture;              /* prepared; the schedule's engine is the first model */
    uint64_t   reserved[4];          /* zero */
} lm_schedule_others;

/* All zero: the defaults. */
typedef struct lm_schedule_options {
    uint32_t    queue;               /* requests that may wait; 0: 512 */
    uint32_t    ring_bytes;          /* size of a reply's ring of unread events; 0: 32768. At least the size
                                        of eight tokens */
    double      itl_target;          /* target seconds between two tokens while prompts are processed; 0:
                                        twice the measured time of a step without prompts. At least 8 prompt
                                        rows per step */
    double      stall_seconds;       /* a request ends if its ring is full and not read for this long; 0:
                                        30 */
    bool        no_prefixes;         /* no prefix cache */
    uint64_t    prefix_bytes;        /* pages kept for later requests only; 0: the whole cache */
    const char *prefix_store;        /* folder (created if missing) to which prefixes are written when the
                                        schedule is idle and at the end (for a few seconds, last used first),
                                        and from which they are read at the start: files with checksums
                                        (lm_engine_save), bound to model and build; others are skipped. It
                                        contains users' text. NULL: none */
    uint64_t    store_bytes;         /* maximum size of that folder; 0: 1 GiB. The oldest files are deleted */
    lm_engine  *draft_engine;        /* draft model for requests with `draft`, with as many sequences; also
                                        used by this schedule only */
    uint32_t    draft_sequences;     /* no draft tokens in steps with more generating sequences than this; 0:
                                        4. Each draft token takes one of the engine's `max_logits` */
    lm_log      log;                 /* messages of the prefix store; called by lm_schedule_new and the
                                        schedule's thread */
    /* Ensemble: each step runs the same rows in all of these engines; samplers, hooks and log-probabilities
     * use the mixture like the logits of one model. Disables the prefix cache; slots cannot be saved or
     * restored (LM_UNSUPPORTED). Copied, except the engines. NULL: one model. */
    const lm_schedule_others *others;
    uint64_t    reserved[7];         /* zero */
} lm_schedule_options;

lm_schedule_options lm_schedule_defaults(void);

typedef struct lm_schedule lm_schedule;
typedef struct lm_reply    lm_reply;

/* Create a schedule. `g`, its model, the draft engine and those of `others` must outlive it and must not be
 * used otherwise; their sequences are emptied. LM_USAGE: the draft engine or `others` have fewer sequences,
 * less room or different tokens (lm_draft_fits). LM_IO: the prefix store cannot be created. */
lm_status lm_schedule_new(lm_engine *g, const lm_schedule_options *o, lm_schedule **out, lm_error *e);

/* End every request with LM_STOP_CANCELLED, write prefixes to the store, join the thread and free the
 * schedule. Replies may be read and freed afterwards. */
void      lm_schedule_free(lm_schedule *s);

/* Accept no more requests (LM_CANCELLED); waiting ones end at once, with LM_STOP_FAILED and LM_CANCELLED.
 * Returns true when all others have ended. After `seconds` (negative: no limit) they are cancelled and it
 * returns false. */
bool      lm_schedule_drain(lm_schedule *s, double seconds);

/* Return "fp_" and 16 hexadecimal digits: a hash of everything that determines results: the model's files and
 * options, the build, the arithmetic, the instruction set, the cache type, the adapters. The same request
 * with the same fingerprint gives the same tokens. Valid until lm_schedule_free. */
const char *lm_schedule_fingerprint(const lm_schedule *s);

/* ---- requests ---- */

/* Pointed-to data is copied, except functions and their arguments. lm_schedule_submit takes ownership of
 * `sequence.logits_arg`, `sequence.row_arg`, `wake_arg` and `token_arg`: each is passed to its release
 * function exactly once, when its hook will not be called again, even if there is no reply. */
typedef struct lm_request {
    const lm_token *prompt;          /* [n_prompt] */
    size_t          n_prompt;
    lm_sequence_options sequence;    /* limits, stops, log-probabilities, hooks, draft_ngram, `draw`.
                                        `sequence`, draft_engine and draft_sequence must be zero: the schedule
                                        sets them. Hooks of one sequence are called by one thread at a time,
                                        hooks of different sequences concurrently */
    const lm_sampler_options *sampler;   /* options for lm_sampler_new; NULL: the defaults */
    bool            draft;           /* use the schedule's draft engine */
    const char     *key;             /* owner; slots are divided evenly among keys, then connections. NULL:
                                        "" */
    uint64_t        connection;
    const char     *salt;            /* prefixes are shared among requests with the same salt; NULL: "" */
    int32_t         priority;        /* higher priorities are admitted first */
    double          deadline;        /* seconds until the request ends with LM_STOP_FAILED and LM_LIMIT; 0:
                                        none */
    uint32_t        wanted_slot;     /* 1 + the required slot; 0: any */
    bool            no_prefix;       /* do not use or fill the prefix cache */
    bool            progress;        /* send LM_EVENT_PROMPT events */
    bool            explain_cache;   /* enable lm_reply_explain */
    bool            contributions;   /* enable lm_reply_contribution; LM_USAGE without `others` */
    /* Called after new events arrived since lm_reply_next last returned false; may be NULL. There may be one
     * spurious call. Called by a thread of the schedule, never after lm_reply_free has returned. */
    void          (*wake)(void *arg);
    void           *wake_arg;
    const float    *adapters;        /* scales of the engine's adapters, [lm_engine_n_adapters]; NULL: the
                                        initial ones. Sequences of one step may have different scales;
                                        prefixes are shared among those with equal scales */
    void          (*wake_release)(void *wake_arg);   /* called at the later of lm_reply_free and the end of
                                                        the request; NULL: nothing
                                        to release */
    /* Called by a thread of the schedule with each chosen token, in order, before the reply has it; the
     * engine's last step contains the row that it was chosen from. A hook like those of `sequence`, except
     * that it may be slow: the schedule waits meanwhile. NULL: none. */
    void          (*token)(void *arg, lm_token id);
    void           *token_arg;
    void          (*token_release)(void *token_arg);     /* called when the request has ended and its reply is
                                                            freed; NULL: nothing to
                                        release */
    uint64_t        reserved[3];     /* zero */
} lm_request;

/* Submit a request. *out belongs to the caller. On failure there is no reply:
 *   LM_LIMIT      the prompt can never fit in the context or the cache; the message has both numbers
 *   LM_NO_FIT     the queue is full: try later
 *   LM_CANCELLED  the schedule is draining
 *   LM_USAGE      as lm_sequence_new, lm_sequence_prompt and lm_sampler_new
 *   LM_NO_MEMORY */
lm_status lm_schedule_submit(lm_schedule *s, const lm_request *r, lm_reply **out, lm_error *e);

/* Check whether lm_schedule_submit would reject a prompt of n_prompt tokens now: LM_LIMIT, LM_NO_FIT or
 * LM_CANCELLED. Call it before expensive work for a request. */
lm_status lm_schedule_check(lm_schedule *s, size_t n_prompt, lm_error *e);

/* ---- replies ---- */

/* Resources used by a request. */
typedef struct lm_usage {
    uint64_t n_prompt, n_cached;     /* prompt tokens; of which from the prefix cache */
    uint64_t n_tokens;               /* generated tokens, including the one that ended the request */
    uint64_t n_drafted, n_accepted;  /* draft tokens; of which accepted */
    uint64_t preempted;              /* number of preemptions */
    uint32_t slot;
    double   queue_seconds;          /* until admission */
    double   first_seconds;          /* until the first token; 0: none */
    double   seconds;                /* until the end; all times are counted from lm_schedule_submit */
    uint64_t reserved[4];            /* zero */
} lm_usage;

typedef struct lm_reply_event {
    lm_event        event;           /* as of a sequence, except LM_EVENT_CHOICE; text may come in smaller
                                        pieces of whole characters */
    const lm_usage *usage;           /* with LM_EVENT_END, valid until lm_reply_free; otherwise NULL */
    uint64_t        reserved[4];     /* zero */
} lm_reply_event;

/* Return the next event, valid until the next call for this reply or lm_reply_free; false: none now.
 * LM_EVENT_END is the last event; after it always false. Never waits. A slow reader delays only its own
 * request. */
bool lm_reply_next(lm_reply *r, lm_reply_event *out);

/* As lm_reply_next, but wait up to `seconds` (negative: no limit); false also after LM_EVENT_END. */
bool lm_reply_wait(lm_reply *r, double seconds, lm_reply_event *out);

/* Return a file descriptor (eventfd) for poll: readable after new events arrived since lm_reply_next last
 * returned false, which resets it. Created by the first call, closed by lm_reply_free. -1: it could not be
 * created. */
int  lm_reply_fd(lm_reply *r);

/* Cancel a request: at once while it waits, otherwise before the next step. Earlier events can still be
 * read. */
void lm_reply_cancel(lm_reply *r);

/* Free the reply; cancels an unfinished request. */
void lm_reply_free(lm_reply *r);

typedef enum lm_reply_state {
    LM_REPLY_WAITS,                  /* in the queue */
    LM_REPLY_READS,                  /* its prompt is being processed */
    LM_REPLY_WRITES,
    LM_REPLY_PREEMPTED,              /* preempted: waits for pages */
    LM_REPLY_STALLED,                /* it waits for its reader */
    LM_REPLY_ENDED,
} lm_reply_state;

/* Return the state at the end of the last step. *read (may be NULL): processed prompt tokens. */
lm_reply_state lm_reply_status(const lm_reply *r, size_t *read);

/* Where the prompt first differed from the cached prefix with its salt, for admitted requests with
 * `explain_cache`. */
typedef struct lm_cache_difference {
    size_t cached;                   /* tokens taken from the cache: whole pages */
    size_t same;                     /* tokens equal to the cached prefix: the prompt differs from here on */
    bool   whole;                    /* the whole prompt was cached */
    bool   known;                    /* the cache continues with other tokens; false: it ends at `same` */
    uint64_t reserved[4];            /* zero */
} lm_cache_difference;

/* Append the text around token `same`, a few tokens on both sides, decoded with model `m`: the common text
 * before it, the continuation of the prompt, and that of the cached prefix (each may be NULL). LM_USAGE: not
 * requested, or not yet admitted. */
lm_status lm_reply_explain(const lm_reply *r, const lm_model *m, lm_cache_difference *out, lm_text *before,
                           lm_text *prompt, lm_text *cached, lm_error *e);

/* Write the log-probability of generated token `i` (from 0) to `logprobs` [1 + models]: of the mixture, then
 * of each model. For requests with `contributions`, and tokens whose event has been read. LM_USAGE: not
 * requested, or no such token yet. */
lm_status lm_reply_contribution(const lm_reply *r, size_t i, double *logprobs, lm_error *e);

/* ---- slots: the sequences of the engine, one per admitted request ---- */

typedef struct lm_slot_info {
    bool     busy;                   /* used by a request */
    uint32_t n_held;                 /* tokens with keys and values in the slot */
    uint32_t n_prompt, n_tokens;     /* of the current request, or the last one */
    uint64_t reserved[4];            /* zero */
} lm_slot_info;

uint32_t  lm_schedule_slots(const lm_schedule *s);

/* Describe a slot at the end of the last step. LM_USAGE: no such slot. */
lm_status lm_schedule_slot(const lm_schedule *s, uint32_t slot, lm_slot_info *out, lm_error *e);

/* Return whether the last request or restored file of the slot had this salt (NULL: ""). */
bool      lm_schedule_slot_owned(const lm_schedule *s, uint32_t slot, const char *salt);

typedef enum lm_slot_action {
    LM_SLOT_SAVE,                    /* save the content of the slot to a file (lm_engine_save). LM_USAGE: it
                                        is empty */
    LM_SLOT_RESTORE,                 /* restore a file into the slot: prompts with this prefix, salt and
                                        adapters reuse it. Errors: lm_engine_restore */
    LM_SLOT_ERASE,                   /* empty the slot, and remove its unshared part from the prefix cache */
} lm_slot_action;

/* A task for a slot. It waits until the slot is idle, and the next request of the slot waits for the task.
 * Files are written and read by a separate thread, concurrently with steps of other slots. */
typedef struct lm_slot_task {
    lm_slot_action action;
    uint32_t    slot;
    const char *path;                /* file to save or restore; copied */
    const char *salt;                /* owner; NULL: "". LM_NOT_FOUND, about "slot": it holds tokens with
                                        another salt */
    bool        any_salt;            /* whatever the salt of the slot is */
    /* Called once, by a thread of the schedule, when the task is done: `n` tokens, or the error. Then
     * `release` (may be NULL) is called, also if lm_schedule_slot_start fails. */
    void      (*done)(void *arg, lm_status status, size_t n, const lm_error *error);
    void      (*release)(void *arg);
    void       *arg;
    uint64_t    reserved[4];         /* zero */
} lm_slot_task;

/* Start a task and return. LM_CANCELLED: the schedule is draining. LM_UNSUPPORTED: an ensemble; LM_USAGE: no
 * such slot, or no path. */
lm_status lm_schedule_slot_start(lm_schedule *s, const lm_slot_task *t, lm_error *e);

/* Run a task and wait; *n: tokens. Any salt. */
lm_status lm_schedule_slot_save(lm_schedule *s, uint32_t slot, const char *path, size_t *n, lm_error *e);
lm_status lm_schedule_slot_restore(lm_schedule *s, uint32_t slot, const char *path, const char *salt,
                                   size_t *n, lm_error *e);
lm_status lm_schedule_slot_erase(lm_schedule *s, uint32_t slot, size_t *n, lm_error *e);

/* Call f(arg, engine, slot, e) in the schedule's thread between steps, with a slot that is empty before and
 * after: measurements and the like. All requests wait meanwhile. The slot has the initial adapters. If f
 * returns LM_LIMIT because a step lacked pages, requests that hold pages are preempted, the slot is emptied,
 * and f is called again. Returns the result of f; LM_CANCELLED, without calling f, while the schedule drains.
 * In an ensemble, the engine is that of the first model. */
lm_status lm_schedule_call(lm_schedule *s,
                           lm_status (*f)(void *arg, lm_engine *g, uint32_t slot, lm_error *e), void *arg,
                           lm_error *e);

/* ---- statistics ---- */

/* A histogram of durations: counts[i] is the number of durations above lm_histogram_bound(i - 1) and up to
 * lm_histogram_bound(i) seconds.
 * */
#define LM_HISTOGRAM_COUNTS 20
typedef struct lm_histogram {
    uint64_t counts[LM_HISTOGRAM_COUNTS]; /* the last: above every bound */
    double   seconds;                /* sum of all durations */
    uint64_t reserved[2];            /* zero */
} lm_histogram;

double lm_histogram_bound(size_t i);                     /* 0.001 to 600; infinite past the last */

/* Totals since the start, and current values where stated. Read without synchronisation: values may be one
 * step apart. */
typedef struct lm_schedule_statistics {
    uint64_t steps;
    uint64_t prompt_rows, written_rows, draft_rows;      /* rows of all steps, by kind */
    uint64_t draft_accepted;
    uint64_t tokens;                 /* chosen */
    uint64_t submitted, refused;     /* requests; of which rejected by lm_schedule_submit */
    uint64_t ended[8];               /* requests by lm_stop */
    uint64_t preempted, stalled;     /* times */
    uint64_t prompt_tokens, cached_tokens;               /* of admitted requests; of which from the prefix
                                                            cache */
    uint64_t evicted_pages;
    uint64_t stored, restored;       /* prefixes written to the store; loaded from it */
    double   step_seconds;           /* total time of steps */
    double   queue_seconds, first_seconds;               /* sums over all requests, as in lm_usage */
    uint32_t waiting, reading, writing;                  /* current numbers of requests */
    uint64_t pages, pages_used;      /* of the cache: total; currently used, including prefixes */
    uint64_t prefixes;               /* pages in the prefix cache, including those in use */
    uint32_t prompt_budget;          /* maximum prompt rows of the next step */
    double   itl_target;             /* current target in seconds */
    /* Per request: in the queue; from admission to the first token; from submission to the first token;
     * between two tokens; from the first token to the end; from submission to the end. */
    lm_histogram queue, prompt, first, between, generation, whole;
    uint64_t reserved[8];            /* zero */
} lm_schedule_statistics;

void lm_schedule_describe(const lm_schedule *s, lm_schedule_statistics *out);

#ifdef __cplusplus
}
#endif
#endif
