/* slot_tasks.c - tasks of other threads: save, restore and erase slots; call a function between steps.
 *
 * A task waits until its slot is free. The thread that steps erases slots and calls functions. A slot that is
 * saved or restored is held meanwhile: it is not assigned and its content stays, so that the disk thread can
 * write or fill its pages during steps. */
#include <string.h>

#include "base/alloc.h"
#include "base/os/condition.h"
#include "base/error.h"
#include "base/os/thread.h"
#include "schedule/schedule.h"

/* ---- posting ---- */

static void task_free(lm_task *x)
{
    if (x->release)
        x->release(x->arg);
    lm_free(x->path);
    lm_free(x);
}

/* Post a task. Takes ownership of `x`, also on failure. */
static lm_status send(lm_schedule *s, lm_task *x, lm_error *e)
{
    lm_task   **end;
    lm_status   status = lm_monitor_check_process(s->monitor, e);

    if (status == LM_OK) {
        pthread_mutex_lock(&s->monitor->lock);
        if (s->draining) {
            status = lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SHUTTING_DOWN);
        } else {
            for (end = &s->tasks; *end; end = &(*end)->next)
                ;
            *end = x;
            lm_monitor_notify_locked(s->monitor);
        }
        pthread_mutex_unlock(&s->monitor->lock);
    }
    if (status != LM_OK)
        task_free(x);
    return status;
}

/* ---- the disk thread ---- */

static lm_status on_disk(lm_schedule *s, lm_task *x)
{
    const lm_slot *t = &s->slots[x->slot];

    if (x->action == LM_SLOT_SAVE)
        return lm_engine_save(s->g, x->slot, t->ids, t->n, x->path, &x->error);
    if (!x->restoring)
        return lm_restore_open(s->g, x->slot, x->path, true, &x->restoring, &x->error);
    return lm_restore_pages(x->restoring, &x->error);
}

static void *disk(void *arg)
{
    lm_schedule *s = arg;

    pthread_mutex_lock(&s->monitor->lock);
    for (;;) {
        lm_task *x = s->on_disk;
        if (!x && s->disk_ends)
            break;
        if (!x) {
            pthread_cond_wait(&s->disk_work, &s->monitor->lock);
            continue;
        }
        s->on_disk = x->next;
        pthread_mutex_unlock(&s->monitor->lock);
        x->status = on_disk(s, x);
        pthread_mutex_lock(&s->monitor->lock);
        x->next     = s->off_disk;
        s->off_disk = x;
        lm_monitor_notify_locked(s->monitor);
    }
    pthread_mutex_unlock(&s->monitor->lock);
    return NULL;
}

lm_status lm_tasks_open(lm_schedule *s, lm_error *e)
{
    if (!lm_condition_open(&s->disk_work))
        return lm_fail_memory(e, "the schedule", 0);
    s->has_disk = lm_thread_start(&s->disk, disk, s, "lamina-disk", 0) == 0;
    if (s->has_disk)
        return LM_OK;
    pthread_cond_destroy(&s->disk_work);
    return lm_fail(e, LM_FAILED, "schedule", LM_NO_OFFSET, "no thread can be started");
}

void lm_tasks_close(lm_schedule *s)
{
    if (!s->has_disk || lm_monitor_check_process(s->monitor, NULL) != LM_OK)
        return;
    pthread_mutex_lock(&s->monitor->lock);
    s->disk_ends = true;
    pthread_cond_signal(&s->disk_work);
    pthread_mutex_unlock(&s->monitor->lock);
    pthread_join(s->disk, NULL);
    pthread_cond_destroy(&s->disk_work);
}

/* ---- the schedule's thread ---- */

static void give_to_disk(lm_schedule *s, lm_task *x)
{
    lm_task   **end;

    x->next = NULL;
    pthread_mutex_lock(&s->monitor->lock);
    for (end = &s->on_disk; *end; end = &(*end)->next)
        ;
    *end = x;
    pthread_cond_signal(&s->disk_work);
    pthread_mutex_unlock(&s->monitor->lock);
}

static void finish(lm_schedule *s, lm_task *x)
{
    if (x->begun)
        s->slots[x->slot].held = false;
    lm_restore_drop(x->restoring);
    if (x->done)
        x->done(x->arg, x->status, x->n, x->status == LM_OK ? NULL : &x->error);
    task_free(x);
}

