/* sequence_rows.c - the rows that a sequence adds to a step, and steps with rows of several sequences. */
#include "base/os/clock.h"
#include "base/error.h"
#include "runtime/generate/sequence.h"

/* ---- between steps ---- */

void lm_sequence_end(lm_sequence *s, lm_stop why, const lm_error *error)
{
    if (!s || s->stop != LM_STOP_NONE || why == LM_STOP_NONE)
        return;
    s->stop = why;
    if (why == LM_STOP_FAILED)
        s->error = error ? *error
                         : (lm_error){ .code = LM_FAILED,
                                       .message = "ended by its caller",
                                       .offset = LM_NO_OFFSET };
}

static void fail(lm_sequence *s, const lm_error *e)
{
    lm_sequence_end(s, LM_STOP_FAILED, e);
}

void lm_sequence_commit(lm_sequence *s)
{
    lm_error e;
    uint32_t kept = (uint32_t)s->at;

    if (lm_engine_length(s->g, s->o.sequence) > s->at &&
        lm_engine_keep(s->g, s->o.sequence, (uint32_t)s->at, &kept, &e) != LM_OK)
        fail(s, &e);
    if (kept < s->at) {                  /* states are at earlier positions only: next_rows */
        s->at      = kept;
        s->n_reads = s->n_reads < kept ? s->n_reads : kept;
    }
    if (s->verified)
        lm_draft_accept(&s->draft, s->accepted, s->draft_end - s->draft_begin, s->ran - s->draft_end);
    s->verified = false;
    s->next = s->n_logits = 0;
}

void lm_sequence_update_stop(lm_sequence *s)
{
    size_t generated = s->n - s->n_prompt;

    if (s->stop != LM_STOP_NONE)
        return;
    if (atomic_load_explicit(&s->cancelled, memory_order_relaxed) && atomic_exchange(&s->cancelled, false))
        s->stop = LM_STOP_CANCELLED;
    else if (lm_sequence_reads(s))
        return;
    else if (s->o.prompt_only || (s->o.max_tokens > 0 && generated >= (uint64_t)s->o.max_tokens))
        s->stop = LM_STOP_LENGTH;
    /* the last token cannot be processed */
    else if (s->next == s->n_logits && s->n > lm_engine_context(s->g))
        s->stop = LM_STOP_CONTEXT;
}

/* ---- rows ---- */

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t room_for_rows(const lm_sequence *s, const lm_batch *b)
{
    uint32_t max = b->max_rows ? b->max_rows : lm_engine_max_rows(s->g);

    return max - min(b->n, max);
}

static uint32_t room_for_logits(const lm_sequence *s, const lm_batch *b)
{
    uint32_t max = b->max_logits ? b->max_logits : lm_engine_max_logits(s->g);

    return max - min(b->n_logits, max);
}

static void add_row(const lm_sequence *s, lm_batch *b, lm_token id, size_t position, bool logits)
{
    b->rows[b->n++] = (lm_row){ s->o.sequence, id, (uint32_t)position, logits };
    b->n_logits += logits;
}

/* Add rows of the prompt, as many as fit; the row of its last token has logits. */
static uint32_t prompt_rows(lm_sequence *s, lm_batch *b)
{
    size_t   left = s->n_reads - s->at;
    uint32_t room = room_for_rows(s, b);
    /* a recomputed sequence already has its next token */
    bool     chooses = s->n == s->n_prompt && !s->o.prompt_only;

    if (b->max_prompt)
        room = min(room, b->max_prompt - min(b->n_prompt, b->max_prompt));
    if (s->o.prompt_logits)
        room = min(room, room_for_logits(s, b));
    uint32_t n = left < room ? (uint32_t)left : room;
    if (n == left && chooses && room_for_logits(s, b) == 0)
        n--;
    for (uint32_t i = 0; i < n; i++)
        add_row(s, b, s->ids[s->at + i], s->at + i,
                s->o.prompt_logits || (s->at + i + 1 == s->n_reads && chooses));
    b->n_prompt += n;
    return n;
}

/* Return the maximum number of useful draft tokens. */
static uint32_t max_draft(const lm_sequence *s)
{
    uint32_t ahead = lm_engine_ahead(s->g, s->o.sequence), again = (uint32_t)(s->n - 1 - s->at);
    uint64_t left = s->o.max_tokens <= 0 ? UINT32_MAX : (uint64_t)s->o.max_tokens - (s->n - s->n_prompt);

    ahead -= min(ahead, again + 1);                      /* the tokens before them need rows too */
    return left <= ahead ? (uint32_t)left - 1 : ahead;
}

/* Add the tokens that are processed again because states went back to an earlier position (none without
 * states), the token chosen last, and its draft tokens. */
