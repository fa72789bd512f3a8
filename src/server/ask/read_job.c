/* read_job.c - read_job.h: the prompts of a job run a few at a time; the answer is made when the last one has
 * ended.
 *
 * Ownership. The job belongs to the exchange and is freed by `done`. The argument of a prompt's hook is
 * shared by the job and the schedule's thread (`shared`, with a count of owners); the last of them frees it.
 *
 * Threads. lm_read_job_start: a worker. pump_replies, done: the front. on_row, on_last: the schedule's
 * threads. */
#include "server/ask/read_job.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/models/loras.h"
#include "server/front/memory.h"

/* The argument of a hook, freed by its last owner: the schedule or the job. */
typedef struct shared { atomic_uint owners; void *of; lm_read_job_hook hook; } shared;

typedef struct reading_text { lm_reply *reply; shared *shared; bool ended; size_t n_cached; } reading_text;

struct lm_read_job {
    lm_service  *service;
    lm_exchange *x;
    lm_dialect   dialect;
    lm_prompts   prompts;
    reading_text *texts;             /* [prompts.n] */
    size_t       next, running;      /* the first prompt not yet submitted; prompts that have not ended */
    float       *loras;
    int32_t      priority;
    lm_read_job_hook hook;
    json_t     *(*document)(const lm_read_job *r);
    void        *own;
    json_t      *warnings;
    char        *key, *salt;         /* NULL: none */
    lm_account   account;
    bool         charged;            /* its tokens were charged to `account` */
};

size_t lm_read_job_count(const lm_read_job *r)
{
    return r->prompts.n;
}

void *lm_read_job_of(const lm_read_job *r, size_t i)
{
    return r->texts[i].shared->of;
}

size_t lm_read_job_tokens(const lm_read_job *r, size_t i)
{
    return r->prompts.items[i].n;
}

uint64_t lm_read_job_all_tokens(const lm_read_job *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->prompts.n; i++)
        n += r->prompts.items[i].n;
    return n;
}

uint64_t lm_read_job_cached_tokens(const lm_read_job *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->prompts.n; i++)
        n += r->texts[i].n_cached;
    return n;
}

const void *lm_read_job_own(const lm_read_job *r)
{
    return r->own;
}

const lm_service *lm_read_job_service(const lm_read_job *r)
{
    return r->service;
}

/* ---- hooks ---- */

static void drop_shared(void *arg)
{
    shared *s = arg;

    if (!s || atomic_fetch_sub(&s->owners, 1) != 1)
        return;
    s->hook.free(s->of);
    lm_heap_free(s);
}

static lm_status on_row(void *arg, size_t position, const float *logits, const float *hidden, lm_error *e)
{
    shared *s = arg;

    return s->hook.row(s->of, position, logits, hidden, e);
}

/* Pass the logits on. The sequence ends after this token, whatever it is. */
static lm_status on_last(void *arg, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n,
                         lm_error *e)
{
    shared *s = arg;

    (void)n_vocab;
    (void)ids;
    (void)n;
    return s->hook.last(s->of, logits, e);
}

/* ---- sequences ---- */

static void wake(void *exchange)
{
    lm_exchange_wake(exchange);
}

static lm_status submit(lm_read_job *r, size_t i, lm_error *e)
{
    reading_text *t = r->texts + i;
    lm_request q = { .prompt = r->prompts.items[i].ids,
                     .n_prompt = r->prompts.items[i].n,
                     .key = r->key,
                     .salt = r->salt,
                     .connection = lm_exchange_connection(r->x),
                     .adapters = r->loras,
                     .no_prefix = r->hook.row,
                     .priority = r->priority,
                     .deadline = r->service->o.timeout,
                     .wake = wake,
                     .wake_arg = r->x,
                     .sequence = { .no_text = true } };

    if (r->hook.row) {
        q.sequence.prompt_only = true;
        q.sequence.row = on_row;
        q.sequence.row_arg = t->shared;
        q.sequence.row_release = drop_shared;
        q.sequence.prompt_logits = r->hook.logits;
    } else {
        q.sequence.max_tokens = 1;
        q.sequence.ignore_eos = true;
        q.sequence.logits = on_last;
        q.sequence.logits_arg = t->shared;
        q.sequence.logits_release = drop_shared;
    }
    atomic_fetch_add(&t->shared->owners, 1);
    return lm_schedule_submit(r->service->schedule, &q, &t->reply, e);
}

/* Submit prompts while fewer run than there are slots, so that a request with many prompts leaves the queue
 * to others. */
static lm_status submit_next(lm_read_job *r, lm_error *e)
{
    while (r->next < r->prompts.n && r->running < lm_schedule_slots(r->service->schedule)) {
        LM_TRY(submit(r, r->next, e));
        r->next++;
        r->running++;
    }
    return LM_OK;
}

/* Read the new events of a prompt; LM_OK also if there are none. */
static lm_status read_events(lm_read_job *r, reading_text *t, lm_error *e)
{
    lm_reply_event event;

    while (!t->ended && lm_reply_next(t->reply, &event)) {
        if (event.event.kind != LM_EVENT_END)
            continue;
        t->ended = true;
        r->running--;
        if (event.event.stop == LM_STOP_FAILED) {
            *e = *event.event.error;
            return e->code;
        }
        t->n_cached = event.usage->n_cached;
        if (event.event.stop != LM_STOP_LENGTH)
            return lm_fail(e, LM_CANCELLED, "the request", LM_NO_OFFSET, "the model is being unloaded");
    }
    return LM_OK;
}

