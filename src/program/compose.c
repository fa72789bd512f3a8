/* compose.c - record positions, fused projections, and properties of stored weights. */
#include <string.h>

#include "program/record.h"

lm_value lm_position_embed(lm_builder *b, const char *name, uint32_t rows, uint32_t width, uint32_t offset)
{
    lm_push(b, name, offset ? "%sLearnedPositionalEmbedding" : "Embedding");
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, rows > offset, name, "the table has no row for the first position");
    const char *path      = lm_record_here(b);
    uint32_t    w         = lm_record_weight(b, path, "weight", LM_TABLE, 2, rows, width);
    lm_node    *n         = lm_record_node(b, LM_OP_POSITION, path, width);
    n->weights[0]         = w;
    n->position.offset    = offset;
    lm_value out          = n->out;
    b->p->context_length  = rows - offset;
    b->p->context_is_hard = true;
    lm_pop(b);
    return out;
}

lm_value lm_sinusoid(lm_builder *b, const char *name, uint32_t width, lm_sinusoid_layout layout,
                     uint32_t offset)
{
    lm_push(b, name, "%sSinusoidalPositionalEmbedding");
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, width % 2 == 0, name, "sines and cosines need an even width");
    lm_node *n         = lm_record_node(b, LM_OP_SINUSOID, lm_record_here(b), width);
    n->position.offset = offset;
    n->position.layout = layout;
    lm_value out       = n->out;
    lm_pop(b);
    return out;
}

lm_value lm_columns(lm_builder *b, const char *word, lm_value x, uint32_t groups, uint32_t offset,
                    uint32_t width)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b,
                   groups && lm_record_width(b, x) % groups == 0 &&
                       (uint64_t)offset + width <= lm_record_width(b, x) / groups,
                   word, "takes dimensions that the value does not have");
    if (b->failed)
        return LM_NONE;
    lm_node *n        = lm_record_unary(b, LM_OP_COLUMNS, lm_record_path(b, word), x, groups * width);
    n->columns.groups = groups;
    n->columns.offset = offset;
    return n->out;
}

static lm_value by_number(lm_builder *b, lm_op_code code, const char *word, lm_value x, float number)
{
    if (b->failed)
        return LM_NONE;
    lm_node *n      = lm_record_unary(b, code, lm_record_path(b, word), x, lm_record_width(b, x));
    n->scale.factor = number;
    return n->out;
}

lm_value lm_softcap(lm_builder *b, lm_value x, float cap)
{
    return by_number(b, LM_OP_SOFTCAP, "softcap", x, cap);
}

lm_value lm_clamp(lm_builder *b, lm_value x, float limit)
{
    return by_number(b, LM_OP_CLAMP, "clamp", x, limit);
}

static lm_node *maker(lm_builder *b, lm_value x)
{
    return b->failed || x >= b->p->n_values ? NULL : &b->p->nodes[b->p->values[x].producer];
}

void lm_stored_transposed(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (!n || n->weights[0] == LM_NONE)
        return;
    b->p->weights[n->weights[0]].transposed = true;
    for (uint32_t m = 0; m < b->p->n_modules; m++)
        if (strcmp(b->p->modules[m].path, n->path) == 0)
            b->p->modules[m].class_name = "Conv1D";
}

void lm_stored_minus_one(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[0] != LM_NONE)
        b->p->weights[n->weights[0]].plus_one = true;
}

void lm_with_bias(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[1] == LM_NONE)
        n->weights[1] = lm_record_weight(b, n->path, "bias", LM_VECTOR, 1, lm_record_width(b, x), 1);
}
