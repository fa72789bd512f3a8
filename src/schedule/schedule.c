/* schedule.c - the schedule's thread, and functions for other threads. */
#include "schedule/schedule.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/os/condition.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os/thread.h"
#include "runtime/engine/save.h"

#define IDLE_SECONDS 1.0             /* without work, before prefixes are written to the store */

lm_schedule_options lm_schedule_defaults(void)
{
    return (lm_schedule_options){ 0 };
}

/* ---- the thread ---- */

static uint32_t queue_length(const lm_schedule *s)
{
    uint32_t n = 0;

    for (const lm_reply *r = s->first; r; r = r->next)
        n++;
    return n;
}

static void take_inbox(lm_schedule *s, bool *stopping, bool *draining, bool *cancel_all)
{
    pthread_mutex_lock(&s->monitor->lock);
    lm_reply *r  = s->inbox;
    s->inbox     = NULL;
    s->inbox_end = &s->inbox;
    *stopping    = s->stopping;
    *draining    = s->draining;
    *cancel_all  = s->cancel_all;
    for (lm_reply *next; r; r = next) {
        next = r->next;
        lm_queue_add(s, r, false);
    }
    atomic_store_explicit(&s->counts.waiting, queue_length(s), memory_order_relaxed);
    pthread_mutex_unlock(&s->monitor->lock);
}

static void end_for(lm_schedule *s, lm_reply *r, lm_status code, const char *where, const char *why)
{
    lm_error e;

    lm_fail(&e, code, where, LM_NO_OFFSET, "%s", why);
    lm_sequence_end(r->sequence, LM_STOP_FAILED, &e);
    lm_reply_collect(s, r);
}

/* End a request that was cancelled, is past its deadline, or whose reader has stalled it for too long. */
static void look_at(lm_schedule *s, lm_reply *r, double now)
{
    if (atomic_load_explicit(&r->cancelled, memory_order_relaxed)) {
        lm_sequence_cancel(r->sequence);
        lm_reply_collect(s, r);
    } else if (r->deadline > 0 && now >= r->deadline) {
        end_for(s, r, LM_LIMIT, "deadline", "its time has passed");
    } else if (r->stalled_since > 0 && !lm_reply_capacity(r, 1) &&
               now - r->stalled_since >= s->o.stall_seconds) {
        end_for(s, r, LM_CANCELLED, "reply", "its reader has taken nothing for too long");
    } else if (r->stalled_since > 0 && lm_reply_capacity(r, 1)) {
        r->stalled_since = 0;
    }
}

static void look_at_all(lm_schedule *s, bool draining, bool cancel_all)
{
    double now = lm_clock_seconds();

    for (uint32_t i = 0; i < s->n_active; i++) {
        if (cancel_all)
            lm_sequence_cancel(s->active[i]->sequence);
        if (cancel_all)
            lm_reply_collect(s, s->active[i]);
        look_at(s, s->active[i], now);
    }
    for (lm_reply *r = s->first; r; r = r->next) {
        if (cancel_all)
            atomic_store(&r->cancelled, true);
        look_at(s, r, now);
        if (draining && !r->had_slot && !r->over)
            end_for(s, r, LM_CANCELLED, NULL, LM_SHUTTING_DOWN);
    }
}

/* Return the next time at which a deadline or a stall ends a request; negative: none. */
static double next_moment(const lm_schedule *s)
{
    double at = -1;

    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < (i ? 1 : s->n_active); k++)
            for (const lm_reply *r = i ? s->first : s->active[k]; r; r = i ? r->next : NULL) {
                if (r->deadline > 0 && (at < 0 || r->deadline < at))
                    at = r->deadline;
                if (r->stalled_since > 0 && (at < 0 || r->stalled_since + s->o.stall_seconds < at))
                    at = r->stalled_since + s->o.stall_seconds;
            }
    return at;
}

