/* allot.c - choose tensor types under a budget of bytes: spend bytes where each improves the model most. */
#include "lamina/allot.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/effect.h"
#include "api/paired.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/journal.h"
#include "export/imatrix.h"
#include "formats/filetype.h"
#include "kernels/quantize.h"

enum { MOST_TYPES = 16, SAMPLE = 48, POINTS = 6 };

/* A tensor in one type. */
typedef struct form { lm_dtype type; uint64_t bytes; double error; } form;

typedef struct unit {
    uint32_t weight;
    form     forms[MOST_TYPES];      /* smallest first; each next one gains less per byte */
    uint32_t n, at;                  /* at: the chosen form */
    double   kl;                     /* divergence with the smallest form; NaN: not measured */
    double   sensitivity;            /* divergence per squared relative error */
    uint32_t put;                    /* the form in the engine; n: unchanged */
} unit;

typedef struct allotting {
    const lm_model         *m;
    const lm_allot_options *o;
    lm_pair      *pair;
    lm_imatrix   *imatrix;
    lm_effect     f;
    unit         *units;
    size_t        n;
    lm_dtype      types[MOST_TYPES];
    size_t        n_types;
    uint64_t      fixed, elements, budget;
    float        *x;
    uint32_t      chosen_by;
    lm_journal   *journal;
    lm_allot_step *steps;
    size_t        n_steps;
    lm_allotment  r;
    atomic_int    status;
    lm_error      error;
    lm_arena      arena;
} allotting;

static lm_status report_progress(const allotting *a, double fraction, const char *what, lm_error *e)
{
    if (!a->o->progress || a->o->progress(a->o->progress_arg, fraction, what))
        return LM_OK;
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
}

static const char *name_of(const allotting *a, const unit *u) { return a->m->program->weights[u->weight].gguf; }

static const float *importance_of(allotting *a, const unit *u, uint64_t k)
{
    const lm_weight *w = &a->m->program->weights[u->weight];
    uint64_t         n = 0, cols = w->dims[w->n_dims - 1];
    const float     *all = a->imatrix ? lm_imatrix_of(a->imatrix, w->gguf, &n) : NULL;

    return all && n == cols * lm_weight_matrices(w) ? all + k * cols : NULL;
}

/* ---- candidates ---- */

static lm_status read_types(allotting *a, lm_error *e)
{
    static const char *const usual[] = { "q2_k", "q3_k", "iq4_xs", "q4_0", "iq4_nl", "q4_k", "q4_1", "q5_0", "q5_k", "q5_1", "q6_k", "q8_0",
                                         NULL };

    for (const char *const *t = a->o->types ? a->o->types : usual; *t; t++) {
        const lm_dtype_info *type = lm_dtype_named(*t);
        if (!type || !type->quantized || !lm_can_quantize(type->type))
            return lm_fail(e, LM_USAGE, "types", LM_NO_OFFSET, "cannot make \"%s\": unknown type, or one without a quantizer", *t);
        if (a->n_types == MOST_TYPES)
            return lm_fail(e, LM_USAGE, "types", LM_NO_OFFSET, "more than %d", MOST_TYPES);
        a->types[a->n_types++] = type->type;
    }
    return LM_OK;
}

static int smaller(const void *a, const void *b)
{
    const form *x = a, *y = b;

    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : x->error < y->error ? -1 : x->error > y->error;
}

/* Keep the forms on the lower convex hull of error over bytes; the others are never worth their bytes. */
static void keep_edge(unit *u)
{
    uint32_t n = 0;

    qsort(u->forms, u->n, sizeof *u->forms, smaller);
    for (uint32_t i = 0; i < u->n; i++) {
        form f = u->forms[i];
        if (n && f.error >= u->forms[n - 1].error)
            continue;
        while (n >= 2) {
            const form *p = &u->forms[n - 2], *q = &u->forms[n - 1];
            double      to_q = (p->error - q->error) / (double)(q->bytes - p->bytes);
            double      to_f = (p->error - f.error) / (double)(f.bytes - p->bytes);
            if (to_q >= to_f)
                break;
            n--;
        }
        u->forms[n++] = f;
    }
    u->n   = n;
    u->put = n;
}

