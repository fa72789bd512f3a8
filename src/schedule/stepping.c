/* stepping.c - the rows of a step, and what came of them. */
#include "base/clock.h"
#include "schedule/schedule.h"

/* ---- who can have rows ---- */

static bool writes(const lm_reply *r)
{
    return !lm_sequence_reads(r->sequence);
}

/* A reader that does not keep up makes its text wait. */
static bool has_room(lm_schedule *s, lm_reply *r)
{
    if (lm_reply_room(r, 1)) {
        r->stalled_since = 0;
        return true;
    }
    atomic_store(&r->stalled, true);
    if (lm_reply_room(r, 1) && atomic_exchange(&r->stalled, false)) {        /* just now */
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

    for (uint32_t i = 0; i < s->n_texts; i++)
        n += writes(s->texts[i]) == writing && has_room(s, s->texts[i]);
    return n;
}

/* ---- rows ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void add_rows(lm_schedule *s, lm_reply *r, uint32_t most, uint32_t most_prompt)
{
    lm_batch *b = &s->batch;

    b->most        = least(lm_engine_max_rows(s->g), b->n + most);
    b->most_prompt = b->n_prompt + most_prompt;
    r->in_step     = lm_sequence_rows(r->sequence, b) > 0;
    b->most        = lm_engine_max_rows(s->g);
}

/* Draft tokens fill what a step of few rows has left. */
static void add_generating(lm_schedule *s, uint32_t writers, bool drafts)
{
    uint32_t each = drafts && writers && writers <= s->o.draft_sequences ? LM_FEW_ROWS / writers : 1;

    s->batch.no_draft = each < 2;
    for (uint32_t i = 0; i < s->n_texts; i++) {
        lm_reply *r = s->texts[(i + s->turn) % s->n_texts];
        if (writes(r) && has_room(s, r) && s->batch.n < lm_engine_max_rows(s->g))
            add_rows(s, r, each > 1 ? lm_reply_room(r, each) : 1, 1);
    }
}

/* Rows of its prompt that may still be in this step, in one piece that gets what it gets row by row. */
static uint32_t wish(const lm_schedule *s, const lm_reply *r)
{
    const lm_sequence *x = r->sequence;

    return lm_engine_alike(s->g, (uint32_t)x->at, (uint32_t)(x->n_reads - x->at)) - r->share;
}

/* `rows` to those who read: to the oldest half, to the others an even part of the rest, what is left in order. */
static void share_out(lm_schedule *s, uint32_t readers, uint32_t rows)
{
    uint32_t others = readers > 1 ? rows / 2 / (readers - 1) : 0, given;
    bool     oldest = true;

    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < s->n_texts; i++) {
            lm_reply *r = s->texts[i];
            if (pass == 0)
                r->share = 0;
            if (writes(r) || !has_room(s, r))
                continue;
            given = pass ? rows : !oldest ? others : readers > 1 ? rows - rows / 2 : rows;
            given = least(least(given, rows), wish(s, r));
            r->share += given;
            rows -= given;
            oldest = false;
        }
}

static void add_prompts(lm_schedule *s, uint32_t readers, uint32_t written)
{
    uint32_t rows = lm_budget_rows(&s->budget, written);

    atomic_store_explicit(&s->counts.budget, rows, memory_order_relaxed);
    share_out(s, readers, least(rows, lm_engine_max_rows(s->g) - s->batch.n));
    for (uint32_t i = 0; i < s->n_texts; i++)
        if (!writes(s->texts[i]) && s->texts[i]->share)
            add_rows(s, s->texts[i], s->texts[i]->share, s->texts[i]->share);
}

/* Returns how many write. */
static uint32_t put_together(lm_schedule *s, bool drafts)
{
    uint32_t writers = count(s, true), readers = count(s, false);

    s->batch.n = s->batch.n_logits = s->batch.n_prompt = 0;
    for (uint32_t i = 0; i < s->n_texts; i++)
        s->texts[i]->in_step = false;
    add_generating(s, writers, drafts);
    uint32_t written = s->batch.n;
    if (readers)
        add_prompts(s, readers, written);
    return written;
}

/* ---- what came of them ---- */

static void listen(void *arg, unsigned worker, unsigned share)
{
    lm_schedule *s = arg;
    lm_reply    *r = s->texts[share];

    (void)worker;
    lm_reply_listen(s, r);
    if (!r->over)
        lm_reply_tell(r);
}

/* Choosing tokens is a good part of a small model's step: workers share it. */
static void listen_to_all(lm_schedule *s)
{
    if (s->n_texts > 1)
        lm_pool_run_shares(s->g->pool, listen, s, s->n_texts);
    else if (s->n_texts)
        listen(s, 0, 0);
}

