/* load.c - load weights into the places that the plan assigned. */
#include "runtime/engine/load.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "runtime/engine/adapter.h"
#include "runtime/model/cut.h"
#include "runtime/model/gather.h"

typedef struct load_job {
    lm_engine             *g;
    const lm_engine_options *o;
    uint32_t               weight;
    uint64_t               done, total;
    uint8_t               *transposed;   /* destination of the transposed matrix */
    const void            *stored;       /* source and destination of packing */
    uint8_t               *packed;
    float                 *row;          /* one row of unpacked blocks */
    uint64_t               head;
    const uint8_t         *whole;        /* source and destination of cutting */
    uint8_t               *part;
    float                 *floats;
} load_job;

static lm_status report(const load_job *j, lm_error *e)
{
    if (!j->o->progress ||
        j->o->progress(j->o->progress_arg, j->total ? (double)j->done / (double)j->total : 1))
        return LM_OK;
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "cancelled");
}

enum { CHUNK_BYTES = 1 << 20 };          /* bytes of a matrix that a worker packs at a time */

typedef struct pack_chunk {
    const load_job *j;
    unsigned        chunk, chunks;
} pack_chunk;

static lm_status pack_guarded(void *arg)
{
    const pack_chunk   *s  = arg;
    const load_job     *j  = s->j;
    const lm_placement *at = &j->g->plan->weights[j->weight];
    const lm_weight    *w  = &j->g->program->weights[j->weight];
    uint64_t            from, to, rows = w->dims[w->n_dims - 2], cols = w->dims[w->n_dims - 1];

    lm_pool_range(rows, at->matmul->row_group, s->chunk, s->chunks, &from, &to);
    if (from < to)
        at->matmul->pack(j->packed, j->stored, rows, cols, from, to);
    return LM_OK;
}

/* Pack a chunk of a matrix. Each worker has its own guard. */
static void pack_guarded_chunk(void *arg, unsigned worker, unsigned chunk)
{
    pack_chunk s = *(pack_chunk *)arg;

    (void)worker;
    s.chunk = chunk;
    if (lm_filemap_guard(pack_guarded, &s, NULL, NULL) != LM_OK)
        atomic_store(&s.j->g->failure, LM_IO);
}

/* Pack one matrix from j->stored to j->packed, with all threads. */
static void pack_matrix(load_job *j)
{
    const lm_placement *at     = &j->g->plan->weights[j->weight];
    const lm_weight    *w      = &j->g->program->weights[j->weight];
    uint64_t            chunks = w->dims[w->n_dims - 2] * at->row_bytes / CHUNK_BYTES + 1;
    pack_chunk          s      = { j, 0, chunks < 4096 ? (unsigned)chunks : 4096 };

    lm_pool_use(j->g->pool, lm_pool_threads(j->g->pool));
    lm_pool_run_chunks(j->g->pool, pack_guarded_chunk, &s, s.chunks);
}

static lm_status load_floats(void *arg)
{
    const load_job        *j     = arg;
    const lm_weight       *w     = &j->g->program->weights[j->weight];
    const lm_container    *from  = j->g->model->container;
    const lm_tensor_info **each  = j->g->model->each[j->weight], *all = j->g->model->tensors[j->weight];
    float                 *to    = (float *)(void *)(j->g->weights + j->g->plan->weights[j->weight].offset);
    float                 *x     = j->floats ? j->floats : to;

    if (j->g->model->interleaved[j->weight])
        lm_gather_floats(j->g->model, j->weight, x);
    else
        for (uint64_t k = 0; k < (each ? w->dims[0] : 1); k++)
            lm_container_unpack(from, each ? each[k] : all, 0, all->elements, x + k * all->elements);
    if (w->cut)
        lm_cut_floats(w, x, to);
    lm_weight_from_stored(w, lm_container_kind_of(from) == LM_GGUF, to, w->elements);
    return LM_OK;
}

