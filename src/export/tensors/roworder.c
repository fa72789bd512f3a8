/* roworder.c - row order: lanes in pairs, queries before keys before values. */
#include "export/tensors/roworder.h"

#include <string.h>

#include "base/alloc.h"
#include "program/op.h"

/* Return the operation that makes the lanes of `v`: the one before those that change single lanes, such as a
 * clamp. */
static const lm_node *maker_of_lanes(const lm_program *p, lm_value v)
{
    const lm_node *n = &p->nodes[p->values[v].producer];

    while (n->n_in == 1 && n->code != LM_OP_LINEAR && lm_op_of(n->code)->lanewise)
        n = &p->nodes[p->values[n->in[0]].producer];
    return n;
}

/* Return the head size if the weight produces queries or keys of a layer without rotation, which are stored
 * like those of layers with rotation. */
static uint32_t head_of_unrotated(const lm_program *p, const lm_node *n, uint32_t weight)
{
    for (uint32_t i = 0; n->code == LM_OP_ATTENTION && i < 2 && i < n->n_in; i++) {
        const lm_node *from = maker_of_lanes(p, n->in[i]);
        if (from->code == LM_OP_LINEAR && (from->weights[0] == weight || from->weights[1] == weight))
            return n->attention.spec.k_dim;
    }
    return 0;
}

lm_row_order lm_row_order_of(const lm_program *p, uint32_t weight, const lm_config *c,
                             const lm_config *stored)
{
    lm_row_order o = { 0 };

    if (stored->gguf_layout && !c->gguf_layout)
        o.layout = p->weights[weight].layout;
    for (uint32_t k = 0; k < p->n_nodes; k++) {
        const lm_node *n = &p->nodes[k], *from = n->n_in ? maker_of_lanes(p, n->in[0]) : n;
        if (stored->rope.permuted && head_of_unrotated(p, n, weight))
            o.head = head_of_unrotated(p, n, weight);
        if (from->code != LM_OP_LINEAR || (from->weights[0] != weight && from->weights[1] != weight))
            continue;
        if (n->code == LM_OP_ROPE && stored->rope.permuted)
            o.head = n->rope.head_dim;
        if (n->code == LM_OP_COLUMNS && c->qkv_groups > 1 && n->columns.groups == c->qkv_groups &&
            stored->qkv_groups == 1) {
            o.groups = c->qkv_groups;
            o.q      = (uint64_t)c->n_heads * c->head_dim / o.groups;
            o.kv     = (uint64_t)c->n_kv_heads * c->head_dim / o.groups;
        }
    }
    return o;
}

static uint64_t paired(uint64_t r, uint32_t head)
{
    uint64_t lane = r % head;

    return r - lane + lane % 2 * (head / 2) + lane / 2;
}

static uint64_t halved(uint64_t r, uint32_t head)
{
    uint64_t lane = r % head, half = head / 2;

    return r - lane + (lane < half ? 2 * lane : 2 * (lane - half) + 1);
}

static uint64_t grouped(const lm_row_order *o, uint64_t r)
{
    uint64_t group = o->q + 2 * o->kv, width = o->q, before = 0;

    if (r >= o->groups * o->q) {
        bool value = r >= o->groups * (o->q + o->kv);
        width      = o->kv;
        before     = o->q + (value ? o->kv : 0);
        r -= o->groups * before;
    }
    return r / width * group + before + r % width;
}

static uint64_t ungrouped(const lm_row_order *o, uint64_t r)
{
    uint64_t group = o->q + 2 * o->kv, g = r / group, in = r % group;

    if (in < o->q)
        return g * o->q + in;
    if (in < o->q + o->kv)
        return o->groups * o->q + g * o->kv + in - o->q;
    return o->groups * (o->q + o->kv) + g * o->kv + in - o->q - o->kv;
}

uint64_t lm_row_of_checkpoint(const lm_row_order *o, uint64_t r)
{
    if (o->layout && !o->layout->columns)
        return lm_gguf_layout_from(o->layout, r);
    return o->head ? paired(r, o->head) : o->groups ? grouped(o, r) : r;
}

uint64_t lm_row_of_gguf(const lm_row_order *o, uint64_t r)
{
    if (o->layout && !o->layout->columns)
        return lm_gguf_layout_to(o->layout, r);
    return o->head ? halved(r, o->head) : o->groups ? ungrouped(o, r) : r;
}

lm_status lm_order_columns(const lm_row_order *o, bool to_gguf, void *rows, uint64_t n, uint64_t cols,
                           size_t size, lm_error *e)
{
    if (!o->layout || !o->layout->columns)
        return LM_OK;
    uint8_t *copy = lm_alloc(cols * size), *row = rows;
    if (!copy)
        return lm_fail_memory(e, "a row", cols * size);
    for (uint64_t i = 0; i < n; i++, row += cols * size) {
        memcpy(copy, row, cols * size);
        for (uint64_t c = 0; c < cols; c++) {
            uint64_t k = to_gguf ? lm_gguf_layout_from(o->layout, c) : lm_gguf_layout_to(o->layout, c);
            memcpy(row + c * size, copy + k * size, size);
        }
    }
    lm_free(copy);
    return LM_OK;
}
