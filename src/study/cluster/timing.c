/* timing.c - predict a forward pass over several ranks, from two terms per exchange (latency and bytes), and
 * by simulating each message.
 *
 * MPI gathers like Bruck et al. (doi 10.1109/71.642949): in round k = 1, 2, 4 … every rank receives, from the
 * rank k further on, all parts which that rank has, up to N - 1 parts in total. Hence N ranks need ceil(log2
 * N) consecutive messages, and each receives what all others send. The leader's message to all ranks is a
 * tree of the same depth. */
#include "study/cluster/timing.h"

#include "base/alloc.h"
#include "program/split.h"
#include "runtime/engine/broadcast.h"

static uint32_t depth(uint32_t n)
{
    uint32_t d = 0;

    while ((UINT64_C(1) << d) < n)
        d++;
    return d;
}

static uint64_t rows_of(const lm_step *s, const lm_forward *f)
{
    return s->domain == LM_WANTED_ROWS ? f->wanted : f->rows * f->sequences;
}

/* Return what rank r sends to each other rank in this exchange. */
static uint64_t part_of(const lm_plan *p, const lm_step *s, uint32_t r, uint64_t rows)
{
    return lm_rank_stride(p->program, &p->program->nodes[s->node], r) * rows;
}

/* Return the size of the header and the rows of a step. */
static uint64_t lead_message_bytes(const lm_forward *f)
{
    return sizeof(lm_broadcast_message) + f->rows * f->sequences * sizeof(lm_row);
}

/* Return the bytes of one message to another rank: all rows of a value. */
static uint64_t message_bytes(const lm_plan *p, const lm_step *s, uint64_t rows)
{
    return ((uint64_t)p->program->values[p->program->nodes[s->node].out].width * sizeof(float) + 63) / 64 *
           64 * rows;
}

static double message_seconds(const lm_timing *t, uint64_t bytes)
{
    return t->link->latency + (double)bytes / t->link->bytes_per_second;
}

/* ---- latency and transfer ---- */

static double computing(const lm_timing *t, const lm_plan *p, const lm_forward *f)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->n_steps; i++)
        sum += lm_predict_step(p, t->peaks, &p->steps[i], f);
    return sum;
}

/* Return what the rank that sends least receives: it waits longest. */
static uint64_t max_received(const lm_timing *t, const lm_plan *p, const lm_step *s, uint64_t rows)
{
    uint64_t sum = 0, min = UINT64_MAX;

    for (uint32_t r = 0; r < t->parts; r++) {
        uint64_t own = part_of(p, s, r, rows);
        min        = own < min ? own : min;
        sum += own;
    }
    return sum - min;
}

/* Add the ranks of one pipeline stage, which work in parallel. */
static void add_stage(const lm_timing *t, const lm_ranked *ranks, const lm_forward *f, lm_cluster_time *out)
{
    const lm_plan *p    = ranks[0].plan;
    double         max = 0;

    for (uint32_t r = 0; r < t->parts; r++) {
        double own = computing(t, ranks[r].plan, f);
        max       = own > max ? own : max;
    }
    out->computing += max;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const lm_step *s    = &p->steps[i];
        uint64_t       rows = rows_of(s, f);
        if (rows && s->code == LM_STEP_EXCHANGE) {
            out->latency += depth(t->parts) * t->link->latency;
            out->transfer += (double)max_received(t, p, s, rows) / t->link->bytes_per_second;
        } else if (rows && s->code == LM_STEP_SEND) {
            out->latency += t->link->latency;
            out->transfer += (double)message_bytes(p, s, rows) / t->link->bytes_per_second;
        }
    }
}

/* Pipeline stages work one after another. */
static void add_terms(const lm_timing *t, const lm_forward *f, lm_cluster_time *out)
{
    for (uint32_t r = 0; r < t->n; r += t->parts)
        add_stage(t, t->ranks + r, f, out);
    out->latency += 2 * depth(t->n) * t->link->latency;
    out->transfer += depth(t->n) * (double)lead_message_bytes(f) / t->link->bytes_per_second;
}

/* ---- simulation of messages ---- */

typedef struct clock_of {
    double         now, next;            /* seconds since the forward pass began; after a round of messages */
    double         arrived;              /* when the latest message for this rank has arrived */
    uint32_t       messages, at;         /* unread messages; next step */
    const lm_step *exchange;             /* the exchange in which it waits for the others; NULL: none */
} clock_of;

