/* models.c - which model is in memory is decided under one lock; loading and unloading run without
 * it, in the loader's thread. Read `run` (the loader's loop), then make_room and lm_models_use.
 *
 * Ownership. A service is kept in memory by its `users`: each lm_models_use and _hold adds one, each
 * lm_models_release takes one away. An exchange that waits for a model is the models' until call_back passes
 * it to a worker again.
 *
 * States. ABSENT, LOADING, READY, then DRAINING or UNLOADING, or FAILED. Only models.c changes them.
 *
 * Order of unloading: least recently used, idle models first. */
#include "server/models/models_entries.h"
#include "server/front/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/os/clock.h"
#include "base/os/condition.h"
#include "base/os/thread.h"

static void set_state(lm_models_entry *x, lm_service_state state)
{
    atomic_store(&x->service->state, state);
}

/* ---- waiting requests ---- */

/* Have the waiting requests handled again: they find the model READY or FAILED, or the server ending. */
static void call_back(lm_models_entry *x)
{
    while (x->waiting) {
        lm_models_waiter *w = x->waiting;

        x->waiting = w->next;
        x->expected++;
        lm_exchange_again(w->x);
        lm_heap_free(w);
    }
}

static lm_models_entry *max_wanted(lm_models *m)
{
    lm_models_entry *best = NULL;

    for (lm_models_entry *x = m->items; x < m->items + m->n; x++)
        if (x->waiting && (!best || x->wanted_at < best->wanted_at) &&
            (lm_models_entry_state(x) == LM_SERVICE_ABSENT || lm_models_entry_state(x) == LM_SERVICE_FAILED))
            best = x;
    return best;
}

/* ---- unloading; the lock is held, and released while memory is freed ---- */

static bool is_idle(const lm_models_entry *x)
{
    return lm_models_entry_state(x) == LM_SERVICE_READY && !x->users && !x->expected;
}

static void unload(lm_models *m, lm_models_entry *x)
{
    set_state(x, LM_SERVICE_UNLOADING);
    pthread_mutex_unlock(&m->lock);
    lm_service_unload(x->service);
    pthread_mutex_lock(&m->lock);
    x->closing = false;
    set_state(x, LM_SERVICE_ABSENT);
}

/* Return the loaded model that is closing, or the least recently used one; NULL: none. */
static lm_models_entry *next_to_unload(lm_models *m, bool only_idle)
{
    lm_models_entry *best = NULL;

    for (lm_models_entry *x = m->items; x < m->items + m->n; x++) {
        if (lm_models_entry_state(x) != LM_SERVICE_READY || (only_idle && !is_idle(x)))
            continue;
        if (!best || x->closing > best->closing ||
            (x->closing == best->closing && x->idle_since < best->idle_since))
            best = x;
    }
    return best;
}

static uint64_t bytes_in_use(const lm_models *m)
{
    uint64_t sum = 0;

    for (const lm_models_entry *x = m->items; x < m->items + m->n; x++)
        if (lm_models_entry_state(x) == LM_SERVICE_READY || lm_models_entry_state(x) == LM_SERVICE_UNLOADING)
            sum += x->bytes;
    return sum;
}

/* Unload an idle model whose time is over. Return the seconds until the next one is due; < 0: none is due; 0
 * after unloading: the lock was released, and signals of changes made meanwhile were missed. */
static double unload_idle(lm_models *m)
{
    double soonest = -1;

    for (lm_models_entry *x = m->items; x < m->items + m->n; x++) {
        double left = x->idle_since + x->keep_alive - lm_clock_seconds();

        if (m->o.stays || x->keep_alive < 0 || !is_idle(x))
            continue;
        if (left <= 0) {
            unload(m, x);
            return 0;
        }
        if (soonest < 0 || left < soonest)
            soonest = left;
    }
    return soonest;
}

/* ---- loading ---- */

static lm_status no_fit(const lm_models_entry *x, uint64_t limit, lm_error *e)
{
    lm_fail(e, LM_NO_FIT, x->service->name, LM_NO_OFFSET,
            "the model needs %" PRIu64 " bytes of memory, the limit is %" PRIu64, x->bytes, limit);
    lm_fail_hint(e, "a smaller context (-c), fewer slots (--parallel), fewer --cache-tokens or more "
                    "--mem-limit");
    return LM_NO_FIT;
}