/* With nothing to step: write a prefix to the store once idle, otherwise wait. */
static void rest(lm_schedule *s)
{
    double now = lm_clock_seconds(), at = next_moment(s);

    if (s->idle_since <= 0)
        s->idle_since = now;
    if (s->n_active == 0 && !s->first && s->o.prefix_store) {
        if (now - s->idle_since >= IDLE_SECONDS && lm_store_one(s))
            return;
        if (now - s->idle_since < IDLE_SECONDS)
            at = at < 0 || s->idle_since + IDLE_SECONDS < at ? s->idle_since + IDLE_SECONDS : at;
    }
    lm_monitor_wait(s->monitor, at);
}

static void signal_if_over(lm_schedule *s)
{
    pthread_mutex_lock(&s->monitor->lock);
    s->all_over = s->n_active == 0 && !s->first && !s->inbox;
    if (s->all_over)
        pthread_cond_broadcast(&s->monitor->done);
    pthread_mutex_unlock(&s->monitor->lock);
}

static void *run(void *arg)
{
    lm_schedule *s = arg;
    bool         stopping = false, draining, cancel_all;

    while (!stopping) {
        take_inbox(s, &stopping, &draining, &cancel_all);
        look_at_all(s, draining, cancel_all || stopping);
        lm_schedule_collect(s);
        if (stopping)
            break;
        lm_tasks_run(s);
        lm_admit(s);
        atomic_store_explicit(&s->counts.waiting, queue_length(s), memory_order_relaxed);
        if (lm_schedule_step(s)) {
            s->idle_since = 0;
            s->rest_bytes = s->rest_files = 0;
            continue;
        }
        if (draining)
            signal_if_over(s);
        rest(s);
    }
    lm_tasks_reject(s);
    lm_store_last(s);
    return NULL;
}

/* ---- creation ---- */

static lm_status check_draft(const lm_engine *g, const lm_engine *draft, lm_error *e)
{
    if (!draft)
        return LM_OK;
    if (draft == g || lm_engine_sequences(draft) < lm_engine_sequences(g))
        return lm_fail(e, LM_USAGE, "draft_engine", LM_NO_OFFSET, "%u sequences, the engine has %u",
                       draft == g ? 0 : lm_engine_sequences(draft), lm_engine_sequences(g));
    return lm_draft_fits(lm_engine_model(draft), lm_engine_model(g), e);
}

/* Hash what determines the results of a sequence: the bindings of save.h, the mixture, the compiler and the
 * adapters. */
static lm_status make_fingerprint(lm_schedule *s, lm_error *e)
{
    char       hex[2 * LM_BLAKE2B_BYTES + 1];
    lm_text    bindings = { 0 };
    lm_blake2b h;
    lm_status  status = lm_save_bindings(s->g, &bindings, e);

    for (uint32_t i = 0; i < s->others.n && status == LM_OK; i++)
        status = lm_save_bindings(s->others.engines[i], &bindings, e);
    if (s->others.n)
        lm_text_add(&bindings, (const char *)&s->others.mixture, sizeof s->others.mixture);
    if (status == LM_OK) {
        lm_blake2b_begin(&h);
        lm_blake2b_add(&h, bindings.data, bindings.size);
        lm_blake2b_add(&h, __VERSION__, sizeof __VERSION__);
        for (uint32_t k = 0; k < lm_engine_n_adapters(s->g); k++) {
            lm_blake2b_add(&h, lm_engine_adapter(s->g, k)->hash, sizeof lm_engine_adapter(s->g, k)->hash);
            lm_blake2b_add(&h, &s->adapters[k], sizeof s->adapters[k]);
        }
        lm_blake2b_hex(&h, hex);
        memcpy(s->fingerprint, "fp_", 3);
        memcpy(s->fingerprint + 3, hex, 16);
    }
    lm_text_free(&bindings);
    return status;
}

