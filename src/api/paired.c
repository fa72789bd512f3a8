/* paired.c - read corresponding rows of two containers. */
#include "api/paired.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/cpu.h"
#include "kernels/quantize.h"

static bool is_gguf(const lm_model *m) { return lm_container_kind_of(m->container) == LM_GGUF; }

/* ---- matching weights ---- */

static bool same_shape(const lm_weight *x, const lm_weight *y)
{
    return x->kind == y->kind && x->n_dims == y->n_dims &&
           memcmp(x->dims, y->dims, x->n_dims * sizeof *x->dims) == 0;
}

/* Match a weight. If only `b` is a GGUF file, its rows are read in checkpoint order; if only `a` is one, the
 * rows of the folder are read in the order of the GGUF file. */
static void match(lm_pair *p, uint32_t i)
{
    const lm_weight *w  = &p->a->program->weights[i];
    uint32_t         to = p->b ? lm_program_weight(p->b->program, w->path) : LM_NONE;

    if (to != LM_NONE && !same_shape(w, &p->b->program->weights[to]))
        to = LM_NONE;
    p->in_b[i] = to;
    if (to == LM_NONE || is_gguf(p->a) == is_gguf(p->b))
        return;
    if (!is_gguf(p->b)) {
        p->order[i] = lm_row_order_of(p->b->program, to, &p->b->config, &p->a->config);
        return;
    }
    lm_row_order order = lm_row_order_of(p->a->program, i, &p->a->config, &p->b->config);
    lm_matrices_set_order(p->of_b, to, order);
    if (order.layout && order.layout->columns)
        p->order[i].layout = order.layout;
}

static lm_status open_pair(lm_pair *p, uint32_t threads, lm_error *e)
{
    uint32_t n = p->a->program->n_weights;

    p->in_b  = lm_arena_new(&p->arena, n + 1, uint32_t);
    p->order = lm_arena_new(&p->arena, n + 1, lm_row_order);
    if (!p->in_b || !p->order)
        return lm_fail_memory(e, "weights", n * sizeof *p->order);
    memset(p->order, 0, n * sizeof *p->order);
    LM_TRY(lm_pool_new(threads ? threads : lm_cpu_cores(), &p->pool, e));
    LM_TRY(lm_matrices_new(p->a->container, p->a->family, &p->a->config, p->a->program, &p->of_a, e));
    if (p->b)
        LM_TRY(lm_matrices_new(p->b->container, p->b->family, &p->b->config, p->b->program, &p->of_b, e));
    for (uint32_t i = 0; i < n; i++)
        match(p, i);
    return LM_OK;
}

lm_status lm_pair_new(const lm_model *a, const lm_model *b, uint32_t threads, lm_pair **out, lm_error *e)
{
    const lm_model *bare = !a->tensors ? a : b && !b->tensors ? b : NULL;
    lm_pair        *p    = lm_alloc_zero(1, sizeof *p);

    if (!p)
        return lm_fail_memory(e, "weights", sizeof *p);
    p->a = a;
    p->b = b;
    lm_status status = bare ? lm_fail(e, LM_USAGE, bare->source, LM_NO_OFFSET, "this model has no weights")
                            : open_pair(p, threads, e);
    if (status != LM_OK) {
        lm_pair_free(p);
        return status;
    }
    *out = p;
    return LM_OK;
}

void lm_pair_free(lm_pair *p)
{
    if (!p)
        return;
    lm_matrices_free(p->of_a);
    lm_matrices_free(p->of_b);
    lm_pool_free(p->pool);
    lm_arena_free(&p->arena);
    lm_free(p);
}

const char *lm_pair_name(const lm_pair *p, uint32_t weight)
{
    const lm_weight *w = &p->a->program->weights[weight];

    return w->gguf && (is_gguf(p->a) || (p->b && is_gguf(p->b))) ? w->gguf : w->path;
}

/* ---- rows ---- */

uint64_t lm_pair_matrices(const lm_pair *p, uint32_t weight)
{
    const lm_weight *w = &p->a->program->weights[weight];

    return w->kind == LM_VECTOR ? 1 : lm_weight_matrices(w);
}

uint64_t lm_pair_rows(const lm_pair *p, uint32_t weight)
{
    const lm_weight *w = &p->a->program->weights[weight];

    return w->kind == LM_VECTOR ? 1 : w->dims[w->n_dims - 2];
}

