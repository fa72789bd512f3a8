/* states.c - operations with a state per sequence, and the entries that compressed attention keeps. Workers
 * divide the state; each processes all rows in order, so a sequence's results do not depend on how the work
 * is divided. */
#include <string.h>

#include "runtime/engine/kv.h"
#include "runtime/engine/save.h"
#include "runtime/engine/steps.h"
#include "runtime/ops/compressed.h"
#include "runtime/ops/rowops.h"

enum { CONV_LANES = 64 };                /* unit in which the lanes of a convolution are divided */

/* Return how many rows from row i on are consecutive ones of one sequence. */
static uint64_t run_length(const lm_engine *g, uint64_t i)
{
    uint64_t n = 1;

    while (i + n < g->n_rows && g->sequences[i + n] == g->sequences[i])
        n++;
    return n;
}

/* Return the state before row i, NULL for zeros. A later run of a sequence continues from `next`, which an
 * earlier one has written. */
static const float *state_before(const lm_engine *g, uint32_t state, uint64_t i, const float *next)
{
    uint32_t sequence = g->sequences[i];

    return g->positions[i] == g->seq_length[sequence] ? lm_kv_state(g, state, sequence) : next;
}

static uint64_t stride_of(const lm_engine *g, uint32_t buffer)
{
    return g->plan->buffers[buffer].stride / sizeof(float);
}

/* ---- causal_conv ---- */

static void convolve(const stage_chunk *p, const lm_step *s, uint64_t first, uint64_t last)
{
    const lm_engine   *g     = p->g;
    const lm_node     *n     = &g->program->nodes[s->node];
    uint64_t           lanes = width_of(g, n->out), rows;

    for (uint64_t i = 0; i < g->n_rows; i += rows) {
        float *next = lm_kv_next_state(g, n->conv.state, g->sequences[i]);
        rows        = run_length(g, i);
        g->kernels.row.convolve(&(lm_conv_args){
            .before   = state_before(g, n->conv.state, i, next),
            .after    = next,
            .x        = floats_at(g, s->in[0], i),
            .x_stride = stride_of(g, s->in[0]),
            .y        = floats_at(g, s->out, i),
            .y_stride = stride_of(g, s->out),
            .w        = weight_of(g, n, 0),
            .bias     = weight_of(g, n, 1),
            .lanes    = lanes,
            .first    = first,
            .last     = last,
            .rows     = rows,
            .taps     = n->conv.taps,
        });
    }
}

/* ---- linear_recurrence, selective_scan, gated_recurrence ---- */

static void recur(const stage_chunk *p, const lm_step *s, uint64_t first, uint64_t last)
{
    const lm_engine     *g    = p->g;
    const lm_node       *n    = &g->program->nodes[s->node];
    const lm_recurrence *r    = &n->recurrence.spec;
    size_t               each = (size_t)r->k_dim * LM_STATE_COLUMNS;
    lm_operand           in[5] = { { 0 } }, out = { floats_at(g, s->out, 0), stride_of(g, s->out) };
    lm_recurrence_args   a;

    for (uint32_t k = 0; k < n->n_in; k++)
        in[k] = (lm_operand){ floats_at(g, s->in[k], 0), stride_of(g, s->in[k]) };
    for (uint64_t i = 0; i < g->n_rows; i += a.rows) {
        float       *next   = lm_kv_next_state(g, n->recurrence.state, g->sequences[i]);
        const float *before = state_before(g, n->recurrence.state, i, next);
        a.rows              = run_length(g, i);
        a.at_start          = g->positions[i] == 0;
        for (uint64_t unit = first; unit < last; unit++) {
            a.state = next + unit * each;
            if (!before)
                memset(a.state, 0, each * sizeof *a.state);
            else if (before != next)
                memcpy(a.state, before + unit * each, each * sizeof *a.state);
            lm_recurrence_block(r, unit, in, out, weight_of(g, n, 0), i, &a);
            g->kernels.row.recur(&a);
        }
    }
}

/* ---- compress ---- */

