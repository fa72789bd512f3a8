/* planning.c - evaluate every split of a model over the given nodes: the plans of the ranks, their memory and
 * their speed. The search is exhaustive: there are few ways to give ranks whole layers or parts of heads, and
 * each is planned as the engine would plan it. timing.c has the time of one split. */
#include "lamina/study/clusterplan.h"

#include "study/facts/devices.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"
#include "base/alloc.h"
#include "study/cluster/timing.h"
#include "program/split.h"
#include "runtime/model/divide.h"
#include "runtime/engine/engine_plan.h"

enum { PROMPT = 512, STREAMS = 8 };

typedef struct planning {
    const lm_model   *m;
    const lm_cluster_plan_options *o;
    lm_engine_options engine;
    lm_peaks          peaks;
    bool              speed;
    lm_dtype         *types;             /* NULL: as stored */
    lm_cluster_plan  *out;
} planning;

/* ---- ranks of a split ---- */

static void drop_ranks(lm_ranked *ranks, uint32_t n)
{
    for (uint32_t r = 0; ranks && r < n; r++) {
        lm_plan_free(ranks[r].plan);
        lm_model_undivide(&ranks[r].model);
        lm_arena_free(&ranks[r].model.arena);
        lm_arena_free(&ranks[r].arena);
    }
    lm_free(ranks);
}

static lm_status make_rank(const planning *p, uint32_t tp, uint32_t pp, uint32_t rank, lm_ranked *out,
                           lm_error *e)
{
    out->model       = *p->m;
    out->model.arena = (lm_arena){ 0 };
    if (p->types) {
        out->model.types      = p->types;
        out->model.transposed = out->model.interleaved = NULL;
    }
    if (tp * pp > 1)
        LM_TRY(lm_model_divide(&out->model, &(lm_division){ tp, pp, rank, p->o->exact }, NULL, e));
    lm_engine_subject subject = { .model = &out->model, .options = &p->engine,
                                  .types = p->types ? out->model.types : NULL };
    return lm_engine_plan(&subject, &out->kernels, &out->arena, &out->plan, e);
}

static lm_status make_ranks(const planning *p, uint32_t tp, uint32_t pp, lm_ranked **out, lm_error *e)
{
    lm_ranked *ranks  = lm_alloc_zero(tp * pp, sizeof *ranks);
    lm_status  status = ranks ? LM_OK : lm_fail_memory(e, "ranks", tp * pp * sizeof *ranks);

    for (uint32_t r = 0; status == LM_OK && r < tp * pp; r++)
        status = make_rank(p, tp, pp, r, &ranks[r], e);
    if (status == LM_OK)
        *out = ranks;
    else
        drop_ranks(ranks, tp * pp);
    return status;
}

/* ---- memory and time ---- */

static void sizes(const lm_ranked *ranks, uint32_t n, lm_cluster_row *row)
{
    for (uint32_t r = 0; r < n; r++) {
        const lm_plan *p     = ranks[r].plan;
        uint64_t weights = p->weight_bytes + p->mapped_bytes, total = weights + p->kv_bytes + p->slab_bytes;
        row->weights_of_all += weights;
        if (r && total <= row->total)
            continue;
        row->largest = r;
        row->weights = weights;
        row->kv      = p->kv_bytes;
        row->scratch = p->slab_bytes;
        row->total   = total;
    }
}

static double rate_of(const lm_cluster_time *t, double tokens)
{
    double seconds = t->computing + t->latency + t->transfer;

    return seconds > 0 ? tokens / seconds : 0;
}

static lm_status times(const planning *p, const lm_timing *t, lm_cluster_row *row, lm_error *e)
{
    const lm_cluster_plan *out = p->out;
    uint64_t               step = t->ranks[0].plan->options.max_rows;
    lm_forward             f    = { .rows = 1, .first = out->context - 1, .sequences = 1, .wanted = 1 };

    LM_TRY(lm_time_forward(t, &f, &row->one, e));
    f.sequences = f.wanted = out->streams;
    LM_TRY(lm_time_forward(t, &f, &row->many, e));
    for (uint64_t at = 0; at < out->prompt; at += step) {
        uint64_t left = out->prompt - at, rows = left < step ? left : step;
        f = (lm_forward){ .rows = rows, .first = at, .sequences = 1, .wanted = left <= step };
        LM_TRY(lm_time_forward(t, &f, &row->first, e));
    }
    row->one.rate   = rate_of(&row->one, 1);
    row->many.rate  = rate_of(&row->many, (double)out->streams * row->copies);
    row->first.rate = rate_of(&row->first, (double)out->prompt);
    return LM_OK;
}

static lm_status add_split(planning *p, uint32_t tp, uint32_t pp, lm_error *e)
{
    lm_cluster_plan *out   = p->out;
    lm_cluster_row  *row   = &out->rows[out->n];
    lm_ranked       *ranks = NULL;

    LM_TRY(make_ranks(p, tp, pp, &ranks, e));
    lm_timing t = { ranks, tp * pp, tp, &p->peaks, &out->link, p->o->simulate };
    *row = (lm_cluster_row){ .tp = tp, .pp = pp, .copies = out->nodes / (tp * pp) };
    sizes(ranks, tp * pp, row);
    row->fits  = row->total <= out->memory;
    row->tight = lm_is_tight(out->memory, row->total);
    lm_count_exchanges(&t, &row->exchanges, &row->sent);
    lm_status status = p->speed ? times(p, &t, row, e) : LM_OK;
    drop_ranks(ranks, tp * pp);
    out->n += status == LM_OK;
    return status;
}

/* ---- splits ---- */

static uint32_t max_parts(const lm_program *p)
{
    uint32_t heads = LM_MAX_RANKS;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.spec.n_heads < heads)
            heads = p->nodes[i].attention.spec.n_heads;
    return heads;
}

