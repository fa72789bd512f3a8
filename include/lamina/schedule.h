/* schedule.h - many texts at once on one engine: requests go in, each has a reply, one thread of its own steps the engine.
 *
 *   lm_schedule_new(g, NULL, &s, &e);                               the engine is the schedule's until lm_schedule_free
 *   lm_request r = { .prompt = ids, .n_prompt = n, .sequence = { .max_tokens = 100 } };
 *   lm_schedule_submit(s, &r, &reply, &e);                          any thread, as often as there is room in the queue
 *   while (lm_reply_wait(reply, -1, &event) && event.kind != LM_EVENT_END)  …       any thread, one at a time for each reply
 *   lm_reply_free(reply);                                           cancels what has not ended
 *
 * Steps. In each: the next row of every text that is being written (with guesses after it where few texts leave room for
 * them), then rows of prompts, as many as keep the time between two tokens of the others near `itl_target`. Prompts are
 * read in the order in which they were let in; the oldest has half of those rows, the others share the rest, so that a long
 * one does not hold up short ones.
 *
 * Letting in. Each text takes a slot (a sequence of the engine) and pages of its cache. A request whose prompt can never
 * fit is refused by lm_schedule_submit. The others wait for a slot and for pages: of those that wait the one of the highest
 * priority is let in first, among equals the one whose key, then whose connection, has the fewest texts in slots, then the
 * one that came first; one that others were preferred to LM_SCHEDULE_PASSED times is next whatever its key. A request whose
 * prompt begins like one that is being read just now waits for what that one leaves in the prefix cache. Nobody who is let
 * in is ever made to fail because the cache is full: the text that was let in last gives its pages back, waits, and reads
 * itself again. Only a text that is alone and fills the whole cache ends, LM_STOP_CONTEXT.
 *
 * Prefixes. Full pages of what was read and written stay in the cache until room is needed, in a tree by tokens, and are
 * shared by those whose prompt begins with them and whose `salt` is the same. The ones used longest ago go first, and
 * before them those that nobody has come back to: one-off requests do not drive out the beginning that many turns share.
 *
 * The same bits. What a request gets depends on its prompt, its options and the engine's model and options alone: not on
 * what else runs, the order, preemption, guesses, the cache, the number of threads, or a restart. lm_schedule_fingerprint
 * names what it does depend on.
 *
 * Threads. lm_schedule_submit, _check, _describe, _fingerprint, _drain and the functions of slots may be called by any thread at
 * any moment; lm_schedule_free once, when none of them runs. A reply is read by one thread at a time; lm_reply_cancel and
 * lm_reply_status by any. Functions that requests name (`sequence.logits`, `wake`) are called by threads of the engine:
 * they must not call this schedule, nor block.
 *
 * A process that is forked has no such thread: there requests are refused, LM_FAILED, and nothing is waited for.
 *
 * Memory. A request that waits has its prompt, its options and its ring; what grows with the vocabulary or the context is taken
 * when it is let in, and a text for which there is none ends with LM_STOP_FAILED, LM_NO_MEMORY. All of it is given back at its end,
 * the ring by lm_reply_free. Steps themselves allocate nothing. */
#ifndef LAMINA_SCHEDULE_H
#define LAMINA_SCHEDULE_H

#include "lamina/mixture.h"
#include "lamina/sequence.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LM_SCHEDULE_PASSED 64        /* how often others may be let in before one that came earlier */

/* Models that choose each token together with the schedule's. */
typedef struct lm_schedule_others {
    lm_engine *const *engines;       /* [mixture.n - 1], used by nobody else; with the contexts, sequences, rows and rows with logits of
                                        the schedule's at least */
    lm_mixture mixture;              /* prepared; the schedule's engine is the first model */
    uint64_t   reserved[4];          /* zero */
} lm_schedule_others;