uint64_t lm_pair_cols(const lm_pair *p, uint32_t weight)
{
    const lm_weight *w = &p->a->program->weights[weight];

    return w->kind == LM_VECTOR ? w->elements : w->dims[w->n_dims - 1];
}

/* Unpack stored rows of a matrix to float32, with `raw` as buffer. */
static lm_status unpack_rows(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from, uint64_t n,
                             uint8_t *raw, float *out, lm_error *e)
{
    uint64_t             cols = lm_matrices_cols(m, weight);
    const lm_dtype_info *type = lm_dtype_of(lm_matrices_type(m, weight));

    LM_TRY(lm_matrices_read(m, weight, k, from, n, raw, e));
    type->unpack(out, raw, n * cols);
    lm_matrices_values(m, weight, out, n * cols);
    return LM_OK;
}

/* Read a whole vector, which may be stored as one row, one row per expert, or one row per element. */
static lm_status read_vector(const lm_matrices *m, uint32_t weight, uint8_t *raw, float *out, lm_error *e)
{
    uint64_t rows = lm_matrices_rows(m, weight), each = rows * lm_matrices_cols(m, weight);

    for (uint64_t k = 0; k < lm_matrices_count(m, weight); k++)
        LM_TRY(unpack_rows(m, weight, k, 0, rows, raw, out + k * each, e));
    return LM_OK;
}

/* Read rows one by one in another order than stored. */
static lm_status read_ordered(const lm_matrices *m, uint32_t weight, const lm_row_order *o, uint64_t k,
                              uint64_t from, uint64_t n, uint8_t *raw, float *out, lm_error *e)
{
    uint64_t cols = lm_matrices_cols(m, weight);

    for (uint64_t i = 0; i < n; i++)
        LM_TRY(unpack_rows(m, weight, k, lm_row_of_checkpoint(o, from + i), 1, raw, out + i * cols, e));
    return LM_OK;
}

static lm_status ordered_vector(const lm_matrices *m, uint32_t weight, const lm_row_order *o, uint64_t n,
                                uint64_t each, uint8_t *raw, float *out, lm_error *e)
{
    float    *all    = lm_alloc(n * sizeof *all);
    lm_status status = all ? read_vector(m, weight, raw, all, e)
                           : lm_fail_memory(e, "a vector", n * sizeof *all);

    for (uint64_t i = 0; status == LM_OK && i < n; i++)
        out[i] = all[lm_row_of_checkpoint(o, i / each) * each + i % each];
    lm_free(all);
    return status;
}

static lm_status read_rows(const lm_pair *p, const lm_matrices *m, uint32_t weight, bool vector,
                           const lm_row_order *o, uint64_t k, uint64_t from, uint64_t n, uint64_t cols,
                           float *out, lm_error *e)
{
    const lm_weight *w = &(m == p->of_a ? p->a : p->b)->program->weights[weight];
    uint64_t         bytes = 0, each = w->kind == LM_VECTOR && w->n_dims == 2 ? w->dims[1] : 1;
    bool             changes = lm_row_order_changes(o);

    if (!lm_dtype_row_bytes(lm_matrices_type(m, weight), n * cols, &bytes))
        return lm_fail(e, LM_BAD_MODEL, "weights", LM_NO_OFFSET, "rows are not a whole number of blocks");
    uint8_t *raw = lm_alloc(bytes);
    if (!raw)
        return lm_fail_memory(e, "rows", bytes);
    lm_status status = vector && changes ? ordered_vector(m, weight, o, cols, each, raw, out, e)
                       : vector          ? read_vector(m, weight, raw, out, e)
                       : changes         ? read_ordered(m, weight, o, k, from, n, raw, out, e)
                                         : unpack_rows(m, weight, k, from, n, raw, out, e);
    lm_free(raw);
    return status == LM_OK ? lm_order_columns(o, is_gguf(p->a), out, n, cols, sizeof *out, e) : status;
}

lm_status lm_pair_read_a(const lm_pair *p, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, float *out,
                         lm_error *e)
{
    static const lm_row_order as_it_is;

    return read_rows(p, p->of_a, weight, p->a->program->weights[weight].kind == LM_VECTOR, &as_it_is, k, from,
                     n, lm_pair_cols(p, weight), out, e);
}

lm_status lm_pair_read_b(const lm_pair *p, uint32_t weight, uint64_t k, uint64_t from, uint64_t n, float *out,
                         lm_error *e)
{
    return read_rows(p, p->of_b, p->in_b[weight], p->a->program->weights[weight].kind == LM_VECTOR,
                     &p->order[weight], k, from, n, lm_pair_cols(p, weight), out, e);
}

