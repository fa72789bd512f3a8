/* slots.c - what other threads want done between steps: slots saved, restored, erased; any function. */
#include <string.h>

#include "base/error.h"
#include "runtime/engine/save.h"
#include "schedule/schedule.h"

/* ---- handing over ---- */

static lm_status send(lm_schedule *s, lm_errand *x, lm_error *e)
{
    lm_errand **end;

    LM_TRY(lm_bell_here(s->bell, e));
    pthread_mutex_lock(&s->bell->lock);
    if (s->draining) {
        pthread_mutex_unlock(&s->bell->lock);
        return lm_fail(e, LM_CANCELLED, "schedule", LM_NO_OFFSET, "it takes nothing new");
    }
    for (end = &s->errands; *end; end = &(*end)->next)
        ;
    *end = x;
    lm_bell_ring_locked(s->bell);
    while (!x->done)
        pthread_cond_wait(&s->bell->answers, &s->bell->lock);
    pthread_mutex_unlock(&s->bell->lock);
    if (x->status != LM_OK && e)
        *e = x->error;
    return x->status;
}

/* ---- by the schedule's thread ---- */

static lm_errand *first_that(lm_schedule *s, bool (*can)(lm_schedule *s, const lm_errand *x))
{
    lm_errand *x;

    pthread_mutex_lock(&s->bell->lock);
    for (x = s->errands; x && !can(s, x); x = x->next)
        ;
    pthread_mutex_unlock(&s->bell->lock);
    return x;
}

static void finish(lm_schedule *s, lm_errand *x)
{
    lm_errand **at;

    pthread_mutex_lock(&s->bell->lock);
    for (at = &s->errands; *at != x; at = &(*at)->next)
        ;
    *at     = x->next;
    x->done = true;
    pthread_cond_broadcast(&s->bell->answers);
    pthread_mutex_unlock(&s->bell->lock);
}

static bool can_run(lm_schedule *s, const lm_errand *x)
{
    return x->slot == UINT32_MAX ? lm_seat_free(s) != UINT32_MAX : !s->seats[x->slot].reply;
}

void lm_errands_run(lm_schedule *s)
{
    lm_errand *x;

    while ((x = first_that(s, can_run))) {
        uint32_t slot = x->slot == UINT32_MAX ? lm_seat_free(s) : x->slot;
        x->status     = x->run(x, s, slot, &x->error);
        finish(s, x);
    }
}

static bool any(lm_schedule *s, const lm_errand *x)
{
    (void)s;
    return x;
}

void lm_errands_refuse(lm_schedule *s)
{
    lm_errand *x;

    while ((x = first_that(s, any))) {
        x->status = lm_fail(&x->error, LM_CANCELLED, "schedule", LM_NO_OFFSET, "it takes nothing new");
        finish(s, x);
    }
}

/* ---- errands ---- */

static lm_status call(lm_errand *x, lm_schedule *s, uint32_t slot, lm_error *e)
{
    lm_seat_clear(s, slot);
    lm_engine_set_adapters(s->g, slot, s->adapters, NULL);
    *e = (lm_error){ .offset = LM_NO_OFFSET };
    lm_status status = x->function(x->arg, s->g, slot, e);
    if (status != LM_OK && e->code == LM_OK)
        lm_fail(e, status, NULL, LM_NO_OFFSET, "refused by the caller's function");
    lm_engine_truncate(s->g, slot, 0, NULL);
    return status;
}

static lm_status save(lm_errand *x, lm_schedule *s, uint32_t slot, lm_error *e)
{
    const lm_seat *t = &s->seats[slot];

    if (t->n == 0)
        return lm_fail(e, LM_USAGE, "slot", LM_NO_OFFSET, "%u holds nothing", slot);
    x->n = t->n;
    return lm_engine_save(s->g, slot, t->ids, t->n, x->path, e);
}

