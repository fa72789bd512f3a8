/* reply.c - replies: their memory, their events in a ring, and waking the reader. */
#include <math.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/condition.h"
#include "base/error.h"
#include "schedule/schedule.h"

/* A record of the ring, followed by log-probabilities or text. */
typedef struct record {
    uint32_t kind;                   /* lm_event_kind */
    lm_token id;
    float    logprob;
    uint32_t n;                      /* number of log-probabilities or bytes that follow */
    uint64_t done, total;
} record;

/* ---- creation ---- */

static size_t longest_stop(const lm_sequence_options *o)
{
    size_t max = 0;

    for (size_t i = 0; o->stops && o->stops[i]; i++)
        max = strlen(o->stops[i]) > max ? strlen(o->stops[i]) : max;
    return max;
}

/* Open the ring. Text delivered at once is at most the longest stop string, held back until now, and a token,
 * each of whose bytes becomes three if it is not part of a character. */
static lm_status open_ring(lm_schedule *s, lm_reply *r, const lm_request *q, lm_error *e)
{
    uint64_t tops = q->sequence.logprobs > 0 ? (uint64_t)q->sequence.logprobs : 0;
    uint64_t text = longest_stop(&q->sequence) + 3 * (uint64_t)s->longest_piece + 16;
    uint64_t each = 4 * (sizeof(record) + 32) + tops * sizeof(lm_logprob) + 2 * text;

    if (each > UINT32_MAX / 32)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "a token would take %llu bytes in the reply",
                       (unsigned long long)each);
    r->max_text   = (uint32_t)text;
    r->token_bytes = (uint32_t)each;
    return lm_ring_open(&r->ring, s->o.ring_bytes > 8 * each ? s->o.ring_bytes : 8 * (uint32_t)each, e);
}

static lm_status check_request(const lm_schedule *s, const lm_request *q, lm_error *e)
{
    const lm_sequence_options *o = &q->sequence;

    if (o->sequence || o->draft_engine || o->draft_sequence)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET,
                       "its slot and draft engine belong to the schedule");
    if (q->draft && !s->o.draft_engine)
        return lm_fail(e, LM_USAGE, "draft", LM_NO_OFFSET, "the schedule has no draft engine");
    if (q->wanted_slot > s->n_slots)
        return lm_fail(e, LM_USAGE, "slot", LM_NO_OFFSET, "%u of %u", q->wanted_slot - 1, s->n_slots);
    if (!(q->deadline >= 0))
        return lm_fail(e, LM_USAGE, "deadline", LM_NO_OFFSET, "negative");
    return LM_OK;
}

/* Set the number of contributions: one per model for every token that may be generated. */
static lm_status take_contributions(lm_schedule *s, lm_reply *r, const lm_request *q, lm_error *e)
{
    int64_t max = q->sequence.max_tokens, room = (int64_t)lm_engine_context(s->g) + 1 - (int64_t)q->n_prompt;

    if (!q->contributions)
        return LM_OK;
    if (!s->others.n)
        return lm_fail(e, LM_USAGE, "contributions", LM_NO_OFFSET, "one model chooses every token alone");
    r->n_models = 1 + s->others.n;
    r->max_contributions = (size_t)(max > 0 && max < room ? max : room);
    return LM_OK;
}

void lm_reply_open(lm_reply *r)
{
    size_t    n = r->max_contributions * (1 + r->n_models);
    lm_error  e;
    lm_status status = lm_sequence_open(r->sequence, &e);

    if (status == LM_OK && n && !r->contributions &&
        !(r->contributions = lm_alloc_zero(n, sizeof *r->contributions)))
        status = lm_fail_memory(&e, "contributions", n * sizeof *r->contributions);
    if (status != LM_OK)
        lm_sequence_end(r->sequence, LM_STOP_FAILED, &e);
}

