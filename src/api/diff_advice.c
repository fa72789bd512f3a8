/* diff_advice.c - find the tensors of `b` that are worth more bytes: try each one separately, then the best
 * ones together, on an engine with given values and the program of `a`. Half of the text selects the tensors,
 * the other half measures the improvement. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/differing.h"
#include "api/effect.h"
#include "base/alloc.h"
#include "base/error.h"
#include "formats/filetype.h"
#include "kernels/quantize.h"

enum { CANDIDATES = 24, MAX_TOGETHER = 8 };

typedef struct candidate {
    uint32_t tensor, weight;
    lm_dtype to;
    uint64_t bytes;                  /* in addition to those in `b` */
    double   weighs;                 /* for the selection of candidates */
    double   gain;                   /* reduction of the mean divergence, nats per token */
} candidate;

typedef struct advising {
    lm_differing *d;
    lm_effect     f;
    lm_dtype      raise;
    candidate    *list;              /* [n], finally best first */
    size_t        n;
    float        *x;                 /* a matrix */
    bool          of_b;              /* the engine gets the values of `b` */
    uint32_t      chosen_by;         /* number of chunks for the selection; the others measure the
                                        improvement */
    double        before;            /* divergence of `b` on the first part */
    uint32_t      steps, done;
} advising;

static lm_status report_progress(advising *v, lm_error *e)
{
    double x = v->steps ? (double)v->done++ / (double)v->steps : 1;

    return lm_differing_report(v->d, x < 1 ? x : 1, "trying", e);
}

/* ---- candidates ---- */

/* Relative errors in some kinds of tensors affect the residual stream more, as published measurements show.
 * The weights only determine the order in which tensors are tried. */
static double kind_weight(const char *name)
{
    static const struct { const char *part; double weight; } kinds[] = {
        { "attn_v", 4 }, { "v_proj", 4 }, { "attn_qkv", 3 }, { "qkv", 3 }, { "ffn_down", 2.5 }, { "down_proj", 2.5 }, { "output.weight", 3 },
        { "lm_head", 3 }, { "token_embd", 3 }, { "embed_tokens", 3 }, { "attn_output", 1.5 }, { "o_proj", 1.5 },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(name, kinds[i].part))
            return kinds[i].weight;
    return 1;
}

static int heavier(const void *a, const void *b)
{
    double x = ((const candidate *)a)->weighs, y = ((const candidate *)b)->weighs;

    return x == y  ? (int)((const candidate *)a)->tensor - (int)((const candidate *)b)->tensor
           : x < y ? 1
                   : -1;
}

/* Sort by gain per byte. */
static int worthier(const void *a, const void *b)
{
    const candidate *p = a, *q = b;
    double           x = p->gain / (double)p->bytes, y = q->gain / (double)q->bytes;

    return x == y ? (int)p->tensor - (int)q->tensor : x < y ? 1 : -1;
}

static lm_status find_candidates(advising *v, lm_error *e)
{
    const lm_differing *d = v->d;

    v->list = lm_alloc_zero(d->r.n_tensors + 1, sizeof *v->list);
    if (!v->list)
        return lm_fail_memory(e, "candidates", d->r.n_tensors * sizeof *v->list);
    for (uint32_t i = 0; i < d->r.n_tensors; i++) {
        const lm_diff_tensor *t    = &d->r.tensors[i];
        uint32_t              w    = d->weights[i];
        lm_dtype              from = lm_matrices_type(d->pair->of_b, d->pair->in_b[w]), to;
        if (d->a->program->weights[w].kind == LM_VECTOR || !lm_dtype_of(from)->quantized ||
            !(t->relative > 0))
            continue;
        to             = lm_fitting_type(v->raise, lm_pair_cols(d->pair, w));
        uint64_t bytes = lm_elements_bytes(t->elements, to);
        if (bytes <= t->b_bytes || !lm_can_quantize(to))
            continue;
        v->list[v->n++] = (candidate){ .tensor = i, .weight = w, .to = to, .bytes = bytes - t->b_bytes,
                                       .weighs = t->relative * t->relative * kind_weight(t->name) };
    }
    uint32_t max = d->o->candidates ? d->o->candidates : CANDIDATES;
    qsort(v->list, v->n, sizeof *v->list, heavier);
    v->n = v->n < max ? v->n : max;
    return LM_OK;
}

/* ---- the engine ---- */

static lm_status give(void *arg, uint32_t weight, uint64_t k, float *out, lm_error *e)
{
    advising *v = arg;
    lm_pair  *p = v->d->pair;

    return v->of_b && p->in_b[weight] != LM_NONE ? lm_pair_matrix_b(p, weight, k, out, e)
                                                 : lm_pair_matrix_a(p, weight, k, out, e);
}

static lm_status put_b(advising *v, uint32_t weight, lm_error *e)
{
    v->of_b = true;
    for (uint64_t k = 0; k < lm_pair_matrices(v->d->pair, weight); k++) {
        LM_TRY(give(v, weight, k, v->x, e));
        lm_engine_put(v->f.g, weight, k, v->x);
    }
    return LM_OK;
}

/* Put the values of `a`, rounded to the finer type, into the engine. */
static lm_status put_raised(advising *v, const candidate *c, lm_error *e)
{
    for (uint64_t k = 0; k < lm_pair_matrices(v->d->pair, c->weight); k++) {
        LM_TRY(lm_pair_matrix_as(v->d->pair, c->weight, k, c->to, NULL, v->x, e));
        lm_engine_put(v->f.g, c->weight, k, v->x);
    }
    return LM_OK;
}

