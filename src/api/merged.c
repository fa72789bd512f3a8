/* merged.c - compute the tensors of a model with merged adapters. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/merging.h"
#include "base/alloc.h"

#define PIECE (UINT64_C(1) << 20)    /* elements of a piece */

/* ---- tensors ---- */

static lm_merging_tensor *tensor_of(lm_merging *g, const lm_tensor_info *t)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->tensors[i].from == t)
            return &g->tensors[i];
    return NULL;
}

/* Return another operation that uses the same table: for example the output head, if the embedding is
 * tied. */
static const char *other_reader(const lm_model *m, uint32_t node, uint32_t weight)
{
    uint32_t values = lm_adapt_values_of(m->program, node);

    for (uint32_t i = 0; i < m->program->n_nodes; i++) {
        const lm_node *n = &m->program->nodes[i];
        for (uint32_t k = 0; i != node && i != values && k < LM_MAX_WEIGHTS; k++)
            if (n->weights[k] != LM_NONE && (n->code == LM_OP_LINEAR || n->code == LM_OP_EMBED) &&
                (n->weights[k] == weight || m->tensors[n->weights[k]] == m->tensors[weight]))
                return n->path;
    }
    return NULL;
}

/* Find the tensor of an adapted operation's weight. It must be stored whole and be used by no other
 * operation. */
static lm_status find(lm_merging *g, uint32_t node, uint32_t weight, const char *module,
                      lm_merging_tensor **out, lm_error *e)
{
    const lm_model *m = g->m;
    const char     *other = other_reader(m, node, weight);

    if (other && other != m->program->nodes[node].path) {
        lm_fail(e, LM_USAGE, module, LM_NO_OFFSET,
                "and %s are one table: what changes one of them would change the other", other);
        return lm_fail_hint(e, "load the adapter with the model instead");
    }
    *out = m->each[weight] || m->interleaved[weight] || !m->tensors[weight]
               ? NULL
               : tensor_of(g, m->tensors[weight]);
    return *out ? LM_OK
                : lm_fail(e, LM_UNSUPPORTED, module, LM_NO_OFFSET,
                          "is stored in pieces: adapters cannot be added to it");
}

/* ---- updates ---- */

static float *turned(lm_arena *arena, const float *x, uint64_t rows, uint64_t cols)
{
    float *out = lm_arena_new(arena, rows * cols, float);

    for (uint64_t i = 0; out && i < rows; i++)
        for (uint64_t k = 0; k < cols; k++)
            out[k * rows + i] = x[i * cols + k];
    return out;
}

static lm_status add(lm_merging *g, lm_merging_tensor *t, const float *p, const float *q, uint32_t rank,
                     double scale, lm_error *e)
{
    if (!t->addends) {
        t->addends = lm_arena_new(&g->arena, 64, lm_addend);
        g->n_changed++;
    }
    if (!p || !q || !t->addends)
        return lm_fail_memory(e, t->from->name, t->cols * rank * sizeof *q);
    if (t->n_addends == 64)
        return lm_fail(e, LM_LIMIT, t->from->name, LM_NO_OFFSET, "more than 64 adapters");
    t->addends[t->n_addends++] = (lm_addend){ p, q, rank, scale };
    return LM_OK;
}

static lm_status add_bias(lm_merging *g, const lm_adapter_part *part, double scale, lm_error *e)
{
    static const float one = 1;
    uint32_t           weight = g->m->program->nodes[part->node].weights[1];
    lm_merging_tensor *t;

    if (weight == LM_NONE || g->m->program->nodes[part->node].code != LM_OP_LINEAR)
        return lm_fail(e, LM_UNSUPPORTED, part->module, LM_NO_OFFSET,
                       "the adapter has a bias there, the model has none to add it to");
    LM_TRY(find(g, part->node, weight, part->module, &t, e));
    return add(g, t, &one, part->bias, 1, scale, e);
}

