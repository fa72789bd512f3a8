/* cluster.c - join and leave a cluster, and follow rank 0. */
#include "lamina/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/ranks.h"
#include "lamina/engine.h"
#include "program/split.h"
#include "runtime/engine/page_owners.h"
#include "runtime/engine/broadcast.h"

typedef struct joined {
    lm_cluster c;                        /* must be first: the public part */
    uint64_t   n_messages;
    bool       lost, real;
} joined;

static joined *inside(lm_cluster *c)
{
    return (joined *)c;
}

typedef struct ways { uint32_t tp, pp; } ways;

/* Parse "tp=4", "pp=2" or "tp=2,pp=2". */
static bool read_ways(const char *split, ways *out)
{
    *out = (ways){ 0, 0 };
    for (const char *at = split; ; at++) {
        uint32_t *to = strncmp(at, "tp=", 3) == 0 ? &out->tp : strncmp(at, "pp=", 3) == 0 ? &out->pp : NULL;
        char     *end;
        if (!to || *to || at[3] < '0' || at[3] > '9')
            return false;
        unsigned long n = strtoul(at + 3, &end, 10);
        if (n < 1 || n > LM_MAX_RANKS || (*end && *end != ','))
            return false;
        *to = (uint32_t)n;
        at  = end;
        if (!*at)
            break;
    }
    out->tp += !out->tp;
    out->pp += !out->pp;
    return out->tp * out->pp <= LM_MAX_RANKS;
}

/* Parse the split. "auto": tensor parallelism over all ranks. */
static lm_status read_split(const char *split, uint32_t usual, ways *out, lm_error *e)
{
    *out = (ways){ usual, 1 };
    if (!split || strcmp(split, "auto") == 0)
        return LM_OK;
    if (strncmp(split, "ep=", 3) == 0 || strstr(split, ",ep="))
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET,
                       "\"%s\": experts cannot be split separately; tp=N splits each of them", split);
    if (!read_ways(split, out))
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET,
                       "\"%s\" is not auto, tp=N, pp=N or tp=N,pp=M, of %d ranks at most", split,
                       LM_MAX_RANKS);
    return LM_OK;
}

static const lm_cluster_options defaults;

lm_status lm_cluster_join(const lm_cluster_options *o, lm_cluster **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    ways requested = { 0 };

    o = o ? o : &defaults;
    joined *j = lm_alloc_zero(1, sizeof *j);
    if (!j)
        return lm_fail_memory(e, "ranks", sizeof *j);
    lm_status status = lm_ranks_join(o->step_timeout > 0 ? o->step_timeout : 60, &j->c.x, e);
    if (status == LM_OK) {
        j->real           = true;
        j->c.x.n_messages = &j->n_messages;
        j->c.exact        = o->exact;
        status            = read_split(o->split, j->c.x.ranks, &requested, e);
    }
    uint32_t needed = requested.tp * requested.pp;
    if (status == LM_OK && needed != j->c.x.ranks)
        status = lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET,
                         "%s needs %u ranks, and the job has %u: mpirun -n %u", o->split, needed,
                         j->c.x.ranks, needed);
    if (status == LM_OK)
        status = lm_ranks_group(&j->c.x, requested.tp, e);
    if (status != LM_OK) {
        lm_free(j);
        return status;
    }
    *out = &j->c;
    return LM_OK;
}

lm_status lm_cluster_simulate(const lm_cluster_options *o, uint32_t rank, lm_cluster **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    ways requested;

    LM_TRY(read_split(o ? o->split : NULL, 1, &requested, e));
    uint32_t ranks = requested.tp * requested.pp;
    if (rank >= ranks)
        return lm_fail(e, LM_USAGE, "rank", LM_NO_OFFSET, "rank %u of %u; the first is 0", rank, ranks);
    joined *j = lm_alloc_zero(1, sizeof *j);
    if (!j)
        return lm_fail_memory(e, "ranks", sizeof *j);
    j->c = (lm_cluster){
        { .rank = rank, .ranks = ranks, .parts = requested.tp, .n_messages = &j->n_messages }, o && o->exact
    };
    *out = &j->c;
    return LM_OK;
}

uint32_t lm_cluster_rank(const lm_cluster *c)
{
    return c ? c->x.rank : 0;
}

uint32_t lm_cluster_ranks(const lm_cluster *c)
{
    return c ? c->x.ranks : 1;
}

bool lm_cluster_lost(const lm_cluster *c)
{
    return c && c->x.gather && lm_ranks_broken();
}

/* ---- following rank 0 ---- */

typedef struct follower {
    joined         *j;
    const lm_model *m;
    lm_engine      *g;
    lm_row         *rows;                /* capacity: the maximum rows of the engine */
    uint32_t        max;
} follower;