static uint32_t next_rows(lm_sequence *s, lm_batch *b)
{
    size_t   last = s->n - 1;
    uint32_t room = room_for_rows(s, b);

    s->n_again = min((uint32_t)(last - s->at), room);
    for (uint32_t i = 0; i < s->n_again; i++)
        add_row(s, b, s->ids[s->at + i], s->at + i, false);
    room = s->at + s->n_again == last ? min(room - s->n_again, room_for_logits(s, b)) : 0;
    if (room == 0)
        return s->n_again;
    if (!s->planned) {
        s->draft_begin = lm_clock_seconds();
        lm_draft_propose(&s->draft, b->no_draft ? 0 : min(room - 1, max_draft(s)));
        s->draft_end = lm_clock_seconds();
    }
    s->planned         = true;
    s->draft.n_drafted = b->no_draft ? 0 : min(s->draft.n_drafted, room - 1);
    add_row(s, b, s->ids[last], last, true);
    for (uint32_t i = 0; i < s->draft.n_drafted; i++)
        add_row(s, b, s->draft.tokens[i], last + 1 + i, true);
    return s->n_again + 1 + s->draft.n_drafted;
}

uint32_t lm_sequence_rows(lm_sequence *s, lm_batch *b)
{
    if (!s || !b)
        return 0;
    lm_error e;

    if (!s || !b || !b->rows || s->n == 0)
        return 0;
    s->n_rows = 0;
    if (lm_sequence_chooses(s)) {
        lm_fail(&e, LM_USAGE, "sequence", LM_NO_OFFSET, "rows were requested before its events were read");
        fail(s, &e);
    }
    lm_sequence_commit(s);
    lm_sequence_update_stop(s);
    if (s->stop != LM_STOP_NONE)
        return 0;
    s->first  = b->n;
    s->alone  = b->no_draft;
    s->n_rows = lm_sequence_reads(s) ? prompt_rows(s, b) : next_rows(s, b);
    return s->n_rows;
}

void lm_sequence_ran(lm_sequence *s)
{
    if (!s || s->n_rows == 0)
        return;
    s->ran = lm_clock_seconds();
    if (lm_sequence_reads(s)) {
        bool again = s->n > s->n_prompt, whole = s->at + s->n_rows == s->n_reads;
        if (s->o.row) {
            s->shown   = s->first;
            s->n_shown = s->n_rows;
        }
        s->at += s->n_rows;
        s->n_read     = again ? s->n_prompt : s->at;
        s->prompt_due = !again;
        if (!s->alone)
            lm_draft_read(&s->draft, whole ? s->at - 1 : s->at);
        s->n_logits = whole && !again && !s->o.prompt_only ? s->first + s->n_rows : 0;
        s->next     = s->n_logits ? s->n_logits - 1 : 0;
    } else {
        s->at += s->n_again;
        s->next     = s->first + s->n_again;
        s->n_logits = s->first + s->n_rows;
        s->accepted = 0;
        s->verified = s->next < s->n_logits;
        s->n_drafted += s->verified ? s->draft.n_drafted : 0;
    }
    s->n_rows  = 0;
    s->planned = false;
}

/* ---- a step of several sequences ---- */

/* A step that is being assembled for `n` sequences. */
typedef struct many {
    lm_engine          *g;
    lm_sequence *const *all;
    size_t              n;
    lm_batch           *b;
    bool                fitting;         /* add only rows that fit into the cache */
    lm_sequence        *refused;         /* the first sequence that does not fit */
    lm_error            why;
} many;

static void add(many *m, lm_sequence *s)
{
    lm_batch before = *m->b;

    if (lm_sequence_rows(s, m->b) == 0 || !m->fitting ||
        lm_engine_check(m->g, m->b->rows, m->b->n, &m->why) == LM_OK)
        return;
    *m->b      = before;
    s->n_rows  = 0;
    m->refused = m->refused ? m->refused : s;
}

/* Add sequences that generate, then those that process their prompt. */
static void put_together(many *m)
{
    m->b->n = m->b->n_logits = m->b->n_prompt = 0;
    for (int reads = 0; reads < 2; reads++)
        for (size_t i = 0; i < m->n; i++)
            if (m->all[i] && lm_sequence_reads(m->all[i]) == reads)
                add(m, m->all[i]);
}

/* End a sequence because the cache has no pages for any. */
static void end_refused(lm_sequence *s, const lm_error *why)
{
    lm_sequence_end(s, lm_sequence_reads(s) ? LM_STOP_FAILED : LM_STOP_CONTEXT, why);
}

static lm_status step(many *m)
{
    put_together(m);
    return m->b->n ? lm_engine_step(m->g, m->b->rows, m->b->n, &m->why) : LM_OK;
}

lm_status lm_sequences_step(lm_engine *g, lm_sequence *const *sequences, size_t n, lm_batch *b, lm_error *e)
{
    LM_REQUIRE(e, g && (sequences || !n) && b && b->rows);
    many      m = { .g = g, .all = sequences, .n = n, .b = b };
    bool      no_draft;
    lm_status status;

    no_draft = b->no_draft;
    status   = step(&m);
    if (status == LM_LIMIT) {
        b->no_draft = true;
        status      = step(&m);
    }
    if (status == LM_LIMIT) {
        m.fitting = true;
        status    = step(&m);
    }
    b->no_draft = no_draft;
    if (status == LM_OK && b->n == 0 && m.refused)
        end_refused(m.refused, &m.why);
    for (size_t i = 0; i < n && status == LM_OK; i++)
        lm_sequence_ran(sequences[i]);
    if (status != LM_OK && e)
        *e = m.why;
    return status;
}
