/* attend.c - attention and the choice of its keys. Attention is split by tiles of rows, query heads of one
 * key/value head and, if that gives few items, ranges of positions.
 *
 * How the work is divided does not change results: ranges are cut at fixed positions and merged in rising
 * order, in one call or by the worker that finishes the last of them. */
#include <string.h>

#include "kernels/attention_parts.h"
#include "runtime/engine/steps.h"
#include "runtime/ops/chosen.h"

/* Consecutive rows of one sequence, and query heads [first, first + count) of a key/value head. */
typedef struct item {
    uint32_t row, rows, head, first, count;
} item;

static const lm_attention_spec *spec_of(const lm_engine *g, const lm_step *s)
{
    return &g->program->nodes[s->node].attention.spec;
}

static uint32_t position_of(const lm_engine *g, const lm_step *s, uint32_t row)
{
    return g->positions[row_number(g, s->domain, row)];
}

/* Return how many keys, or entries, are visible to row i. */
static uint32_t visible(const lm_engine *g, const lm_step *s, uint32_t i)
{
    uint32_t rate = spec_of(g, s)->rate, n = position_of(g, s, i) + 1;

    return rate ? lm_entries_before(rate, n) : n;
}

/* Return whether keys are chosen for row i: at first, when there are no more than top_k, it sees all. */
static bool is_sparse(const lm_engine *g, const lm_step *s, uint32_t i)
{
    uint32_t top_k = spec_of(g, s)->top_k;

    return top_k && visible(g, s, i) > top_k;
}

/* Return whether the keys that row i sees are collected: chosen ones, or a window and entries. */
static bool is_gathered(const lm_engine *g, const lm_step *s, uint32_t i)
{
    return spec_of(g, s)->rate || is_sparse(g, s, i);
}

/* Return how many rows from row i on can be processed together: the same sequence, consecutive positions, at
 * most LM_TILE; a row whose keys are collected is alone. */
static uint32_t tile_rows(const lm_engine *g, const lm_step *s, uint32_t i, uint32_t n)
{
    uint32_t count = 1;

    if (s->domain == LM_WANTED_ROWS || is_gathered(g, s, i))
        return 1;
    while (count < LM_TILE && i + count < n && g->sequences[i + count] == g->sequences[i] &&
           !is_gathered(g, s, i + count))
        count++;
    return count;
}

static const lm_kv_layer *layer_of(const lm_engine *g, const lm_step *s)
{
    return &g->plan->layers[g->program->nodes[s->node].attention.cache];
}

static bool is_split(const lm_engine *g, const lm_step *s)
{
    uint32_t n = rows_of(g, s->domain), tiles = 0;

    if (n > LM_SPLIT_ROWS || spec_of(g, s)->rate)
        return false;
    for (uint32_t i = 0; i < n; i += tile_rows(g, s, i, n))
        tiles++;
    return lm_attention_splits(spec_of(g, s), tiles, lm_pool_used(g->pool));
}

/* Return the number of ranges that the rows of a tile see. Collected keys are not divided. */
static uint32_t ranges_of(const lm_engine *g, const lm_step *s, uint32_t row, uint32_t rows)
{
    const lm_attention_spec *a = spec_of(g, s);

    if (is_gathered(g, s, row))
        return 1;
    uint32_t position = position_of(g, s, row);

    return (position + rows - 1) / LM_RANGE - lm_first_seen(a->window, a->chunked, position) / LM_RANGE + 1;
}

unsigned lm_attention_chunks(const lm_engine *g, const lm_step *s)
{
    const lm_attention_spec *spec  = spec_of(g, s);
    uint64_t                 items = 0, max = lm_pool_used(g->pool) * LM_MAX_CHUNKS;
    uint32_t                 n = rows_of(g, s->domain), rows;
    bool                     split = is_split(g, s);

    for (uint32_t i = 0; i < n && items < max; i += rows) {
        rows = tile_rows(g, s, i, n);
        items += (uint64_t)lm_attention_items(spec) * (split ? ranges_of(g, s, i, rows) : 1);
    }
    return (unsigned)(items < max ? items : max);
}

