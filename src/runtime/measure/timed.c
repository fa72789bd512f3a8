/* timed.c - time products on random matrices of the shapes in a plan, as many of them as the model has
 * bytes. */
#include "runtime/measure/timed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/available.h"
#include "base/os/cpu.h"

enum {
    MAX_ROWS = 256,                  /* maximum rows of x that are timed: each further row takes as long */
    FEW       = 8,                   /* up to this many rows, a product is as fast as its weights are read */
};

/* Bytes of weights that products cycle through, so that caches hold as large a part of them as of the
 * model's. */
#define LEAST_COLD (UINT64_C(16) << 20)
#define MAX_COLD  (UINT64_C(512) << 20)

void lm_timed_fill(float *x, uint64_t n, float size)
{
    uint64_t s = UINT64_C(88172645463325252);

    for (uint64_t i = 0; i < n; i++) {
        int sum = 0;
        for (int k = 0; k < 4; k++) {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            sum += (int)(s >> 40 & 1023) - 512;
        }
        x[i] = (float)sum * 1e-3f * size;
    }
}

typedef struct job {
    lm_engine      *g;
    lm_matmul_args  a;
    const lm_matmul *m;
    uint8_t        *scratch;
    uint64_t        scratch_bytes;
    unsigned        chunks;
} job;

static void run_product(void *arg, unsigned worker, unsigned chunk)
{
    const job     *j = arg;
    lm_matmul_args a = j->a;

    lm_chunk_outputs(lm_pool_used(j->g->pool), a.rows, j->m->row_group, chunk, j->chunks, &a.first, &a.last);
    a.scratch = j->scratch + worker * j->scratch_bytes;
    if (a.first < a.last)
        j->m->run(&a);
}

/* Return the seconds of one product, cycling through the matrices. It is the median, because other processes
 * use memory too. */
static double time_product(job *j, uint8_t *w, uint64_t bytes, uint64_t copies)
{
    double   took[64], end = lm_clock_seconds() + LM_TIMED_WINDOW;
    size_t   runs = 0;
    uint64_t turn = 0;

    do {
        double from = lm_clock_seconds();
        uint64_t passes = j->a.n > 1 ? 1 : copies < 8 ? copies : 8;
        for (uint64_t i = 0; i < passes; i++) {
            j->a.w = w + turn++ % copies * bytes;
            lm_pool_run_chunks(j->g->pool, run_product, j, j->chunks);
        }
        took[runs++] = (lm_clock_seconds() - from) / (double)passes;
    } while (runs < 64 && (runs < 5 || lm_clock_seconds() < end));
    for (size_t i = 1; i < runs; i++)
        for (size_t k = i; k > 0 && took[k] < took[k - 1]; k--) {
            double t    = took[k];
            took[k]     = took[k - 1];
            took[k - 1] = t;
        }
    return took[runs / 2];
}

uint64_t lm_timed_bytes(const lm_engine *g)
{
    uint64_t own = g->plan->weight_bytes + g->plan->mapped_bytes, spare = lm_memory_available() / 8;

    own = own > MAX_COLD ? MAX_COLD : own;
    own = spare && own > spare ? spare : own;
    return own < LEAST_COLD ? LEAST_COLD : own;
}

/* Fill a matrix as stored, all rows like the first. False: its type cannot be packed. */
static bool fill_stored(lm_dtype type, uint8_t *stored, uint64_t row, const lm_product_rate *r, float *x)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    if (!t->pack)
        return false;                /* there is no matrix to time */
    lm_timed_fill(x, r->cols, 0.05f);
    t->pack(stored, x, r->cols);
    for (uint64_t i = 1; i < r->rows; i++)
        memcpy(stored + i * row, stored, row);
    return true;
}

/* The memory of a timing: the matrix as stored, copies in the kernel's format, packed rows with x and y,
 * scratch. */
typedef struct places {
    uint8_t *at[4];
    uint64_t size[4];
} places;

static bool reserve(places *p)
{
    bool got = true;

    for (int i = 0; i < 4; i++)
        got = (p->at[i] = lm_alloc_aligned(p->size[i], 64)) && got;
    return got;
}

static void give_back(places *p)
{
    for (int i = 0; i < 4; i++)
        if (p->at[i])
            lm_free_aligned(p->at[i], p->size[i]);
}