static lm_status take_adapters(lm_schedule *s, lm_error *e)
{
    uint32_t n = lm_engine_n_adapters(s->g);

    if (n && !(s->adapters = lm_alloc_zero(n, sizeof *s->adapters)))
        return lm_fail_memory(e, "the schedule", n * sizeof *s->adapters);
    if (n)
        memcpy(s->adapters, lm_engine_adapters_of(s->g, 0), n * sizeof *s->adapters);
    return LM_OK;
}

static uint32_t longest_piece(const lm_tokenizer *t)
{
    size_t max = 16, size;

    for (uint32_t i = 0; t && i < lm_tokenizer_size(t); i++) {
        lm_tokenizer_piece(t, (lm_token)i, &size);
        max = size > max ? size : max;
    }
    return max < (1 << 20) ? (uint32_t)max : 1 << 20;
}

static lm_status take_options(lm_schedule *s, const lm_schedule_options *o, lm_error *e)
{
    s->o                 = o ? *o : lm_schedule_defaults();
    s->o.no_prefixes    |= s->o.others != NULL;            /* the other engines would have to compute what the
                                                              first one shares */
    s->o.queue = s->o.queue ? s->o.queue : 512;
    s->o.ring_bytes      = s->o.ring_bytes ? s->o.ring_bytes : 32768;
    s->o.stall_seconds   = s->o.stall_seconds > 0 ? s->o.stall_seconds : 30;
    s->o.store_bytes     = s->o.store_bytes ? s->o.store_bytes : UINT64_C(1) << 30;
    s->o.draft_sequences = s->o.draft_sequences ? s->o.draft_sequences : 4;
    s->o.prefix_store    = o && o->prefix_store && !s->o.no_prefixes ? lm_strdup(o->prefix_store) : NULL;
    if (o && o->prefix_store && !s->o.no_prefixes && !s->o.prefix_store)
        return lm_fail_memory(e, "the schedule", 0);
    return LM_OK;
}

static lm_status take_memory(lm_schedule *s, lm_error *e)
{
    size_t context = lm_engine_context(s->g);

    s->n_slots = lm_engine_sequences(s->g);
    s->slots   = lm_alloc_zero(s->n_slots, sizeof *s->slots);
    s->active  = lm_alloc_zero(s->n_slots, sizeof *s->active);
    s->rows    = lm_alloc_zero(lm_engine_max_rows(s->g), sizeof *s->rows);
    s->scratch = lm_alloc_zero(context + LM_PAGE, sizeof *s->scratch);
    s->monitor = lm_monitor_new();
    if (!s->slots || !s->active || !s->rows || !s->scratch || !s->monitor)
        return lm_fail_memory(e, "the schedule", 0);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        s->slots[i].ids = lm_alloc_zero(context + 1, sizeof *s->slots[i].ids);
        if (!s->slots[i].ids)
            return lm_fail_memory(e, "the schedule", context * sizeof *s->slots[i].ids);
        lm_engine_truncate(s->g, i, 0, NULL);
    }
    s->batch = (lm_batch){ .rows = s->rows,
                           .max_rows = lm_engine_max_rows(s->g),
                           .max_logits = lm_engine_max_logits(s->g) };
    return LM_OK;
}

/* Start the thread. Like the engine's workers, it never runs the host's signal handlers. */
static lm_status start_thread(lm_schedule *s, lm_error *e)
{
    s->running = lm_thread_start(&s->thread, run, s, "lamina-schedule", 0) == 0;
    return s->running ? LM_OK : lm_fail(e, LM_FAILED, "schedule", LM_NO_OFFSET, "no thread can be started");
}