static lm_status make_room(lm_models *m, lm_models_entry *x, lm_error *e)
{
    if (m->o.memory && x->bytes > m->o.memory)
        return no_fit(x, m->o.memory, e);
    while (m->o.memory && bytes_in_use(m) + x->bytes > m->o.memory && !atomic_load(&m->stops)) {
        lm_models_entry *leaves = next_to_unload(m, true);

        if (leaves) {
            unload(m, leaves);
            continue;
        }
        if ((leaves = next_to_unload(m, false)))
            leaves->closing = true;
        pthread_cond_wait(&m->change, &m->lock);
    }
    return atomic_load(&m->stops) ? lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SERVER_ENDS) : LM_OK;
}

/* Load a model. The lock is held before and after. */
static lm_status load(lm_models *m, lm_models_entry *x, lm_error *e)
{
    uint64_t bytes = 0;
    char digest[65] = "";
    lm_status status;

    set_state(x, LM_SERVICE_LOADING);
    pthread_mutex_unlock(&m->lock);
    status = lm_service_open(x->service, &bytes, digest, e);
    pthread_mutex_lock(&m->lock);
    if (status == LM_OK) {
        x->bytes = bytes;
        memcpy(x->digest, digest, sizeof x->digest);
        status = make_room(m, x, e);
    }
    pthread_mutex_unlock(&m->lock);
    if (status == LM_OK)
        status = lm_service_start(x->service, e);
    if (status != LM_OK)
        lm_service_unload(x->service);
    pthread_mutex_lock(&m->lock);
    x->idle_since = lm_clock_seconds();
    x->keep_alive = m->o.keep_alive;
    x->loads += status == LM_OK;
    if (status != LM_OK && e)
        x->service->error = *e;
    set_state(x, status == LM_OK ? LM_SERVICE_READY : LM_SERVICE_FAILED);
    call_back(x);
    for (lm_models_entry *other = m->items; other < m->items + m->n; other++)
        /* Its memory was not needed after all. */
        if (other->closing && lm_models_entry_state(other) == LM_SERVICE_READY) {
            other->closing = false;
            call_back(other);
        }
    return status;
}

static void wait_for_change(lm_models *m, double seconds)
{
    lm_condition_wait(&m->change, &m->lock, seconds < 0 ? -1 : lm_clock_seconds() + seconds);
}