/* Check the entries of a table of whole numbers. */
static lm_status check_entries(const load_job *j, const char *file, lm_error *e)
{
    const lm_weight *w = &j->g->program->weights[j->weight];
    const float     *x = (const float *)(void *)(j->g->weights + j->g->plan->weights[j->weight].offset);

    for (uint64_t i = 0; w->below && i < w->elements; i++)
        if (!(x[i] >= 0 && x[i] < (float)w->below)) {
            lm_fail(e, LM_BAD_MODEL, j->g->model->tensors[j->weight]->name, LM_NO_OFFSET,
                    "entry %" PRIu64 " is %.9g; whole numbers below %u are expected", i, (double)x[i],
                    w->below);
            return lm_fail_in(e, file);
        }
    return LM_OK;
}

static lm_status load_floats_checked(load_job *j, const char *file, lm_error *e)
{
    LM_TRY(lm_filemap_guard(load_floats, j, file, e));
    return check_entries(j, file, e);
}

/* Transpose [in][out] to [out][in], elements of any size, in tiles that stay in cache. */
static void turn(uint8_t *dst, const uint8_t *src, uint64_t rows, uint64_t cols, size_t size)
{
    enum { TILE = 32 };

    for (uint64_t r = 0; r < rows; r += TILE)
        for (uint64_t c = 0; c < cols; c += TILE)
            for (uint64_t i = r; i < rows && i < r + TILE; i++)
                for (uint64_t k = c; k < cols && k < c + TILE; k++)
                    memcpy(dst + (i * cols + k) * size, src + (k * rows + i) * size, size);
}

static lm_status load_transposed(void *arg)
{
    const load_job  *j = arg;
    const lm_weight *w = &j->g->program->weights[j->weight];

    turn(j->transposed, lm_container_data(j->g->model->container, j->g->model->tensors[j->weight]),
         w->dims[0], w->dims[1], lm_dtype_of(j->g->plan->weights[j->weight].type)->bytes);
    return LM_OK;
}

static lm_status load_packed(load_job *j, const lm_tensor_info *t, lm_error *e)
{
    lm_engine  *g    = j->g;
    const char *file = lm_container_file_of(g->model->container, t);

    j->stored = lm_container_data(g->model->container, t);
    j->packed = g->weights + g->plan->weights[j->weight].offset;
    j->transposed = NULL;
    if (g->model->transposed[j->weight]) {
        j->transposed = lm_alloc(t->bytes);
        if (!j->transposed)
            return lm_fail_memory(e, t->name, t->bytes);
        j->stored = j->transposed;
        lm_status status = lm_filemap_guard(load_transposed, j, file, e);
        if (status != LM_OK) {
            lm_free(j->transposed);
            return status;
        }
    }
    pack_matrix(j);
    lm_free(j->transposed);
    if (atomic_load(&g->failure) != LM_OK) {
        lm_fail(e, LM_IO, t->name, LM_NO_OFFSET, "the file was truncated while in use");
        return lm_fail_in(e, file);
    }
    lm_filemap_drop(lm_container_file(g->model->container, t->part), t->offset, t->bytes);
    return LM_OK;
}

/* ---- the part of a rank ---- */

static lm_status cut_guarded(void *arg)
{
    const load_job *j = arg;

    lm_cut_matrix(&j->g->program->weights[j->weight], j->g->plan->weights[j->weight].type, j->whole,
                  j->g->model->transposed[j->weight], j->part);
    return LM_OK;
}

/* Cut matrix k of a weight, which is stored at `stored`, and pack it if its kernel requires that. `space`: as
 * large as the part. */