static lm_status make_sequence(lm_schedule *s, lm_reply *r, const lm_request *q, lm_error *e)
{
    lm_sequence_options o = q->sequence;

    o.draft_engine   = q->draft ? s->o.draft_engine : NULL;
    lm_status status = lm_sampler_prepare(q->sampler, s->n_vocab, s->tokenizer, &s->breakers, &r->sampler, e);
    if (status != LM_OK) {
        lm_sequence_release_hooks(&o);
        return status;
    }
    LM_TRY(lm_sequence_new_small(s->g, r->sampler, &o, &r->sequence, e));
    return lm_sequence_prepare(r->sequence, q->prompt, q->n_prompt, e);
}

static void take_request(lm_schedule *s, lm_reply *r, const lm_request *q)
{
    r->key        = lm_prefixes_salt(q->key);
    r->connection = q->connection;
    r->priority   = q->priority;
    r->submitted  = lm_clock_seconds();
    r->deadline   = q->deadline > 0 ? r->submitted + q->deadline : 0;
    r->wanted     = q->wanted_slot;
    r->no_prefix  = q->no_prefix || s->o.no_prefixes;
    r->keeps      = !r->no_prefix;
    r->progress   = q->progress;
    r->explains   = q->explain_cache;
    r->wake       = q->wake;
    r->wake_arg   = q->wake_arg;
    r->wake_release = q->wake_release;
    r->token      = q->token;
    r->token_arg  = q->token_arg;
    r->token_release = q->token_release;
    r->usage.n_prompt = q->n_prompt;
}

/* Take the scales of the adapters, which are part of the salt of its prefixes. */
static lm_status take_adapters(const lm_schedule *s, lm_reply *r, const lm_request *q, lm_error *e)
{
    uint32_t n = lm_engine_n_adapters(s->g);

    if (n && !(r->adapters = lm_alloc_zero(n, sizeof *r->adapters)))
        return lm_fail_memory(e, "the reply", n * sizeof *r->adapters);
    for (uint32_t k = 0; k < n; k++) {
        r->adapters[k] = q->adapters ? q->adapters[k] : s->adapters[k];
        if (!isfinite(r->adapters[k]))
            return lm_fail(e, LM_USAGE, "adapters", LM_NO_OFFSET,
                           "the scale of adapter %u is not a finite number", k);
    }
    r->owner = lm_prefixes_salt(q->salt);
    r->salt = lm_prefixes_salt_for(&s->prefixes, r->owner, r->adapters);
    return LM_OK;
}

void lm_reply_release_hooks(const lm_request *q)
{
    lm_sequence_options o = q->sequence;

    lm_sequence_release_hooks(&o);
    if (q->wake_release)
        q->wake_release(q->wake_arg);
    if (q->token_release)
        q->token_release(q->token_arg);
}

/* Allocate a reply with its lock and its monitor, without a request; NULL: no memory. */
static lm_reply *empty_reply(lm_schedule *s)
{
    lm_reply *r = lm_alloc_aligned(sizeof *r, 64);

    if (!r)
        return NULL;
    atomic_init(&r->fd, -1);
    atomic_init(&r->owners, 1);
    pthread_mutex_init(&r->lock, NULL);
    if (!lm_condition_open(&r->changed)) {
        pthread_mutex_destroy(&r->lock);
        lm_free_aligned(r, sizeof *r);
        return NULL;
    }
    lm_monitor_retain(s->monitor);
    r->monitor = s->monitor;
    return r;
}

lm_status lm_reply_make(lm_schedule *s, const lm_request *q, lm_reply **out, lm_error *e)
{
    lm_status status = check_request(s, q, e);
    lm_reply *r      = status == LM_OK ? empty_reply(s) : NULL;

    if (!r) {
        lm_reply_release_hooks(q);
        return status != LM_OK ? status : lm_fail_memory(e, "the reply", sizeof *r);
    }
    take_request(s, r, q);
    /* first: it takes ownership of the hook on logits in any case */
    LM_TRY_GOTO(status, make_sequence(s, r, q, e), done);
    LM_TRY_GOTO(status, take_adapters(s, r, q, e), done);
    LM_TRY_GOTO(status, open_ring(s, r, q, e), done);
    LM_TRY_GOTO(status, take_contributions(s, r, q, e), done);
    *out = r;
    return LM_OK;
done:
    lm_reply_drop(r);
    return status;
}

