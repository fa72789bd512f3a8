/* row_lanes.c - lanes moved, nothing computed: columns, join. */
#include <string.h>

#include "runtime/ops/rowops.h"

/* ---- columns ---- */

static void columns(const lm_rows *r, uint64_t from, uint64_t to)
{
    const lm_node *n      = r->node;
    uint32_t       groups = n->columns.groups;
    uint64_t       group = lm_lanes_of(r, n->in[0]) / groups, width = lm_lanes_of(r, n->out) / groups;

    for (uint64_t i = from; i < to; i++)
        for (uint32_t g = 0; g < groups; g++)
            memcpy(lm_row_of(r->out, i) + g * width, lm_row_of(r->in[0], i) + g * group + n->columns.offset,
                   width * sizeof(float));
}

static void columns_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_node *n      = b->rows.node;
    uint32_t       groups = n->columns.groups;
    uint64_t group = lm_lanes_of(&b->rows, n->in[0]) / groups, width = lm_lanes_of(&b->rows, n->out) / groups;

    (void)scratch;
    for (uint64_t i = from; i < to; i++) {
        if (b->first[0])
            memset(lm_row_of(b->din[0], i), 0, groups * group * sizeof(float));
        for (uint32_t g = 0; g < groups; g++)
            lm_put_gradient(lm_row_of(b->din[0], i) + g * group + n->columns.offset,
                            lm_row_of(b->dout, i) + g * width, 1, width, false);
    }
}

const lm_row_op lm_row_columns = { .forward = columns, .reverse = columns_back };

/* ---- join ---- */

static void join(const lm_rows *r, uint64_t from, uint64_t to)
{
    const lm_node *n      = r->node;
    uint64_t       groups = n->join.groups, first = lm_lanes_of(r, n->in[0]) / groups,
             second = lm_lanes_of(r, n->out) / groups - first;

    for (uint64_t i = from; i < to; i++) {
        const float *x = lm_row_of(r->in[0], i), *y = lm_row_of(r->in[1], i);
        float       *out = lm_row_of(r->out, i);
        for (uint64_t g = 0; g < groups; g++) {
            memcpy(out + g * (first + second), x + g * first, first * sizeof *out);
            memcpy(out + g * (first + second) + first, n->join.shared ? y : y + g * second,
                   second * sizeof *out);
        }
    }
}

static void join_back(const lm_rows_back *b, uint64_t from, uint64_t to, float *scratch)
{
    const lm_node *n      = b->rows.node;
    uint64_t       groups = n->join.groups, first = lm_lanes_of(&b->rows, n->in[0]) / groups,
             second = lm_lanes_of(&b->rows, n->out) / groups - first;
    bool     shared = n->join.shared;

    (void)scratch;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < groups; g++) {
            const float *dy = lm_row_of(b->dout, i) + g * (first + second);
            if (b->din[0].at)
                lm_put_gradient(lm_row_of(b->din[0], i) + g * first, dy, 1, first, b->first[0]);
            if (b->din[1].at)
                lm_put_gradient(lm_row_of(b->din[1], i) + (shared ? 0 : g * second), dy + first, 1, second,
                                b->first[1] && !(shared && g));
        }
}

const lm_row_op lm_row_join = { .forward = join, .reverse = join_back };
