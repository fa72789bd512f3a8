/* allot.c - choose tensor types under a budget of bytes: spend bytes where each improves the model most. */
#include "lamina/allot.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/allotting.h"
#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/hash.h"

enum { POINTS = 6 };

static lm_status report_progress(const lm_allotting *a, double fraction, const char *what, lm_error *e)
{
    if (!a->o->progress || a->o->progress(a->o->progress_arg, fraction, what))
        return LM_OK;
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
}

static lm_status read_budget(lm_allotting *a, lm_error *e)
{
    uint64_t min = a->fixed;

    for (size_t i = 0; i < a->n; i++)
        min += a->units[i].forms[0].bytes;
    a->budget = a->o->bytes ? a->o->bytes : (uint64_t)(a->o->bits_per_weight / 8 * (double)a->elements);
    if (a->budget >= min)
        return LM_OK;
    lm_fail(e, LM_USAGE, "budget", LM_NO_OFFSET,
            "%" PRIu64 " bytes; in its smallest types the model takes %" PRIu64 " (%.3f bits per weight)",
            a->budget, min, 8 * (double)min / (double)a->elements);
    return a->imatrix || a->bits >= 4
               ? LM_USAGE
               : lm_fail_hint(e, "an importance matrix (`imatrix`) allows types of one and two bits");
}

/* ---- measuring ---- */

static lm_status give(void *arg, uint32_t weight, uint64_t k, float *out, lm_error *e)
{
    return lm_pair_matrix_a(((lm_allotting *)arg)->pair, weight, k, out, e);
}

/* Put form `at` of a tensor into the engine; n: the original values. */
static lm_status put(lm_allotting *a, lm_allot_unit *u, uint32_t at, lm_error *e)
{
    if (u->put == at)
        return LM_OK;
    for (uint64_t k = 0; k < lm_pair_matrices(a->pair, u->weight); k++) {
        if (at == u->n)
            LM_TRY(lm_pair_matrix_a(a->pair, u->weight, k, a->x, e));
        else
            LM_TRY(lm_pair_matrix_as(a->pair, u->weight, k, u->forms[at].type, lm_allot_importance(a, u, k),
                                     a->x, e));
        lm_engine_put(a->f.g, u->weight, k, a->x);
    }
    u->put = at;
    return LM_OK;
}

static lm_status open_engine(lm_allotting *a, lm_error *e)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < a->m->program->n_weights; i++) {
        uint64_t n = lm_caller_weight_elements(&a->m->program->weights[i]);
        max       = n > max ? n : max;
    }
    a->x = lm_alloc(max * sizeof *a->x);
    if (!a->x)
        return lm_fail_memory(e, "a matrix", max * sizeof *a->x);
    LM_TRY(lm_effect_new(a->m, &a->o->engine, give, a, a->o->ids, a->o->n, a->o->chunk ? a->o->chunk : 256,
                         a->o->chunks ? a->o->chunks : 2, &a->f, e));
    a->chosen_by = (a->f.chunks + 1) / 2;
    return lm_effect_begin(&a->f, e);
}

static lm_status take_record(void *arg, uint64_t index, const void *data, size_t n, lm_error *e)
{
    lm_allotting *a = arg;

    if (index >= a->n || n != sizeof a->units[index].kl)
        return lm_fail(e, LM_BAD_MODEL, a->o->state, LM_NO_OFFSET,
                       "a record of tensor %" PRIu64 " that cannot be", index);
    memcpy(&a->units[index].kl, data, n);
    return LM_OK;
}

static lm_status open_state(lm_allotting *a, lm_error *e)
{
    lm_blake2b h;
    char       model[65], key[2 * LM_BLAKE2B_BYTES + 1];
    uint32_t   numbers[] = { 1, a->f.chunk, a->f.chunks, a->imatrix != NULL };

    if (!a->o->state)
        return LM_OK;
    LM_TRY(lm_model_fingerprint(a->m, model, e));
    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, model, sizeof model);
    lm_blake2b_add(&h, numbers, sizeof numbers);
    lm_blake2b_add(&h, a->o->ids, (size_t)a->f.chunk * a->f.chunks * sizeof *a->o->ids);
    for (size_t i = 0; i < a->n; i++) {
        const lm_allot_form *f = &a->units[i].forms[a->units[i].trial];
        lm_blake2b_add(&h, &f->type, sizeof f->type);
        lm_blake2b_add(&h, &f->error, sizeof f->error);
    }
    lm_blake2b_hex(&h, key);
    return lm_journal_open(a->o->state, key, take_record, a, &a->journal, e);
}

/* Measure tensors spread over the whole model, so that those measured within a short time represent the
 * rest. */