/* Free its sequence and release its hooks. Called by the thread that steps, by lm_schedule_submit on failure,
 * or without a sequence. */
static void free_text(lm_reply *r)
{
    lm_sequence_free(r->sequence);
    lm_sampler_free(r->sampler);
    r->sequence = NULL;
    r->sampler  = NULL;
}

void lm_reply_drop(lm_reply *r)
{
    if (atomic_fetch_sub(&r->owners, 1) != 1)
        return;
    free_text(r);
    if (r->wake_release)
        r->wake_release(r->wake_arg);
    if (r->token_release)
        r->token_release(r->token_arg);
    lm_ring_close(&r->ring);
    lm_free(r->adapters);
    lm_free(r->contributions);
    if (r->fd >= 0)
        close(r->fd);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    lm_monitor_release(r->monitor);
    lm_free_aligned(r, sizeof *r);
}

/* ---- events, added by the thread that steps or one of its workers ---- */

uint32_t lm_reply_capacity(const lm_reply *r, uint32_t max)
{
    uint32_t n = 0;

    while (n < max && lm_ring_fits(&r->ring, (n + 1) * r->token_bytes))
        n++;
    return n;
}

static void fail(lm_reply *r)
{
    lm_error e;

    lm_fail(&e, LM_FAILED, "reply", LM_NO_OFFSET, "a token takes more than there was thought to be of it");
    lm_sequence_end(r->sequence, LM_STOP_FAILED, &e);
}

static void add_record(lm_reply *r, const record *x, const void *data, size_t bytes)
{
    uint8_t *at = lm_ring_add(&r->ring, (uint32_t)(sizeof *x + bytes));

    if (!at) {
        fail(r);
        return;
    }
    memcpy(at, x, sizeof *x);
    if (bytes)
        memcpy(at + sizeof *x, data, bytes);
}