void lm_attend_range(const lm_attention_kernels *kernels, const lm_attention_args *a, uint32_t k, uint32_t n,
                     uint8_t *partials, atomic_uint *done)
{
    kernels->run_range(a, lm_first_seen(a->window, a->chunked, a->position) / LM_RANGE + k,
                       partials + k * lm_attention_partial_bytes(a->kv, (uint64_t)a->rows * a->group));
    if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 == n) {
        atomic_store_explicit(done, 0, memory_order_relaxed);
        kernels->merge(a, partials, n);
    }
}

/* ---- chosen keys ---- */

/* The pages of the keys and values that one row sees by one choice: copied to consecutive pages of a worker,
 * or those of the sequence, of which blocks are whole ones. */
typedef struct gathered {
    uint32_t   *pages;                   /* their numbers */
    layer_pages copies;                  /* of this worker */
    uint32_t    row, choice;             /* row LM_NONE: none yet */
    uint32_t    keys;
    uint32_t    page;                    /* of the sequence, and its positions that are yet to be copied */
    uint64_t    slots;
} gathered;

static gathered gathered_at(const stage_chunk *p, const lm_step *s)
{
    const lm_plan_state *at    = &p->g->plan->state;
    const lm_node       *n     = &p->g->program->nodes[s->node];
    uint64_t             keys  = n->attention.spec.rate ? lm_node_keys_at(n, p->g->plan->options.context)
                                                        : n->attention.spec.top_k,
                         count = (keys + LM_PAGE - 1) / LM_PAGE;
    uint8_t             *base  = p->g->slab + at->gathered + p->worker * at->gathered_bytes;

    return (gathered){ .pages  = (uint32_t *)(void *)base,
                       .copies = { .base   = base + ((count * 4 + 63) & ~UINT64_C(63)),
                                   .stride = p->g->plan->attention->page_bytes(&layer_of(p->g, s)->shape) },
                       .row    = LM_NONE };
}

/* Copy the positions of the last page that was added to, behind those copied so far. */
static void copy_slots(const stage_chunk *p, const lm_step *s, layer_pages at, gathered *to)
{
    const uint8_t *page = to->slots ? at.base + at.pages[to->page] * at.stride : NULL;

    while (to->slots) {
        uint32_t slot = to->keys % LM_PAGE, number = to->keys / LM_PAGE;
        uint64_t some = to->slots;
        while (slot + (uint32_t)__builtin_popcountll(some) > LM_PAGE)
            some &= ~(UINT64_C(1) << (63 - __builtin_clzll(some)));
        to->pages[number] = number;
        p->g->plan->attention->copy(&layer_of(p->g, s)->shape, to->copies.base + number * to->copies.stride,
                                    slot, page, some);
        to->keys += (uint32_t)__builtin_popcountll(some);
        to->slots &= ~some;
    }
}

/* Add n positions of a sequence from `first` on, above those added so far; copy_slots ends the last page.
 * Whole blocks begin with a page, and only the last chosen one may end within a page. */
static void add_keys(const stage_chunk *p, const lm_step *s, layer_pages at, uint32_t first, uint32_t n,
                     gathered *to)
{
    if (lm_chooses_pages(spec_of(p->g, s))) {
        for (uint32_t i = 0; i < n; i += LM_PAGE)
            to->pages[(to->keys + i) / LM_PAGE] = at.pages[(first + i) / LM_PAGE];
        to->keys += n;
        return;
    }
    for (uint32_t i = first; i < first + n; i++) {
        if (i / LM_PAGE != to->page)
            copy_slots(p, s, at, to);
        to->page = i / LM_PAGE;
        to->slots |= UINT64_C(1) << i % LM_PAGE;
    }
}