static lm_status add_part(lm_merging *g, const lm_adapter_part *part, double scale, lm_error *e)
{
    const lm_node     *n = &g->m->program->nodes[part->node];
    lm_adapt_shape     s;
    lm_merging_tensor *t;

    if (n->code == LM_OP_LINEAR && n->weights[2] != LM_NONE) {
        lm_fail(e, LM_UNSUPPORTED, part->module, LM_NO_OFFSET,
                "its matrix has the values -1, 0 and 1 only: adapters cannot be added to it");
        return lm_fail_hint(e, "load the adapter with the model instead");
    }
    lm_adapt_possible(g->m->program, part->node, &s);
    LM_TRY(find(g, part->node, n->weights[0], part->module, &t, e));
    const lm_tensor_info *x = t->from;
    bool across = g->m->transposed[n->weights[0]] && n->code == LM_OP_LINEAR;
    uint64_t rows = s.table ? s.in : across ? s.in : s.out, cols = s.table ? s.out : across ? s.out : s.in;

    if (x->n_dims != 2 || x->dims[0] != rows || x->dims[1] != cols)
        return lm_fail(e, LM_UNSUPPORTED, x->name, LM_NO_OFFSET,
                       "has another shape than what the adapter changes: %s", part->module);
    scale *= (double)part->scale;
    if (s.table)                                     /* A [rows][rank], B [out][rank] */
        LM_TRY(add(g, t, part->a, turned(&g->arena, part->b, s.out, part->rank), part->rank, scale, e));
    else if (across)                                 /* A [rank][in], B [out][rank] */
        LM_TRY(add(g, t, turned(&g->arena, part->a, part->rank, s.in),
                   turned(&g->arena, part->b, s.out, part->rank), part->rank, scale, e));
    else
        LM_TRY(add(g, t, part->b, part->a, part->rank, scale, e));
    return part->bias ? add_bias(g, part, scale, e) : LM_OK;
}

/* ---- types ---- */

static lm_status choose_type(lm_merging *g, lm_merging_tensor *t, lm_error *e)
{
    const lm_dtype_info *named = g->o->type ? lm_dtype_named(g->o->type) : NULL;

    if (g->o->type && (!named || (named->type != LM_F32 && named->type != LM_F16 && named->type != LM_BF16)))
        return lm_fail(e, LM_USAGE, "type", LM_NO_OFFSET, "\"%s\": expected f32, f16 or bf16", g->o->type);
    t->to = t->from->type;
    if (!t->addends)
        return LM_OK;
    if (named && t->from->n_dims > 1)
        t->to = named->type;
    if (lm_can_quantize(t->to) && lm_dtype_of(t->from->type)->unpack)
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, t->from->name, LM_NO_OFFSET, "there is no quantiser of %s",
            lm_dtype_of(t->to)->name);
    return lm_fail_hint(e, "a `type` of f16 stores the tensors that change in another one");
}

lm_status lm_merging_plan(lm_merging *g, const lm_adapter *const *adapters, lm_error *e)
{
    g->n       = lm_container_n_tensors(g->c);
    g->tensors = lm_arena_new(&g->arena, g->n + 1, lm_merging_tensor);
    if (!g->tensors)
        return lm_fail_memory(e, "tensors", g->n * sizeof *g->tensors);
    for (size_t i = 0; i < g->n; i++) {
        const lm_tensor_info *x = lm_container_tensor(g->c, i);
        uint64_t              cols = x->dims[x->n_dims ? x->n_dims - 1 : 0];
        g->tensors[i] = (lm_merging_tensor){ .from = x, .cols = cols, .rows = cols ? x->elements / cols : 0 };
    }
    for (size_t k = 0; adapters[k]; k++) {
        if (adapters[k]->model != g->m)
            return lm_fail(e, LM_USAGE, adapters[k]->info.name, LM_NO_OFFSET, "opened for another model");
        for (uint32_t i = 0; i < adapters[k]->n_parts; i++)
            LM_TRY(add_part(g, &adapters[k]->parts[i], g->o->scales ? (double)g->o->scales[k] : 1, e));
    }
    for (size_t i = 0; i < g->n; i++) {
        lm_merging_tensor *t = &g->tensors[i];
        uint64_t           bytes;
        LM_TRY(choose_type(g, t, e));
        if (!lm_dtype_row_bytes(t->to, t->from->elements, &bytes))
            return lm_fail(e, LM_UNSUPPORTED, t->from->name, LM_NO_OFFSET,
                           "a row is not a whole number of %s blocks", lm_dtype_of(t->to)->name);
        g->bytes += bytes;
        g->elements += t->from->elements;
        if (t->addends)
            g->longest = t->cols > g->longest ? t->cols : g->longest;
    }
    return LM_OK;
}