/* Measure the squared relative error of each form on a sample of rows. */
static lm_status measure_forms(allotting *a, unit *u, lm_error *e)
{
    uint64_t        cols = lm_pair_cols(a->pair, u->weight), rows = lm_pair_rows(a->pair, u->weight), bytes = cols * 5 + 512;
    uint64_t        some = rows < SAMPLE ? rows : SAMPLE, k = lm_pair_matrices(a->pair, u->weight) / 2;
    float          *x = lm_alloc(2 * cols * sizeof *x), *y = x ? x + cols : NULL;
    uint8_t        *packed = lm_alloc(bytes);
    lm_quantize_fn *quantize = lm_quantizer(lm_cpu_usable());
    double          squares = 0;
    const float    *w = importance_of(a, u, k);
    lm_status       status = x && packed ? LM_OK : lm_fail_memory(e, "a row", cols * sizeof *x);

    for (uint64_t i = 0; status == LM_OK && i < some; i++) {
        status = lm_pair_read_a(a->pair, u->weight, k, i * rows / some, 1, x, e);
        for (uint64_t c = 0; status == LM_OK && c < cols; c++) {
            if (!isfinite(x[c]))
                status = lm_fail(e, LM_BAD_MODEL, name_of(a, u), LM_NO_OFFSET, "has a number that is not finite");
            squares += (double)x[c] * (double)x[c] * (w ? (double)w[c] : 1);
        }
        for (uint32_t f = 0; status == LM_OK && f < u->n; f++) {
            quantize(u->forms[f].type, packed, x, cols, w);
            lm_dtype_of(u->forms[f].type)->unpack(y, packed, cols);
            for (uint64_t c = 0; c < cols; c++)
                u->forms[f].error += ((double)x[c] - (double)y[c]) * ((double)x[c] - (double)y[c]) * (w ? (double)w[c] : 1);
        }
    }
    for (uint32_t f = 0; f < u->n; f++)
        u->forms[f].error = squares > 0 ? u->forms[f].error / squares : 0;
    lm_free(x);
    lm_free(packed);
    keep_edge(u);
    return status;
}

static void measure_chunk(void *arg, unsigned worker, unsigned chunk)
{
    allotting *a    = arg;
    lm_error   e    = { .offset = LM_NO_OFFSET };
    int        none = LM_OK;

    (void)worker;
    lm_status status = measure_forms(a, &a->units[chunk], &e);
    if (status != LM_OK && atomic_compare_exchange_strong(&a->status, &none, (int)status))
        a->error = e;
}

static lm_status find_units(allotting *a, lm_error *e)
{
    const lm_program *p    = a->m->program;
    bool              gguf = lm_container_kind_of(a->m->container) == LM_GGUF;

    a->units = lm_alloc_zero(p->n_weights + 1, sizeof *a->units);
    if (!a->units)
        return lm_fail_memory(e, "tensors", p->n_weights * sizeof *a->units);
    for (uint32_t i = 0; i < p->n_weights; i++) {
        const lm_weight *w = &p->weights[i];
        unit            *u = &a->units[a->n];
        a->elements += w->elements;
        if (w->kind == LM_HEADS || !w->gguf)
            return lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET, "%s",
                           w->gguf ? "matrices of latent attention cannot be tried one by one" : "GGUF has no name for this tensor");
        if (w->kind == LM_VECTOR || !lm_is_packed(w->gguf, w->n_dims)) {
            a->fixed += gguf ? lm_elements_bytes(w->elements, lm_matrices_type(a->pair->of_a, i)) : w->elements * 4;
            continue;
        }
        *u = (unit){ .weight = i, .kl = NAN };
        for (size_t t = 0; t < a->n_types; t++)
            if (w->dims[w->n_dims - 1] % lm_dtype_of(a->types[t])->block == 0)
                u->forms[u->n++] = (form){ .type = a->types[t], .bytes = lm_elements_bytes(w->elements, a->types[t]) };
        importance_of(a, u, 0);                          /* computed here by a single thread */
        if (u->n)
            a->n++;
        else
            a->fixed += lm_elements_bytes(w->elements, lm_matrices_type(a->pair->of_a, i));
    }
    if (!a->n)
        return lm_fail(e, LM_USAGE, "types", LM_NO_OFFSET, "no tensor has rows of whole blocks of them");
    lm_pool_run_chunks(a->pair->pool, measure_chunk, a, (unsigned)a->n);
    lm_status status = (lm_status)atomic_load(&a->status);
    if (status != LM_OK && e)
        *e = a->error;
    return status;
}

static lm_status read_budget(allotting *a, lm_error *e)
{
    uint64_t least = a->fixed;

    for (size_t i = 0; i < a->n; i++)
        least += a->units[i].forms[0].bytes;
    a->budget = a->o->bytes ? a->o->bytes : (uint64_t)(a->o->bits_per_weight / 8 * (double)a->elements);
    if (a->budget < least)
        return lm_fail(e, LM_USAGE, "budget", LM_NO_OFFSET, "%" PRIu64 " bytes; in its smallest types the model takes %" PRIu64
                       " (%.3f bits per weight)", a->budget, least, 8 * (double)least / (double)a->elements);
    return LM_OK;
}