static lm_status try_units(lm_allotting *a, lm_error *e)
{
    double start = lm_clock_seconds();
    size_t stride = a->n > 2 ? (size_t)((double)a->n * 0.618) | 1 : 1;

    for (size_t b = a->n, c = stride, t; c; t = b % c, b = c, c = t)
        if (b % c == 0 && c > 1)
            stride = 1;                                  /* shares a divisor: measure in order */
    for (size_t i = 0; i < a->n; i++) {
        size_t at = i * stride % a->n;
        lm_allot_unit *u = &a->units[at];
        LM_TRY(report_progress(a, 0.05 + 0.8 * (double)i / (double)a->n, "trying", e));
        if (!isnan(u->kl) || (a->o->seconds > 0 && lm_clock_seconds() - start > a->o->seconds))
            continue;
        LM_TRY(put(a, u, u->trial, e));
        LM_TRY(lm_effect_kl(&a->f, 0, a->chosen_by, &u->kl, e));
        LM_TRY(put(a, u, u->n, e));
        LM_TRY(lm_journal_add(a->journal, at, &u->kl, sizeof u->kl, e));
    }
    return LM_OK;
}

static const char *kind_of(const char *name)
{
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;

    return dot ? dot : name;
}

static void learn(lm_allotting *a)
{
    double all = 0, n = 0;

    for (size_t i = 0; i < a->n; i++) {
        lm_allot_unit *u = &a->units[i];
        if (isnan(u->kl))
            continue;
        u->sensitivity = u->forms[u->trial].error > 0 ? u->kl / u->forms[u->trial].error : 0;
        all += u->sensitivity;
        n++;
        a->r.tried++;
    }
    for (size_t i = 0; i < a->n; i++) {
        double sum = 0, k = 0;
        if (!isnan(a->units[i].kl))
            continue;
        for (size_t j = 0; j < a->n; j++)
            if (!isnan(a->units[j].kl) && strcmp(kind_of(lm_allot_name(a, &a->units[i])),
                                                 kind_of(lm_allot_name(a, &a->units[j]))) == 0) {
                sum += a->units[j].sensitivity;
                k++;
            }
        a->units[i].sensitivity = k > 0 ? sum / k : n > 0 ? all / n : 1;
        a->r.untried++;
    }
}

/* ---- spending ---- */

static double estimate(const lm_allotting *a)
{
    double sum = 0;

    for (size_t i = 0; i < a->n; i++)
        sum += a->units[i].sensitivity * a->units[i].forms[a->units[i].at].error;
    return sum;
}

/* Return the tensor whose upgrade gains most per byte within the budget; NULL: none. */
static lm_allot_unit *best_upgrade(lm_allotting *a, uint64_t bytes)
{
    lm_allot_unit *best = NULL;
    double   max = 0;

    for (size_t i = 0; i < a->n; i++) {
        lm_allot_unit *u = &a->units[i];
        if (u->at + 1 >= u->n)
            continue;
        const lm_allot_form *f = &u->forms[u->at], *to = f + 1;
        double         worth = u->sensitivity * (f->error - to->error) / (double)(to->bytes - f->bytes);
        if (bytes + to->bytes - f->bytes <= a->budget && worth > max) {
            best = u;
            max = worth;
        }
    }
    return best;
}

static lm_status judge(lm_allotting *a, double *kl, lm_error *e)
{
    uint32_t from = a->chosen_by < a->f.chunks ? a->chosen_by : 0;

    for (size_t i = 0; i < a->n; i++)
        LM_TRY(put(a, &a->units[i], a->units[i].at, e));
    return lm_effect_kl(&a->f, from, a->f.chunks - from, kl, e);
}

static lm_status spend(lm_allotting *a, lm_error *e)
{
    size_t   room = 1;
    uint64_t bytes = a->fixed, first, next;

    for (size_t i = 0; i < a->n; i++) {
        bytes += a->units[i].forms[0].bytes;
        room += a->units[i].n;
    }
    a->steps = lm_arena_new(&a->arena, room, lm_allot_step);
    if (!a->steps)
        return lm_fail_memory(e, "steps", room * sizeof *a->steps);
    a->steps[a->n_steps] = (lm_allot_step){ .bytes = bytes, .estimate = estimate(a), .kl = NAN };
    LM_TRY(judge(a, &a->steps[a->n_steps++].kl, e));
    first = bytes;
    next  = first + (a->budget - first) / POINTS;
    for (lm_allot_unit *u; (u = best_upgrade(a, bytes));) {
        const lm_allot_form *from = &u->forms[u->at], *to = &u->forms[++u->at];
        bytes += to->bytes - from->bytes;
        lm_allot_step *s = &a->steps[a->n_steps++];
        *s = (lm_allot_step){ .tensor = lm_arena_strdup(&a->arena, lm_allot_name(a, u)),
                              .from = lm_dtype_of(from->type)->name,
                              .to = lm_dtype_of(to->type)->name,
                              .bytes = bytes,
                              .estimate = estimate(a),
                              .kl = NAN };
        if (bytes < next)
            continue;
        LM_TRY(report_progress(a, 0.85 + 0.15 * (double)(bytes - first) / (double)(a->budget - first + 1),
                               "spending", e));
        LM_TRY(judge(a, &s->kl, e));
        next += (a->budget - first) / POINTS;
    }
    LM_TRY(judge(a, &a->steps[a->n_steps - 1].kl, e));
    a->r.bytes = bytes;
    a->r.kl    = a->steps[a->n_steps - 1].kl;
    return LM_OK;
}