static lm_status load_cut(load_job *j, uint64_t k, const void *stored, uint8_t *space, const char *file,
                          lm_error *e)
{
    lm_engine          *g    = j->g;
    const lm_placement *at   = &g->plan->weights[j->weight];
    uint64_t            each = at->bytes / lm_weight_matrices(&g->program->weights[j->weight]);

    j->whole  = stored;
    j->packed = g->weights + at->offset + each * k;
    j->part   = at->kind == LM_PACKED ? space : j->packed;
    LM_TRY(lm_filemap_guard(cut_guarded, j, file, e));
    j->stored = j->part;
    if (at->kind == LM_PACKED)
        pack_matrix(j);
    return LM_OK;
}

static lm_status load_parts(load_job *j, lm_error *e)
{
    lm_engine             *g    = j->g;
    const lm_model        *m    = g->model;
    const lm_placement    *at   = &g->plan->weights[j->weight];
    const lm_weight       *w    = &g->program->weights[j->weight];
    const lm_tensor_info **each = m->each[j->weight], *all = m->tensors[j->weight];
    uint64_t               n = lm_weight_matrices(w), bytes = w->dims[w->n_dims - 2] * at->row_bytes;
    uint8_t               *space  = lm_alloc(bytes);
    lm_status              status = space ? LM_OK : lm_fail_memory(e, w->path, bytes);

    for (uint64_t k = 0; status == LM_OK && k < n; k++) {
        const lm_tensor_info *t      = each ? each[k] : all;
        const uint8_t *stored = (const uint8_t *)lm_container_data(m->container, t) +
                                (each ? 0 : t->bytes / n * k);
        status = load_cut(j, k, stored, space, lm_container_file_of(m->container, t), e);
        if (g->matrices[j->weight])
            g->matrices[j->weight][k] = g->weights + at->offset + at->bytes / n * k;
    }
    g->weight[j->weight] = g->weights + at->offset;
    lm_free(space);
    return status;
}

static lm_status load_float_part(load_job *j, const char *file, lm_error *e)
{
    uint64_t bytes = lm_cut_whole(&j->g->program->weights[j->weight]) * sizeof(float);

    j->floats = lm_alloc(bytes);
    if (!j->floats)
        return lm_fail_memory(e, j->g->program->weights[j->weight].path, bytes);
    lm_status status = lm_filemap_guard(load_floats, j, file, e);
    lm_free(j->floats);
    j->floats = NULL;
    return status;
}

/* Set the address of each expert's matrix, and pack it if its kernel requires that. */
static lm_status load_experts(load_job *j, lm_error *e)
{
    lm_engine             *g    = j->g;
    const lm_model        *m    = g->model;
    const lm_placement    *at   = &g->plan->weights[j->weight];
    uint64_t               n    = g->program->weights[j->weight].dims[0];
    const lm_tensor_info **each = m->each[j->weight], *all = m->tensors[j->weight];

    for (uint64_t k = 0; k < n; k++) {
        const uint8_t *stored = lm_container_data(m->container, each ? each[k] : all);
        stored += each ? 0 : all->bytes / n * k;
        g->matrices[j->weight][k] = at->kind == LM_MAPPED ? stored
                                                          : g->weights + at->offset + at->bytes / n * k;
        if (at->kind == LM_MAPPED)
            continue;
        j->stored = stored;
        j->packed = g->weights + at->offset + at->bytes / n * k;
        pack_matrix(j);
        if (atomic_load(&g->failure) != LM_OK) {
            lm_fail(e, LM_IO, all->name, LM_NO_OFFSET, "the file was truncated while in use");
            return lm_fail_in(e, lm_container_file_of(m->container, all));
        }
        if (each)
            lm_filemap_drop(lm_container_file(m->container, each[k]->part), each[k]->offset, each[k]->bytes);
        else
            lm_filemap_drop(lm_container_file(m->container, all->part), all->offset + all->bytes / n * k,
                            all->bytes / n);
    }
    return LM_OK;
}

/* ---- one matrix per head ---- */

/* The matrix of a head as stored: `rows` rows of `cols`, without those of other kinds. */
typedef struct head_part {
    const uint8_t *stored;
    uint64_t       rows, cols, row_bytes;
} head_part;