/* ---- measuring ---- */

static lm_status give(void *arg, uint32_t weight, uint64_t k, float *out, lm_error *e)
{
    return lm_pair_matrix_a(((allotting *)arg)->pair, weight, k, out, e);
}

/* Put form `at` of a tensor into the engine; n: the original values. */
static lm_status put(allotting *a, unit *u, uint32_t at, lm_error *e)
{
    if (u->put == at)
        return LM_OK;
    for (uint64_t k = 0; k < lm_pair_matrices(a->pair, u->weight); k++) {
        if (at == u->n)
            LM_TRY(lm_pair_matrix_a(a->pair, u->weight, k, a->x, e));
        else
            LM_TRY(lm_pair_matrix_as(a->pair, u->weight, k, u->forms[at].type, importance_of(a, u, k), a->x, e));
        lm_engine_put(a->f.g, u->weight, k, a->x);
    }
    u->put = at;
    return LM_OK;
}

static lm_status open_engine(allotting *a, lm_error *e)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < a->m->program->n_weights; i++) {
        uint64_t n = lm_given_elements(&a->m->program->weights[i]);
        most       = n > most ? n : most;
    }
    a->x = lm_alloc(most * sizeof *a->x);
    if (!a->x)
        return lm_fail_memory(e, "a matrix", most * sizeof *a->x);
    LM_TRY(lm_effect_new(a->m, &a->o->engine, give, a, a->o->ids, a->o->n, a->o->chunk ? a->o->chunk : 256, a->o->chunks ? a->o->chunks : 2,
                         &a->f, e));
    a->chosen_by = (a->f.chunks + 1) / 2;
    return lm_effect_begin(&a->f, e);
}

static lm_status take_record(void *arg, uint64_t index, const void *data, size_t n, lm_error *e)
{
    allotting *a = arg;

    if (index >= a->n || n != sizeof a->units[index].kl)
        return lm_fail(e, LM_BAD_MODEL, a->o->state, LM_NO_OFFSET, "a record of tensor %" PRIu64 " that cannot be", index);
    memcpy(&a->units[index].kl, data, n);
    return LM_OK;
}

static lm_status open_state(allotting *a, lm_error *e)
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
        lm_blake2b_add(&h, &a->units[i].forms[0].type, sizeof a->units[i].forms[0].type);
        lm_blake2b_add(&h, &a->units[i].forms[0].error, sizeof a->units[i].forms[0].error);
    }
    lm_blake2b_hex(&h, key);
    return lm_journal_open(a->o->state, key, take_record, a, &a->journal, e);
}

