/* forecast.c - how long a forward should take, put together from what each kernel reaches on this machine.
 *
 * The limits of lm_machine_measure are what nothing passes. Kernels stay below them, each type by its own share, and a forward
 * is more than its products: attention, rows of floats, and waiting at the end of every stage. Each of these is timed here by
 * itself, with the threads that the engine has, on random matrices of the shapes that the plan has, as many of them as the
 * model has bytes; the plan says how often each is used. The model is not run, and nothing is fitted to any. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "runtime/steps.h"

enum {
    WIDTH = 2048,                    /* of the rows that are timed */
    TILE_ROWS = 256,                 /* of a prompt */
    MOST_RANGES = 8,                 /* of one sequence, where attention is timed */
};

#define LEAST_COLD (UINT64_C(16) << 20)
#define MOST_COLD  (UINT64_C(512) << 20)
#define WINDOW 0.05                  /* seconds for each figure */
#define MOST_SHAPES 32

/* A kernel on matrices of one shape. */
typedef struct product_rate {
    const lm_matmul *matmul;
    lm_dtype         type;
    uint64_t         rows, cols;
    double           one, many;      /* seconds: of one row, matrix from memory; of each row of a prompt; 0: not known */
} product_rate;

typedef struct rates {
    product_rate product[MOST_SHAPES];
    size_t       n_products;
    double       row;                /* seconds for a float of a norm, a residual, an activation: one thread */
    double       pack;               /* for a float that is packed for a product: one thread */
    double       stage;              /* for workers to meet */
} rates;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

/* Values as activations and weights have them: bell-shaped enough, none tiny. */
static void fill(float *x, uint64_t n, float size)
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

/* ---- products ---- */

typedef struct job {
    lm_engine      *g;
    lm_matmul_args  a;
    const lm_matmul *m;
    uint8_t        *scratch;
    uint64_t        scratch_bytes;
    unsigned        shares;
} job;

static void run_product(void *arg, unsigned worker, unsigned share)
{
    const job     *j = arg;
    lm_matmul_args a = j->a;

    lm_product_share(lm_pool_used(j->g->pool), a.rows, j->m->row_group, a.n, share, j->shares, &a.first, &a.last);
    a.scratch = j->scratch + worker * j->scratch_bytes;
    if (a.first < a.last)
        j->m->run(&a);
}

/* Seconds of one product of `n` rows, matrices taken in turn. The median: others use memory too. */
static double time_product(job *j, uint8_t *w, uint64_t bytes, uint64_t copies, uint64_t n)
{
    double   took[64], end = now() + WINDOW;
    size_t   runs = 0;
    uint64_t turn = 0;

    j->a.n = n;
    do {
        double from = now();
        uint64_t passes = n > 1 ? 1 : copies < 8 ? copies : 8;
        for (uint64_t i = 0; i < passes; i++) {
            j->a.w = w + turn++ % copies * bytes;
            lm_pool_run_units(j->g->pool, run_product, j, j->shares);
        }
        took[runs++] = (now() - from) / (double)passes;
    } while (runs < 64 && (runs < 5 || now() < end));
    for (size_t i = 1; i < runs; i++)
        for (size_t k = i; k > 0 && took[k] < took[k - 1]; k--) {
            double t    = took[k];
            took[k]     = took[k - 1];
            took[k - 1] = t;
        }
    return took[runs / 2];
}

/* Bytes that kernels are timed on: as many as the model has, so that a small model finds as much of itself in the caches. */
static uint64_t cold_bytes(const lm_engine *g)
{
    uint64_t own = g->plan->weight_bytes + g->plan->mapped_bytes, spare = lm_memory_available() / 8;

    own = own > MOST_COLD ? MOST_COLD : own;
    own = spare && own > spare ? spare : own;
    return own < LEAST_COLD ? LEAST_COLD : own;
}

/* A matrix as stored, all rows like the first sixteen. */
static bool fill_stored(lm_dtype type, uint8_t *stored, uint64_t row, const product_rate *r, float *x)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    if (!t->pack)
        return false;                /* nothing here packs it: no matrix to time */
    for (uint64_t i = 0; i < r->rows; i++) {
        if (i >= 16) {
            memcpy(stored + i * row, stored + i % 16 * row, row);
            continue;
        }
        fill(x, r->cols, 0.05f);
        t->pack(stored + i * row, x, r->cols);
    }
    return true;
}

