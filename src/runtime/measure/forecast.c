/* forecast.c - predict how long a forward pass takes, from the speed that each kernel reaches on this
 * machine.
 *
 * The limits of lm_machine_measure are upper bounds. Kernels stay below them, each type by its own share, and
 * a forward pass is more than its products: attention, work on rows of floats, and waiting at the end of
 * every stage. Each of these is timed separately, with the threads of the engine, on random matrices of the
 * shapes in the plan, as many of them as the model has bytes; the plan gives how often each is used. The
 * model is not run, and nothing is fitted to any model. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/measure/timed.h"

enum {
    WIDTH = 2048,                    /* of the rows that are timed */
    MAX_RANGES = 8,                  /* maximum of one sequence when attention is timed */
};

typedef struct rates {
    lm_product_rates products;
    double        row;                /* seconds per float of a norm, a residual, an activation, on one
                                         thread */
    double        pack;               /* per float that is packed for a product, on one thread */
    double        stage;              /* for workers to synchronise */
} rates;

/* ---- attention ---- */

typedef struct attention_job {
    lm_engine               *g;
    const lm_attention_spec *spec;
    lm_attention_args        a;
    uint32_t                 ranges;     /* that an item is cut into; 1: it is not cut */
    uint8_t                 *scratch, *partials;
    uint64_t                 scratch_bytes;
    atomic_uint             *done;       /* finished ranges of each item */
} attention_job;

/* Run one range of an item, divided as in attend.c; all tiles of a prompt use the same input. */
static void run_attention(void *arg, unsigned worker, unsigned share)
{
    const attention_job *j     = arg;
    lm_attention_args    a     = j->a;
    uint32_t             items = lm_attention_items(j->spec), item = share / j->ranges % items;
    uint32_t             group = j->spec->n_heads / j->spec->n_kv_heads, each = items / j->spec->n_kv_heads;
    uint32_t             first = item % each * LM_QUERY_HEADS, query;

    a.head    = item / each;
    a.group   = group - first < LM_QUERY_HEADS ? group - first : LM_QUERY_HEADS;
    query     = a.head * group + first;
    a.q       = j->a.q + (uint64_t)query * a.kv->k_dim;
    a.out = j->a.out + (share / j->ranges / items * a.rows * a.out_stride) + (uint64_t)query * a.kv->v_dim;
    a.scratch = j->scratch + worker * j->scratch_bytes;
    if (j->ranges == 1) {
        j->g->plan->attention->run(&a);
        return;
    }
    uint8_t *partials = j->partials + lm_attention_partial_bytes(a.kv, query) * j->ranges;
    lm_attend_range(j->g->plan->attention, &a, share % j->ranges, j->ranges, partials, &j->done[item]);
}

/* Return how many pages a row sees when attention is timed; *ranges they are cut into: 1 for prompts, with
 * tiles for every worker. */
static uint32_t pages_seen(const lm_engine *g, const lm_attention_spec *s, uint32_t rows, uint64_t depth,
                           uint32_t *ranges)
{
    uint64_t seen = rows > 1 ? LM_RANGE : s->window && s->window < depth ? s->window : depth;

    seen = seen < LM_RANGE ? LM_RANGE : seen < (uint64_t)MAX_RANGES * LM_RANGE ? seen : MAX_RANGES * LM_RANGE;
    *ranges = rows == 1 && lm_attention_splits(s, 1, lm_pool_used(g->pool))
                  ? (uint32_t)((seen - 1) / LM_RANGE + 1)
                  : 1;
    return (uint32_t)((seen + LM_PAGE - 1) / LM_PAGE);
}

/* Return the seconds per key that a row sees, for all heads of the layer. `rows`: 1 (generation at a depth)
 * or a tile of a prompt. */
