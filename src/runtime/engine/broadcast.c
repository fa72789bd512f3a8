/* broadcast.c - send the messages of rank 0, and make sure that all ranks are about to run the same. */
#include "runtime/engine/broadcast.h"

#include <stdio.h>
#include <string.h>

#include "lamina/version.h"
#include "program/split.h"
#include "runtime/model/exchange.h"

static bool leads(const lm_engine *g)
{
    return g->model->exchange && g->model->exchange->rank == 0;
}

/* FNV-1a */
uint64_t lm_broadcast_hash(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t       h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

static lm_status send(lm_engine *g, lm_broadcast_message *m, void *more, uint64_t bytes, lm_error *e)
{
    const lm_rank_exchange *x = g->model->exchange;

    m->magic  = LM_BROADCAST_MAGIC;
    m->number = ++*x->n_messages;
    m->hash   = lm_broadcast_hash(more, bytes);
    LM_TRY(x->lead(x->arg, m, sizeof *m, e));
    return bytes ? x->lead(x->arg, more, bytes, e) : LM_OK;
}

void lm_broadcast(lm_engine *g, lm_broadcast_code code, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    lm_broadcast_message m = { .code = code, .a = { a, b, c, d } };
    lm_error        e = { 0 };

    if (!g->model || !leads(g) || !g->led || atomic_load(&g->lost))
        return;
    if (send(g, &m, NULL, 0, &e) != LM_OK)
        atomic_store(&g->lost, true);
}

lm_status lm_broadcast_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e)
{
    lm_broadcast_message m = { .code = LM_BROADCAST_STEP, .n = (uint32_t)n };

    if (!leads(g))
        return LM_OK;
    if (atomic_load(&g->lost))
        return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "another rank was lost");
    memcpy(g->sent_rows, rows, n * sizeof *rows);
    lm_status status = send(g, &m, g->sent_rows, n * sizeof *rows, e);
    atomic_store(&g->lost, status != LM_OK);
    return status;
}

lm_status lm_broadcast_new(lm_engine *g, const lm_engine_options *o, lm_error *e)
{
    static const lm_engine_options defaults;
    lm_broadcast_message           m = { .code = LM_BROADCAST_NEW };

    o = o ? o : &defaults;
    if (!g->model->exchange)
        return LM_OK;
    if (o->probes && o->probes[0])
        return lm_fail(e, LM_UNSUPPORTED, "probes", LM_NO_OFFSET,
                       "values of a model that several ranks run cannot be read");
    if (o->hidden && g->model->exchange->parts < g->model->exchange->ranks)
        return lm_fail(e, LM_UNSUPPORTED, "hidden", LM_NO_OFFSET,
                       "the last hidden state of a model in runs of layers cannot be read");
    if (!leads(g))
        return LM_OK;
    lm_broadcast_options sent = {
        o->context,
        o->sequences,
        o->max_rows,
        o->max_logits,
        o->rollback,
        o->threads,
        o->threads_batch,
        (uint32_t)o->kv,
        (uint32_t)o->kv_values,
        (uint32_t)o->compute,
        o->kv_positions,
        o->checkpoints,
        o->no_repack,
        o->hidden,
        o->kv_apart,
        { 0 },
    };
    snprintf(sent.cpu, sizeof sent.cpu, "%s", o->cpu ? o->cpu : "");
    LM_TRY(send(g, &m, &sent, sizeof sent, e));
    g->led = true;
    return LM_OK;
}

/* ---- agreement ---- */

typedef struct vote {
    int32_t  status;
    uint32_t split;                      /* ranks * 1000 + parts */
    char     model[65], build[24], cpu[16], message[160];
    uint64_t arithmetic, exchanges;
} vote;

/* Return what differs between the votes of rank 0 and another rank; NULL: nothing. `like`: the first rank
 * with the same layers, whose exchanges are the same. */
static const char *differs(const vote *a, const vote *like, const vote *b)
{
    if (strcmp(a->build, b->build) != 0)
        return "version of lamina";
    if (strcmp(a->model, b->model) != 0)
        return "model";
    if (strcmp(a->cpu, b->cpu) != 0)
        return "instruction set";
    if (a->split != b->split)
        return "split";
    return a->arithmetic != b->arithmetic || like->exchanges != b->exchanges ? "plan" : NULL;
}

/* Hash the exchanges, in order. */
static uint64_t exchanges_of(const lm_plan *p)
{
    uint64_t h = 0;

    for (uint32_t i = 0; p && i < p->n_steps; i++)
        if (p->steps[i].code == LM_STEP_EXCHANGE)
            h = h * 31 + p->buffers[p->steps[i].out].stride * 2 + (uint64_t)p->steps[i].domain + 1;
    return h;
}

/* Encode the options of a plan that must be equal on all ranks. */
static uint64_t arithmetic_of(const lm_plan *p)
{
    return p ? (uint64_t)p->options.max_rows * 4 + (uint64_t)p->options.exact * 2 + p->options.fine : 0;
}

lm_status lm_broadcast_agree(lm_engine *g, lm_status made, lm_error *e)
{
    const lm_rank_exchange *x = g->model->exchange;
    vote mine = { .status = (int32_t)made,
                  .arithmetic = arithmetic_of(g->plan),
                  .exchanges = exchanges_of(g->plan) };
    vote               all[LM_MAX_RANKS];
    uint64_t           bytes[LM_MAX_RANKS];
    char               rank[32];

    if (!x)
        return made;
    if (made != LM_OK && e)
        snprintf(mine.message, sizeof mine.message, "%.150s", e->message);
    snprintf(mine.build, sizeof mine.build, "%s", LAMINA_VERSION);
    snprintf(mine.cpu, sizeof mine.cpu, "%s", lm_cpu_name(g->kernels.cpu));
    lm_model_fingerprint(g->model, mine.model, NULL);
    for (uint32_t r = 0; r < x->ranks; r++)
        bytes[r] = sizeof mine;
    mine.split = x->ranks * 1000 + x->parts;
    LM_TRY(x->gather(x->arg, true, &mine, bytes, all, e));
    for (uint32_t r = 0; r < x->ranks; r++) {
        snprintf(rank, sizeof rank, "rank %u", r);
        all[r].message[sizeof all[r].message - 1] = '\0';
        if (all[r].status != LM_OK)
            return r == x->rank ? made : lm_fail(e, LM_FAILED, rank, LM_NO_OFFSET, "%s", all[r].message);
        const char *what = differs(&all[0], &all[r / x->parts * x->parts], &all[r]);
        if (what)
            return lm_fail(e, LM_DIFFERS, rank, LM_NO_OFFSET, "its %s is not that of rank 0", what);
    }
    return LM_OK;
}
