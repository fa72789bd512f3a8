/* states.c - operations with a state per sequence. Workers divide the lanes; each processes all rows in
 * order, so a sequence's results do not depend on how the work is divided. */
#include "runtime/engine/kv.h"
#include "runtime/engine/steps.h"

/* Return how many rows from row i on are consecutive ones of one sequence. */
static uint64_t run_length(const lm_engine *g, uint64_t i)
{
    uint64_t n = 1;

    while (i + n < g->n_rows && g->sequences[i + n] == g->sequences[i])
        n++;
    return n;
}

static void convolve(const stage_chunk *p, const lm_step *s, uint64_t first, uint64_t last)
{
    const lm_engine   *g     = p->g;
    const lm_node     *n     = &g->program->nodes[s->node];
    uint64_t           lanes = width_of(g, n->out), rows;

    for (uint64_t i = 0; i < g->n_rows; i += rows) {
        uint32_t sequence = g->sequences[i];
        float   *next     = lm_kv_next_state(g, n->conv.state, sequence);
        rows              = run_length(g, i);
        lm_convolve_rows(&(lm_conv_args){
            /* a later run of a sequence continues from what an earlier one has written */
            .before   = g->positions[i] == g->seq_length[sequence]
                            ? lm_kv_state(g, n->conv.state, sequence) : next,
            .after    = next,
            .x        = floats_at(g, s->in[0], i),
            .x_stride = g->plan->buffers[s->in[0]].stride / sizeof(float),
            .y        = floats_at(g, s->out, i),
            .y_stride = g->plan->buffers[s->out].stride / sizeof(float),
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

void lm_run_state(const stage_chunk *p, const lm_step *s)
{
    uint64_t from, to;

    lm_chunk_outputs(lm_pool_used(p->g->pool), width_of(p->g, p->g->program->nodes[s->node].out),
                     LM_STATE_LANES, p->index, p->count, &from, &to);
    if (from < to)
        convolve(p, s, from, to);
}