/* All zero: the defaults. */
typedef struct lm_schedule_options {
    uint32_t    queue;               /* requests that may wait; 0: 512 */
    uint32_t    ring_bytes;          /* of a reply, for events that were not read yet; 0: 32768. Raised to what eight tokens can take */
    double      itl_target;          /* seconds between two tokens of a text while others read; 0: twice what the step takes without
                                        them, as lm_engine_forecast predicts and steps show. No fewer than 8 rows of prompts are read */
    double      stall_seconds;       /* a reply that is full and not read for so long ends its text; 0: 30 */
    bool        no_prefixes;         /* keep no prefixes */
    uint64_t    prefix_bytes;        /* of pages kept for nobody but later requests; 0: as much as the cache has */
    const char *prefix_store;        /* a folder (made where there is none) that prefixes are written to when nothing else is to be
                                        done and at the end (for seconds at most, the last used first), and read from at the
                                        beginning: whole files with checksums (lm_engine_save), bound to model and build; others
                                        are passed over. It holds texts of users. NULL: none */
    uint64_t    store_bytes;         /* of that folder; 0: 1 GiB. The oldest files are removed */
    lm_engine  *draft_engine;        /* a smaller model that guesses for requests with `draft`, with as many sequences; the
                                        schedule's too */
    uint32_t    guess_texts;         /* no guesses in steps that write more texts than this; 0: 4. Each guess takes one of the engine's
                                        `logit_rows` */
    bool        no_forecast;         /* do not time kernels at the beginning (some 0.1 s each): steps will show */
    lm_log      log;                 /* of the prefix store; called by lm_schedule_new and by the schedule's thread */
    /* Each step runs the same rows in all of these engines, too; samplers, hooks and log-probabilities see the mixture as if it were the
     * logits of one model. No prefixes are kept then, and slots are not saved or restored (LM_UNSUPPORTED). Copied, but for the
     * engines. NULL: one model. */
    const lm_schedule_others *others;
    uint64_t    reserved[7];         /* zero */
} lm_schedule_options;

lm_schedule_options lm_schedule_defaults(void);

typedef struct lm_schedule lm_schedule;
typedef struct lm_reply    lm_reply;

/* `g`, its model and the draft engine must outlive the schedule, and are used by nobody else meanwhile; what their
 * sequences hold is dropped; so do those of `others`. LM_USAGE: a draft engine with fewer sequences or other tokens, others with
 * other tokens (lm_draft_fits; where, the path) or less room. LM_IO: a prefix store that cannot be made. */
lm_status lm_schedule_new(lm_engine *g, const lm_schedule_options *o, lm_schedule **out, lm_error *e);

/* Ends every text with LM_STOP_CANCELLED, writes prefixes to the store and waits for the thread. Replies may be read and
 * freed afterwards. */
void      lm_schedule_free(lm_schedule *s);

/* No more requests from now on (LM_CANCELLED); those that wait end at once, LM_STOP_FAILED with an error LM_CANCELLED. Returns
 * when all others have ended, true; after `seconds` they are cancelled, false. Negative: they may take as long as they do. */
bool      lm_schedule_drain(lm_schedule *s, double seconds);

/* "fp_" and 16 hexadecimal digits, a hash of all that decides which bits a request gets: the model's files and options,
 * this build, the arithmetic, the instruction set, the type of the cache, the adapters. Same fingerprint, same request: same tokens. As
 * long as the schedule. */
const char *lm_schedule_fingerprint(const lm_schedule *s);

/* ---- requests ---- */

/* What it points to is copied, but for functions and their arguments. lm_schedule_submit takes `sequence.logits_arg`,
 * `sequence.row_arg` and `wake_arg`: each is given to its release function once, when its hook will not be called again, also where
 * there is no reply. */