/* Preempts even the last request: it continues after the call, whose pages are free again. */
static lm_status call(lm_schedule *s, lm_task *x, uint32_t slot)
{
    lm_status status;

    do {
        lm_slot_clear(s, slot);
        lm_engine_set_adapters(s->g, slot, s->adapters, NULL);
        x->error = (lm_error){ .offset = LM_NO_OFFSET };
        status   = x->function(x->arg, s->g, slot, &x->error);
    } while (status == LM_LIMIT && lm_reclaim_pages(s, true));
    if (status != LM_OK && x->error.code == LM_OK)
        lm_fail(&x->error, status, NULL, LM_NO_OFFSET, "rejected by the caller's function");
    lm_engine_truncate(s->g, slot, 0, NULL);
    return status;
}

static lm_status erase(lm_schedule *s, lm_task *x)
{
    lm_slot *t = &s->slots[x->slot];

    x->n = t->n;
    lm_prefix *node = lm_prefixes_down(&s->prefixes, t->salt, t->ids, t->n);
    lm_slot_clear(s, x->slot);
    lm_prefixes_forget(&s->prefixes, node);
    return LM_OK;
}

static lm_status check_owner(const lm_schedule *s, lm_task *x)
{
    const lm_slot *t = &s->slots[x->slot];

    if (t->n && !x->any_owner && t->owner != x->owner)
        return lm_fail(&x->error, LM_NOT_FOUND, "slot", LM_NO_OFFSET,
                       "the content of slot %u is of another API key", x->slot);
    if (t->n == 0 && x->action == LM_SLOT_SAVE)
        return lm_fail(&x->error, LM_USAGE, "slot", LM_NO_OFFSET, "the slot %u is empty", x->slot);
    x->n = t->n;
    return LM_OK;
}

/* Empty the slot and hold pages for the content of the file; evicts free slots, then unused prefixes, then
 * preempts requests. */
static lm_status hold(lm_schedule *s, lm_task *x)
{
    lm_status status;

    lm_slot_clear(s, x->slot);
    while ((status = lm_restore_allocate(x->restoring, &x->error)) == LM_LIMIT &&
           (lm_evict_free_slot(s) || lm_prefixes_evict_any(&s->prefixes) || lm_preempt(s, true)))
        ;
    return status;
}

/* Finish a restore whose file is in the slot's pages. */
static void take_restored(lm_schedule *s, lm_task *x)
{
    lm_slot *t = &s->slots[x->slot];
    lm_saved text;

    x->status = lm_restore_end(x->restoring, &text, &x->error);
    if (x->status != LM_OK)
        return;
    t->n     = text.n_held;
    t->owner = x->owner;
    t->salt  = lm_prefixes_salt_for(&s->prefixes, x->owner, lm_engine_adapters_of(s->g, x->slot));
    t->used  = ++s->turn;
    memcpy(t->ids, text.ids, t->n * sizeof *t->ids);
    atomic_store_explicit(&t->n_held, t->n, memory_order_relaxed);
    atomic_store_explicit(&t->n_prompt, t->n, memory_order_relaxed);
    atomic_store_explicit(&t->n_tokens, 0, memory_order_relaxed);
    if (!s->o.no_prefixes)
        lm_keep_tokens(s, x->slot, t->salt, t->ids, t->n);
    x->n = t->n;
    lm_free(text.ids);
}

/* Begin a task whose slot is free. Returns true if it is done. */
static bool begin(lm_schedule *s, lm_task *x, uint32_t slot)
{
    if (x->action < 0) {
        x->status = call(s, x, slot);
        return true;
    }
    x->status = check_owner(s, x);
    if (x->status == LM_OK && x->action == LM_SLOT_RESTORE)
        x->status = hold(s, x);
    if (x->status == LM_OK && x->action == LM_SLOT_ERASE)
        x->status = erase(s, x);
    if (x->status != LM_OK || x->action == LM_SLOT_ERASE)
        return true;
    x->begun = s->slots[slot].held = true;
    give_to_disk(s, x);
    return false;
}