static head_part part_of(const load_job *j, uint64_t head)
{
    const lm_model       *m = j->g->model;
    const lm_weight      *w = &j->g->program->weights[j->weight];
    const lm_tensor_info *t = m->tensors[j->weight];
    bool                  transposed = m->transposed[j->weight], jointly = m->jointly[j->weight];
    head_part             p = { NULL, w->dims[transposed ? 2 : 1], w->dims[transposed ? 1 : 2], 0 };
    head += w->cut ? w->cut->matrices.first : 0;
    uint64_t              first = jointly ? head * w->joint.of + w->joint.first : head * p.rows;

    lm_dtype_row_bytes(t->type, p.cols, &p.row_bytes);       /* whole blocks, as checked when binding */
    p.stored = (const uint8_t *)lm_container_data(m->container, t) + first * p.row_bytes;
    return p;
}

/* Transpose [in][out] of any type to [out][in] of the plan's type; blocks are unpacked. j->row: `out`
 * floats. */
static void turn_head(load_job *j, const head_part *p, uint8_t *dst)
{
    const lm_dtype_info *from = lm_dtype_of(j->g->model->tensors[j->weight]->type);
    const lm_dtype_info *to   = lm_dtype_of(j->g->plan->weights[j->weight].type);

    if (from == to) {
        turn(dst, p->stored, p->cols, p->rows, to->bytes);
        return;
    }
    for (uint64_t i = 0; i < p->rows; i++) {
        from->unpack(j->row, p->stored + i * p->row_bytes, p->cols);
        for (uint64_t k = 0; k < p->cols; k++)
            to->pack(dst + (k * p->rows + i) * to->bytes, &j->row[k], 1);
    }
}

static lm_status turn_guarded(void *arg)
{
    load_job           *j  = arg;
    const lm_placement *at = &j->g->plan->weights[j->weight];
    head_part           p  = part_of(j, j->head);

    uint8_t *packed = j->g->weights + at->offset +
                      at->bytes / j->g->program->weights[j->weight].dims[0] * j->head;
    turn_head(j, &p, j->transposed ? j->transposed : packed);
    return LM_OK;
}

static lm_status load_transposed_heads(load_job *j, lm_error *e)
{
    lm_engine            *g    = j->g;
    const lm_weight      *w    = &g->program->weights[j->weight];
    const lm_placement   *at   = &g->plan->weights[j->weight];
    const lm_tensor_info *t    = g->model->tensors[j->weight];
    uint64_t              size = w->dims[1] * w->dims[2] * lm_dtype_of(at->type)->bytes;
    lm_status             status = LM_OK;

    j->row        = lm_alloc(w->dims[1] * sizeof *j->row);
    j->transposed = at->kind == LM_PACKED ? lm_alloc(size) : NULL;
    if (!j->row || (!j->transposed && at->kind == LM_PACKED))
        status = lm_fail_memory(e, t->name, size);
    for (j->head = 0; status == LM_OK && j->head < w->dims[0]; j->head++) {
        status    = lm_filemap_guard(turn_guarded, j, lm_container_file_of(g->model->container, t), e);
        j->stored = j->transposed;
        j->packed = g->weights + at->offset + at->bytes / w->dims[0] * j->head;
        if (status == LM_OK && j->transposed)
            pack_matrix(j);
    }
    lm_free(j->row);
    lm_free(j->transposed);
    return status;
}