/* Memory of a timing: the matrix as stored, copies as the kernel has them, packed rows with x and y, scratch. */
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

static void time_shape(lm_engine *g, product_rate *r, const places *p, uint64_t bytes, uint64_t copies, uint64_t stride, uint64_t each)
{
    const lm_matmul *m = r->matmul;
    float           *x = (float *)(void *)(p->at[2] + rounded(TILE_ROWS * stride)), *y = x + TILE_ROWS * r->cols;

    if (m->packed_bytes)
        m->pack(p->at[1], p->at[0], r->rows, r->cols, 0, r->rows);
    else
        memcpy(p->at[1], p->at[0], bytes < p->size[0] ? bytes : p->size[0]);
    for (uint64_t c = 1; c < copies; c++)
        memcpy(p->at[1] + c * bytes, p->at[1], bytes);
    fill(x, TILE_ROWS * r->cols, 1);
    for (uint64_t t = 0; t < TILE_ROWS; t++)
        if (m->x->pack)
            m->x->pack(p->at[2] + t * stride, x + t * r->cols, r->cols);
        else
            memcpy(p->at[2] + t * stride, x + t * r->cols, r->cols * sizeof *x);
    job j = { .g = g, .m = m, .scratch = p->at[3], .scratch_bytes = each,
              .a = { .rows = r->rows, .cols = r->cols, .x = p->at[2], .x_stride = stride, .y = y, .y_stride = r->rows, .scale = 1 } };
    j.shares = lm_product_shares(lm_pool_used(g->pool), bytes, 1);
    r->one   = time_product(&j, p->at[1], bytes, copies, 1);
    j.shares = lm_product_shares(lm_pool_used(g->pool), bytes, TILE_ROWS);
    r->many  = time_product(&j, p->at[1], bytes, copies, TILE_ROWS) / TILE_ROWS;
}

static lm_status rate_of(lm_engine *g, product_rate *r, lm_error *e)
{
    const lm_matmul *m   = r->matmul;
    uint64_t         row = 0;

    if (!lm_dtype_row_bytes(r->type, r->cols, &row))
        return LM_OK;
    uint64_t bytes  = m->packed_bytes ? m->packed_bytes(r->rows, r->cols) : rounded(row * r->rows);
    uint64_t copies = cold_bytes(g) / bytes + 1, stride = m->x->pack ? m->x->bytes(r->cols) : r->cols * sizeof(float);
    uint64_t each   = m->scratch_bytes ? rounded(m->scratch_bytes(r->cols)) : 64;
    places   p = { .size = { rounded(row * r->rows), bytes * copies,
                             rounded(TILE_ROWS * stride) + rounded(TILE_ROWS * (r->cols + r->rows) * sizeof(float)),
                             each * lm_pool_threads(g->pool) } };
    bool got = reserve(&p);
    if (got && fill_stored(r->type, p.at[0], row, r, (float *)(void *)(p.at[2] + rounded(TILE_ROWS * stride))))
        time_shape(g, r, &p, bytes, copies, stride, each);
    give_back(&p);
    return got ? LM_OK : lm_fail_memory(e, "a forecast", bytes * copies);
}

static product_rate *find_rate(rates *r, const lm_matmul *m, lm_dtype type, uint64_t rows, uint64_t cols)
{
    for (size_t i = 0; i < r->n_products; i++) {
        product_rate *x = &r->product[i];
        if (x->matmul == m && x->type == type && x->rows == rows && x->cols == cols)
            return x;
    }
    return NULL;
}

/* ---- attention ---- */

typedef struct attention_job {
    lm_engine               *g;
    const lm_attention_spec *spec;
    lm_attention_args        a;
    uint32_t                 ranges;     /* that an item is cut into; 1: none is */
    uint8_t                 *scratch, *parts;
    uint64_t                 scratch_bytes;
    atomic_uint             *done;       /* of each item's ranges */
} attention_job;