/* Measure tensors spread over the whole model, so that those measured within a short time represent the rest. */
static lm_status try_units(allotting *a, lm_error *e)
{
    double start = lm_clock_seconds();
    size_t stride = a->n > 2 ? (size_t)((double)a->n * 0.618) | 1 : 1;

    for (size_t b = a->n, c = stride, t; c; t = b % c, b = c, c = t)
        if (b % c == 0 && c > 1)
            stride = 1;                                  /* shares a divisor: measure in order */
    for (size_t i = 0; i < a->n; i++) {
        size_t at = i * stride % a->n;
        unit  *u  = &a->units[at];
        LM_TRY(report_progress(a, 0.05 + 0.8 * (double)i / (double)a->n, "trying", e));
        if (!isnan(u->kl) || (a->o->seconds > 0 && lm_clock_seconds() - start > a->o->seconds))
            continue;
        LM_TRY(put(a, u, 0, e));
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

static void learn(allotting *a)
{
    double all = 0, n = 0;

    for (size_t i = 0; i < a->n; i++) {
        unit *u = &a->units[i];
        if (isnan(u->kl))
            continue;
        u->sensitivity = u->forms[0].error > 0 ? u->kl / u->forms[0].error : 0;
        all += u->sensitivity;
        n++;
        a->r.tried++;
    }
    for (size_t i = 0; i < a->n; i++) {
        double sum = 0, k = 0;
        if (!isnan(a->units[i].kl))
            continue;
        for (size_t j = 0; j < a->n; j++)
            if (!isnan(a->units[j].kl) && strcmp(kind_of(name_of(a, &a->units[i])), kind_of(name_of(a, &a->units[j]))) == 0) {
                sum += a->units[j].sensitivity;
                k++;
            }
        a->units[i].sensitivity = k > 0 ? sum / k : n > 0 ? all / n : 1;
        a->r.untried++;
    }
}

/* ---- spending ---- */

static double estimate(const allotting *a)
{
    double sum = 0;

    for (size_t i = 0; i < a->n; i++)
        sum += a->units[i].sensitivity * a->units[i].forms[a->units[i].at].error;
    return sum;
}

/* Return the tensor whose upgrade gains most per byte within the budget; NULL: none. */
static unit *best_upgrade(allotting *a, uint64_t bytes)
{
    unit  *best = NULL;
    double most = 0;

    for (size_t i = 0; i < a->n; i++) {
        unit *u = &a->units[i];
        if (u->at + 1 >= u->n)
            continue;
        const form *f = &u->forms[u->at], *to = f + 1;
        double      worth = u->sensitivity * (f->error - to->error) / (double)(to->bytes - f->bytes);
        if (bytes + to->bytes - f->bytes <= a->budget && worth > most) {
            best = u;
            most = worth;
        }
    }
    return best;
}

static lm_status judge(allotting *a, double *kl, lm_error *e)
{
    uint32_t from = a->chosen_by < a->f.chunks ? a->chosen_by : 0;

    for (size_t i = 0; i < a->n; i++)
        LM_TRY(put(a, &a->units[i], a->units[i].at, e));
    return lm_effect_kl(&a->f, from, a->f.chunks - from, kl, e);
}

static lm_status spend(allotting *a, lm_error *e)
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
    for (unit *u; (u = best_upgrade(a, bytes));) {
        const form *from = &u->forms[u->at], *to = &u->forms[++u->at];
        bytes += to->bytes - from->bytes;
        lm_allot_step *s = &a->steps[a->n_steps++];
        *s = (lm_allot_step){ .tensor = lm_arena_strdup(&a->arena, name_of(a, u)), .from = lm_dtype_of(from->type)->name,
                              .to = lm_dtype_of(to->type)->name, .bytes = bytes, .estimate = estimate(a), .kl = NAN };
        if (bytes < next)
            continue;
        LM_TRY(report_progress(a, 0.85 + 0.15 * (double)(bytes - first) / (double)(a->budget - first + 1), "spending", e));
        LM_TRY(judge(a, &s->kl, e));
        next += (a->budget - first) / POINTS;
    }
    LM_TRY(judge(a, &a->steps[a->n_steps - 1].kl, e));
    a->r.bytes = bytes;
    a->r.kl    = a->steps[a->n_steps - 1].kl;
    return LM_OK;
}

/* List the chosen types as "^blk\.0\.attn_q\.weight$=q4_0". */
static lm_status list_types(allotting *a, lm_error *e)
{
    const char **keep = lm_arena_new(&a->arena, a->n + 1, const char *);

    for (size_t i = 0; keep && i < a->n; i++) {
        const unit *u = &a->units[i];
        char        pattern[256];
        size_t      n = 0;
        for (const char *c = name_of(a, u); *c && n + 3 < sizeof pattern; c++) {
            if (*c == '.')
                pattern[n++] = '\\';
            pattern[n++] = *c;
        }
        pattern[n] = '\0';
        keep[i]    = lm_arena_printf(&a->arena, "^%s$=%s", pattern, lm_dtype_of(u->forms[u->at].type)->name);
        if (!keep[i])
            keep = NULL;
    }
    if (!keep)
        return lm_fail_memory(e, "types", a->n * sizeof *keep);
    a->r.keep   = keep;
    a->r.n_keep = a->n;
    return LM_OK;
}

static lm_status run(allotting *a, lm_error *e)
{
    if (!a->o->ids || !a->o->n)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "a text is needed to measure with");
    if ((a->o->bytes != 0) == (a->o->bits_per_weight > 0))
        return lm_fail(e, LM_USAGE, "budget", LM_NO_OFFSET, "bits per weight or bytes, one of both");
    LM_TRY(read_types(a, e));
    LM_TRY(lm_pair_new(a->m, NULL, a->o->engine.threads, &a->pair, e));
    if (a->o->imatrix)
        LM_TRY(lm_imatrix_open(a->o->imatrix, &a->imatrix, e));
    LM_TRY(report_progress(a, 0, "errors", e));
    LM_TRY(find_units(a, e));
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

static void end_work(allotting *a)
{
    lm_journal_close(a->journal, NULL);
    lm_effect_free(&a->f);
    lm_pair_free(a->pair);
    lm_imatrix_free(a->imatrix);
    lm_free(a->units);
    lm_free(a->x);
}

static void end(allotting *a)
{
    lm_arena_free(&a->arena);
    lm_free(a);
}

lm_status lm_allot(const lm_model *m, const lm_allot_options *o, lm_allotment *out, lm_error *e)
{
    LM_GIVEN(e, m && o && out);
    LM_PLAIN(e, o);
    allotting *a     = lm_alloc_zero(1, sizeof *a);
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