static lm_status load_heads(load_job *j, lm_error *e)
{
    lm_engine            *g  = j->g;
    const lm_placement   *at = &g->plan->weights[j->weight];
    const lm_tensor_info *t  = g->model->tensors[j->weight];
    uint64_t              n = g->program->weights[j->weight].dims[0], each = at->bytes / n;

    if (g->model->transposed[j->weight])
        LM_TRY(load_transposed_heads(j, e));
    for (uint64_t h = 0; h < n; h++) {
        j->stored = part_of(j, h).stored;
        j->packed = g->weights + at->offset + h * each;
        g->matrices[j->weight][h] = at->kind == LM_MAPPED ? j->stored : j->packed;
        if (at->kind == LM_PACKED && !g->model->transposed[j->weight])
            pack_matrix(j);
    }
    if (atomic_load(&g->failure) != LM_OK) {
        lm_fail(e, LM_IO, t->name, LM_NO_OFFSET, "the file was truncated while in use");
        return lm_fail_in(e, lm_container_file_of(g->model->container, t));
    }
    if (at->kind != LM_MAPPED)
        lm_filemap_drop(lm_container_file(g->model->container, t->part), t->offset, t->bytes);
    return LM_OK;
}

/* ---- experts interleaved with others ---- */

static lm_status gather_guarded(void *arg)
{
    load_job *j = arg;

    lm_gather_expert(j->g->model, j->weight, j->head, j->transposed);
    return LM_OK;
}

/* Use rows that are stored together in place, or pack them from there; gather others first. */
static lm_status load_interleaved(load_job *j, lm_error *e)
{
    lm_engine            *g     = j->g;
    const lm_weight      *w     = &g->program->weights[j->weight];
    const lm_placement   *at    = &g->plan->weights[j->weight];
    const lm_tensor_info *t     = g->model->tensors[j->weight];
    const char           *file  = lm_container_file_of(g->model->container, t);
    bool                  apart = g->model->transposed[j->weight];
    uint64_t              row;
    lm_status             status = LM_OK;

    lm_dtype_row_bytes(at->type, w->dims[2], &row);      /* whole blocks, as checked when binding */
    uint8_t *gathered = apart && at->kind == LM_PACKED ? lm_alloc(w->dims[1] * row) : NULL;
    if (apart && at->kind == LM_PACKED && !gathered)
        return lm_fail_memory(e, t->name, w->dims[1] * row);
    for (j->head = 0; status == LM_OK && j->head < w->dims[0]; j->head++) {
        const uint8_t *stored = lm_container_data(g->model->container, t);
        stored += (j->head * w->interleaved.of + w->interleaved.first) * row;
        j->packed = at->kind == LM_MAPPED ? NULL : g->weights + at->offset + at->bytes / w->dims[0] * j->head;
        j->transposed                   = gathered ? gathered : j->packed;
        j->stored                       = apart ? j->transposed : stored;
        g->matrices[j->weight][j->head] = at->kind == LM_MAPPED ? stored : j->packed;
        if (apart)
            status = lm_filemap_guard(gather_guarded, j, file, e);
        if (status == LM_OK && at->kind == LM_PACKED)
            pack_matrix(j);
        if (status == LM_OK && atomic_load(&g->failure) != LM_OK) {
            lm_fail(e, LM_IO, t->name, LM_NO_OFFSET, "the file was truncated while in use");
            status = lm_fail_in(e, file);
        }
    }
    lm_free(gathered);
    j->transposed = NULL;
    if (status == LM_OK && at->kind == LM_PACKED)        /* weights interleaved with it are read again from
                                                            the page cache */
        lm_filemap_drop(lm_container_file(g->model->container, t->part), t->offset, t->bytes);
    return status;
}

/* Load a weight of an adapter, which holds it in memory as float32. */
static void load_adapter(load_job *j)
{
    lm_engine          *g  = j->g;
    const lm_placement *at = &g->plan->weights[j->weight];
    const lm_weight    *w  = &g->program->weights[j->weight];

    j->stored            = lm_engine_adapter_weight(g, w->adapter - 1, j->weight);
    j->packed            = g->weights + at->offset;
    g->weight[j->weight] = j->packed;
    if (at->kind == LM_PACKED)
        pack_matrix(j);
    else
        memcpy(j->packed, j->stored, w->elements * sizeof(float));
}