/* One range of an item, as attend.c has them; the tiles of a prompt are the same one. */
static void run_attention(void *arg, unsigned worker, unsigned unit)
{
    const attention_job *j     = arg;
    lm_attention_args    a     = j->a;
    uint32_t             items = lm_attention_items(j->spec), item = unit / j->ranges % items;
    uint32_t             group = j->spec->n_heads / j->spec->n_kv_heads, each = items / j->spec->n_kv_heads;
    uint32_t             first = item % each * LM_QUERY_HEADS, query;

    a.head    = item / each;
    a.group   = group - first < LM_QUERY_HEADS ? group - first : LM_QUERY_HEADS;
    query     = a.head * group + first;
    a.q       = j->a.q + (uint64_t)query * a.kv->k_dim;
    a.out     = j->a.out + (unit / j->ranges / items * a.rows * a.out_stride) + (uint64_t)query * a.kv->v_dim;
    a.scratch = j->scratch + worker * j->scratch_bytes;
    if (j->ranges == 1) {
        j->g->plan->attention->run(&a);
        return;
    }
    lm_attend_range(j->g->plan->attention, &a, unit % j->ranges, j->ranges, j->parts + lm_attention_part_bytes(a.kv, query) * j->ranges,
                    &j->done[item]);
}

/* Pages that a row sees where attention is timed, and into how many ranges they are cut: prompts have tiles for every worker. */
static uint32_t pages_seen(const lm_engine *g, const lm_attention_spec *s, uint32_t rows, uint64_t depth, uint32_t *ranges)
{
    uint64_t seen = rows > 1 ? LM_RANGE : s->window && s->window < depth ? s->window : depth;

    seen    = seen < LM_RANGE ? LM_RANGE : seen < (uint64_t)MOST_RANGES * LM_RANGE ? seen : MOST_RANGES * LM_RANGE;
    *ranges = rows == 1 && lm_attention_splits(s, 1, lm_pool_used(g->pool)) ? (uint32_t)((seen - 1) / LM_RANGE + 1) : 1;
    return (uint32_t)((seen + LM_PAGE - 1) / LM_PAGE);
}

/* Seconds for each key that each row sees, all heads of the layer. `rows` 1 (generation at a depth) or a tile of a prompt. */
static double time_attention(lm_engine *g, const lm_attention_spec *s, const lm_kv_layer *at, uint32_t rows, uint64_t depth)
{
    unsigned workers = lm_pool_threads(g->pool);
    uint32_t items = lm_attention_items(s), ranges, seen = pages_seen(g, s, rows, depth, &ranges);
    uint32_t tiles = rows == 1 || (uint64_t)items * workers > UINT16_MAX ? 1 : workers;
    uint64_t page = g->plan->attention->page_bytes(&at->shape);
    uint64_t each = rounded(g->plan->attention->scratch_bytes(&at->shape, LM_QUERY_HEADS));
    uint32_t layers = (uint32_t)(cold_bytes(g) / 8 / (page * seen) + 1);
    uint64_t qs = rounded((uint64_t)rows * s->n_heads * s->k_dim * 4), os = rounded((uint64_t)rows * s->n_heads * s->v_dim * 4);
    uint64_t parts = lm_attention_part_bytes(&at->shape, s->n_heads) * ranges, done = rounded((uint64_t)items * 4);
    uint64_t sizes[3] = { page * seen * layers, qs + os * tiles, each * workers + parts + done };
    uint8_t *p[3] = { lm_alloc_aligned(sizes[0], 64), lm_alloc_aligned(sizes[1], 64), lm_alloc_aligned(sizes[2], 64) };
    uint32_t pages[MOST_RANGES * LM_RANGE / LM_PAGE], turn = 0, n = 0;
    double   seconds = 0, from, end;

    if (p[0] && p[1] && p[2]) {
        memset(p[0], 0, sizes[0]);
        fill((float *)(void *)p[1], qs / 4, 1);
        attention_job j = { .g = g, .spec = s, .ranges = ranges, .done = (atomic_uint *)(void *)p[2], .parts = p[2] + done,
                            .scratch = p[2] + done + parts, .scratch_bytes = each };
        for (uint32_t i = 0; i < seen; i++)
            pages[i] = i;
        j.a = (lm_attention_args){ .kv = &at->shape, .q = (float *)(void *)p[1], .q_stride = (uint64_t)s->n_heads * s->k_dim,
                                   .out = (float *)(void *)(p[1] + qs), .out_stride = (uint64_t)s->n_heads * s->v_dim, .rows = rows,
                                   .position = seen * LM_PAGE - rows, .pages = pages, .page_stride = page, .scale = 0.1f };
        end = now() + WINDOW;
        from = now();
        do {
            j.a.base = p[0] + (uint64_t)(turn++ % layers) * page * seen;
            lm_pool_run_units(g->pool, run_attention, &j, items * ranges * tiles);
            n++;
        } while (n < 4 || now() < end);
        seconds = (now() - from) / n / ((double)rows * tiles * (seen * LM_PAGE - (rows - 1) * 0.5));
    }
    for (int i = 0; i < 3; i++)
        if (p[i])
            lm_free_aligned(p[i], sizes[i]);
    return seconds;
}