static lm_status make_engine(follower *f, lm_error *e)
{
    lm_broadcast_options sent;

    LM_TRY(f->j->c.x.lead(f->j->c.x.arg, &sent, sizeof sent, e));
    sent.cpu[sizeof sent.cpu - 1] = '\0';
    lm_engine_options o = {
        .context = sent.context,
        .sequences = sent.sequences,
        .max_rows = sent.max_rows,
        .max_logits = sent.max_logits,
        .kv_positions = sent.kv_positions,
        .rollback = sent.rollback,
        .checkpoints = sent.checkpoints,
        .kv = (lm_kv_type)sent.kv,
        .compute = (lm_compute)sent.compute,
        .no_repack = sent.no_repack,
        .threads = sent.threads,
        .threads_batch = sent.threads_batch,
        .cpu = *sent.cpu ? sent.cpu : NULL,
        .hidden = sent.hidden,
        .kv_values = (lm_kv_type)sent.kv_values,
        .kv_apart = sent.kv_apart,
    };
    if (f->g)
        return lm_fail(e, LM_USAGE, "ranks", LM_NO_OFFSET,
                       "rank 0 has created a second engine for the model");
    LM_TRY(lm_engine_new(f->m, &o, &f->g, e));
    f->max = lm_engine_max_rows(f->g);
    f->rows = lm_alloc(f->max * sizeof *f->rows);
    return f->rows ? LM_OK : lm_fail_memory(e, "rows", f->max * sizeof *f->rows);
}

static void drop_engine(follower *f)
{
    lm_engine_free(f->g);
    lm_free(f->rows);
    f->g    = NULL;
    f->rows = NULL;
}

static lm_status take_step(follower *f, const lm_broadcast_message *m, lm_error *e)
{
    uint64_t bytes = m->n * sizeof *f->rows;

    if (m->n > f->max)
        return lm_fail(e, LM_FAILED, "ranks", LM_NO_OFFSET, "rank 0 steps %u rows of %u", m->n, f->max);
    LM_TRY(f->j->c.x.lead(f->j->c.x.arg, f->rows, bytes, e));
    if (lm_broadcast_hash(f->rows, bytes) != m->hash)
        return lm_fail(e, LM_FAILED, "ranks", LM_NO_OFFSET,
                       "the rows of message %llu are not those that rank 0 sent",
                       (unsigned long long)m->number);
    return lm_engine_step(f->g, f->rows, m->n, e);
}

static lm_status obey(follower *f, const lm_broadcast_message *m, lm_error *e)
{
    const uint32_t *a = m->a;

    if (!f->g && m->code != LM_BROADCAST_NEW && m->code != LM_BROADCAST_FREE)
        return lm_fail(e, LM_FAILED, "ranks", LM_NO_OFFSET, "rank 0 uses an engine that does not exist");
    switch ((lm_broadcast_code)m->code) {
    case LM_BROADCAST_NEW:
        if (make_engine(f, e) != LM_OK) /* lm_broadcast_agree tells rank 0, which reports it */
            drop_engine(f);
        return LM_OK;
    case LM_BROADCAST_FREE:
        drop_engine(f);
        return LM_OK;
    case LM_BROADCAST_STEP:
        return take_step(f, m, e);
    case LM_BROADCAST_TRUNCATE:
        return lm_engine_truncate(f->g, a[0], a[1], e);
    case LM_BROADCAST_SHARE:
        return lm_engine_share(f->g, a[0], a[1], a[2], e);
    case LM_BROADCAST_PAGE_REF:
        lm_page_ref(f->g, a[0], a[1], a[2]);
        return LM_OK;
    case LM_BROADCAST_PAGE_UNREF:
        lm_page_unref(f->g, a[0], a[1]);
        return LM_OK;
    case LM_BROADCAST_PAGE_ASSIGN:
        lm_page_assign(f->g, a[0], a[1], a[2], a[3]);
        return LM_OK;
    case LM_BROADCAST_PAGE_REPLACE:
        lm_page_replace(f->g, a[0], a[1], a[2], a[3]);
        return LM_OK;
    case LM_BROADCAST_LENGTH:
        lm_pages_set_length(f->g, a[0], a[1]);
        return LM_OK;
    case LM_BROADCAST_END:
        return LM_OK;
    }
    return lm_fail(e, LM_FAILED, "ranks", LM_NO_OFFSET, "rank 0 sent an unknown command");
}

lm_status lm_cluster_follow(lm_cluster *c, const lm_model *m, lm_error *e)
{
    LM_REQUIRE(e, c && m);
    follower        f = { .j = inside(c), .m = m };
    lm_broadcast_message message = { 0 };
    lm_status       status  = LM_OK;

    if (!f.j->real || c->x.rank == 0)
        return lm_fail(e, LM_USAGE, "ranks", LM_NO_OFFSET, "rank 0 leads");
    while (status == LM_OK && message.code != LM_BROADCAST_END) {
        status = c->x.lead(c->x.arg, &message, sizeof message, e);
        if (status == LM_OK && (message.magic != LM_BROADCAST_MAGIC || message.number != ++f.j->n_messages))
            status = lm_fail(e, LM_FAILED, "ranks", LM_NO_OFFSET,
                             "rank 0 sent message %llu where %llu was expected",
                             (unsigned long long)message.number, (unsigned long long)f.j->n_messages);
        if (status == LM_OK && message.code != LM_BROADCAST_END)
            status = obey(&f, &message, e);
    }
    f.j->lost = status != LM_OK;
    drop_engine(&f);
    return status;
}

void lm_cluster_leave(lm_cluster *c)
{
    if (!c)
        return;
    joined         *j = inside(c);
    lm_broadcast_message m = { .magic = LM_BROADCAST_MAGIC,
                               .code = LM_BROADCAST_END,
                               .number = j->n_messages + 1,
                               .hash = lm_broadcast_hash(NULL, 0) };

    if (j->real && c->x.rank == 0 && c->x.ranks > 1 && !lm_ranks_broken())
        j->lost |= c->x.lead(c->x.arg, &m, sizeof m, NULL) != LM_OK;
    if (j->real)
        lm_ranks_close(&c->x, j->lost);
    lm_free(j);
}