static lm_status open_schedule(lm_schedule *s, const lm_schedule_options *o, lm_error *e)
{
    lm_model_info info;

    lm_model_describe(lm_engine_model(s->g), &info);
    s->n_vocab       = info.n_vocab;
    s->tokenizer     = lm_model_tokenizer(lm_engine_model(s->g));
    s->longest_piece = longest_piece(s->tokenizer);
    LM_TRY(take_options(s, o, e));
    LM_TRY(check_draft(s->g, s->o.draft_engine, e));
    LM_TRY(take_adapters(s, e));
    LM_TRY(lm_ensemble_open(&s->others, s->g, s->o.others, e));
    LM_TRY(make_fingerprint(s, e));
    LM_TRY(take_memory(s, e));
    s->inbox_end = &s->inbox;
    LM_TRY(lm_prefixes_open(&s->prefixes, s->g, s->o.prefix_bytes, e));
    LM_TRY(lm_store_open(s, e));
    LM_TRY(lm_tasks_open(s, e));
    s->budget = (lm_budget){ .target = s->o.itl_target, .max = lm_engine_max_rows(s->g) };
    return start_thread(s, e);
}

lm_status lm_schedule_new(lm_engine *g, const lm_schedule_options *o, lm_schedule **out, lm_error *e)
{
    LM_REQUIRE(e, g && out);
    LM_CHECK_RESERVED(e, o);
    lm_schedule *s = lm_alloc_zero(1, sizeof *s);

    if (!s)
        return lm_fail_memory(e, "the schedule", sizeof *s);
    s->g             = g;
    lm_breaker_cache_open(&s->breakers);
    lm_status status = open_schedule(s, o, e);
    if (status != LM_OK) {
        lm_schedule_free(s);
        return status;
    }
    *out = s;
    return LM_OK;
}

void lm_schedule_free(lm_schedule *s)
{
    if (!s)
        return;
    if (s->running && lm_monitor_check_process(s->monitor, NULL) == LM_OK) {
        pthread_mutex_lock(&s->monitor->lock);
        s->draining = s->stopping = true;
        lm_monitor_notify_locked(s->monitor);
        pthread_mutex_unlock(&s->monitor->lock);
        pthread_join(s->thread, NULL);
    }
    lm_tasks_close(s);
    for (uint32_t i = 0; s->slots && i < s->n_slots; i++) {
        lm_engine_truncate(s->g, i, 0, NULL);
        lm_free(s->slots[i].ids);
    }
    if (s->prefixes.memory)
        lm_prefixes_close(&s->prefixes);
    lm_ensemble_close(&s->others);
    lm_free((char *)s->o.prefix_store);
    lm_free(s->slots);
    lm_free(s->active);
    lm_free(s->rows);
    lm_free(s->scratch);
    lm_free(s->adapters);
    lm_breaker_cache_close(&s->breakers);
    lm_monitor_release(s->monitor);
    lm_free(s);
}

/* ---- functions for other threads ---- */

/* Check whether the queue accepts another request. The caller holds the monitor's lock. */
static lm_status check_queue(const lm_schedule *s, lm_error *e)
{
    uint32_t waiting = atomic_load_explicit(&s->counts.waiting, memory_order_relaxed);

    for (const lm_reply *x = s->inbox; x; x = x->next)
        waiting++;
    if (s->draining)
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SHUTTING_DOWN);
    if (waiting >= s->o.queue)
        return lm_fail(e, LM_NO_FIT, "queue", LM_NO_OFFSET, "%u requests wait, which is as many as may",
                       waiting);
    return LM_OK;
}

lm_status lm_schedule_check(lm_schedule *s, size_t n_prompt, lm_error *e)
{
    LM_REQUIRE(e, s);
    LM_TRY(lm_monitor_check_process(s->monitor, e));
    LM_TRY(lm_admission_check(s, n_prompt, e));
    pthread_mutex_lock(&s->monitor->lock);
    lm_status status = check_queue(s, e);
    pthread_mutex_unlock(&s->monitor->lock);
    return status;
}

static lm_status hand_over(lm_schedule *s, lm_reply *r, lm_error *e)
{
    pthread_mutex_lock(&s->monitor->lock);
    lm_status status = check_queue(s, e);
    if (status == LM_OK) {
        atomic_fetch_add(&r->owners, 1);
        r->number     = ++s->numbers;
        *s->inbox_end = r;
        s->inbox_end  = &r->next;
        lm_monitor_notify_locked(s->monitor);
    }
    pthread_mutex_unlock(&s->monitor->lock);
    return status;
}