static void *run(void *arg)
{
    lm_models *m = arg;

    pthread_mutex_lock(&m->lock);
    while (!atomic_load(&m->stops)) {
        lm_models_entry *x = max_wanted(m);
        lm_error e = { 0 };

        if (x)
            load(m, x, &e);
        else {
            double seconds = unload_idle(m);
            if (!atomic_load(&m->stops) && !max_wanted(m))
                wait_for_change(m, seconds);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- all models ---- */

static bool keep_loading(void *models, double fraction)
{
    (void)fraction;
    return !atomic_load(&((lm_models *)models)->stops);
}

/* Whether `name` is the model's name or one of its aliases. */
static bool is_called(const lm_service *s, const char *name, size_t n)
{
    if (strlen(s->name) == n && strncasecmp(s->name, name, n) == 0)
        return true;
    for (const char *at = s->o.aliases; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && strncasecmp(at, name, n) == 0)
            return true;
    return false;
}

static lm_status add(lm_models *m, size_t i, lm_error *e)
{
    lm_models_entry *x = m->items + i;
    lm_service_options o = m->o.services[i];

    o.engine.progress = keep_loading;
    o.engine.progress_arg = m;
    LM_TRY(lm_service_new(&o, &x->service, e));
    m->n++;
    x->service->models = m;
    x->service->index = i;
    set_state(x, LM_SERVICE_ABSENT);
    for (size_t k = 0; k < i; k++)
        if (is_called(m->items[k].service, x->service->name, strlen(x->service->name)) ||
            is_called(x->service, m->items[k].service->name, strlen(m->items[k].service->name))) {
            lm_fail(e, LM_USAGE, o.path, LM_NO_OFFSET, "two models are called \"%s\": the other one is %s",
                    x->service->name, m->o.services[k].path);
            lm_fail_hint(e, "give them names with --alias, one for each in their order");
            return LM_USAGE;
        }
    return LM_OK;
}

lm_status lm_models_new(const lm_models_options *o, lm_models **out, lm_error *e)
{
    lm_models *m = lm_memory_zero(1, sizeof *m);
    lm_status status = LM_OK;

    if (!m || !(m->items = lm_memory_zero(o->n, sizeof *m->items))) {
        lm_heap_free(m);
        return lm_fail_memory(e, "the models", o->n * sizeof(lm_models_entry));
    }
    m->o = *o;
    pthread_mutex_init(&m->lock, NULL);
    lm_condition_open(&m->change);
    for (size_t i = 0; i < o->n && status == LM_OK; i++)
        status = add(m, i, e);
    if (status == LM_OK)
        *out = m;
    else
        lm_models_free(m);
    return status;
}

static lm_status start_thread(lm_models *m, lm_error *e)
{
    m->running = lm_thread_start(&m->thread, run, m, "lamina-models", 0) == 0;
    return m->running ? LM_OK : lm_fail(e, LM_FAILED, "the server", LM_NO_OFFSET, "cannot start a thread");
}

lm_status lm_models_check(lm_models *m, lm_error *e)
{
    if (m->n != 1 || !m->o.memory)
        return LM_OK;
    LM_TRY(lm_service_needs(m->items->service, &m->items->bytes, e));
    return m->items->bytes > m->o.memory ? no_fit(m->items, m->o.memory, e) : LM_OK;
}

lm_status lm_models_begin(lm_models *m, lm_error *e)
{
    lm_status status = LM_OK;

    pthread_mutex_lock(&m->lock);
    if (m->n == 1)
        status = load(m, m->items, e);
    m->begun = true;
    pthread_mutex_unlock(&m->lock);
    return status == LM_OK && !m->o.stays ? start_thread(m, e) : status;
}

void lm_models_quiesce(lm_models *m)
{
    pthread_mutex_lock(&m->lock);
    atomic_store(&m->stops, true);
    for (lm_models_entry *x = m->items; x < m->items + m->n; x++)
        call_back(x);
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
}

/* Return the seconds that are left of `seconds`, which end at `until`; negative: no limit. */
static double left(double seconds, double until)
{
    double rest = until - lm_clock_seconds();

    return seconds < 0 ? -1 : rest > 0 ? rest : 0;
}

bool lm_models_drain(lm_models *m, double seconds)
{
    double until = lm_clock_seconds() + seconds;
    bool all = true;

    lm_models_quiesce(m);
    for (lm_models_entry *x = m->items; x < m->items + m->n; x++) {
        if (!lm_models_peek(x->service))
            continue;
        all &= lm_schedule_drain(x->service->schedule, left(seconds, until));
        all &= lm_traced_list_drain(&x->service->traced, left(seconds, until));
        lm_models_unpeek(x->service);
    }
    return all;
}

void lm_models_free(lm_models *m)
{
    if (!m)
        return;
    lm_models_quiesce(m);
    if (m->running)
        pthread_join(m->thread, NULL);
    for (size_t i = 0; i < m->n; i++)
        lm_service_free(m->items[i].service);
    pthread_cond_destroy(&m->change);
    pthread_mutex_destroy(&m->lock);
    lm_heap_free(m->items);
    lm_heap_free(m);
}

bool lm_models_lost(const lm_models *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (lm_cluster_lost(m->items[i].service->o.model.cluster))
            return true;
    return false;
}

lm_service_state lm_models_state(lm_models *m, lm_error *why)
{
    lm_service_state state = LM_SERVICE_READY;

    pthread_mutex_lock(&m->lock);
    if (atomic_load(&m->stops))
        state = LM_SERVICE_DRAINING;
    else if (!m->begun)
        state = LM_SERVICE_LOADING;
    else if (m->o.stays && lm_models_entry_state(m->items) == LM_SERVICE_FAILED)
        state = LM_SERVICE_FAILED;
    if (state == LM_SERVICE_FAILED && why)
        *why = m->items[0].service->error;
    pthread_mutex_unlock(&m->lock);
    return state;
}

lm_service *lm_models_at(const lm_models *m, size_t i)
{
    return i < m->n ? m->items[i].service : NULL;
}

size_t lm_models_count(const lm_models *m)
{
    return m->n;
}

bool lm_models_stays(const lm_models *m)
{
    return m->o.stays;
}

lm_service *lm_models_find(const lm_models *m, const char *name)
{
    static const char latest[] = ":latest";
    size_t n = strlen(name);

    if (n > sizeof latest - 1 && strcasecmp(name + n - (sizeof latest - 1), latest) == 0)
        n -= sizeof latest - 1;
    for (size_t i = 0; i < m->n; i++) {
        const lm_service *s = m->items[i].service;
        if (strcasecmp(s->name, name) == 0 || is_called(s, name, n))
            return m->items[i].service;
    }
    return NULL;
}