static void time_shape(lm_engine *g, lm_product_rate *r, const places *p, uint64_t bytes, uint64_t copies,
                       uint64_t stride, uint64_t each)
{
    const lm_matmul *m = r->matmul;
    float *x = (float *)(void *)(p->at[2] + lm_timed_rounded(r->n * stride)), *y = x + r->n * r->cols;

    if (m->packed_bytes)
        m->pack(p->at[1], p->at[0], r->rows, r->cols, 0, r->rows);
    else
        memcpy(p->at[1], p->at[0], bytes < p->size[0] ? bytes : p->size[0]);
    for (uint64_t c = 1; c < copies; c++)
        memcpy(p->at[1] + c * bytes, p->at[1], bytes);
    lm_timed_fill(x, r->n * r->cols, 1);
    for (uint64_t t = 0; t < r->n; t++)
        if (m->x->pack)
            m->x->pack(p->at[2] + t * stride, x + t * r->cols, r->cols);
        else
            memcpy(p->at[2] + t * stride, x + t * r->cols, r->cols * sizeof *x);
    job j = { .g = g, .m = m, .scratch = p->at[3], .scratch_bytes = each,
              .a = { .rows = r->rows, .cols = r->cols, .x = p->at[2], .x_stride = stride, .n = r->n,
                     .y = y, .y_stride = r->rows, .scale = 1 } };
    j.chunks   = lm_product_chunks(lm_pool_used(g->pool), bytes, r->n);
    r->seconds = time_product(&j, p->at[1], bytes, copies);
}

static lm_status rate_of(lm_engine *g, lm_product_rate *r, lm_error *e)
{
    const lm_matmul *m   = r->matmul;
    uint64_t         row = 0;

    if (!lm_dtype_row_bytes(r->type, r->cols, &row))
        return LM_OK;
    uint64_t bytes  = m->packed_bytes ? m->packed_bytes(r->rows, r->cols) : lm_timed_rounded(row * r->rows);
    uint64_t copies = lm_timed_bytes(g) / bytes + 1,
             stride = m->x->pack ? m->x->bytes(r->cols) : r->cols * sizeof(float);
    uint64_t each   = m->scratch_bytes ? lm_timed_rounded(m->scratch_bytes(r->cols)) : 64;
    uint64_t floats = r->n * (r->cols + r->rows), x_bytes = lm_timed_rounded(r->n * stride);
    places p = { .size = { lm_timed_rounded(row * r->rows), bytes * copies,
                           x_bytes + lm_timed_rounded(floats * sizeof(float)),
                           each * lm_pool_threads(g->pool) } };
    bool got = reserve(&p);
    if (got && fill_stored(r->type, p.at[0], row, r, (float *)(void *)(p.at[2] + x_bytes)))
        time_shape(g, r, &p, bytes, copies, stride, each);
    give_back(&p);
    return got ? LM_OK : lm_fail_memory(e, "a forecast", bytes * copies);
}

static const lm_product_rate *find_rate(const lm_product_rates *r, const lm_product_rate *like)
{
    for (size_t i = 0; i < r->n; i++) {
        const lm_product_rate *x = &r->at[i];
        if (x->matmul == like->matmul && x->type == like->type && x->rows == like->rows &&
            x->cols == like->cols && x->n == like->n)
            return x;
    }
    return NULL;
}

/* ---- products of a plan ---- */

/* How often a step's product runs in a forward pass, with which shape and how many rows. */
typedef struct product_use {
    lm_product_rate like;
    uint64_t        matrices, rows;  /* rows: per matrix */
    double          chunk;           /* share of the timed rows that exist, if they are not divided evenly */
} product_use;

static product_use use_of(lm_engine *g, const lm_step *s, const lm_forward *f)
{
    product_use   u = { .matrices = 1, .chunk = 1 };
    lm_step_costs c;

    lm_step_cost(g->plan, s, f, &c);
    u.rows = c.rows;
    if (s->code == LM_STEP_HEADS)
        u.matrices = c.matrices;
    if (s->code == LM_STEP_EXPERTS && u.rows) {      /* experts with assignments are read, each with an equal
                                                        share of them */
        u.matrices = u.rows < c.matrices ? u.rows : c.matrices;
        uint64_t each = (u.rows + u.matrices - 1) / u.matrices;
        u.chunk = each > FEW ? (double)u.rows / (double)(each * u.matrices) : 1;
        u.rows  = each;
    }
    u.like = (lm_product_rate){ s->matmul, g->plan->weights[s->weight].type, c.outs,
                                c.cols, u.rows < MAX_ROWS ? u.rows : MAX_ROWS, 0 };
    return u;
}

lm_status lm_time_products(lm_engine *g, lm_product_rates *r, const lm_forward *f, lm_error *e)
{
    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        if (!lm_is_product(s))
            continue;
        product_use u = use_of(g, s, f);
        if (u.rows == 0 || r->n == LM_TIMED_SHAPES || find_rate(r, &u.like))
            continue;
        LM_TRY(rate_of(g, &u.like, e));
        r->at[r->n++] = u.like;
    }
    return LM_OK;
}

double lm_product_seconds(lm_engine *g, const lm_product_rates *r, const lm_step *s, const lm_forward *f,
                          bool *unknown)
{
    product_use            u    = use_of(g, s, f);
    const lm_product_rate *rate = find_rate(r, &u.like);

    if (u.rows == 0)
        return 0;
    if (!rate || rate->seconds <= 0) {
        *unknown = true;
        return 0;
    }
    return u.chunk * (double)u.matrices * rate->seconds * (double)u.rows / (double)rate->n;
}