static double time_attention(lm_engine *g, const lm_attention_spec *s, const lm_kv_layer *at, uint32_t rows,
                             uint64_t depth)
{
    unsigned workers = lm_pool_threads(g->pool);
    uint32_t items = lm_attention_items(s), ranges, seen = pages_seen(g, s, rows, depth, &ranges);
    uint32_t tiles = rows == 1 ? 1 : workers;
    uint64_t page = g->plan->attention->page_bytes(&at->shape);
    uint64_t each = lm_timed_rounded(g->plan->attention->scratch_bytes(&at->shape, LM_QUERY_HEADS));
    uint32_t layers = (uint32_t)(lm_timed_bytes(g) / 8 / (page * seen) + 1);
    uint64_t qs = lm_timed_rounded((uint64_t)rows * s->n_heads * s->k_dim * 4);
    uint64_t os = lm_timed_rounded((uint64_t)rows * s->n_heads * s->v_dim * 4);
    uint64_t partials = lm_attention_partial_bytes(&at->shape, s->n_heads) * ranges,
             done = lm_timed_rounded((uint64_t)items * 4);
    uint64_t sizes[3] = { page * seen * layers, qs + os * tiles, each * workers + partials + done };
    uint8_t *p[3] = { lm_alloc_aligned(sizes[0], 64), lm_alloc_aligned(sizes[1], 64),
                      lm_alloc_aligned(sizes[2], 64) };
    uint32_t pages[MAX_RANGES * LM_RANGE / LM_PAGE], turn = 0, n = 0;
    double   seconds = 0, from, end;

    if (p[0] && p[1] && p[2]) {
        memset(p[0], 0, sizes[0]);
        lm_timed_fill((float *)(void *)p[1], qs / 4, 1);
        attention_job j = { .g = g,
                            .spec = s,
                            .ranges = ranges,
                            .done = (atomic_uint *)(void *)p[2],
                            .partials = p[2] + done,
                            .scratch = p[2] + done + partials,
                            .scratch_bytes = each };
        for (uint32_t i = 0; i < seen; i++)
            pages[i] = i;
        j.a = (lm_attention_args){ .kv = &at->shape,
                                   .q = (float *)(void *)p[1],
                                   .q_stride = (uint64_t)s->n_heads * s->k_dim,
                                   .out = (float *)(void *)(p[1] + qs),
                                   .out_stride = (uint64_t)s->n_heads * s->v_dim,
                                   .rows = rows,
                                   .position = seen * LM_PAGE - rows,
                                   .pages = pages,
                                   .page_stride = page,
                                   .scale = 0.1f };
        end = lm_clock_seconds() + LM_TIMED_WINDOW;
        from = lm_clock_seconds();
        do {
            j.a.base = p[0] + (uint64_t)(turn++ % layers) * page * seen;
            lm_pool_run_chunks(g->pool, run_attention, &j, items * ranges * tiles);
            n++;
        } while (n < 4 || lm_clock_seconds() < end);
        seconds = (lm_clock_seconds() - from) / n /
                  ((double)rows * tiles * (seen * LM_PAGE - (rows - 1) * 0.5));
    }
    for (int i = 0; i < 3; i++)
        if (p[i])
            lm_free_aligned(p[i], sizes[i]);
    return seconds;
}

/* ---- work by rows, and waiting ---- */

static void nothing(void *arg, unsigned worker, unsigned share)
{
    (void)worker;
    (void)share;
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

    lm_timed_fill(x, 2 * WIDTH, 1);
    memcpy(y, x, sizeof y);
    from = lm_clock_seconds();
    for (; n < 20 || lm_clock_seconds() - from < LM_TIMED_WINDOW / 4; n++) {
        g->kernels.row.rms(y, x, NULL, width, 1e-5f);
        g->kernels.row.add(y, y, x, 1, width);
        g->kernels.row.glu(y, x, y, LM_ACT_SILU, width);
        g->kernels.row.mul(y, x, x, width);
    }
    r->row = (lm_clock_seconds() - from) / n / (4.0 * width);
    r->pack = 0;
    if (m && m->x->pack && m->x->bytes(WIDTH) <= WIDTH * 8) {
        from = lm_clock_seconds();
        for (n = 0; n < 20 || lm_clock_seconds() - from < LM_TIMED_WINDOW / 4; n++)
            m->x->pack(to, x, WIDTH);
        r->pack = (lm_clock_seconds() - from) / n / WIDTH;
    }
    from = lm_clock_seconds();
    for (n = 0; n < 200 || lm_clock_seconds() - from < LM_TIMED_WINDOW / 4; n++)
        lm_pool_run_chunks(g->pool, nothing, &count, lm_pool_used(g->pool) * 4);
    r->stage = (lm_clock_seconds() - from) / n;
}

