/* row_positions.c - functions of a row's position: sinusoid, rope, temperature. */
#include <math.h>
#include <string.h>

#include "runtime/ops/rowops.h"

static void sinusoid(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        lm_sinusoid_row(r->node->position.layout,
                        r->positions[lm_row_number(r, i)] + r->node->position.offset,
                        (uint32_t)lm_lanes_of(r, r->node->out), lm_row_of(r->out, i));
}

const lm_row_op lm_row_sinusoid = { .forward = sinusoid };

/* ---- rope ---- */

/* Return how many lanes of a head precede those that rotate. */
static uint32_t still_lanes(const lm_node *n, const lm_rope_spec *s)
{
    return s->last ? n->rope.head_dim - s->dim : 0;
}

static void rope(const lm_rows *r, uint64_t from, uint64_t to)
{
    const lm_node      *n = r->node;
    const lm_rope_spec *s = &r->program->ropes[n->rope.table].spec;
    uint64_t            w = lm_lanes_of(r, n->out);

    for (uint64_t i = from; i < to; i++) {
        float       *x      = lm_row_of(r->out, i);
        const float *cosine = lm_row_of(r->rotation, lm_row_number(r, i));
        if (r->out.at != r->in[0].at)
            memcpy(x, lm_row_of(r->in[0], i), w * sizeof *x);
        r->kernels->rope(x + still_lanes(n, s), n->rope.n_heads, n->rope.head_dim, s->dim, cosine,
                         cosine + s->dim / 2, s->pairing == LM_ROPE_PAIR);
    }
}

/* Rotate with the sine negated. The magnitude is a factor in both directions: this is the transpose, not the
 * inverse. */
static void rope_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows      *r    = &b->rows;
    const lm_node      *n    = r->node;
    const lm_rope_spec *s    = &r->program->ropes[n->rope.table].spec;
    uint32_t            half = s->dim / 2;
    uint64_t            w    = lm_lanes_of(r, n->out);
    float              *sine = scratch, *x = scratch + w;

    for (uint64_t i = from; i < to; i++) {
        const float *cosine = lm_row_of(r->rotation, lm_row_number(r, i));
        for (uint32_t k = 0; k < half; k++)
            sine[k] = -cosine[half + k];
        memcpy(x, lm_row_of(b->dout, i), w * sizeof *x);
        r->kernels->rope(x + still_lanes(n, s), n->rope.n_heads, n->rope.head_dim, s->dim, cosine, sine,
                         s->pairing == LM_ROPE_PAIR);
        lm_put_gradient(lm_row_of(b->din[0], i), x, 1, w, b->first[0]);
    }
}

const lm_row_op lm_row_rope = { .forward = rope, .reverse = rope_back, .scratch_rows = 2 };

/* ---- temperature ---- */

static float temperature_of(const lm_rows *r, uint64_t i)
{
    const lm_temperature_spec *t = &r->node->temperature.spec;
    uint64_t steps = ((uint64_t)r->positions[lm_row_number(r, i)] + t->offset) / t->length;

    return 1 + t->beta * logf(1 + (float)steps);
}

static void temperature(const lm_rows *r, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        r->kernels->scale(lm_row_of(r->out, i), lm_row_of(r->in[0], i), temperature_of(r, i),
                          lm_lanes_of(r, r->node->out));
}

static void temperature_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        lm_put_gradient(lm_row_of(b->din[0], i), lm_row_of(b->dout, i), temperature_of(&b->rows, i),
                        lm_lanes_of(&b->rows, b->rows.node->out), b->first[0]);
}

const lm_row_op lm_row_temperature = { .forward = temperature, .reverse = temperature_back };