/* ---- rows ---- */

uint64_t lm_merging_piece(const lm_merging_tensor *t)
{
    return PIECE / t->cols ? PIECE / t->cols : 1;
}

/* Compute the update of a row in double precision, adapters in order. */
static void update(const lm_merging_tensor *t, uint64_t row, double *u)
{
    memset(u, 0, t->cols * sizeof *u);
    for (size_t a = 0; a < t->n_addends; a++) {
        const lm_addend *x = &t->addends[a];
        for (uint32_t k = 0; k < x->rank; k++) {
            double       p = x->scale * (double)x->p[row * x->rank + k];
            const float *q = x->q + (uint64_t)k * t->cols;
            for (uint64_t i = 0; i < t->cols; i++)
                u[i] += p * (double)q[i];
        }
    }
}

static bool one_row(lm_merging *g, uint64_t index, double *u, float *w)
{
    const lm_merging_tensor *t = g->t;
    float                   *x = w + t->cols, *y = x + t->cols;
    uint64_t                 row = g->first + index * g->step;
    lm_merging_sums          s = { 0 };
    bool                     finite = true;
    uint8_t                 *at = g->packed + index * g->stride;

    lm_container_unpack(g->c, t->from, row * t->cols, t->cols, w);
    update(t, row, u);
    for (uint64_t i = 0; i < t->cols; i++) {
        x[i] = (float)((double)w[i] + u[i]);
        finite &= isfinite(x[i]);
    }
    if (!finite)
        return false;
    lm_pack_checked(g->quantize, t->to, at, x, t->cols, NULL, g->o->clamp, &g->overflows);
    lm_dtype_of(t->to)->unpack(y, at, t->cols);
    for (uint64_t i = 0; i < t->cols; i++) {
        double d = (double)y[i] - (double)w[i];
        s.w2 += (double)w[i] * (double)w[i];
        s.u2 += u[i] * u[i];
        s.du += d * u[i];
        s.d2 += d * d;
    }
    g->sums[index] = s;
    return true;
}

static void some_rows(void *arg, unsigned worker, unsigned chunk)
{
    lm_merging *g = arg;
    uint64_t    end = (chunk + 1) * g->grain < g->count ? (chunk + 1) * g->grain : g->count;

    for (uint64_t i = chunk * g->grain; i < end; i++) {
        if (one_row(g, i, g->scratch + worker * g->longest, g->floats + 3 * worker * g->longest))
            continue;
        uint64_t row = g->first + i * g->step, seen = __atomic_load_n(&g->bad_row, __ATOMIC_RELAXED);
        while (row < seen && !__atomic_compare_exchange_n(&g->bad_row, &seen, row, false, __ATOMIC_RELAXED,
                                                          __ATOMIC_RELAXED))
            ;
    }
}

lm_status lm_merging_rows(lm_merging *g, const lm_merging_tensor *t, uint64_t first, uint64_t step,
                          uint64_t count, lm_merging_sums *sums, lm_error *e)
{
    const lm_dtype_info *to = lm_dtype_of(t->to);

    g->t       = t;
    g->first   = first;
    g->step    = step;
    g->count   = count;
    g->bad_row = UINT64_MAX;
    g->grain   = 4096 / t->cols ? 4096 / t->cols : 1;
    g->stride  = t->cols / to->block * to->bytes;
    lm_pool_run_chunks(g->pool, some_rows, g, (unsigned)((count + g->grain - 1) / g->grain));
    if (g->bad_row != UINT64_MAX)
        return lm_fail(e, LM_BAD_MODEL, t->from->name, LM_NO_OFFSET,
                       "row %" PRIu64 " has a number that is not finite", g->bad_row);
    for (uint64_t i = 0; i < count; i++) {               /* in row order, whichever thread computed them */
        sums->w2 += g->sums[i].w2;
        sums->u2 += g->sums[i].u2;
        sums->du += g->sums[i].du;
        sums->d2 += g->sums[i].d2;
    }
    return LM_OK;
}