/* Write `held` rows, entries in float32, behind the keys that are collected: into one page. */
static void put_entries(const stage_chunk *p, const lm_step *s, const float *rows, uint32_t held,
                        gathered *to)
{
    const lm_kv_shape *shape = &layer_of(p->g, s)->shape;
    uint32_t           page  = to->keys / LM_PAGE;

    to->pages[page] = page;
    p->g->plan->attention->store(shape, to->copies.base + page * to->copies.stride, to->keys % LM_PAGE, held,
                                 rows, shape->k_dim, NULL, 0);
    to->keys += held;
}

/* Add n entries of a sequence: the first ones, or the chosen ones. Several are stored at a time. */
static void add_entries(const stage_chunk *p, const lm_step *s, uint32_t sequence, const float *chosen,
                        uint32_t n, gathered *to)
{
    const lm_engine   *g    = p->g;
    const lm_kv_layer *l    = &g->plan->layers[g->program->nodes[s->node].attention.entries];
    float             *rows = (float *)(void *)scratch_of(g, p->worker);
    uint32_t           held = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = chosen ? (uint32_t)chosen[i] : i;
        lm_read_entry(g, l, sequence, entry, rows + (uint64_t)held++ * l->shape.k_dim);
        if (held < LM_ENTRY_ROWS && (to->keys + held) % LM_PAGE && i + 1 < n)
            continue;
        put_entries(p, s, rows, held, to);
        held = 0;
    }
}

/* Collect the window of a row, then the entries that it sees, all or the chosen ones. */
static void gather_entries(const stage_chunk *p, const lm_step *s, uint32_t row, gathered *to)
{
    const lm_engine         *g        = p->g;
    const lm_attention_spec *spec     = spec_of(g, s);
    uint32_t                 sequence = g->sequences[row_number(g, s->domain, row)],
             position = position_of(g, s, row), first = lm_first_seen(spec->window, false, position),
             n        = visible(g, s, row);
    layer_pages              at       = pages_of(g, layer_of(g, s), sequence);

    if (to->row == row)
        return;
    to->row  = row;
    to->keys = 0;
    add_keys(p, s, at, first, position + 1 - first, to);
    copy_slots(p, s, at, to);
    add_entries(p, s, sequence, spec->top_k ? floats_at(g, s->in[3], row) : NULL,
                spec->top_k && spec->top_k < n ? spec->top_k : n, to);
}

/* Collect the keys and values that a key/value head sees in a row, in rising order of positions. */
static void gather(const stage_chunk *p, const lm_step *s, uint32_t row, uint32_t kv_head, gathered *to)
{
    const lm_engine         *g      = p->g;
    const lm_attention_spec *spec   = spec_of(g, s);
    uint32_t                 sequence = g->sequences[row_number(g, s->domain, row)];
    layer_pages              at     = pages_of(g, layer_of(g, s), sequence);
    uint32_t                 choice = lm_seen_choice(spec, kv_head), width = lm_choice_width(spec),
             each                   = spec->block ? spec->block : 1, end = position_of(g, s, row) + 1;
    const float             *chosen = floats_at(g, s->in[3], row) + (uint64_t)choice * width;

    if (to->row == row && to->choice == choice)
        return;
    to->row    = row;
    to->choice = choice;
    to->keys   = 0;
    for (uint32_t i = 0; i < width; i++) {
        uint32_t first = (uint32_t)chosen[i] * each;
        add_keys(p, s, at, first, end - first < each ? end - first : each, to);
    }
    copy_slots(p, s, at, to);
}

