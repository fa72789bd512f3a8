/* diff_tensors.c - compare each tensor with its counterpart. Sums are computed per piece and added in the
 * order of the pieces, so results do not depend on the number of threads. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "api/differing.h"
#include "base/alloc.h"

enum { PIECE = 1 << 16 };                /* elements */

typedef struct sums {
    double   aa, bb, ab, dd, max;        /* most: -1 if no element differs */
    uint64_t row, column, equal, bins[LM_DIFF_BINS];
    float    a, b;
    bool     nan;
} sums;

typedef struct comparing {
    const lm_pair *p;
    uint32_t       weight;
    uint64_t       k, rows, cols, grain;
    sums          *pieces;
    atomic_int     status;
    lm_error       error;
} comparing;

static void add(sums *s, float a, float b, uint64_t row, uint64_t column)
{
    double x = (double)a, y = (double)b, d = fabs(x - y);

    s->aa += x * x;
    s->bb += y * y;
    s->ab += x * y;
    if (a == b) {
        s->equal++;
        return;
    }
    s->dd += d * d;
    s->nan |= isnan(d);
    int bin = isfinite(d) ? ilogb(d) + 48 : LM_DIFF_BINS - 1;
    s->bins[bin < 0 ? 0 : bin < LM_DIFF_BINS ? bin : LM_DIFF_BINS - 1]++;
    if (!(d > s->max))
        return;
    s->max   = d;
    s->row    = row;
    s->column = column;
    s->a      = a;
    s->b      = b;
}

static lm_status compare_rows(comparing *c, uint64_t from, uint64_t n, sums *s, lm_error *e)
{
    float    *x      = lm_alloc(2 * n * c->cols * sizeof *x), *y = x ? x + n * c->cols : NULL;
    lm_status status = x ? lm_pair_read_a(c->p, c->weight, c->k, from, n, x, e)
                         : lm_fail_memory(e, "rows", 2 * n * c->cols * sizeof *x);

    if (status == LM_OK)
        status = lm_pair_read_b(c->p, c->weight, c->k, from, n, y, e);
    for (uint64_t i = 0; status == LM_OK && i < n * c->cols; i++)
        add(s, x[i], y[i], from + i / c->cols, i % c->cols);
    lm_free(x);
    return status;
}

static void compare_chunk(void *arg, unsigned worker, unsigned chunk)
{
    comparing *c    = arg;
    uint64_t   from = chunk * c->grain, n = c->rows - from < c->grain ? c->rows - from : c->grain;
    lm_error   e    = { .offset = LM_NO_OFFSET };
    int        none = LM_OK;

    (void)worker;
    lm_status status = compare_rows(c, from, n, &c->pieces[chunk], &e);
    if (status != LM_OK && atomic_compare_exchange_strong(&c->status, &none, (int)status))
        c->error = e;
}

static void merge(sums *all, const sums *piece, uint64_t k, lm_diff_tensor *t)
{
    all->aa += piece->aa;
    all->bb += piece->bb;
    all->ab += piece->ab;
    all->dd += piece->dd;
    all->equal += piece->equal;
    all->nan |= piece->nan;
    for (size_t i = 0; i < LM_DIFF_BINS; i++)
        t->bins[i] += piece->bins[i];
    if (!(piece->max > all->max))
        return;
    all->max  = piece->max;
    t->matrix  = k;
    t->row     = piece->row;
    t->column  = piece->column;
    t->a_value = piece->a;
    t->b_value = piece->b;
}

static lm_status compare_matrix(comparing *c, uint64_t k, sums *all, lm_diff_tensor *t, lm_error *e)
{
    uint64_t n = (c->rows + c->grain - 1) / c->grain;

    c->k = k;
    memset(c->pieces, 0, n * sizeof *c->pieces);
    for (uint64_t i = 0; i < n; i++)
        c->pieces[i].max = -1;
    lm_pool_run_chunks(c->p->pool, compare_chunk, c, (unsigned)n);
    lm_status status = (lm_status)atomic_load(&c->status);
    if (status != LM_OK && e)
        *e = c->error;
    for (uint64_t i = 0; status == LM_OK && i < n; i++)
        merge(all, &c->pieces[i], k, t);
    return status;
}

static void figures(const sums *s, lm_diff_tensor *t)
{
    t->equal    = s->equal;
    t->max_abs  = s->max > 0 ? s->max : 0;
    t->cosine   = s->nan ? NAN : s->aa > 0 && s->bb > 0 ? s->ab / sqrt(s->aa * s->bb) : s->aa == s->bb;
    t->relative = s->nan ? NAN : s->dd > 0 ? sqrt(s->dd / s->aa) : 0;
    t->snr_db   = s->nan ? NAN : s->dd > 0 ? 10 * log10(s->aa / s->dd) : INFINITY;
}