/* Return "^blk\.0\.attn_q\.weight$=q4_0"; NULL: no memory. */
static const char *keep_as(lm_allotting *a, const char *name, lm_dtype type)
{
    char   pattern[256];
    size_t n = 0;

    for (const char *c = name; *c && n + 3 < sizeof pattern; c++) {
        if (*c == '.')
            pattern[n++] = '\\';
        pattern[n++] = *c;
    }
    pattern[n] = '\0';
    return lm_arena_printf(&a->arena, "^%s$=%s", pattern, lm_dtype_of(type)->name);
}

/* List the chosen types, and those of joint matrices. */
static lm_status list_types(lm_allotting *a, lm_error *e)
{
    uint32_t     n_weights = a->m->program->n_weights;
    const char **keep      = lm_arena_new(&a->arena, n_weights + 1, const char *);
    size_t       n = 0;

    if (!keep)
        return lm_fail_memory(e, "types", n_weights * sizeof *keep);
    for (size_t i = 0; i < a->n; i++)
        keep[n++] = keep_as(a, lm_allot_name(a, &a->units[i]), a->units[i].forms[a->units[i].at].type);
    for (uint32_t i = 0; i < n_weights; i++) {
        lm_dtype    type;
        const char *name = lm_allot_joint(a, i, &type);
        if (name)
            keep[n++] = keep_as(a, name, type);
    }
    for (size_t i = 0; i < n; i++)
        if (!keep[i])
            return lm_fail_memory(e, "types", n * sizeof *keep);
    a->r.keep   = keep;
    a->r.n_keep = n;
    return LM_OK;
}

static lm_status run(lm_allotting *a, lm_error *e)
{
    if (!a->o->ids || !a->o->n)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "a text is needed to measure with");
    if ((a->o->bytes != 0) == (a->o->bits_per_weight > 0))
        return lm_fail(e, LM_USAGE, "budget", LM_NO_OFFSET, "bits per weight or bytes, one of both");
    LM_TRY(lm_allot_types(a, e));
    LM_TRY(lm_pair_new(a->m, NULL, a->o->engine.threads, &a->pair, e));
    if (a->o->imatrix)
        LM_TRY(lm_imatrix_open(a->o->imatrix, &a->imatrix, e));
    LM_TRY(report_progress(a, 0, "errors", e));
    LM_TRY(lm_allot_units(a, e));
    LM_TRY(read_budget(a, e));
    LM_TRY(open_engine(a, e));
    LM_TRY(open_state(a, e));
    LM_TRY(try_units(a, e));
    lm_journal *journal = a->journal;
    a->journal          = NULL;
    LM_TRY(lm_journal_close(journal, e));
    learn(a);
    LM_TRY(spend(a, e));
    return list_types(a, e);
}

static void end_work(lm_allotting *a)
{
    lm_journal_close(a->journal, NULL);
    lm_effect_free(&a->f);
    lm_pair_free(a->pair);
    lm_imatrix_free(a->imatrix);
    lm_free(a->units);
    lm_free(a->x);
}

static void end(lm_allotting *a)
{
    lm_arena_free(&a->arena);
    lm_free(a);
}

lm_status lm_allot(const lm_model *m, const lm_allot_options *o, lm_allotment *out, lm_error *e)
{
    LM_REQUIRE(e, m && o && out);
    LM_CHECK_RESERVED(e, o);
    lm_allotting *a     = lm_alloc_zero(1, sizeof *a);
    double     start = lm_clock_seconds();

    if (!a)
        return lm_fail_memory(e, "types", sizeof *a);
    a->m             = m;
    a->o             = o;
    lm_status status = run(a, e);
    end_work(a);
    if (status != LM_OK) {
        end(a);
        return status;
    }
    a->r.steps           = a->steps;
    a->r.n_steps         = a->n_steps;
    a->r.elements        = a->elements;
    a->r.bits_per_weight = 8 * (double)a->r.bytes / (double)a->elements;
    a->r.seconds         = lm_clock_seconds() - start;
    a->r.impl            = a;
    *out                 = a->r;
    return LM_OK;
}

void lm_allot_free(lm_allotment *a)
{
    if (a && a->impl)
        end(a->impl);
    if (a)
        *a = (lm_allotment){ 0 };
}