static lm_status load_weight(load_job *j, lm_error *e)
{
    lm_engine            *g    = j->g;
    const lm_placement   *at   = &g->plan->weights[j->weight];
    const lm_tensor_info *t    = g->model->tensors[j->weight];
    const char           *file = lm_container_file_of(g->model->container, t);

    if (g->program->weights[j->weight].kind == LM_HEADS)
        return load_heads(j, e);
    if (g->program->weights[j->weight].cut && at->kind != LM_FLOATS)
        return load_parts(j, e);
    if (g->matrices[j->weight] && g->model->interleaved[j->weight])
        return load_interleaved(j, e);
    if (g->matrices[j->weight])
        return load_experts(j, e);
    g->weight[j->weight] = at->kind == LM_MAPPED ? lm_container_data(g->model->container, t)
                                                 : g->weights + at->offset;
    switch (at->kind) {
    case LM_MAPPED:
        return LM_OK;
    case LM_FLOATS:
        return g->program->weights[j->weight].cut ? load_float_part(j, file, e)
                                                  : load_floats_checked(j, file, e);
    case LM_TRANSPOSED:
        j->transposed = g->weights + at->offset;
        return lm_filemap_guard(load_transposed, j, file, e);
    case LM_PACKED:
        return load_packed(j, t, e);
    case LM_COPIED:                      /* load_parts */
        return LM_OK;
    }
    return LM_OK;
}

/* Compute the frequencies of the tables that do not change with every step. */
static void load_frequencies(lm_engine *g)
{
    float *at = (float *)(void *)(g->slab + g->plan->state.frequencies);

    for (uint32_t i = 0; i < g->program->n_ropes; i++) {
        const lm_rope_table *t        = &g->program->ropes[i];
        uint32_t             half     = t->spec.dim / 2;
        const float         *divisors = t->divisors == LM_NONE ? NULL : g->weight[t->divisors];
        const float         *lists[2] = { t->short_factors == LM_NONE ? NULL : g->weight[t->short_factors],
                                          t->long_factors == LM_NONE ? NULL : g->weight[t->long_factors] };
        g->frequencies[i]             = at;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t length      = k ? t->spec.original_context + 1 : 1;
            g->rope_factor[i][k] = lm_rope_frequencies(&t->spec, length, divisors, lists[k], at + k * half);
        }
        at += t->spec.dim;
    }
}

static void load_slopes(lm_engine *g)
{
    float *at = (float *)(void *)(g->slab + g->plan->state.slopes);

    for (uint32_t i = 0; i < g->program->n_nodes; i++) {
        const lm_node *n = &g->program->nodes[i];
        if (n->code != LM_OP_ATTENTION || !(n->attention.spec.alibi > 0))
            continue;
        lm_alibi_slopes(&n->attention.spec, at);
        g->slopes[n->attention.cache] = at;
        at += n->attention.spec.n_heads;
    }
}

void lm_engine_load_tables(lm_engine *g)
{
    load_frequencies(g);
    load_slopes(g);
}

lm_status lm_engine_load(lm_engine *g, const lm_engine_options *o, lm_error *e)
{
    load_job j = { .g = g, .o = o };

    for (uint32_t i = 0; i < g->program->n_weights; i++)
        j.total += g->plan->weights[i].kind == LM_MAPPED ? 0 : g->plan->weights[i].bytes;
    for (j.weight = 0; j.weight < g->program->n_weights; j.weight++) {
        bool prepared = g->plan->weights[j.weight].kind != LM_MAPPED;
        if (prepared)
            LM_TRY(report(&j, e));
        if (g->program->weights[j.weight].adapter)
            load_adapter(&j);
        else
            LM_TRY(load_weight(&j, e));
        j.done += prepared ? g->plan->weights[j.weight].bytes : 0;
    }
    LM_TRY(report(&j, e));
    lm_engine_load_tables(g);
    return LM_OK;
}
