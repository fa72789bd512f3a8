/* allot_forms.c - the forms that each tensor can take: types, sizes and errors. */
#include "api/allotting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "formats/filetype.h"
#include "kernels/quantize.h"

enum { SAMPLE = 48 };

#define LOW 4.25                     /* bits per weight of a budget that calls for codebooks */

const char *lm_allot_name(const lm_allotting *a, const lm_allot_unit *u)
{
    return a->m->program->weights[u->weight].gguf;
}

const float *lm_allot_importance(lm_allotting *a, const lm_allot_unit *u, uint64_t k)
{
    const lm_weight *w = &a->m->program->weights[u->weight];
    uint64_t         n = 0, cols = w->dims[w->n_dims - 1];
    const float     *all = a->imatrix ? lm_imatrix_of(a->imatrix, w->gguf, &n) : NULL;

    return all && n == cols * lm_weight_matrices(w) ? all + k * cols : NULL;
}

/* The types that are offered, and the budget in bits per weight below which each is. Codebooks take long to
 * search, and a tensor is rarely given a type of far fewer bits than the average. */
static const struct { const char *name; double below; } usual[] = {
    { "iq1_s", 3 },        { "iq1_m", 3 },         { "iq2_xxs", 3.75 },   { "iq2_xs", 3.75 },    { "iq2_s", LOW },  { "q2_k", INFINITY },
    { "iq3_xxs", LOW },   { "iq3_s", LOW },      { "q3_k", INFINITY },  { "iq4_xs", INFINITY }, { "q4_0", INFINITY },
    { "iq4_nl", INFINITY }, { "q4_k", INFINITY },  { "q4_1", INFINITY },  { "q5_0", INFINITY },  { "q5_k", INFINITY },
    { "q5_1", INFINITY },  { "q6_k", INFINITY },   { "q8_0", INFINITY },
};

static lm_status add_type(lm_allotting *a, const char *name, lm_error *e)
{
    const lm_dtype_info *type = lm_dtype_named(name);

    if (!type || !type->quantized || !lm_can_quantize(type->type))
        return lm_fail(e, LM_USAGE, "types", LM_NO_OFFSET,
                       "cannot make \"%s\": unknown type, or one without a quantizer", name);
    if (a->n_types == LM_MAX_FORMS)
        return lm_fail(e, LM_USAGE, "types", LM_NO_OFFSET, "more than %d", LM_MAX_FORMS);
    a->types[a->n_types++] = type->type;
    return LM_OK;
}

lm_status lm_allot_types(lm_allotting *a, lm_error *e)
{
    for (uint32_t i = 0; i < a->m->program->n_weights; i++)
        a->elements += a->m->program->weights[i].elements;
    a->bits = a->o->bytes ? 8 * (double)a->o->bytes / (double)a->elements : a->o->bits_per_weight;
    for (const char *const *t = a->o->types; t && *t; t++)
        LM_TRY(add_type(a, *t, e));
    for (size_t i = 0; !a->o->types && i < sizeof usual / sizeof *usual; i++)
        if (a->bits < usual[i].below)
            LM_TRY(add_type(a, usual[i].name, e));
    return LM_OK;
}

/* Return whether a tensor can have a type: its rows are whole blocks, and it has the importance without which
 * the type is noise. */
static bool is_possible(lm_allotting *a, const lm_allot_unit *u, lm_dtype type)
{
    static const lm_file_type any = { .name = "any", .id = 0, .base = LM_F32 };
    const lm_weight          *w   = &a->m->program->weights[u->weight];

    if (w->dims[w->n_dims - 1] % lm_dtype_of(type)->block)
        return false;
    return lm_allot_importance(a, u, 0) || !lm_requires_importance(&any, w->gguf, type);
}

static int smaller(const void *a, const void *b)
{
    const lm_allot_form *x = a, *y = b;

    return x->bytes != y->bytes  ? (x->bytes < y->bytes ? -1 : 1)
           : x->error < y->error ? -1
                                 : x->error > y->error;
}

/* Keep the forms on the lower convex hull of error over bytes; the others are never worth their bytes. */
static void keep_edge(lm_allot_unit *u)
{
    uint32_t n = 0;

    qsort(u->forms, u->n, sizeof *u->forms, smaller);
    for (uint32_t i = 0; i < u->n; i++) {
        lm_allot_form f = u->forms[i];
        if (n && f.error >= u->forms[n - 1].error)
            continue;
        while (n >= 2) {
            const lm_allot_form *p = &u->forms[n - 2], *q = &u->forms[n - 1];
            double         to_q = (p->error - q->error) / (double)(q->bytes - p->bytes);
            double         to_f = (p->error - f.error) / (double)(f.bytes - p->bytes);
            if (to_q >= to_f)
                break;
            n--;
        }
        u->forms[n++] = f;
    }
    u->n   = n;
    u->put = n;
}

/* Choose the form to try: the smallest one, or under a low budget the largest one within its bits per weight.
 * The divergence that a tensor causes in one or two bits tells little about sizes near to the budget. */
static uint32_t form_to_try(const lm_allotting *a, const lm_allot_unit *u)
{
    uint64_t elements = a->m->program->weights[u->weight].elements;
    uint32_t i = 0;

    while (a->bits < LOW && i + 1 < u->n && 8 * (double)u->forms[i + 1].bytes <= a->bits * (double)elements)
        i++;
    return i;
}