/* Run rank r until it has to wait. Return false if it made no progress. */
static bool run_rank(const lm_timing *t, const lm_forward *f, uint32_t r, clock_of *c)
{
    const lm_plan *p     = t->ranks[r].plan;
    uint32_t       begun = c[r].at;

    while (c[r].at < p->n_steps && !c[r].exchange) {
        const lm_step *s    = &p->steps[c[r].at];
        uint64_t       rows = rows_of(s, f);
        uint32_t       peer = s->node == LM_NONE ? 0 : p->program->nodes[s->node].message.peer;
        if (s->code == LM_STEP_RECEIVE && rows && !c[r].messages)
            break;
        c[r].at++;
        c[r].now += lm_predict_step(p, t->peaks, s, f);
        if (!rows)
            continue;
        if (s->code == LM_STEP_EXCHANGE) {
            c[r].exchange = s;
        } else if (s->code == LM_STEP_SEND) {
            c[peer].arrived = c[r].now + message_seconds(t, message_bytes(p, s, rows));
            c[peer].messages++;
        } else if (s->code == LM_STEP_RECEIVE) {
            c[r].now = c[r].now > c[r].arrived ? c[r].now : c[r].arrived;
            c[r].messages--;
        }
    }
    return c[r].at > begun;
}

/* Gather the parts of a layer when all ranks are ready. */
static bool run_gather(const lm_timing *t, const lm_forward *f, uint32_t first, clock_of *c)
{
    const lm_plan *p = t->ranks[first].plan;

    for (uint32_t r = 0; r < t->parts; r++)
        if (!c[first + r].exchange)
            return false;
    uint64_t rows = rows_of(c[first].exchange, f);
    for (uint32_t k = 1; k < t->parts; k *= 2) {
        uint32_t parts = k < t->parts - k ? k : t->parts - k;
        for (uint32_t r = 0; r < t->parts; r++) {
            uint32_t from  = (r + k) % t->parts;
            uint64_t bytes = 0;
            for (uint32_t i = 0; i < parts; i++)
                bytes += part_of(p, c[first].exchange, (from + i) % t->parts, rows);
            double mine = c[first + r].now, theirs = c[first + from].now;
            c[first + r].next = (mine > theirs ? mine : theirs) + message_seconds(t, bytes);
        }
        for (uint32_t r = 0; r < t->parts; r++)
            c[first + r].now = c[first + r].next;
    }
    for (uint32_t r = 0; r < t->parts; r++)
        c[first + r].exchange = NULL;
    return true;
}

static lm_status simulate(const lm_timing *t, const lm_forward *f, double *out, lm_error *e)
{
    clock_of *c    = lm_alloc_zero(t->n, sizeof *c);
    double    last = 0;

    if (!c)
        return lm_fail_memory(e, "ranks", t->n * sizeof *c);
    for (uint32_t r = 1; r < t->n; r++)      /* the leader's two messages */
        c[r].now = depth(r + 1) * (t->link->latency + message_seconds(t, lead_message_bytes(f)));
    for (bool moves = true; moves;) {
        moves = false;
        for (uint32_t r = 0; r < t->n; r++)
            moves |= run_rank(t, f, r, c);
        for (uint32_t r = 0; r < t->n; r += t->parts)
            moves |= run_gather(t, f, r, c);
    }
    for (uint32_t r = 0; r < t->n; r++)
        last = c[r].now > last ? c[r].now : last;
    lm_free(c);
    *out += last;
    return LM_OK;
}

lm_status lm_time_forward(const lm_timing *t, const lm_forward *f, lm_cluster_time *out, lm_error *e)
{
    add_terms(t, f, out);
    return t->simulate ? simulate(t, f, &out->simulated, e) : LM_OK;
}

void lm_count_exchanges(const lm_timing *t, uint32_t *exchanges, uint64_t *sent)
{
    *exchanges = 0;
    *sent      = 0;
    for (uint32_t r = 0; r < t->n; r++) {
        const lm_plan *p   = t->ranks[r].plan;
        uint64_t       own = 0;
        uint32_t       n   = 0;
        for (uint32_t i = 0; i < p->n_steps; i++) {
            const lm_step *s = &p->steps[i];
            if (s->code == LM_STEP_EXCHANGE)
                own += part_of(p, s, r % t->parts, 1) * (t->parts - 1);
            else if (s->code == LM_STEP_SEND)
                own += message_bytes(p, s, 1);
            n += s->code == LM_STEP_EXCHANGE || s->code == LM_STEP_SEND;
        }
        *sent      = own > *sent ? own : *sent;
        *exchanges = n > *exchanges ? n : *exchanges;
    }
}