static uint64_t stored_bytes(const lm_matrices *m, uint32_t weight, uint64_t elements)
{
    return lm_elements_bytes(elements, lm_matrices_type(m, weight));
}

static lm_status compare_tensor(lm_differing *d, uint32_t weight, lm_diff_tensor *t, lm_error *e)
{
    comparing c = { .p = d->pair,
                    .weight = weight,
                    .rows = lm_pair_rows(d->pair, weight),
                    .cols = lm_pair_cols(d->pair, weight) };
    sums      all = { .max = -1 };
    uint32_t  to  = d->pair->in_b[weight];

    *t = (lm_diff_tensor){
        .name = lm_pair_name(d->pair, weight),
        .elements = d->a->program->weights[weight].elements,
        .a = lm_dtype_of(lm_matrices_type(d->pair->of_a, weight))->name,
        .b = lm_dtype_of(lm_matrices_type(d->pair->of_b, to))->name,
    };
    t->a_bytes = stored_bytes(d->pair->of_a, weight, t->elements);
    t->b_bytes = stored_bytes(d->pair->of_b, to, t->elements);
    c.grain    = PIECE / c.cols ? PIECE / c.cols : 1;
    c.pieces   = lm_alloc_zero((c.rows + c.grain - 1) / c.grain, sizeof *c.pieces);
    lm_status status = c.pieces ? LM_OK : lm_fail_memory(e, "sums", c.rows * sizeof *c.pieces);
    for (uint64_t k = 0; status == LM_OK && k < lm_pair_matrices(d->pair, weight); k++)
        status = compare_matrix(&c, k, &all, t, e);
    lm_free(c.pieces);
    if (status == LM_OK)
        figures(&all, t);
    lm_matrices_drop(d->pair->of_a, weight);
    lm_matrices_drop(d->pair->of_b, to);
    return status;
}

/* List the names of weights without a counterpart. */
static lm_status list_alone(lm_differing *d, lm_error *e)
{
    const lm_program *a = d->a->program, *b = d->b->program;
    const char      **only_a = lm_arena_new(&d->arena, a->n_weights + 1, const char *);
    const char      **only_b = lm_arena_new(&d->arena, b->n_weights + 1, const char *);
    bool             *met = lm_arena_new(&d->arena, b->n_weights + 1, bool);

    if (!only_a || !only_b || !met)
        return lm_fail_memory(e, "names", a->n_weights * sizeof *only_a);
    for (uint32_t i = 0; i < a->n_weights; i++) {
        if (d->pair->in_b[i] != LM_NONE)
            met[d->pair->in_b[i]] = true;
        else if (!a->weights[i].constant)
            only_a[d->r.n_only_a++] = lm_pair_name(d->pair, i);
    }
    for (uint32_t i = 0; i < b->n_weights; i++)
        if (!met[i] && !b->weights[i].constant)
            only_b[d->r.n_only_b++] = b->weights[i].gguf ? b->weights[i].gguf : b->weights[i].path;
    d->r.only_a = only_a;
    d->r.only_b = only_b;
    return LM_OK;
}

/* Copy the names, because the result outlives the models. */
static lm_status keep_names(lm_differing *d, lm_diff_tensor *t, lm_error *e)
{
    t->name = lm_arena_strdup(&d->arena, t->name);
    return t->name ? LM_OK : lm_fail_memory(e, "names", 0);
}

lm_status lm_differing_tensors(lm_differing *d, lm_error *e)
{
    uint32_t        n = d->a->program->n_weights;
    lm_diff_tensor *t = lm_arena_new(&d->arena, n + 1, lm_diff_tensor);
    uint64_t        all = 0, done = 0;

    d->weights = lm_arena_new(&d->arena, n + 1, uint32_t);
    if (!t || !d->weights)
        return lm_fail_memory(e, "tensors", n * sizeof *t);
    LM_TRY(list_alone(d, e));
    for (uint32_t i = 0; i < n; i++)
        all += d->a->program->weights[i].elements;
    d->r.tensors = t;
    for (uint32_t i = 0; i < n; i++) {
        LM_TRY(lm_differing_report(d, all ? (double)done / (double)all : 1, "tensors", e));
        done += d->a->program->weights[i].elements;
        if (d->pair->in_b[i] == LM_NONE || d->a->program->weights[i].constant)
            continue;
        LM_TRY(compare_tensor(d, i, &t[d->r.n_tensors], e));
        LM_TRY(keep_names(d, &t[d->r.n_tensors], e));
        d->r.a_bytes += t[d->r.n_tensors].a_bytes;
        d->r.b_bytes += t[d->r.n_tensors].b_bytes;
        d->weights[d->r.n_tensors++] = i;
    }
    if (!d->r.n_tensors)
        return lm_fail(e, LM_USAGE, d->b->source, LM_NO_OFFSET, "no tensor has a partner of the same shape");
    return LM_OK;
}