/* Add text in pieces of whole characters. */
static void add_text(lm_reply *r, const char *text, size_t size)
{
    for (size_t n; size; text += n, size -= n) {
        n = size < r->max_text ? size : r->max_text;
        while (n < size && n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
        add_record(r, &(record){ .kind = LM_EVENT_TEXT, .n = (uint32_t)n }, text, n);
    }
}

/* Store the log-probabilities of a token. The row that it was chosen from is at the position of the token
 * before it. */
static void keep_contribution(lm_schedule *s, lm_reply *r, const lm_event *x)
{
    size_t n, at = atomic_load_explicit(&r->n_contributions, memory_order_relaxed);

    if (!r->contributions || at >= r->max_contributions)
        return;
    lm_sequence_ids(r->sequence, &n);
    if (lm_ensemble_logprobs(&s->others, s->rows, r->slot, (uint32_t)n - 2, x->id,
                             r->contributions + at * (1 + r->n_models)))
        atomic_store_explicit(&r->n_contributions, at + 1, memory_order_release);
}

static void add_token(lm_schedule *s, lm_reply *r, const lm_event *x)
{
    keep_contribution(s, r, x);
    if (r->token)
        r->token(r->token_arg, x->id);
    double at = lm_clock_seconds() - r->submitted;
    if (r->usage.n_tokens++ == 0) {
        r->usage.first_seconds = at;
        lm_count(&s->counts.first_ns, (uint64_t)(at * 1e9));
        lm_durations_add(&s->counts.first, at);
        lm_durations_add(&s->counts.prompt, at - r->usage.queue_seconds);
    } else {
        lm_durations_add(&s->counts.between, at - r->last_token);
    }
    r->last_token = at;
    lm_count(&s->counts.tokens, 1);
    add_record(r, &(record){ .kind = LM_EVENT_TOKEN, .id = x->id, .logprob = x->logprob, .n = x->n_top },
               x->top, x->n_top * sizeof *x->top);
}

/* Add progress, unless the ring is nearly full. */
static void add_progress(lm_reply *r, const lm_event *x)
{
    atomic_store_explicit(&r->read, x->done, memory_order_relaxed);
    if (!r->progress || x->done <= r->reported || !lm_ring_fits(&r->ring, 2 * r->token_bytes))
        return;
    r->reported = x->done;
    add_record(r, &(record){ .kind = LM_EVENT_PROMPT, .done = x->done, .total = x->total }, NULL, 0);
}

void lm_reply_collect(lm_schedule *s, lm_reply *r)
{
    lm_event x;

    while (!r->over && lm_sequence_event(r->sequence, &x)) {
        switch (x.kind) {
        case LM_EVENT_PROMPT: add_progress(r, &x); break;
        case LM_EVENT_TOKEN: add_token(s, r, &x); break;
        case LM_EVENT_TEXT: add_text(r, x.text, x.size); break;
        case LM_EVENT_CHOICE: break;
        case LM_EVENT_END:
            r->over = true;
            r->stop = x.stop;
            r->stopped_by = x.id;
            if (x.error)
                r->error = *x.error;
        }
    }
    lm_ring_publish(&r->ring);
}

void lm_reply_notify(lm_reply *r)
{
    if (!atomic_exchange(&r->armed, false))
        return;
    pthread_mutex_lock(&r->lock);
    if (!r->closed) {
        if (r->wake)
            r->wake(r->wake_arg);
        if (r->fd >= 0)
            eventfd_write(r->fd, 1);
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

void lm_reply_conclude(lm_schedule *s, lm_reply *r)
{
    lm_sequence_info info;

    lm_sequence_describe(r->sequence, &info);
    r->usage.n_drafted  = info.n_drafted;
    r->usage.n_accepted = info.n_accepted;
    r->usage.seconds    = lm_clock_seconds() - r->submitted;
    if (!r->had_slot)
        r->usage.queue_seconds = r->usage.seconds;
    lm_count(&s->counts.draft_accepted, info.n_accepted);
    lm_count(&s->counts.draft_rows, info.n_drafted);
    lm_count(&s->counts.ended[r->stop & 7], 1);
    lm_durations_add(&s->counts.whole, r->usage.seconds);
    if (r->usage.n_tokens)
        lm_durations_add(&s->counts.generation, r->usage.seconds - r->usage.first_seconds);
    free_text(r);
    atomic_store_explicit(&r->state, LM_REPLY_ENDED, memory_order_relaxed);
    atomic_store(&r->ended, true);
    lm_reply_notify(r);
    lm_reply_drop(r);
}

/* ---- functions for the reader ---- */

static bool look_at_record(lm_reply *r, lm_reply_event *out)
{
    uint32_t      n;
    const record *x = lm_ring_next(&r->ring, &n);

    if (!x)
        return false;
    r->reading_record = true;
    *out              = (lm_reply_event){ .event = { .kind = (lm_event_kind)x->kind } };
    if (x->kind == LM_EVENT_TEXT) {
        out->event.text = (const char *)(x + 1);
        out->event.size = x->n;
    } else if (x->kind == LM_EVENT_PROMPT) {
        out->event.done  = x->done;
        out->event.total = x->total;
    } else {
        out->event.id      = x->id;
        out->event.logprob = x->logprob;
        out->event.top     = x->n ? (const lm_logprob *)(x + 1) : NULL;
        out->event.n_top   = x->n;
    }
    return true;
}

static bool look_at_end(lm_reply *r, lm_reply_event *out)
{
    r->end_delivered = true;
    *out = (lm_reply_event){ .event = { .kind = LM_EVENT_END,
                                        .id = r->stop == LM_STOP_STRING ? r->stopped_by : -1,
                                        .stop = r->stop },
                             .usage = &r->usage };
    if (r->stop == LM_STOP_FAILED)
        out->event.error = &r->error;
    return true;
}

/* Free the record that was read; wake a request that waits for space. */
static void give_back(lm_reply *r)
{
    if (!r->reading_record)
        return;
    lm_ring_done(&r->ring);
    r->reading_record = false;
    if (atomic_load(&r->stalled) && lm_reply_capacity(r, 1) && atomic_exchange(&r->stalled, false))
        lm_monitor_notify(r->monitor);
}

/* Return the next event. When the request has ended, the ring is checked once more: its last records were
 * published before. */
static bool look(lm_reply *r, lm_reply_event *out)
{
    if (r->end_delivered)
        return false;
    if (look_at_record(r, out))
        return true;
    if (!atomic_load(&r->ended))
        return false;
    return look_at_record(r, out) || look_at_end(r, out);
}

static void empty_fd(lm_reply *r)
{
    eventfd_t n;
    int       fd = atomic_load(&r->fd);

    if (fd >= 0)
        eventfd_read(fd, &n);
}

bool lm_reply_next(lm_reply *r, lm_reply_event *out)
{
    if (!r || !out)
        return false;
    give_back(r);
    if (look(r, out))
        return true;
    empty_fd(r);
    atomic_store(&r->armed, true);
    if (!look(r, out))
        return false;
    atomic_store(&r->armed, false);
    return true;
}

bool lm_reply_wait(lm_reply *r, double seconds, lm_reply_event *out)
{
    if (!r || !out)
        return false;
    double until = seconds < 0 ? -1 : lm_clock_seconds() + seconds;

    while (!lm_reply_next(r, out)) {
        if (r->end_delivered || lm_monitor_check_process(r->monitor, NULL) != LM_OK ||
            (seconds >= 0 && lm_clock_seconds() >= until))
            return false;
        pthread_mutex_lock(&r->lock);
        while (atomic_load(&r->armed) && (seconds < 0 || lm_clock_seconds() < until))
            lm_condition_wait(&r->changed, &r->lock, until);
        pthread_mutex_unlock(&r->lock);
    }
    return true;
}

int lm_reply_fd(lm_reply *r)
{
    if (!r)
        return -1;
    pthread_mutex_lock(&r->lock);
    if (r->fd < 0)
        r->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    int fd = r->fd;
    pthread_mutex_unlock(&r->lock);
    return fd;
}

void lm_reply_cancel(lm_reply *r)
{
    if (!r || atomic_load(&r->ended) || atomic_exchange(&r->cancelled, true))
        return;
    lm_monitor_notify(r->monitor);
}

void lm_reply_free(lm_reply *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    pthread_mutex_unlock(&r->lock);
    lm_reply_cancel(r);
    lm_reply_drop(r);
}

lm_reply_state lm_reply_status(const lm_reply *r, size_t *read)
{
    if (!r)
        return LM_REPLY_ENDED;
    if (read)
        *read = atomic_load_explicit(&r->read, memory_order_relaxed);
    return (lm_reply_state)atomic_load_explicit(&r->state, memory_order_relaxed);
}

lm_status lm_reply_contribution(const lm_reply *r, size_t i, double *logprobs, lm_error *e)
{
    LM_REQUIRE(e, r && logprobs);
    size_t n = atomic_load_explicit(&r->n_contributions, memory_order_acquire);

    if (!r->max_contributions)
        return lm_fail(e, LM_USAGE, "contributions", LM_NO_OFFSET, "were not requested");
    if (i >= n)
        return lm_fail(e, LM_USAGE, "contributions", LM_NO_OFFSET, "token %zu of %zu", i, n);
    memcpy(logprobs, r->contributions + i * (1 + r->n_models), (1 + r->n_models) * sizeof *logprobs);
    return LM_OK;
}

lm_status lm_reply_explain(const lm_reply *r, const lm_model *m, lm_cache_difference *out, lm_text *before,
                           lm_text *prompt, lm_text *cached, lm_error *e)
{
    LM_REQUIRE(e, r && m && out);
    lm_text *active[] = { before, prompt, cached };

    if (!atomic_load(&r->explained))
        return lm_fail(e, LM_USAGE, "explain_cache", LM_NO_OFFSET, "%s",
                       r->explains ? "the request is not admitted yet" : "was not requested");
    for (int i = 0; i < 3; i++)
        if (active[i] && lm_model_tokenizer(m))
            LM_TRY(lm_detokenize(lm_model_tokenizer(m), r->around[i], r->n_around[i], 0, active[i], e));
    *out = r->difference;
    return LM_OK;
}