/* Take the first task whose slot is free from the list. Reading the head of a file needs no free slot. */
static lm_task *take_first(lm_schedule *s, uint32_t *slot)
{
    lm_task   **at, *x;

    pthread_mutex_lock(&s->monitor->lock);
    for (at = &s->tasks; (x = *at); at = &x->next) {
        *slot = x->slot == UINT32_MAX ? lm_slot_find_free(s) : x->slot;
        if ((x->action == LM_SLOT_RESTORE && !x->restoring) ||
            (*slot != UINT32_MAX && lm_slot_idle(&s->slots[*slot])))
            break;
    }
    if (x)
        *at = x->next;
    pthread_mutex_unlock(&s->monitor->lock);
    return x;
}

static lm_task *take_off_disk(lm_schedule *s)
{
    pthread_mutex_lock(&s->monitor->lock);
    lm_task *x = s->off_disk;
    if (x)
        s->off_disk = x->next;
    pthread_mutex_unlock(&s->monitor->lock);
    return x;
}

/* Continue a task that the disk thread has returned. After reading the head of a file it waits for its
 * slot. */
static void resume(lm_schedule *s, lm_task *x)
{
    if (x->status == LM_OK && x->action == LM_SLOT_RESTORE && !x->begun) {
        pthread_mutex_lock(&s->monitor->lock);
        x->next  = s->tasks;
        s->tasks = x;
        pthread_mutex_unlock(&s->monitor->lock);
        return;
    }
    if (x->status == LM_OK && x->action == LM_SLOT_RESTORE)
        take_restored(s, x);
    finish(s, x);
}

void lm_tasks_run(lm_schedule *s)
{
    lm_task   *x;
    uint32_t   slot;

    while ((x = take_off_disk(s)))
        resume(s, x);
    while ((x = take_first(s, &slot)))
        if (x->action == LM_SLOT_RESTORE && !x->restoring)
            give_to_disk(s, x);
        else if (begin(s, x, slot))
            finish(s, x);
}

void lm_tasks_reject(lm_schedule *s)
{
    lm_task   *x;

    lm_tasks_close(s);
    s->has_disk = false;
    while ((x = take_off_disk(s)))
        resume(s, x);
    for (;;) {
        pthread_mutex_lock(&s->monitor->lock);
        if ((x = s->tasks))
            s->tasks = x->next;
        pthread_mutex_unlock(&s->monitor->lock);
        if (!x)
            return;
        x->status = lm_fail(&x->error, LM_CANCELLED, NULL, LM_NO_OFFSET, LM_SHUTTING_DOWN);
        finish(s, x);
    }
}

/* ---- functions for other threads ---- */

static lm_task *task_new(lm_error *e)
{
    lm_task *x = lm_alloc_zero(1, sizeof *x);

    if (!x)
        lm_fail_memory(e, "the schedule", sizeof *x);
    return x;
}

static lm_status check_task(const lm_schedule *s, const lm_slot_task *t, lm_error *e)
{
    if (lm_any_reserved(t->reserved, sizeof t->reserved))
        return lm_fail_reserved(e, __func__);
    if ((unsigned)t->action > LM_SLOT_ERASE)
        return lm_fail(e, LM_USAGE, "action", LM_NO_OFFSET, "unknown");
    if (s->others.n && t->action != LM_SLOT_ERASE)
        return lm_fail(e, LM_UNSUPPORTED, "slot", LM_NO_OFFSET,
                       "several models write together: what each holds is not saved");
    if (t->slot >= s->n_slots)
        return lm_fail(e, LM_USAGE, "slot", LM_NO_OFFSET, "%u of %u", t->slot, s->n_slots);
    if (t->action != LM_SLOT_ERASE && !t->path)
        return lm_fail(e, LM_USAGE, "path", LM_NO_OFFSET, "NULL");
    return LM_OK;
}

lm_status lm_schedule_slot_start(lm_schedule *s, const lm_slot_task *t, lm_error *e)
{
    LM_REQUIRE(e, s && t);
    lm_status  status = check_task(s, t, e);
    lm_task *x        = status == LM_OK ? task_new(e) : NULL;

    if (x && t->path && !(x->path = lm_strdup(t->path))) {
        lm_fail_memory(e, "the schedule", strlen(t->path));
        lm_free(x);
        x = NULL;
    }
    if (!x) {
        if (t->release)
            t->release(t->arg);
        return status != LM_OK ? status : LM_NO_MEMORY;
    }
    x->action    = (int)t->action;
    x->slot      = t->slot;
    x->owner     = lm_prefixes_salt(t->salt);
    x->any_owner = t->any_salt;
    x->done      = t->done;
    x->release   = t->release;
    x->arg       = t->arg;
    return send(s, x, e);
}