static void finish(lm_read_job *r)
{
    lm_error e = { 0 };
    lm_status status = lm_answer_document(r->x, r->document(r), r->warnings, &e);

    lm_account_charge(&r->account, lm_read_job_all_tokens(r), lm_read_job_cached_tokens(r), 0);
    r->charged = true;
    if (status != LM_OK)
        lm_answer_fault(r->x, r->dialect, 0, 0, &e);
}

static void pump_replies(lm_exchange *x, void *job)
{
    lm_read_job *r = job;
    lm_error e = { 0 };
    lm_status status = LM_OK;
    size_t seen;

    (void)x;
    /* A reply wakes only after it was read: read new ones, too. */
    do {
        seen = r->next;
        for (size_t i = 0; i < seen && status == LM_OK; i++)
            status = read_events(r, r->texts + i, &e);
        if (status == LM_OK)
            status = submit_next(r, &e);
    } while (status == LM_OK && r->next > seen);
    if (status != LM_OK)
        lm_answer_fault(r->x, r->dialect, lm_fault_is_late(&e) ? 503 : 0, 0, &e);
    else if (r->next == r->prompts.n && !r->running)
        finish(r);
}

/* ---- beginning and end ---- */

/* Charge the prompt tokens that were processed for a request that ends early: its client has left, or a
 * prompt failed. */
static void charge_unfinished(lm_read_job *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->next; i++) {
        size_t read = 0;
        lm_reply_status(r->texts[i].reply, &read);
        n += read;
    }
    if (n)
        lm_account_charge(&r->account, n, lm_read_job_cached_tokens(r), 0);
}

static void done(void *job)
{
    lm_read_job *r = job;
    lm_service *service = r->service;

    if (!r->charged)
        charge_unfinished(r);
    for (size_t i = 0; i < r->prompts.n && r->texts; i++) {
        lm_reply_free(r->texts[i].reply);
        drop_shared(r->texts[i].shared);
    }
    lm_prompts_free(&r->prompts);
    json_decref(r->warnings);
    lm_heap_free(r->texts);
    lm_heap_free(r->loras);
    lm_heap_free(r->key);
    lm_heap_free(r->salt);
    lm_heap_free(r->own);
    lm_heap_free(r);
    lm_models_release(service);
}

static void options_free(lm_read_job_options *o)
{
    for (size_t i = 0; o->of && i < o->prompts.n; i++)
        o->hook.free(o->of[i]);
    lm_heap_free(o->of);
    lm_heap_free(o->own);
    lm_prompts_free(&o->prompts);
}

/* Allocate the job's prompts with the arguments of their hooks. False: out of memory, and `o` is
 * unchanged. */
static bool make_hooks(lm_read_job *r, const lm_read_job_options *o)
{
    size_t n = o->prompts.n;

    r->texts = lm_memory_zero(n, sizeof *r->texts);
    for (size_t i = 0; r->texts && i < n; i++)
        if (!(r->texts[i].shared = lm_memory_zero(1, sizeof *r->texts[i].shared)))
            break;
    if (!r->texts || !r->texts[n - 1].shared) {
        for (size_t i = 0; r->texts && i < n; i++)
            lm_heap_free(r->texts[i].shared);
        lm_heap_free(r->texts);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        atomic_init(&r->texts[i].shared->owners, 1);
        r->texts[i].shared->of = o->of[i];
        r->texts[i].shared->hook = o->hook;
    }
    return true;
}

lm_status lm_read_job_start(lm_call *c, lm_read_job_options *o, lm_status status, lm_error *e)
{
    lm_read_job *r = NULL;
    const char *salt = lm_call_key(c);
    float *loras = NULL;

    if (status == LM_OK)
        status = lm_loras_read(c->service, o->lora, &loras, e);
    if (status == LM_OK && (!o->prompts.n || !(r = lm_memory_zero(1, sizeof *r)) || !make_hooks(r, o)))
        status = lm_fail_memory(e, "the request", sizeof *r);
    if (status != LM_OK) {
        lm_heap_free(r);
        lm_heap_free(loras);
        options_free(o);
        return status;
    }
    r->service = c->service;
    lm_models_retain(r->service);
    r->x = c->x;
    r->dialect = c->route->dialect;
    r->prompts = o->prompts;
    r->loras = loras;
    r->priority = lm_call_priority(c, o->priority);
    r->hook = o->hook;
    r->document = o->document;
    r->own = o->own;
    r->warnings = json_incref(c->warnings);
    r->key = c->key ? lm_memory_text(c->key, strlen(c->key)) : NULL;
    r->salt = salt ? lm_memory_text(salt, strlen(salt)) : NULL;
    lm_call_account(c, &r->account);
    lm_heap_free(o->of);
    if ((status = submit_next(r, e)) != LM_OK) {
        done(r);
        return status;
    }
    lm_exchange_later(c->x, pump_replies, done, r);
    return LM_OK;
}