typedef struct lm_request {
    const lm_token *prompt;          /* [n_prompt] */
    size_t          n_prompt;
    lm_sequence_options sequence;    /* limits, stops, log-probabilities, the hook on logits, look-up guesses (draft_ngram), `draw`:
                                        which of several texts with one seed. `slot`, draft_engine and draft_slot are the
                                        schedule's: zero here. A hook is called by one thread at a time, those of different texts
                                        at once */
    const lm_sampler_options *sampler;   /* as for lm_sampler_new; NULL: the defaults */
    bool            draft;           /* the schedule's draft engine guesses for it */
    const char     *key;             /* whose it is; slots are shared out evenly among keys, then connections. NULL: "" */
    uint64_t        connection;
    const char     *salt;            /* prefixes are shared among requests with the same one; NULL: "" */
    int32_t         priority;        /* higher ones first */
    double          deadline;        /* seconds from now until it ends in any case, LM_STOP_FAILED with LM_LIMIT; 0: none */
    uint32_t        wanted_slot;     /* 1 + the slot that it waits for; 0: any */
    bool            no_prefix;       /* read the whole prompt */
    bool            progress;        /* LM_EVENT_PROMPT as it is read */
    bool            explain_cache;   /* lm_reply_explain will tell */
    bool            contributions;   /* lm_reply_contribution will; LM_USAGE without others */
    /* Called after events came that lm_reply_next has not seen since it last returned false; may be NULL. It may be called once
     * more than there is something to read, and never after lm_reply_free has returned. */
    void          (*wake)(void *arg);
    void           *wake_arg;
    const float    *adapters;        /* scales of the engine's adapters, [lm_engine_n_adapters]; NULL: those that it began with. Texts of
                                        one step may have different ones; prefixes are shared among texts with the same ones */
    void          (*wake_release)(void *wake_arg);   /* by the last of lm_reply_free and the end of the text; NULL: nothing is to be
                                        released */
    uint64_t        reserved[6];     /* zero */
} lm_request;

/* *out is the caller's. On failure there is no reply:
 *   LM_LIMIT      the prompt can never fit: the context or the whole cache is too small; the message has both numbers
 *   LM_NO_FIT     so many requests wait already: try later
 *   LM_CANCELLED  the schedule drains
 *   LM_USAGE      as lm_sequence_new, lm_sequence_prompt and lm_sampler_new
 *   LM_NO_MEMORY */
lm_status lm_schedule_submit(lm_schedule *s, const lm_request *r, lm_reply **out, lm_error *e);

/* What lm_schedule_submit would refuse a prompt of so many tokens for now, whatever else the request has: LM_LIMIT, LM_NO_FIT,
 * LM_CANCELLED. Before work that is wasted on a request that is refused. */
lm_status lm_schedule_check(lm_schedule *s, size_t n_prompt, lm_error *e);

/* ---- replies ---- */

/* What a text took. */
typedef struct lm_usage {
    uint64_t n_prompt, n_cached;     /* tokens of the prompt; of which the prefix cache had */
    uint64_t n_tokens;               /* chosen, the ending one included */
    uint64_t n_drafted, n_accepted;  /* guesses made; of which were right */
    uint64_t preempted;              /* times that it gave its pages back and read itself again */
    uint32_t slot;
    double   queue_seconds;          /* until it was let in */
    double   first_seconds;          /* until its first token was chosen; 0: none was */
    double   seconds;                /* until its end; all from lm_schedule_submit on */
    uint64_t reserved[4];            /* zero */
} lm_usage;

typedef struct lm_reply_event {
    lm_event        event;           /* lm_sequence's, but for LM_EVENT_CHOICE; texts may come in smaller pieces of whole characters */
    const lm_usage *usage;           /* with LM_EVENT_END, as long as the reply; else NULL */
    uint64_t        reserved[4];     /* zero */
} lm_reply_event;

/* The next event, valid until the next call for this reply or lm_reply_free; false: there is none now. LM_EVENT_END is the
 * last, told once; then always false. Never waits. A reader that does not keep up makes its own text wait, nobody else's. */
bool lm_reply_next(lm_reply *r, lm_reply_event *out);

/* The same, waiting up to `seconds` for one (negative: as long as it takes); false also when all has been told. */
bool lm_reply_wait(lm_reply *r, double seconds, lm_reply_event *out);