/* Measure the squared relative error of each form on a sample of rows. */
static lm_status measure_forms(lm_allotting *a, lm_allot_unit *u, lm_error *e)
{
    uint64_t cols = lm_pair_cols(a->pair, u->weight), rows = lm_pair_rows(a->pair, u->weight),
             bytes = cols * 5 + 512;
    uint64_t        some = rows < SAMPLE ? rows : SAMPLE, k = lm_pair_matrices(a->pair, u->weight) / 2;
    float          *x = lm_alloc(2 * cols * sizeof *x), *y = x ? x + cols : NULL;
    uint8_t        *packed = lm_alloc(bytes);
    lm_quantize_fn *quantize = lm_quantizer(lm_cpu_usable());
    double          squares = 0;
    const float    *w = lm_allot_importance(a, u, k);
    lm_status       status = x && packed ? LM_OK : lm_fail_memory(e, "a row", cols * sizeof *x);

    for (uint64_t i = 0; status == LM_OK && i < some; i++) {
        status = lm_pair_read_a(a->pair, u->weight, k, i * rows / some, 1, x, e);
        for (uint64_t c = 0; status == LM_OK && c < cols; c++) {
            if (!isfinite(x[c]))
                status = lm_fail(e, LM_BAD_MODEL, lm_allot_name(a, u), LM_NO_OFFSET,
                                 "has a number that is not finite");
            squares += (double)x[c] * (double)x[c] * (w ? (double)w[c] : 1);
        }
        for (uint32_t f = 0; status == LM_OK && f < u->n; f++) {
            quantize(u->forms[f].type, packed, x, cols, w);
            lm_dtype_of(u->forms[f].type)->unpack(y, packed, cols);
            for (uint64_t c = 0; c < cols; c++)
                u->forms[f].error += ((double)x[c] - (double)y[c]) * ((double)x[c] - (double)y[c]) *
                                     (w ? (double)w[c] : 1);
        }
    }
    for (uint32_t f = 0; f < u->n; f++)
        u->forms[f].error = squares > 0 ? u->forms[f].error / squares : 0;
    lm_free(x);
    lm_free(packed);
    keep_edge(u);
    u->trial = form_to_try(a, u);
    return status;
}

static void measure_chunk(void *arg, unsigned worker, unsigned chunk)
{
    lm_allotting *a    = arg;
    lm_error      e    = { .offset = LM_NO_OFFSET };
    int           none = LM_OK;

    (void)worker;
    lm_status status = measure_forms(a, &a->units[chunk], &e);
    if (status != LM_OK && atomic_compare_exchange_strong(&a->status, &none, (int)status))
        a->error = e;
}

/* Return whether a file in the older form of latent attention stores a weight among the rows of another, to
 * which its type applies too. */
static bool is_joint(const lm_allotting *a, const lm_weight *w)
{
    return w->kind == LM_HEADS && lm_container_kind_of(a->m->container) == LM_GGUF && w->joint.gguf &&
           lm_container_find(a->m->container, w->joint.gguf);
}

/* The joint matrix of such files is small and gets one type, untried. Its rows are the inputs of the
 * values. */
static lm_dtype joint_type(const lm_allotting *a, uint32_t weight)
{
    const lm_weight *w   = &a->m->program->weights[weight];
    uint64_t         row = w->dims[w->joint.transposed ? 1 : 2];

    return row % lm_dtype_of(LM_Q8_0)->block ? lm_matrices_type(a->pair->of_a, weight) : LM_Q8_0;
}

const char *lm_allot_joint(const lm_allotting *a, uint32_t weight, lm_dtype *type)
{
    const lm_weight *w = &a->m->program->weights[weight];

    if (!is_joint(a, w) || w->joint.first)
        return NULL;
    *type = joint_type(a, weight);
    return lm_dtype_of(*type)->quantized ? w->joint.gguf : NULL;
}

/* Add a weight to those whose type is chosen, or its bytes to those of the others. */
static lm_status add_unit(lm_allotting *a, uint32_t weight, lm_error *e)
{
    const lm_weight *w      = &a->m->program->weights[weight];
    lm_allot_unit   *u      = &a->units[a->n];
    lm_dtype         stored = lm_matrices_type(a->pair->of_a, weight);
    bool             gguf   = lm_container_kind_of(a->m->container) == LM_GGUF;

    if (!w->gguf)
        return lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET, "GGUF has no name for this tensor");
    if (is_joint(a, w)) {
        a->fixed += lm_elements_bytes(w->elements, joint_type(a, weight));
        return LM_OK;
    }
    if (w->kind == LM_VECTOR || !lm_is_packed(w->gguf, w->n_dims)) {
        a->fixed += gguf ? lm_elements_bytes(w->elements, stored) : w->elements * 4;
        return LM_OK;
    }
    *u = (lm_allot_unit){ .weight = weight, .kl = NAN };
    for (size_t t = 0; t < a->n_types; t++)              /* computes the importance, here by a single
                                                            thread */
        if (is_possible(a, u, a->types[t]))
            u->forms[u->n++] = (lm_allot_form){ .type = a->types[t],
                                                .bytes = lm_elements_bytes(w->elements, a->types[t]) };
    if (u->n)
        a->n++;
    else
        a->fixed += lm_elements_bytes(w->elements, stored);
    return LM_OK;
}

lm_status lm_allot_units(lm_allotting *a, lm_error *e)
{
    const lm_program *p = a->m->program;

    a->units = lm_alloc_zero(p->n_weights + 1, sizeof *a->units);
    if (!a->units)
        return lm_fail_memory(e, "tensors", p->n_weights * sizeof *a->units);
    for (uint32_t i = 0; i < p->n_weights; i++)
        LM_TRY(add_unit(a, i, e));
    if (!a->n)
        return lm_fail(e, LM_USAGE, "types", LM_NO_OFFSET, "no tensor has rows of whole blocks of them");
    lm_pool_run_chunks(a->pair->pool, measure_chunk, a, (unsigned)a->n);
    lm_status status = (lm_status)atomic_load(&a->status);
    if (status != LM_OK && e)
        *e = a->error;
    return status;
}
