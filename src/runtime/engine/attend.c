/* attend.c - attention, split by tiles of rows, query heads of one key/value head and, if that gives few
 * items, ranges of positions.
 *
 * How the work is divided does not change results: ranges are cut at fixed positions and merged in rising
 * order, in one call or by the worker that finishes the last of them. */
#include "runtime/engine/steps.h"

/* Consecutive rows of one sequence, and query heads [first, first + count) of a key/value head. */
typedef struct item {
    uint32_t row, rows, head, first, count;
} item;

/* Return how many rows from row i on can be processed together: the same sequence, consecutive positions, at
 * most LM_TILE. */
static uint32_t tile_rows(const lm_engine *g, lm_domain domain, uint32_t i, uint32_t n)
{
    uint32_t count = 1;

    if (domain == LM_WANTED_ROWS)
        return 1;
    while (count < LM_TILE && i + count < n && g->sequences[i + count] == g->sequences[i])
        count++;
    return count;
}

static const lm_attention_spec *spec_of(const lm_engine *g, const lm_step *s)
{
    return &g->program->nodes[s->node].attention.spec;
}

static const lm_kv_layer *layer_of(const lm_engine *g, const lm_step *s)
{
    return &g->plan->layers[g->program->nodes[s->node].attention.cache];
}

static bool is_split(const lm_engine *g, const lm_step *s)
{
    uint32_t n = rows_of(g, s->domain), tiles = 0;

    if (n > LM_SPLIT_ROWS)
        return false;
    for (uint32_t i = 0; i < n; i += tile_rows(g, s->domain, i, n))
        tiles++;
    return lm_attention_splits(spec_of(g, s), tiles, lm_pool_used(g->pool));
}

/* Return the number of ranges that the rows of a tile see. */
static uint32_t ranges_of(const lm_engine *g, const lm_step *s, uint32_t row, uint32_t rows)
{
    uint32_t position = g->positions[row_number(g, s->domain, row)];

    return (position + rows - 1) / LM_RANGE - lm_first_seen(spec_of(g, s)->window, position) / LM_RANGE + 1;
}

unsigned lm_attention_chunks(const lm_engine *g, const lm_step *s)
{
    const lm_attention_spec *spec  = spec_of(g, s);
    uint64_t                 items = 0, max = lm_pool_used(g->pool) * LM_MAX_CHUNKS;
    uint32_t                 n = rows_of(g, s->domain), rows;
    bool                     split = is_split(g, s);

    for (uint32_t i = 0; i < n && items < max; i += rows) {
        rows = tile_rows(g, s->domain, i, n);
        items += (uint64_t)lm_attention_items(spec) * (split ? ranges_of(g, s, i, rows) : 1);
    }
    return (unsigned)(items < max ? items : max);
}

void lm_attend_range(const lm_attention_kernels *kernels, const lm_attention_args *a, uint32_t k, uint32_t n,
                     uint8_t *partials, atomic_uint *done)
{
    kernels->run_range(a, lm_first_seen(a->window, a->position) / LM_RANGE + k,
                       partials + k * lm_attention_partial_bytes(a->kv, (uint64_t)a->rows * a->group));
    if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 == n) {
        atomic_store_explicit(done, 0, memory_order_relaxed);
        kernels->merge(a, partials, n);
    }
}

static lm_attention_args args_of(const stage_chunk *p, const lm_step *s, const item *x)
{
    lm_engine               *g      = p->g;
    const lm_node           *n      = &g->program->nodes[s->node];
    const lm_attention_spec *spec   = spec_of(g, s);
    const float             *sinks  = weight_of(g, n, 0);
    const float             *slopes = g->slopes[n->attention.cache];
    uint32_t row = row_number(g, s->domain, x->row),
             query = x->head * (spec->n_heads / spec->n_kv_heads) + x->first;
    layer_pages              at = pages_of(g, layer_of(g, s), g->sequences[row]);

    return (lm_attention_args){
        .kv          = &layer_of(g, s)->shape,
        .head        = x->head,
        .group       = x->count,
        .q           = floats_at(g, s->in[0], x->row) + (uint64_t)query * spec->k_dim,
        .q_stride    = g->plan->buffers[s->in[0]].stride / sizeof(float),
        .out         = floats_at(g, s->out, x->row) + (uint64_t)query * spec->v_dim,
        .out_stride  = g->plan->buffers[s->out].stride / sizeof(float),
        .rows        = x->rows,
        .position    = g->positions[row],
        .window      = spec->window,
        .pages       = at.pages,
        .base        = at.base,
        .page_stride = at.stride,
        .scale       = spec->scale,
        .softcap     = spec->softcap,
        .slopes      = slopes ? slopes + query : NULL,
        .slopes_half = spec->alibi_half,
        .sinks       = sinks ? sinks + query : NULL,
        .scratch     = scratch_of(g, p->worker),
    };
}

/* Return the address of the partials of an item. */
static uint8_t *partials_of(const lm_engine *g, const lm_step *s, const item *x)
{
    const lm_attention_spec *spec = spec_of(g, s);
    const lm_kv_layer       *l    = layer_of(g, s);
    uint64_t first = (uint64_t)x->row * spec->n_heads +
                     (uint64_t)x->rows * (x->head * (spec->n_heads / spec->n_kv_heads) + x->first);

    return g->slab + g->plan->state.partials + lm_attention_partial_bytes(&l->shape, first) * l->ranges;
}

/* Deal items to chunks round-robin, because later rows of a prompt see more keys. */
void lm_run_attention(const stage_chunk *p, const lm_step *s)
{
    const lm_attention_kernels *kernels = p->g->plan->attention;
    const lm_attention_spec    *spec    = spec_of(p->g, s);
    uint32_t n = rows_of(p->g, s->domain), group = spec->n_heads / spec->n_kv_heads, number = 0;
    bool                        split   = is_split(p->g, s);
    uint64_t                    turn    = 0;
    item                        x       = { 0 };

    for (; x.row < n; x.row += x.rows) {
        x.rows          = tile_rows(p->g, s->domain, x.row, n);
        uint32_t ranges = split ? ranges_of(p->g, s, x.row, x.rows) : 1;
        for (x.head = 0; x.head < spec->n_kv_heads; x.head++) {
            for (x.first = 0; x.first < group; x.first += LM_QUERY_HEADS, number++) {
                x.count = group - x.first < LM_QUERY_HEADS ? group - x.first : LM_QUERY_HEADS;
                for (uint32_t k = 0; k < ranges; k++) {
                    if (turn++ % p->count != p->index)
                        continue;
                    lm_attention_args a = args_of(p, s, &x);
                    if (ranges > 1)
                        lm_attend_range(kernels, &a, k, ranges, partials_of(p->g, s, &x),
                                        &p->g->ranges_done[number]);
                    else
                        kernels->run(&a);
                }
            }
        }
    }
}