/* A file descriptor (eventfd) for poll: readable after events came that lm_reply_next has not seen since it last returned
 * false, which empties it. Made by the first call, closed by lm_reply_free. -1: none can be had. */
int  lm_reply_fd(lm_reply *r);

/* End it: at once in the queue, before the next step elsewhere. Events that came before may still be read. */
void lm_reply_cancel(lm_reply *r);

/* Cancels it where it has not ended. */
void lm_reply_free(lm_reply *r);

typedef enum lm_reply_state {
    LM_REPLY_WAITS,                  /* in the queue */
    LM_REPLY_READS,                  /* its prompt is being read */
    LM_REPLY_WRITES,
    LM_REPLY_PREEMPTED,              /* it has given back its pages and waits for others */
    LM_REPLY_STALLED,                /* it waits for its reader */
    LM_REPLY_ENDED,
} lm_reply_state;

/* Where it is, at the end of the last step. `read` (may be NULL): tokens of the prompt. */
lm_reply_state lm_reply_status(const lm_reply *r, size_t *read);

/* Where the prompt first differed from what was cached with its salt, for requests with `explain_cache` that were let in. */
typedef struct lm_cache_difference {
    size_t cached;                   /* tokens that were taken from the cache: whole pages */
    size_t same;                     /* tokens that stood there: the prompt differs from here on */
    bool   whole;                    /* it does not: all of it stood there */
    bool   known;                    /* `cached_text` is what stood there; false: nothing did, the cache ended at `same` */
    uint64_t reserved[4];            /* zero */
} lm_cache_difference;

/* Texts around token `same`, a few tokens to both sides, in the words of model `m`, are appended to those of the three that
 * are not NULL: what both have before it, how the prompt goes on, how what was cached goes on. LM_USAGE: it was not asked
 * for, or is not let in yet. */
lm_status lm_reply_explain(const lm_reply *r, const lm_model *m, lm_cache_difference *out, lm_text *before, lm_text *prompt,
                           lm_text *cached, lm_error *e);

/* How probable token `i` of those that were chosen (from 0) was when it was: natural logarithms into `logprobs` [1 + models], of the
 * mixture, then of each model. Of requests with `contributions`, for tokens whose event has been read. LM_USAGE: it was not asked for, or
 * no such token yet. */
lm_status lm_reply_contribution(const lm_reply *r, size_t i, double *logprobs, lm_error *e);

/* ---- slots: the sequences of the engine, one for each text that was let in ---- */

typedef struct lm_slot_info {
    bool     busy;                   /* a text has it */
    uint32_t n_held;                 /* tokens whose keys and values it holds */
    uint32_t n_prompt, n_tokens;     /* of its text, or the last one that it had */
    uint64_t reserved[4];            /* zero */
} lm_slot_info;

uint32_t  lm_schedule_slots(const lm_schedule *s);

/* As of the last step. LM_USAGE: no such slot. */
lm_status lm_schedule_slot(const lm_schedule *s, uint32_t slot, lm_slot_info *out, lm_error *e);

typedef enum lm_slot_action {
    LM_SLOT_SAVE,                    /* what the slot's last text left there to a file (lm_engine_save). LM_USAGE: nothing */
    LM_SLOT_RESTORE,                 /* from such a file; prompts with this salt, and the adapters that its text had, that begin so need
                                        not be read again. Errors: lm_engine_restore */
    LM_SLOT_ERASE,                   /* forget it, and what of it the prefix cache holds for nobody else */
} lm_slot_action;

/* What is done to a slot. A slot that is busy is waited for: its next request comes after. Files are written and read by a thread of the
 * schedule's own, beside the steps of other slots. */