lm_status lm_schedule_submit(lm_schedule *s, const lm_request *q, lm_reply **out, lm_error *e)
{
    LM_REQUIRE(e, s && q && out);
    lm_reply *r      = NULL;
    lm_status status = lm_schedule_check(s, q->n_prompt, e);

    if (lm_any_reserved(q->reserved, sizeof q->reserved))
        status = lm_fail_reserved(e, __func__);
    if (status == LM_OK)
        status = lm_reply_make(s, q, &r, e);
    else
        lm_reply_release_hooks(q);
    if (status == LM_OK) {
        status = hand_over(s, r, e);
        if (status != LM_OK)
            lm_reply_drop(r);
    }
    lm_count(status == LM_OK ? &s->counts.submitted : &s->counts.refused, 1);
    if (status == LM_OK)
        *out = r;
    return status;
}

bool lm_schedule_drain(lm_schedule *s, double seconds)
{
    if (!s || lm_monitor_check_process(s->monitor, NULL) != LM_OK)
        return true;
    double until = seconds < 0 ? -1 : lm_clock_seconds() + seconds;
    bool   over;

    pthread_mutex_lock(&s->monitor->lock);
    s->draining = true;
    s->all_over = false;
    lm_monitor_notify_locked(s->monitor);
    while (!s->all_over && (seconds < 0 || lm_clock_seconds() < until))
        lm_condition_wait(&s->monitor->done, &s->monitor->lock, until);
    over = s->all_over;
    s->cancel_all = !over;
    if (!over)
        lm_monitor_notify_locked(s->monitor);
    while (!s->all_over)
        lm_condition_wait(&s->monitor->done, &s->monitor->lock, -1);
    pthread_mutex_unlock(&s->monitor->lock);
    return over;
}

const char *lm_schedule_fingerprint(const lm_schedule *s)
{
    return s ? s->fingerprint : NULL;
}

static uint64_t now(const atomic_uint_fast64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static uint32_t now32(const atomic_uint *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

void lm_schedule_describe(const lm_schedule *s, lm_schedule_statistics *out)
{
    if (!out)
        return;
    *out = (lm_schedule_statistics){ 0 };
    if (!s)
        return;
    const lm_counts *c = &s->counts;
    *out = (lm_schedule_statistics){
        .steps = now(&c->steps),
        .prompt_rows = now(&c->prompt_rows),
        .written_rows = now(&c->written_rows),
        .draft_rows = now(&c->draft_rows),
        .draft_accepted = now(&c->draft_accepted),
        .tokens = now(&c->tokens),
        .submitted = now(&c->submitted),
        .refused = now(&c->refused),
        .preempted = now(&c->preempted),
        .stalled = now(&c->stalled),
        .prompt_tokens = now(&c->prompt_tokens),
        .cached_tokens = now(&c->cached_tokens),
        .evicted_pages = now(&c->evicted),
        .stored = now(&c->stored),
        .restored = now(&c->restored),
        .step_seconds = 1e-9 * (double)now(&c->step_ns),
        .queue_seconds = 1e-9 * (double)now(&c->queue_ns),
        .first_seconds = 1e-9 * (double)now(&c->first_ns),
        .waiting = now32(&c->waiting),
        .reading = now32(&c->reading),
        .writing = now32(&c->writing),
        .prefixes = now(&c->kept),
        .prompt_budget = now32(&c->budget),
        .itl_target = 1e-9 * (double)now(&c->target_ns),
        .queue = lm_durations_now(&c->queue),
        .prompt = lm_durations_now(&c->prompt),
        .first = lm_durations_now(&c->first),
        .between = lm_durations_now(&c->between),
        .generation = lm_durations_now(&c->generation),
        .whole = lm_durations_now(&c->whole),
    };
    for (int i = 0; i < 8; i++)
        out->ended[i] = now(&c->ended[i]);
    lm_engine_pages(s->g, &out->pages_used, &out->pages);
}
