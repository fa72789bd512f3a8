/* stepping.c - the rows of a step, and their results. */
#include "base/os/clock.h"
#include "schedule/schedule.h"

/* ---- requests that can have rows ---- */

static bool generates(const lm_reply *r)
{
    return !lm_sequence_reads(r->sequence);
}

/* Whether its ring has space for a token. If not, the request is stalled until its reader has caught up. */
static bool can_receive(lm_schedule *s, lm_reply *r)
{
    if (lm_reply_capacity(r, 1)) {
        r->stalled_since = 0;
        return true;
    }
    atomic_store(&r->stalled, true);
    /* the reader made space just now */
    if (lm_reply_capacity(r, 1) && atomic_exchange(&r->stalled, false)) {
        r->stalled_since = 0;
        return true;
    }
    if (r->stalled_since <= 0) {
        r->stalled_since = lm_clock_seconds();
        lm_count(&s->counts.stalled, 1);
    }
    return false;
}

static uint32_t count(lm_schedule *s, bool writing)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_active; i++)
        n += generates(s->active[i]) == writing && can_receive(s, s->active[i]);
    return n;
}

/* ---- rows ---- */

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void add_rows(lm_schedule *s, lm_reply *r, uint32_t max, uint32_t max_prompt)
{
    lm_batch *b = &s->batch;

    b->max_rows        = min(lm_engine_max_rows(s->g), b->n + max);
    b->max_prompt = b->n_prompt + max_prompt;
    r->in_step     = lm_sequence_rows(r->sequence, b) > 0;
    b->max_rows        = lm_engine_max_rows(s->g);
}

/* Add the rows of generating requests. Draft tokens fill up a step of few rows. */
static void add_generating(lm_schedule *s, uint32_t writers, bool drafts)
{
    uint32_t each = drafts && writers && writers <= s->o.draft_sequences ? LM_FEW_ROWS / writers : 1;

    s->batch.no_draft = each < 2;
    for (uint32_t i = 0; i < s->n_active; i++) {
        lm_reply *r = s->active[(i + s->turn) % s->n_active];
        if (generates(r) && can_receive(s, r) && s->batch.n < lm_engine_max_rows(s->g))
            add_rows(s, r, each > 1 ? lm_reply_capacity(r, each) : 1, 1);
    }
}

/* Return how many more prompt rows can be in this step: with the same results as row by row
 * (lm_engine_uniform_rows), and so that states are kept (lm_engine_rows_to_keep). */
static uint32_t prompt_rows_left(const lm_schedule *s, const lm_reply *r)
{
    const lm_sequence *x = r->sequence;

    uint32_t           at = (uint32_t)x->at;
    uint32_t           n  = lm_engine_rows_to_keep(s->g, at, (uint32_t)(x->n_reads - at));

    return lm_engine_uniform_rows(s->g, at, n) - r->prompt_rows;
}

/* Divide `rows` among prompts: half to the oldest, an even part of the rest to each other one, the remainder
 * in order. */
static void divide_prompt_rows(lm_schedule *s, uint32_t readers, uint32_t rows)
{
    uint32_t others = readers > 1 ? rows / 2 / (readers - 1) : 0, given;
    bool     oldest = true;

    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < s->n_active; i++) {
            lm_reply *r = s->active[i];
            if (pass == 0)
                r->prompt_rows = 0;
            if (generates(r) || !can_receive(s, r))
                continue;
            given = pass ? rows : !oldest ? others : readers > 1 ? rows - rows / 2 : rows;
            given = min(min(given, rows), prompt_rows_left(s, r));
            r->prompt_rows += given;
            rows -= given;
            oldest = false;
        }
}

static void add_prompts(lm_schedule *s, uint32_t readers, uint32_t written)
{
    uint32_t rows = lm_budget_rows(&s->budget, written);

    atomic_store_explicit(&s->counts.budget, rows, memory_order_relaxed);
    divide_prompt_rows(s, readers, min(rows, lm_engine_max_rows(s->g) - s->batch.n));
    for (uint32_t i = 0; i < s->n_active; i++)
        if (!generates(s->active[i]) && s->active[i]->prompt_rows)
            add_rows(s, s->active[i], s->active[i]->prompt_rows, s->active[i]->prompt_rows);
}

/* Assemble a step. Returns the number of rows of generating requests. */
static uint32_t assemble(lm_schedule *s, bool drafts)
{
    uint32_t writers = count(s, true), readers = count(s, false);

    s->batch.n = s->batch.n_logits = s->batch.n_prompt = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        s->active[i]->in_step = false;
    add_generating(s, writers, drafts);
    uint32_t written = s->batch.n;
    if (readers)
        add_prompts(s, readers, written);
    return written;
}

/* ---- results ---- */

static void collect(void *arg, unsigned worker, unsigned prompt_rows)
{
    lm_schedule *s = arg;
    lm_reply    *r = s->active[prompt_rows];

    (void)worker;
    lm_reply_collect(s, r);
    if (!r->over)
        lm_reply_notify(r);
}

/* Choosing tokens takes a good part of a small model's step, so workers share it. */
static void collect_all(lm_schedule *s)
{
    if (s->n_active > 1)
        lm_pool_run_chunks(s->g->pool, collect, s, s->n_active);
    else if (s->n_active)
        collect(s, 0, 0);
}

