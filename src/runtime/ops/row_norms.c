/* row_norms.c - norms of rows, or of equal parts of a row: rms_norm, layer_norm. */
#include "runtime/ops/rowops.h"

/* The equal parts of a row, and the floats between their weights. */
typedef struct parts {
    uint64_t n, width, next;
} parts;

static parts parts_of(const lm_rows *r)
{
    const lm_node *n     = r->node;
    uint64_t       width = lm_lanes_of(r, n->out) / n->norm.groups;

    return (parts){ n->norm.groups, width, n->norm.own ? width : 0 };
}

/* ---- rms_norm ---- */

static void rms(const lm_rows *r, uint64_t from, uint64_t to)
{
    const float *w = r->weights[0];
    parts        p = parts_of(r);

    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < p.n; g++)
            r->kernels->rms(lm_row_of(r->out, i) + g * p.width, lm_row_of(r->in[0], i) + g * p.width,
                            w ? w + g * p.next : NULL, p.width, r->node->norm.eps);
}

static void rms_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows *r = &b->rows;
    const float   *w = r->weights[0];
    parts          p = parts_of(r);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < p.n; g++)
            b->kernels->rms(lm_row_of(b->din[0], i) + g * p.width, lm_row_of(r->in[0], i) + g * p.width,
                            lm_row_of(b->dout, i) + g * p.width, w ? w + g * p.next : NULL, p.width,
                            r->node->norm.eps, b->first[0]);
}

static void rms_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    const lm_rows *r = &b->rows;
    parts          p = parts_of(r);

    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < p.n; g++)
            b->kernels->rms_weight(b->dw[0] + g * p.next, lm_row_of(r->in[0], i) + g * p.width,
                                   lm_row_of(b->dout, i) + g * p.width, p.width, r->node->norm.eps);
}

const lm_row_op lm_row_rms_norm = { .forward = rms, .reverse = rms_back, .reverse_weights = rms_weights };

/* ---- layer_norm ---- */

static void layer(const lm_rows *r, uint64_t from, uint64_t to)
{
    const float *w = r->weights[0];
    parts        p = parts_of(r);

    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < p.n; g++)
            r->kernels->layer_norm(lm_row_of(r->out, i) + g * p.width, lm_row_of(r->in[0], i) + g * p.width,
                                   w ? w + g * p.next : NULL, r->weights[1], p.width, r->node->norm.eps);
}

static void layer_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_rows *r = &b->rows;
    const float   *w = r->weights[0];
    parts          p = parts_of(r);

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < p.n; g++)
            b->kernels->layer_norm(lm_row_of(b->din[0], i) + g * p.width,
                                   lm_row_of(r->in[0], i) + g * p.width, lm_row_of(b->dout, i) + g * p.width,
                                   w ? w + g * p.next : NULL, p.width, r->node->norm.eps, b->first[0]);
}

static void layer_weights(const lm_rows_back *b, uint64_t from, uint64_t to)
{
    const lm_rows *r  = &b->rows;
    float         *dw = b->dw[0];
    parts          p  = parts_of(r);

    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < p.n; g++)
            b->kernels->layer_norm_weight(dw ? dw + g * p.next : NULL, b->dw[1],
                                          lm_row_of(r->in[0], i) + g * p.width,
                                          lm_row_of(b->dout, i) + g * p.width, p.width, r->node->norm.eps);
}

const lm_row_op lm_row_layer_norm = {
    .forward         = layer,
    .reverse         = layer_back,
    .reverse_weights = layer_weights,
};