static void conclude(lm_schedule *s, lm_reply *r)
{
    if (r->placed)
        lm_unplace(s, r, false);
    else
        lm_queue_remove(s, r);
    lm_reply_conclude(s, r);
}

static void update_counts(lm_schedule *s)
{
    uint32_t writing = 0;

    for (uint32_t i = 0; i < s->n_texts; i++) {
        lm_reply *r = s->texts[i];
        lm_seat  *t = &s->seats[r->slot];
        writing += writes(r);
        atomic_store_explicit(&r->state, r->stalled_since > 0 ? LM_REPLY_STALLED : writes(r) ? LM_REPLY_WRITES : LM_REPLY_READS,
                              memory_order_relaxed);
        atomic_store_explicit(&t->n_held, lm_engine_length(s->g, r->slot), memory_order_relaxed);
        atomic_store_explicit(&t->n_tokens, (uint32_t)r->usage.n_tokens, memory_order_relaxed);
    }
    atomic_store_explicit(&s->counts.writing, writing, memory_order_relaxed);
    atomic_store_explicit(&s->counts.reading, s->n_texts - writing, memory_order_relaxed);
    atomic_store_explicit(&s->counts.evicted, s->prefixes.evicted, memory_order_relaxed);
    atomic_store_explicit(&s->counts.kept, s->prefixes.once.n + s->prefixes.again.n, memory_order_relaxed);
    double target = lm_budget_target(&s->budget, writing ? writing : 1);
    atomic_store_explicit(&s->counts.target_ns, (uint64_t)(target * 1e9), memory_order_relaxed);
}

void lm_schedule_collect(lm_schedule *s)
{
    for (uint32_t i = 0; i < s->n_texts;)
        if (s->texts[i]->over)
            conclude(s, s->texts[i]);
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
    for (uint32_t i = 0; i < s->n_texts; i++)
        if (s->texts[i]->in_step)
            lm_sequence_ran(s->texts[i]->sequence);
    listen_to_all(s);
    for (uint32_t i = 0; i < s->n_texts; i++)
        lm_keep_pages(s, s->texts[i]);
}

/* The engine cannot go on with anybody: its file has shrunk. */
static void fail_all(lm_schedule *s, const lm_error *e)
{
    for (uint32_t i = 0; i < s->n_texts; i++)
        lm_sequence_end(s->texts[i]->sequence, LM_STOP_FAILED, e);
    listen_to_all(s);
}

/* A single text has all the pages there are. */
static void end_for_room(lm_schedule *s, const lm_error *e)
{
    for (uint32_t i = 0; i < s->n_texts; i++)
        if (s->texts[i]->in_step)
            lm_sequence_end(s->texts[i]->sequence, writes(s->texts[i]) ? LM_STOP_CONTEXT : LM_STOP_FAILED, e);
    listen_to_all(s);
}

/* All engines, or none. *room: pages are missing that lm_make_room knows nothing of. */
static lm_status run(lm_schedule *s, bool *room, lm_error *e)
{
    lm_status status;

    *room = false;
    if (!s->batch.n)
        return LM_OK;
    status = lm_others_check(&s->others, s->batch.rows, s->batch.n, e);
    *room  = status == LM_LIMIT;
    if (status == LM_OK)
        status = lm_engine_step(s->g, s->batch.rows, s->batch.n, e);
    if (status != LM_OK)
        return status;
    status = lm_others_step(&s->others, s->batch.rows, s->batch.n, e);
    return status == LM_LIMIT || status == LM_CANCELLED ? LM_FAILED : status;        /* too late to try again */
}

bool lm_schedule_step(lm_schedule *s)
{
    lm_error  e;
    lm_status status = LM_OK;
    bool      drafts = true, others;
    uint32_t  written;
    double    from;

    if (s->n_texts == 0)
        return false;
    s->turn++;
    for (;; drafts = false) {
        written = put_together(s, drafts);
        from    = lm_clock_seconds();
        status  = run(s, &others, &e);
        if (status != LM_LIMIT || (!drafts && !(others ? lm_make_room_anywhere(s) : lm_make_room(s))))
            break;
    }
    double seconds = lm_clock_seconds() - from;
    if (status == LM_LIMIT)
        end_for_room(s, &e);
    else if (status != LM_OK && status != LM_CANCELLED)
        fail_all(s, &e);
    else if (status == LM_OK && s->batch.n) {
        ran(s, written, seconds);
        lm_budget_ran(&s->budget, written, s->batch.n_prompt, seconds);
    } else {
        listen_to_all(s);                                /* ends that rows were not needed for */
    }
    uint32_t n_texts = s->n_texts;
    lm_schedule_collect(s);
    return s->batch.n > 0 || s->n_texts < n_texts;       /* others may have the slots of those that ended */
}