static lm_status restore(lm_errand *x, lm_schedule *s, uint32_t slot, lm_error *e)
{
    lm_seat  *t   = &s->seats[slot];
    lm_tokens ids = { 0 };

    lm_seat_clear(s, slot);
    lm_status status;
    while ((status = lm_restore_adapted(s->g, slot, x->path, &ids, e)) == LM_LIMIT && lm_clear_leftover(s))
        ;
    while (status == LM_LIMIT && lm_prefixes_evict_any(&s->prefixes))
        status = lm_restore_adapted(s->g, slot, x->path, &ids, e);
    if (status != LM_OK)
        return status;
    t->n    = (uint32_t)ids.n;
    t->salt = lm_prefixes_salt_for(&s->prefixes, lm_prefixes_salt(x->salt), lm_engine_adapters_of(s->g, slot));
    t->used = ++s->turn;
    memcpy(t->ids, ids.ids, ids.n * sizeof *ids.ids);
    atomic_store_explicit(&t->n_held, t->n, memory_order_relaxed);
    atomic_store_explicit(&t->n_prompt, t->n, memory_order_relaxed);
    atomic_store_explicit(&t->n_tokens, 0, memory_order_relaxed);
    if (!s->o.no_prefixes)
        lm_keep_tokens(s, slot, t->salt, ids.ids, ids.n);
    x->n = ids.n;
    lm_tokens_free(&ids);
    return LM_OK;
}

static lm_status erase(lm_errand *x, lm_schedule *s, uint32_t slot, lm_error *e)
{
    lm_seat *t = &s->seats[slot];

    (void)e;
    x->n = t->n;
    lm_prefix *node = lm_prefixes_down(&s->prefixes, t->salt, t->ids, t->n);
    lm_seat_clear(s, slot);
    lm_prefixes_forget(&s->prefixes, node);
    return LM_OK;
}

/* ---- for other threads ---- */

lm_status lm_schedule_call(lm_schedule *s, lm_status (*f)(void *arg, lm_engine *g, uint32_t slot, lm_error *e), void *arg, lm_error *e)
{
    LM_GIVEN(e, s && f);
    lm_errand x = { .slot = UINT32_MAX, .run = call, .function = f, .arg = arg };

    return send(s, &x, e);
}

static lm_status send_to_slot(lm_schedule *s, uint32_t slot, lm_errand *x, size_t *n, lm_error *e)
{
    if (s->others.n && x->path)
        return lm_fail(e, LM_UNSUPPORTED, "slot", LM_NO_OFFSET, "several models write together: what each holds is not saved");
    if (slot >= s->n_seats)
        return lm_fail(e, LM_USAGE, "slot", LM_NO_OFFSET, "%u of %u", slot, s->n_seats);
    x->slot = slot;
    LM_TRY(send(s, x, e));
    *n = x->n;
    return LM_OK;
}

lm_status lm_schedule_slot_save(lm_schedule *s, uint32_t slot, const char *path, size_t *n, lm_error *e)
{
    LM_GIVEN(e, s && path && n);
    lm_errand x = { .run = save, .path = path };

    return send_to_slot(s, slot, &x, n, e);
}

lm_status lm_schedule_slot_restore(lm_schedule *s, uint32_t slot, const char *path, const char *salt, size_t *n, lm_error *e)
{
    LM_GIVEN(e, s && path && n);
    lm_errand x = { .run = restore, .path = path, .salt = salt };

    return send_to_slot(s, slot, &x, n, e);
}

lm_status lm_schedule_slot_erase(lm_schedule *s, uint32_t slot, size_t *n, lm_error *e)
{
    LM_GIVEN(e, s && n);
    lm_errand x = { .run = erase };

    return send_to_slot(s, slot, &x, n, e);
}

uint32_t lm_schedule_slots(const lm_schedule *s)
{
    return s ? s->n_seats : 0;
}

lm_status lm_schedule_slot(const lm_schedule *s, uint32_t slot, lm_slot_info *out, lm_error *e)
{
    LM_GIVEN(e, s && out);
    if (slot >= s->n_seats)
        return lm_fail(e, LM_USAGE, "slot", LM_NO_OFFSET, "%u of %u", slot, s->n_seats);
    const lm_seat *t = &s->seats[slot];
    *out = (lm_slot_info){
        .busy     = atomic_load_explicit(&t->busy, memory_order_relaxed),
        .n_held   = atomic_load_explicit(&t->n_held, memory_order_relaxed),
        .n_prompt = atomic_load_explicit(&t->n_prompt, memory_order_relaxed),
        .n_tokens = atomic_load_explicit(&t->n_tokens, memory_order_relaxed),
    };
    return LM_OK;
}