/* ---- what is done row by row, and waiting ---- */

static void nothing(void *arg, unsigned worker, unsigned unit)
{
    (void)worker;
    (void)unit;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static void time_rest(lm_engine *g, const lm_matmul *m, rates *r)
{
    static const unsigned width = WIDTH;
    _Alignas(64) float    x[2 * WIDTH], y[2 * WIDTH];
    uint8_t               packed[WIDTH * 8 + 64];
    uint8_t              *to    = packed + 64 - (uintptr_t)packed % 64;
    atomic_uint           count = 0;
    unsigned              n     = 0;
    double                from;

    fill(x, 2 * WIDTH, 1);
    memcpy(y, x, sizeof y);
    from = now();
    for (; n < 20 || now() - from < WINDOW / 4; n++) {
        g->kernels.row.rms(y, x, NULL, width, 1e-5f);
        g->kernels.row.add(y, y, x, 1, width);
        g->kernels.row.glu(y, x, y, LM_ACT_SILU, width);
        g->kernels.row.mul(y, x, x, width);
    }
    r->row = (now() - from) / n / (4.0 * width);
    r->pack = 0;
    if (m && m->x->pack && m->x->bytes(WIDTH) <= WIDTH * 8) {
        from = now();
        for (n = 0; n < 20 || now() - from < WINDOW / 4; n++)
            m->x->pack(to, x, WIDTH);
        r->pack = (now() - from) / n / WIDTH;
    }
    from = now();
    for (n = 0; n < 200 || now() - from < WINDOW / 4; n++)
        lm_pool_run_units(g->pool, nothing, &count, lm_pool_used(g->pool) * 4);
    r->stage = (now() - from) / n;
}

static bool is_product(const lm_step *s)
{
    return s->code == LM_STEP_MATMUL || s->code == LM_STEP_EXPERTS || s->code == LM_STEP_HEADS;
}

/* Of many matrices each is a product of its own. */
static product_rate shape_of(const lm_engine *g, const lm_step *s)
{
    const lm_weight *w    = &g->program->weights[s->weight];
    bool             many = w->kind == LM_EXPERTS || w->kind == LM_HEADS;

    return (product_rate){ s->matmul, g->plan->weights[s->weight].type, w->dims[many], w->dims[many + 1], 0, 0 };
}

static lm_status measure(lm_engine *g, rates *r, lm_error *e)
{
    const lm_matmul *packs = NULL;

    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        if (!is_product(s))
            continue;
        product_rate x = shape_of(g, s);
        packs          = s->matmul->x->pack ? s->matmul : packs;
        if (r->n_products == MOST_SHAPES || find_rate(r, x.matmul, x.type, x.rows, x.cols))
            continue;
        LM_TRY(rate_of(g, &x, e));
        r->product[r->n_products++] = x;
    }
    time_rest(g, packs, r);
    return LM_OK;
}

/* ---- a forward ---- */

typedef struct forward { uint64_t rows, first, sequences, wanted; } forward;     /* `rows` of each sequence */

static double product_seconds(lm_engine *g, rates *r, const lm_step *s, const forward *f, lm_forecast *out)
{
    const lm_weight *w    = &g->program->weights[s->weight];
    product_rate     like = shape_of(g, s), *rate = find_rate(r, like.matmul, like.type, like.rows, like.cols);
    double           n    = (double)(s->domain == LM_WANTED_ROWS ? f->wanted : f->rows * f->sequences) * s->times;
    double           matrices = 1;

    if (!rate || rate->one <= 0 || rate->many <= 0) {
        out->unknown = true;
        return 0;
    }
    if (w->kind == LM_HEADS)
        matrices = (double)w->dims[0];
    if (w->kind == LM_EXPERTS) {     /* those that are visited are read, each with its share of the visits */
        matrices = n < (double)w->dims[0] ? n : (double)w->dims[0];
        n /= matrices;
    }
    double reading = rate->one, products = n * rate->many;
    return matrices * (n <= 1 || reading > products ? reading : products);
}