/* A thread that waits for a task. */
typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            done;
    lm_status       status;
    size_t          n;
    lm_error        error;
    lm_status     (*function)(void *arg, lm_engine *g, uint32_t slot, lm_error *e);
    void           *arg;
} waiter;

static void reported(void *arg, lm_status status, size_t n, const lm_error *error)
{
    waiter *w = arg;

    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->n      = n;
    if (error)
        w->error = *error;
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static lm_status wait_for(waiter *w, lm_status sent, lm_error *e)
{
    if (sent == LM_OK) {
        pthread_mutex_lock(&w->lock);
        while (!w->done)
            pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
        if (w->status != LM_OK && e)
            *e = w->error;
        sent = w->status;
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    return sent;
}

static void open_waiter(waiter *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

static lm_status call_waiters(void *arg, lm_engine *g, uint32_t slot, lm_error *e)
{
    waiter *w = arg;

    return w->function(w->arg, g, slot, e);
}

lm_status lm_schedule_call(lm_schedule *s,
                           lm_status (*f)(void *arg, lm_engine *g, uint32_t slot, lm_error *e), void *arg,
                           lm_error *e)
{
    LM_REQUIRE(e, s && f);
    lm_task *x = task_new(e);
    waiter     w = { .function = f, .arg = arg };

    if (!x)
        return LM_NO_MEMORY;
    open_waiter(&w);
    x->slot     = UINT32_MAX;
    x->action   = -1;
    x->function = call_waiters;
    x->arg      = &w;
    x->done     = reported;
    return wait_for(&w, send(s, x, e), e);
}

static lm_status wait_for_slot(lm_schedule *s, lm_slot_task *t, size_t *n, lm_error *e)
{
    waiter w = { 0 };

    open_waiter(&w);
    t->any_salt = true;
    t->done     = reported;
    t->arg      = &w;
    lm_status status = wait_for(&w, lm_schedule_slot_start(s, t, e), e);
    if (status == LM_OK)
        *n = w.n;
    return status;
}

lm_status lm_schedule_slot_save(lm_schedule *s, uint32_t slot, const char *path, size_t *n, lm_error *e)
{
    LM_REQUIRE(e, s && path && n);
    return wait_for_slot(s, &(lm_slot_task){ .action = LM_SLOT_SAVE, .slot = slot, .path = path }, n, e);
}

lm_status lm_schedule_slot_restore(lm_schedule *s, uint32_t slot, const char *path, const char *salt,
                                   size_t *n, lm_error *e)
{
    LM_REQUIRE(e, s && path && n);
    return wait_for_slot(
        s, &(lm_slot_task){ .action = LM_SLOT_RESTORE, .slot = slot, .path = path, .salt = salt }, n, e);
}

lm_status lm_schedule_slot_erase(lm_schedule *s, uint32_t slot, size_t *n, lm_error *e)
{
    LM_REQUIRE(e, s && n);
    return wait_for_slot(s, &(lm_slot_task){ .action = LM_SLOT_ERASE, .slot = slot }, n, e);
}

uint32_t lm_schedule_slots(const lm_schedule *s)
{
    return s ? s->n_slots : 0;
}

bool lm_schedule_slot_owned(const lm_schedule *s, uint32_t slot, const char *salt)
{
    return s && slot < s->n_slots && s->slots[slot].owner == lm_prefixes_salt(salt);
}

lm_status lm_schedule_slot(const lm_schedule *s, uint32_t slot, lm_slot_info *out, lm_error *e)
{
    LM_REQUIRE(e, s && out);
    if (slot >= s->n_slots)
        return lm_fail(e, LM_USAGE, "slot", LM_NO_OFFSET, "%u of %u", slot, s->n_slots);
    const lm_slot *t = &s->slots[slot];
    *out = (lm_slot_info){
        .busy     = atomic_load_explicit(&t->busy, memory_order_relaxed),
        .n_held   = atomic_load_explicit(&t->n_held, memory_order_relaxed),
        .n_prompt = atomic_load_explicit(&t->n_prompt, memory_order_relaxed),
        .n_tokens = atomic_load_explicit(&t->n_tokens, memory_order_relaxed),
    };
    return LM_OK;
}