static void compress(const stage_chunk *p, const lm_step *s, uint64_t first, uint64_t last)
{
    const lm_engine *g    = p->g;
    const lm_node   *n    = &g->program->nodes[s->node];

    for (uint64_t i = 0; i < g->n_rows; i++) {
        float       *next   = lm_kv_next_state(g, n->compress.state, g->sequences[i]);
        const float *before = state_before(g, n->compress.state, i, next);
        if (before != next)
            lm_compress_carry(n, before, next, width_of(g, n->out), first, last);
        lm_compress_row(n, g->positions[i], floats_at(g, s->in[0], i), floats_at(g, s->in[1], i),
                        weight_of(g, n, 0), next, floats_at(g, s->out, i), width_of(g, n->out), first, last);
    }
}

/* ---- all ---- */

static bool is_by_lanes(const lm_node *n)
{
    return n->code == LM_OP_CAUSAL_CONV || n->code == LM_OP_COMPRESS;
}

static uint64_t grain_of(const lm_node *n)
{
    return is_by_lanes(n) ? CONV_LANES : 1;
}

/* Return the number of lanes, or of blocks of the state. */
static uint64_t parts_of(const lm_engine *g, const lm_node *n)
{
    return is_by_lanes(n)
               ? width_of(g, n->out)
               : (uint64_t)n->recurrence.spec.n_heads * lm_recurrence_blocks(&n->recurrence.spec);
}

uint64_t lm_state_units(const lm_engine *g, const lm_step *s)
{
    const lm_node *n = &g->program->nodes[s->node];

    return (parts_of(g, n) + grain_of(n) - 1) / grain_of(n);
}

void lm_run_state(const stage_chunk *p, const lm_step *s)
{
    const lm_node *n = &p->g->program->nodes[s->node];
    uint64_t       from, to;

    lm_chunk_outputs(lm_pool_used(p->g->pool), parts_of(p->g, n), grain_of(n), p->index, p->count, &from,
                     &to);
    if (from < to)
        (n->code == LM_OP_CAUSAL_CONV ? convolve
         : n->code == LM_OP_COMPRESS  ? compress
                                      : recur)(p, s, from, to);
}

/* ---- entries: one for each whole block, a row of its type in the page of the block's last position ---- */

static uint64_t row_bytes(const lm_kv_layer *l)
{
    return lm_elements_bytes(l->shape.k_dim, l->shape.k_type);
}

/* Return the address of the entry of the block that ends at `position`. */
static uint8_t *entry_at(const lm_engine *g, const lm_kv_layer *l, uint32_t sequence, uint32_t position)
{
    layer_pages at   = pages_of(g, l, sequence);
    uint32_t    page = position / LM_PAGE,
             slot = lm_entries_before(l->rate, position) - lm_entries_before(l->rate, page * LM_PAGE);

    return at.base + at.pages[page] * at.stride + slot * row_bytes(l);
}

void lm_read_entry(const lm_engine *g, const lm_kv_layer *l, uint32_t sequence, uint32_t entry, float *out)
{
    uint32_t last = (entry + 1) * l->rate - 1;

    lm_dtype_of(l->shape.k_type)->unpack(out, entry_at(g, l, sequence, last), l->shape.k_dim);
}

void lm_run_keep(const stage_chunk *p, const lm_step *s, uint64_t from, uint64_t to)
{
    const lm_engine   *g = p->g;
    const lm_node     *n = &g->program->nodes[s->node];
    const lm_kv_layer
        *l = &g->plan->layers[n->code == LM_OP_ATTENTION ? n->attention.entries : n->attention.cache];

    for (uint64_t i = from; i < to; i++)
        if ((g->positions[i] + 1) % l->rate == 0)
            lm_dtype_of(l->shape.k_type)
                ->pack(entry_at(g, l, g->sequences[i], g->positions[i]), floats_at(g, s->in[0], i),
                       l->shape.k_dim);
}

void lm_clear_entries(const lm_kv_layer *l, uint8_t *part, uint32_t page, uint32_t slot)
{
    uint32_t before = lm_entries_before(l->rate, page * LM_PAGE),
             kept   = lm_entries_before(l->rate, page * LM_PAGE + slot) - before;

    memset(part + kept * row_bytes(l), 0, (lm_entry_slots(l->rate) - kept) * row_bytes(l));
}