static void choose_best(lm_cluster_plan *out)
{
    out->best_one = out->best_many = out->best_first = -1;
    for (size_t i = 0; i < out->n; i++) {
        const lm_cluster_row *r = &out->rows[i];
        if (!r->fits || r->one.rate <= 0)
            continue;
        if (out->best_one < 0 || r->one.rate > out->rows[out->best_one].one.rate)
            out->best_one = (int)i;
        if (out->best_many < 0 || r->many.rate > out->rows[out->best_many].many.rate)
            out->best_many = (int)i;
        if (out->best_first < 0 || r->first.rate > out->rows[out->best_first].first.rate)
            out->best_first = (int)i;
    }
}

static lm_status add_splits(planning *p, lm_error *e)
{
    lm_cluster_plan *out = p->out;

    out->n = 0;
    for (uint32_t n = 1; n <= out->nodes; n++)
        for (uint32_t pp = 1; out->nodes % n == 0 && pp <= n && pp <= p->m->program->n_layers; pp++)
            if (n % pp == 0 && n / pp <= out->max_tp && out->n < LM_CLUSTER_ROWS)
                LM_TRY(add_split(p, n / pp, pp, e));
    choose_best(out);
    return LM_OK;
}

static bool any_fits(const lm_cluster_plan *out)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->rows[i].fits)
            return true;
    return false;
}

/* Plan with the requested precision; otherwise from the published type down to the smallest, until a split
 * fits. */
static lm_status add_precisions(planning *p, const lm_ledger *ledger, lm_error *e)
{
    static const char *const usual[] = { "", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS" };
    const char *only = p->o->precision;

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const char *name = only        ? only
                           : *usual[i] ? usual[i]
                                       : lm_dtype_of(lm_model_published_type(p->m))->name;
        const lm_precision *x    = lm_precision_named(name);
        if (!x || x->bits > 0)
            return lm_fail(
                e, LM_USAGE, "precision", LM_NO_OFFSET,
                "unknown precision \"%s\"; use f32, f16, bf16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 or IQ4_XS",
                name);
        lm_precision_types(x, ledger, p->types);
        p->out->precision = x->name;
        LM_TRY(add_splits(p, e));
        if (only || any_fits(p->out))
            break;
    }
    return LM_OK;
}

/* ---- nodes ---- */

static lm_status describe(planning *p, lm_error *e)
{
    const lm_cluster_plan_options *o = p->o;
    lm_cluster_plan *out = p->out;
    lm_machine       machine;

    out->memory = o->memory;
    if (o->device) {
        p->engine.cpu     = "ref";               /* weights as stored, not in the layout of some kernel */
        p->engine.threads = o->device->cores ? o->device->cores : 1;
        p->speed          = true;
        p->peaks          = lm_peaks_published(o->device);
        out->reserve      = out->memory ? 0 : lm_device_reserve(o->device, NULL);
        out->memory       = out->memory ? out->memory : lm_device_usable(o->device);
        out->level        = "ref";
        return LM_OK;
    }
    LM_TRY(lm_machine_describe(&machine, e));
    p->speed = o->limits != NULL;
    if (p->speed)
        p->peaks = lm_peaks_measured(o->limits);
    out->memory = out->memory ? out->memory : machine.available;
    out->level  = o->engine.cpu ? o->engine.cpu : machine.usable;
    return LM_OK;
}

static lm_status check(const lm_model *m, const lm_cluster_plan_options *o, lm_error *e)
{
    if (m->undivided)
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET, "the model is split already");
    if (o->nodes > LM_MAX_RANKS)
        return lm_fail(e, LM_USAGE, "nodes", LM_NO_OFFSET, "%u nodes; at most %d are possible", o->nodes,
                       LM_MAX_RANKS);
    if (o->link && (!(o->link->latency >= 0) || !(o->link->bytes_per_second > 0)))
        return lm_fail(e, LM_USAGE, "link", LM_NO_OFFSET,
                       "a link needs a latency of at least 0 s and a bandwidth above 0");
    return LM_OK;
}

lm_status lm_cluster_plan_model(const lm_model *m, const lm_cluster_plan_options *o, lm_cluster_plan *out,
                                lm_error *e)
{
    LM_REQUIRE(e, m && o && out);
    LM_CHECK_RESERVED(e, o);
    LM_CHECK_RESERVED(e, o->link);
    lm_cluster_plan plan = {
        .context = lm_program_context(m->program, o->engine.context),
        .nodes   = o->nodes ? o->nodes : 1,
        .streams = o->streams ? o->streams : STREAMS,
        .prompt  = o->prompt ? o->prompt : PROMPT,
        .link    = o->link ? *o->link : *lm_link_at(0),
        .max_tp = max_parts(m->program),
    };
    planning   p      = { .m = m, .o = o, .engine = o->engine, .out = &plan };
    lm_ledger *ledger = NULL;
    lm_status  status;

    LM_TRY(check(m, o, e));
    plan.prompt        = plan.prompt < plan.context ? plan.prompt : plan.context;
    p.engine.context   = (uint32_t)plan.context;
    p.engine.sequences = plan.streams;
    LM_TRY(describe(&p, e));
    if (m->tensors && !o->precision) {
        plan.precision = "as stored";
        status         = add_splits(&p, e);
    } else {
        LM_TRY(lm_ledger_new(m->program, &ledger, e));
        p.types = lm_alloc(((size_t)m->program->n_weights + 1) * sizeof *p.types);
        status  = p.types ? add_precisions(&p, ledger, e) : lm_fail_memory(e, "types", 0);
        lm_free(p.types);
        lm_ledger_free(ledger);
    }
    if (status == LM_OK)
        *out = plan;
    return status;
}