typedef struct lm_slot_task {
    lm_slot_action action;
    uint32_t    slot;
    const char *path;                /* of a file to be saved or restored; copied */
    const char *salt;                /* whose it is; NULL: "". Of save and erase: a slot whose text had another one is LM_NOT_FOUND */
    bool        any_salt;            /* save and erase whatever it was */
    /* Called once, by a thread of the schedule, when it is done: `n` tokens, or the error. Then `release` (may be NULL), which
     * lm_schedule_slot_start calls where it fails. */
    void      (*done)(void *arg, lm_status status, size_t n, const lm_error *error);
    void      (*release)(void *arg);
    void       *arg;
    uint64_t    reserved[4];         /* zero */
} lm_slot_task;

/* Returns at once. LM_CANCELLED: the schedule drains. LM_UNSUPPORTED: several models write together; LM_USAGE: no such slot, no path. */
lm_status lm_schedule_slot_start(lm_schedule *s, const lm_slot_task *t, lm_error *e);

/* The same, waiting; *n tokens. Any salt. */
lm_status lm_schedule_slot_save(lm_schedule *s, uint32_t slot, const char *path, size_t *n, lm_error *e);
lm_status lm_schedule_slot_restore(lm_schedule *s, uint32_t slot, const char *path, const char *salt, size_t *n, lm_error *e);
lm_status lm_schedule_slot_erase(lm_schedule *s, uint32_t slot, size_t *n, lm_error *e);

/* Have the schedule's thread call f(arg, engine, slot, e) between steps, with a slot that is empty before and after:
 * embeddings, measurements … Texts wait meanwhile. The slot has the adapters that the engine began with. Returns what it
 * returns; LM_CANCELLED without calling it when the schedule drains. Of several models the engine is the first one's. */
lm_status lm_schedule_call(lm_schedule *s, lm_status (*f)(void *arg, lm_engine *g, uint32_t slot, lm_error *e), void *arg, lm_error *e);

/* ---- statistics ---- */

/* How many durations were of which length: counts[i] of at most lm_histogram_bound(i) seconds and more than the bound before. */
#define LM_HISTOGRAM_COUNTS 20
typedef struct lm_histogram {
    uint64_t counts[LM_HISTOGRAM_COUNTS]; /* the last: longer than every bound */
    double   seconds;                /* all added up */
    uint64_t reserved[2];            /* zero */
} lm_histogram;

double lm_histogram_bound(size_t i);                     /* 0.001 to 600; infinite past the last */

/* Since the beginning, but for what is said to be of now. Read without stopping anything: figures of one moment may be a
 * step apart. */
typedef struct lm_schedule_statistics {
    uint64_t steps;
    uint64_t prompt_rows, written_rows, guessed_rows;    /* that steps had */
    uint64_t guesses_right;
    uint64_t tokens;                 /* chosen */
    uint64_t submitted, refused;     /* requests; lm_schedule_submit failed */
    uint64_t ended[8];               /* texts by lm_stop */
    uint64_t preempted, stalled;     /* times */
    uint64_t prompt_tokens, cached_tokens;               /* of the prompts that were let in; of which the prefix cache had */
    uint64_t evicted_pages;
    uint64_t stored, restored;       /* prefixes written to the store, and found there */
    double   step_seconds;           /* in steps, all added up */
    double   queue_seconds, first_seconds;               /* as in lm_usage, all requests added up */
    uint32_t waiting, reading, writing;                  /* texts now */
    uint64_t pages, pages_used;      /* of the cache: in all, in use now, prefixes included */
    uint64_t prefixes;               /* pages of tokens that the prefix cache has, those that texts use included */
    uint32_t prompt_budget;          /* rows of prompts that the next step may have */
    double   itl_target;             /* seconds that it is made for */
    /* Of texts: in the queue; reading the prompt, until the first token; from the request to it; between two tokens; from the first token
     * to the end; from the request to the end. */
    lm_histogram queue, prompt, first, between, generation, whole;
    uint64_t reserved[8];            /* zero */
} lm_schedule_statistics;

void lm_schedule_describe(const lm_schedule *s, lm_schedule_statistics *out);

#ifdef __cplusplus
}
#endif
#endif