static lm_status open_engine(advising *v, lm_error *e)
{
    lm_differing *d    = v->d;
    uint64_t      max = 0;
    uint32_t      chunks = d->o->chunks ? d->o->chunks : 4;

    for (uint32_t i = 0; i < d->a->program->n_weights; i++) {
        uint64_t n = lm_caller_weight_elements(&d->a->program->weights[i]);
        max       = n > max ? n : max;
    }
    v->x = lm_alloc(max * sizeof *v->x);
    if (!v->x)
        return lm_fail_memory(e, "a matrix", max * sizeof *v->x);
    LM_TRY(lm_effect_new(d->a, &d->o->engine, give, v, d->o->ids, d->o->n, d->chunk, chunks, &v->f, e));
    v->chosen_by = (v->f.chunks + 1) / 2;
    v->steps     = (uint32_t)v->n + MAX_TOGETHER + 4;
    LM_TRY(lm_effect_begin(&v->f, e));
    LM_TRY(report_progress(v, e));
    for (uint32_t i = 0; i < d->r.n_tensors; i++)
        LM_TRY(put_b(v, d->weights[i], e));
    LM_TRY(report_progress(v, e));
    return lm_effect_kl(&v->f, 0, v->chosen_by, &v->before, e);
}

static lm_status try_each(advising *v, lm_error *e)
{
    for (size_t i = 0; i < v->n; i++) {
        double kl = 0;
        LM_TRY(report_progress(v, e));
        LM_TRY(put_raised(v, &v->list[i], e));
        LM_TRY(lm_effect_kl(&v->f, 0, v->chosen_by, &kl, e));
        LM_TRY(put_b(v, v->list[i].weight, e));
        v->list[i].gain = v->before - kl;
    }
    qsort(v->list, v->n, sizeof *v->list, worthier);
    return LM_OK;
}

/* Measure on the chunks that were not used for the selection, if the text has more than one chunk. */
static lm_status judge(advising *v, double *kl, lm_error *e)
{
    uint32_t from = v->chosen_by < v->f.chunks ? v->chosen_by : 0;

    LM_TRY(report_progress(v, e));
    return lm_effect_kl(&v->f, from, v->f.chunks - from, kl, e);
}

static lm_status add_advice(advising *v, size_t n, uint64_t bytes, double kl, double before,
                            lm_diff_advice *out, lm_error *e)
{
    const char **names = lm_arena_new(&v->d->arena, n, const char *);

    if (!names)
        return lm_fail_memory(e, "names", n * sizeof *names);
    lm_dtype to = v->list[0].to;
    for (size_t i = 0; i < n; i++) {
        names[i] = v->d->r.tensors[v->list[i].tensor].name;
        to       = v->list[i].to == to ? to : v->raise;
    }
    *out = (lm_diff_advice){ .tensors = names, .n = n, .to = lm_dtype_of(to)->name, .bytes = bytes,
                             .kl = kl, .kl_before = before };
    return LM_OK;
}

/* Measure together the best one, three and all tensors with a gain, up to eight. */
static lm_status try_together(advising *v, lm_error *e)
{
    lm_diff_result *r     = &v->d->r;
    lm_diff_advice *list  = lm_arena_new(&v->d->arena, MAX_TOGETHER, lm_diff_advice);
    size_t          n     = 0, worth = 0;
    uint64_t        bytes = 0;
    double          before, kl;

    while (worth < v->n && worth < MAX_TOGETHER && v->list[worth].gain > 0)
        worth++;
    if (!list)
        return lm_fail_memory(e, "advice", 0);
    LM_TRY(judge(v, &before, e));
    for (size_t i = 0; i < worth; i++) {
        LM_TRY(put_raised(v, &v->list[i], e));
        bytes += v->list[i].bytes;
        if (i != 0 && i != 2 && i + 1 != worth)
            continue;
        LM_TRY(judge(v, &kl, e));
        if (kl < before)
            LM_TRY(add_advice(v, i + 1, bytes, kl, before, &list[n++], e));
    }
    r->advice      = list;
    r->n_advice    = n;
    r->advice_note = n ? NULL : "no tensor wins anything by it";
    return LM_OK;
}

static lm_status advise(advising *v, lm_error *e)
{
    const char          *name = v->d->o->raise ? v->d->o->raise : "q6_k";
    const lm_dtype_info *type = lm_dtype_named(name);

    if (!type || !lm_can_quantize(type->type) || !type->quantized)
        return lm_fail(e, LM_USAGE, "raise", LM_NO_OFFSET,
                       "cannot make \"%s\": unknown type, or one without a quantizer", name);
    v->raise = type->type;
    LM_TRY(find_candidates(v, e));
    if (!v->n) {
        v->d->r.advice_note = "no tensor is stored more coarsely";
        return LM_OK;
    }
    LM_TRY(open_engine(v, e));
    LM_TRY(try_each(v, e));
    return try_together(v, e);
}

lm_status lm_differing_advise(lm_differing *d, lm_error *e)
{
    advising  v      = { .d = d };
    lm_status status = advise(&v, e);

    lm_effect_free(&v.f);
    lm_free(v.list);
    lm_free(v.x);
    return status;
}