/* Keys that rows first … first + n - 1 see. */
static double keys_seen(uint64_t first, uint64_t n, uint64_t window)
{
    double sum = 0;

    for (uint64_t i = first; i < first + n; i++)
        sum += (double)(window && i + 1 > window ? window : i + 1);
    return sum;
}

static double forward_seconds(lm_engine *g, rates *r, double *per_key, const forward *f, lm_forecast *out)
{
    double threads = lm_pool_used(g->pool), all = (double)(f->rows * f->sequences), sum = 0;

    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s    = &g->plan->steps[i];
        double         rows = (s->domain == LM_WANTED_ROWS ? (double)f->wanted : all) * s->times, spread = rows > threads ? threads : 1;
        const lm_node *n    = s->node == LM_NONE ? NULL : &g->program->nodes[s->node];
        if (is_product(s)) {
            double t = product_seconds(g, r, s, f, out);
            out->products += t;
            sum += t;
        } else if (s->code == LM_STEP_ATTENTION) {
            double t = per_key[n->attention.cache] * keys_seen(f->first, f->rows, n->attention.spec.window) * (double)f->sequences;
            out->attention += t;
            sum += t;
        } else if (n) {
            double each = s->code == LM_STEP_PACK ? r->pack * s->width * s->parts : r->row * g->program->values[n->out].width;
            double t    = rows / spread * each;
            out->rows += t;
            sum += t;
        }
    }
    out->waiting += r->stage * g->plan->n_stages;
    return sum + r->stage * g->plan->n_stages;
}

static bool same_shape(const lm_attention_spec *a, const lm_attention_spec *b)
{
    return a->n_heads == b->n_heads && a->n_kv_heads == b->n_kv_heads && a->k_dim == b->k_dim && a->v_dim == b->v_dim &&
           a->window == b->window;
}

/* One figure for each shape that caches have. */
static void time_caches(lm_engine *g, uint32_t rows, uint64_t depth, double *per_key)
{
    const lm_attention_spec *spec[256] = { NULL };
    uint32_t                 n         = 0;

    for (uint32_t i = 0; i < g->program->n_nodes; i++) {
        const lm_node *x = &g->program->nodes[i];
        uint32_t       c = x->attention.cache, same = 0;
        if (x->code != LM_OP_ATTENTION)
            continue;
        while (same < n && !same_shape(spec[same], &x->attention.spec))
            same++;
        if (same < n) {
            per_key[c] = per_key[g->program->n_caches + same];
            continue;
        }
        per_key[c] = time_attention(g, &x->attention.spec, &g->plan->layers[c], rows, depth);
        if (n < 256) {
            per_key[g->program->n_caches + n] = per_key[c];
            spec[n++]                         = &x->attention.spec;
        }
    }
}

lm_status lm_engine_forecast(lm_engine *g, uint32_t prompt, uint32_t sequences, uint32_t depth, lm_forecast *out, lm_error *e)
{
    rates     r       = { 0 };
    uint64_t  rows    = prompt < g->plan->options.rows ? prompt : g->plan->options.rows;
    double   *per_key = lm_alloc_zero((size_t)g->program->n_caches + 256, sizeof *per_key);

    *out = (lm_forecast){ 0 };
    if (!per_key)
        return lm_fail_memory(e, "a forecast", 0);
    atomic_store(&g->ahead, 0);                          /* what is timed has the memory to itself */
    lm_pool_use(g->pool, (rows ? rows : sequences) > LM_FEW_ROWS ? g->threads_batch : g->threads);
    lm_status status = measure(g, &r, e);
    if (status == LM_OK) {
        time_caches(g, rows > LM_TILE ? LM_TILE : rows ? (uint32_t)rows : 1, depth, per_key);
        for (uint64_t at = 0; prompt && at < prompt; at += rows) {
            uint64_t n = prompt - at < rows ? prompt - at : rows;
            out->seconds += (double)sequences * forward_seconds(g, &r, per_key, &(forward){ n, depth + at, 1, at + n == prompt }, out);
        }
        if (!prompt)
            out->seconds = forward_seconds(g, &r, per_key, &(forward){ 1, depth, sequences, sequences }, out);
    }
    lm_free(per_key);
    return status;
}