static void conclude(lm_schedule *s, lm_reply *r)
{
    if (r->has_slot)
        lm_slot_release(s, r, false);
    else
        lm_queue_remove(s, r);
    lm_reply_conclude(s, r);
}

static void update_counts(lm_schedule *s)
{
    uint32_t writing = 0;

    for (uint32_t i = 0; i < s->n_active; i++) {
        lm_reply *r = s->active[i];
        lm_slot  *t = &s->slots[r->slot];
        writing += generates(r);
        atomic_store_explicit(&r->state,
                              r->stalled_since > 0 ? LM_REPLY_STALLED
                              : generates(r)       ? LM_REPLY_WRITES
                                                   : LM_REPLY_READS,
                              memory_order_relaxed);
        atomic_store_explicit(&t->n_held, lm_engine_length(s->g, r->slot), memory_order_relaxed);
        atomic_store_explicit(&t->n_tokens, (uint32_t)r->usage.n_tokens, memory_order_relaxed);
    }
    atomic_store_explicit(&s->counts.writing, writing, memory_order_relaxed);
    atomic_store_explicit(&s->counts.reading, s->n_active - writing, memory_order_relaxed);
    atomic_store_explicit(&s->counts.evicted, s->prefixes.evicted, memory_order_relaxed);
    atomic_store_explicit(&s->counts.kept, s->prefixes.once.n + s->prefixes.again.n, memory_order_relaxed);
    double target = lm_budget_target(&s->budget, writing ? writing : 1);
    atomic_store_explicit(&s->counts.target_ns, (uint64_t)(target * 1e9), memory_order_relaxed);
}

void lm_schedule_collect(lm_schedule *s)
{
    for (uint32_t i = 0; i < s->n_active;)
        if (s->active[i]->over)
            conclude(s, s->active[i]);
        else
            i++;
    for (lm_reply *r = s->first, *next; r; r = next) {
        next = r->next;
        if (r->over)
            conclude(s, r);
    }
    update_counts(s);
}

static void ran(lm_schedule *s, uint32_t written, double seconds)
{
    lm_count(&s->counts.steps, 1);
    lm_count(&s->counts.prompt_rows, s->batch.n_prompt);
    lm_count(&s->counts.written_rows, written);
    lm_count(&s->counts.step_ns, (uint64_t)(seconds * 1e9));
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->in_step)
            lm_sequence_ran(s->active[i]->sequence);
    collect_all(s);
    for (uint32_t i = 0; i < s->n_active; i++)
        lm_keep_pages(s, s->active[i]);
}

/* End all active requests: the engine cannot continue, for example because the model's file has shrunk. */
static void fail_all(lm_schedule *s, const lm_error *e)
{
    for (uint32_t i = 0; i < s->n_active; i++)
        lm_sequence_end(s->active[i]->sequence, LM_STOP_FAILED, e);
    collect_all(s);
}

/* End the requests of the step: a single one has all pages. */
static void end_without_pages(lm_schedule *s, const lm_error *e)
{
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->in_step)
            lm_sequence_end(s->active[i]->sequence,
                            generates(s->active[i]) ? LM_STOP_CONTEXT : LM_STOP_FAILED, e);
    collect_all(s);
}

/* Run the step in all engines, or in none. *room: an engine other than the schedule's has too few pages
 * (lm_reclaim_any). */
static lm_status run(lm_schedule *s, bool *room, lm_error *e)
{
    lm_status status;

    *room = false;
    if (!s->batch.n)
        return LM_OK;
    status = lm_ensemble_check(&s->others, s->batch.rows, s->batch.n, e);
    *room  = status == LM_LIMIT;
    if (status == LM_OK)
        status = lm_engine_step(s->g, s->batch.rows, s->batch.n, e);
    if (status != LM_OK)
        return status;
    status = lm_ensemble_step(&s->others, s->batch.rows, s->batch.n, e);
    /* too late to try again */
    return status == LM_LIMIT || status == LM_CANCELLED ? LM_FAILED : status;
}

bool lm_schedule_step(lm_schedule *s)
{
    lm_error  e;
    lm_status status = LM_OK;
    bool      drafts = true, others;
    uint32_t  written;
    double    from;

    if (s->n_active == 0)
        return false;
    s->turn++;
    for (;; drafts = false) {
        written = assemble(s, drafts);
        from    = lm_clock_seconds();
        status  = run(s, &others, &e);
        if (status != LM_LIMIT || (!drafts && !(others ? lm_reclaim_any(s) : lm_reclaim_pages(s, false))))
            break;
    }
    double seconds = lm_clock_seconds() - from;
    if (status == LM_LIMIT)
        end_without_pages(s, &e);
    else if (status != LM_OK && status != LM_CANCELLED)
        fail_all(s, &e);
    else if (status == LM_OK && s->batch.n) {
        ran(s, written, seconds);
        lm_budget_ran(&s->budget, written, s->batch.n_prompt, seconds);
    } else {
        collect_all(s);                                  /* requests that ended without rows */
    }
    uint32_t n_active = s->n_active;
    lm_schedule_collect(s);
    return s->batch.n > 0 || s->n_active < n_active;     /* other requests can use the slots of those that
                                                            ended */
}