/* Let a query see the gathered keys: all of them, as if they were the first positions. */
static void see_gathered(const lm_attention_spec *spec, const gathered *from, lm_attention_args *a)
{
    a->position = from->keys - 1;
    a->window   = 0;
    a->pages    = from->pages;
    if (lm_chooses_pages(spec))
        return;
    a->base        = from->copies.base;
    a->page_stride = from->copies.stride;
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
        .chunked     = spec->chunked,
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

/* Deal items to chunks round-robin, because later rows of a prompt see more keys. The chosen keys of a row
 * are collected once if there are enough rows for all workers. */
void lm_run_attention(const stage_chunk *p, const lm_step *s)
{
    const lm_attention_kernels *kernels = p->g->plan->attention;
    const lm_attention_spec    *spec    = spec_of(p->g, s);
    uint32_t n = rows_of(p->g, s->domain), group = spec->n_heads / spec->n_kv_heads, number = 0;
    bool                        split   = is_split(p->g, s), collected;
    uint64_t                    turn    = 0;
    item                        x       = { 0 };
    gathered                    keys    = gathered_at(p, s);

    for (; x.row < n; x.row += x.rows) {
        collected       = is_gathered(p->g, s, x.row);
        x.rows          = tile_rows(p->g, s, x.row, n);
        uint32_t ranges = split ? ranges_of(p->g, s, x.row, x.rows) : 1;
        for (x.head = 0; x.head < spec->n_kv_heads; x.head++) {
            for (x.first = 0; x.first < group; x.first += LM_QUERY_HEADS, number++) {
                x.count = group - x.first < LM_QUERY_HEADS ? group - x.first : LM_QUERY_HEADS;
                for (uint32_t k = 0; k < ranges; k++) {
                    if ((collected && n > LM_SPLIT_ROWS ? x.row : turn++) % p->count != p->index)
                        continue;
                    lm_attention_args a = args_of(p, s, &x);
                    if (collected) {
                        if (spec->rate)
                            gather_entries(p, s, x.row, &keys);
                        else
                            gather(p, s, x.row, x.head, &keys);
                        see_gathered(spec, &keys, &a);
                    }
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

/* ---- the choice of keys (program/builder.h, lm_select_keys) ----
 *
 * Rows are divided among workers; if there are few, ranges of positions too. Neither changes results: a score
 * depends on its query and its key alone. */

static bool choice_is_split(const lm_engine *g, const lm_step *s)
{
    uint32_t n = rows_of(g, s->domain), max = lm_unsplit_items(lm_pool_used(g->pool));

    return n <= LM_SPLIT_ROWS && n <= max;
}

static uint32_t ranges_scored(const lm_engine *g, const lm_step *s, uint32_t row)
{
    return is_sparse(g, s, row) ? (visible(g, s, row) - 1) / LM_RANGE + 1 : 1;
}

unsigned lm_select_chunks(const lm_engine *g, const lm_step *s)
{
    uint64_t items = 0, max = lm_pool_used(g->pool) * LM_MAX_CHUNKS;
    uint32_t n     = rows_of(g, s->domain);
    bool     split = choice_is_split(g, s);

    for (uint32_t i = 0; i < n && items < max; i++)
        items += split ? ranges_scored(g, s, i) : 1;
    return (unsigned)(items < max ? items : max);
}

static float *scores_of(const lm_engine *g, uint32_t i)
{
    return (float *)(void *)(g->slab + g->plan->state.scores + i * g->plan->state.score_bytes);
}

/* Return the scores of one choice of a row. */
static uint64_t scores_each(const lm_engine *g)
{
    return ((uint64_t)g->plan->options.context + LM_PAGE - 1) / LM_PAGE * LM_PAGE;
}

/* Write the entries of a sequence from number `from`, up to LM_PAGE of them and up to number `to`, as the
 * keys of a page. rows: of as many entries. */
static void page_of_entries(const lm_engine *g, const lm_kv_layer *l, uint32_t sequence, uint32_t from,
                            uint32_t to, float *rows, uint8_t *page)
{
    uint32_t n = to - from < LM_PAGE ? to - from : LM_PAGE;

    for (uint32_t i = 0; i < n; i++)
        lm_read_entry(g, l, sequence, from + i, rows + (uint64_t)i * l->shape.k_dim);
    g->plan->attention->store(&l->shape, page, 0, n, rows, l->shape.k_dim, NULL, 0);
}

/* Score the keys of the pages from position `from` up to `to`: together, or for the choice of each head. */
static void score(const stage_chunk *p, const lm_step *s, uint32_t row, uint32_t from, uint32_t to,
                  float *scores)
{
    const lm_engine         *g     = p->g;
    const lm_attention_spec *spec  = spec_of(g, s);
    const lm_kv_layer       *l     = &g->plan->layers[g->program->nodes[s->node].attention.cache];
    layer_pages              at    = pages_of(g, l, g->sequences[row_number(g, s->domain, row)]);
    const float             *q     = floats_at(g, s->in[0], row);
    const float             *w     = s->in[2] == LM_NONE ? NULL : floats_at(g, s->in[2], row);
    uint8_t                 *copy  = scratch_of(g, p->worker);
    float *page = (float *)(void *)(copy + (spec->rate ? g->plan->attention->page_bytes(&l->shape) : 0));
    uint32_t                 lanes = lm_hadamard_of_keys(&l->shape), width = spec->n_heads * spec->k_dim;

    if (lanes) {
        float *turned = page + (uint64_t)LM_PAGE * spec->k_dim;
        memcpy(turned, q, width * sizeof *q);
        hadamard(turned, width, lanes);
        q = turned;
    }
    for (uint32_t i = from; i < to; i += LM_PAGE) {
        const uint8_t *keys = copy;
        if (spec->rate)
            page_of_entries(g, l, g->sequences[row_number(g, s->domain, row)], i, to, page, copy);
        else
            keys = at.base + at.pages[i / LM_PAGE] * at.stride;
        g->plan->attention->index(&l->shape, keys, q, w, spec->n_heads, page, scores + i, scores_each(g));
    }
}

/* Choose by the scores of a row; the scale is positive and changes no order. */
static void choose(const lm_engine *g, const lm_step *s, uint32_t row, float *scores)
{
    const lm_attention_spec *spec  = spec_of(g, s);
    uint32_t                 width = lm_choice_width(spec);
    float                   *out   = floats_at(g, s->out, row);

    for (uint32_t c = 0; c * width < lm_chosen_width(spec); c++)
        lm_choose_keys(spec, scores + c * scores_each(g), visible(g, s, row), out + (uint64_t)c * width);
}

static void score_range(const stage_chunk *p, const lm_step *s, uint32_t row, uint32_t range, uint32_t ranges)
{
    uint32_t     end  = visible(p->g, s, row), from = range * LM_RANGE;
    atomic_uint *done = &p->g->ranges_done[row];

    score(p, s, row, from, from + LM_RANGE < end ? from + LM_RANGE : end, scores_of(p->g, row));
    if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 == ranges) {
        atomic_store_explicit(done, 0, memory_order_relaxed);
        choose(p->g, s, row, scores_of(p->g, row));
    }
}

void lm_run_select(const stage_chunk *p, const lm_step *s)
{
    uint32_t n     = rows_of(p->g, s->domain);
    bool     split = choice_is_split(p->g, s);
    uint64_t turn  = 0;

    for (uint32_t row = 0; row < n; row++) {
        uint32_t ranges = split ? ranges_scored(p->g, s, row) : 1;
        for (uint32_t k = 0; k < ranges; k++) {
            if (turn++ % p->count != p->index)
                continue;
            if (split && is_sparse(p->g, s, row)) {
                score_range(p, s, row, k, ranges);
                continue;
            }
            float *scores = scores_of(p->g, p->worker);
            if (is_sparse(p->g, s, row))
                score(p, s, row, 0, visible(p->g, s, row), scores);
            choose(p->g, s, row, scores);
        }
    }
}