static const lm_matmul *packing_product(const lm_engine *g)
{
    const lm_matmul *packs = NULL;

    for (uint32_t i = 0; i < g->plan->n_steps; i++)
        if (lm_is_product(&g->plan->steps[i]) && g->plan->steps[i].matmul->x->pack)
            packs = g->plan->steps[i].matmul;
    return packs;
}

/* ---- a forward pass ---- */

/* Add `times` times the duration of a forward pass. */
static lm_status add_forward(lm_engine *g, rates *r, double *per_key, const lm_forward *f, double times,
                             lm_forecast *out, lm_error *e)
{
    double        threads = lm_pool_used(g->pool);
    lm_step_costs c;

    LM_TRY(lm_time_products(g, &r->products, f, e));
    for (uint32_t i = 0; i < g->plan->n_steps; i++) {
        const lm_step *s = &g->plan->steps[i];
        lm_step_cost(g->plan, s, f, &c);
        if (lm_is_product(s)) {
            out->products += times * lm_product_seconds(g, &r->products, s, f, &out->unknown);
        } else if (s->code == LM_STEP_ATTENTION || s->code == LM_STEP_SELECT) {
            /* the choice of keys computes scores, but no sums of values: about half */
            double share = s->code == LM_STEP_SELECT ? 0.5 : 1;
            uint32_t cache = g->program->nodes[s->node].attention.cache;
            out->attention += times * share * per_key[cache] * (double)c.keys;
        } else {
            double rows = (double)c.rows,
                   each = (double)c.width * (s->code == LM_STEP_PACK ? r->pack : r->row);
            out->rows += times * rows / (rows > threads ? threads : 1) * each;
        }
    }
    out->waiting += times * r->stage * g->plan->n_stages;
    return LM_OK;
}

static bool same_shape(const lm_attention_spec *a, const lm_attention_spec *b)
{
    return a->n_heads == b->n_heads && a->n_kv_heads == b->n_kv_heads && a->k_dim == b->k_dim &&
           a->v_dim == b->v_dim && a->window == b->window;
}

/* Time attention, once per shape that caches have. */
static void time_caches(lm_engine *g, uint32_t rows, uint64_t depth, double *per_key)
{
    const lm_attention_spec *spec[256] = { NULL };
    uint32_t                 n         = 0;

    for (uint32_t i = 0; i < g->program->n_nodes; i++) {
        const lm_node *x = &g->program->nodes[i];
        uint32_t       c = x->attention.cache, same = 0;
        if (x->code != LM_OP_ATTENTION && x->code != LM_OP_SELECT_KEYS)
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

lm_status lm_engine_forecast(lm_engine *g, uint32_t prompt, uint32_t sequences, uint32_t depth,
                             lm_forecast *out, lm_error *e)
{
    LM_REQUIRE(e, g && out);
    rates     r       = { 0 };
    uint64_t  rows    = prompt < g->plan->options.max_rows ? prompt : g->plan->options.max_rows;
    double   *per_key = lm_alloc_zero((size_t)g->program->n_caches + 256, sizeof *per_key);

    *out = (lm_forecast){ 0 };
    if (!per_key)
        return lm_fail_memory(e, "a forecast", 0);
    atomic_store(&g->ahead, 0);                          /* no prefetching: what is timed has the memory to
                                                            itself */
    lm_pool_use(g->pool, (rows ? rows : sequences) > LM_FEW_ROWS ? g->threads_batch : g->threads);
    time_rest(g, packing_product(g), &r);
    time_caches(g, rows > LM_TILE ? LM_TILE : rows ? (uint32_t)rows : 1, depth, per_key);
    lm_status status = LM_OK;
    for (uint64_t at = 0; prompt && at < prompt && status == LM_OK; at += rows) {
        uint64_t n = prompt - at < rows ? prompt - at : rows;
        status = add_forward(g, &r, per_key, &(lm_forward){ n, depth + at, 1, at + n == prompt }, sequences,
                             out, e);
    }
    if (!prompt)
        status = add_forward(g, &r, per_key, &(lm_forward){ 1, depth, sequences, sequences }, 1, out, e);
    out->seconds = out->products + out->attention + out->rows + out->waiting;
    lm_free(per_key);
    return status;
}