/* ---- whole matrices ---- */

typedef struct matrix_job {
    lm_pair       *p;
    uint32_t       weight;
    uint64_t       k, rows, cols, grain;
    float         *out;
    bool           of_b;
    lm_dtype       type;             /* LM_F64: unchanged */
    const float   *importance;
    lm_quantize_fn *quantize;
    atomic_int     status;
    lm_error       error;            /* the first error */
} matrix_job;

static bool all_finite(const float *x, uint64_t n)
{
    bool finite = true;

    for (uint64_t i = 0; i < n; i++)
        finite &= (bool)isfinite(x[i]);
    return finite;
}

static lm_status quantise_rows(matrix_job *j, uint64_t from, uint64_t n, lm_error *e)
{
    const lm_dtype_info *type = lm_dtype_of(j->type);
    uint64_t             bytes = 0;

    lm_dtype_row_bytes(j->type, j->cols, &bytes);        /* whole blocks: checked by the caller */
    uint8_t *packed = lm_alloc(bytes);
    if (!packed)
        return lm_fail_memory(e, "a row", bytes);
    for (uint64_t r = 0; r < n; r++) {
        float *x = j->out + (from + r) * j->cols;
        if (!all_finite(x, j->cols)) {
            lm_free(packed);
            return lm_fail(e, LM_BAD_MODEL, lm_pair_name(j->p, j->weight), LM_NO_OFFSET,
                           "row %" PRIu64 " has a number that is not finite", from + r);
        }
        j->quantize(j->type, packed, x, j->cols, j->importance);
        type->unpack(x, packed, j->cols);
    }
    lm_free(packed);
    return LM_OK;
}

static void matrix_chunk(void *arg, unsigned worker, unsigned chunk)
{
    matrix_job *j    = arg;
    uint64_t    from = chunk * j->grain, n = j->rows - from < j->grain ? j->rows - from : j->grain;
    float      *out  = j->out + from * j->cols;
    lm_error    e    = { .offset = LM_NO_OFFSET };
    int         none = LM_OK;
    lm_status   status;

    (void)worker;
    if (atomic_load(&j->status) != LM_OK)
        return;
    status = j->of_b ? lm_pair_read_b(j->p, j->weight, j->k, from, n, out, &e)
                     : lm_pair_read_a(j->p, j->weight, j->k, from, n, out, &e);
    if (status == LM_OK && j->type != LM_F64)
        status = quantise_rows(j, from, n, &e);
    if (status != LM_OK && atomic_compare_exchange_strong(&j->status, &none, (int)status))
        j->error = e;
}

static lm_status matrix(matrix_job *j, lm_error *e)
{
    j->rows  = lm_pair_rows(j->p, j->weight);
    j->cols  = lm_pair_cols(j->p, j->weight);
    j->grain = 16384 / j->cols ? 16384 / j->cols : 1;
    lm_pool_run_chunks(j->p->pool, matrix_chunk, j, (unsigned)((j->rows + j->grain - 1) / j->grain));
    lm_status status = (lm_status)atomic_load(&j->status);
    if (status != LM_OK && e)
        *e = j->error;
    return status;
}

lm_status lm_pair_matrix_a(lm_pair *p, uint32_t weight, uint64_t k, float *out, lm_error *e)
{
    return matrix(&(matrix_job){ .p = p, .weight = weight, .k = k, .out = out, .type = LM_F64 }, e);
}

lm_status lm_pair_matrix_b(lm_pair *p, uint32_t weight, uint64_t k, float *out, lm_error *e)
{
    return matrix(&(matrix_job){ .p = p, .weight = weight, .k = k, .out = out, .type = LM_F64, .of_b = true },
                  e);
}

lm_status lm_pair_matrix_as(lm_pair *p, uint32_t weight, uint64_t k, lm_dtype type, const float *importance,
                            float *out, lm_error *e)
{
    bool quantised = lm_dtype_of(type)->quantized || type == LM_F16 || type == LM_BF16;

    return matrix(&(matrix_job){ .p = p,
                                 .weight = weight,
                                 .k = k,
                                 .out = out,
                                 .type = quantised ? type : LM_F64,
                                 .importance = importance,
                                 .quantize = lm_quantizer(lm_cpu_usable()) },
                  e);
}
