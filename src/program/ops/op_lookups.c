/* op_lookups.c - rows of tables by token or position: embed, position, sinusoid. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- embed: ids -> [T][D], rows of a table ---- */

lm_value lm_embed_scaled(lm_builder *b, const char *name, const char *scaled_class, uint32_t rows,
                         uint32_t width, float factor)
{
    lm_push(b, name, factor == 1 ? "Embedding" : scaled_class);
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_TABLE, 2, rows, width);
    lm_node    *n    = lm_record_node(b, LM_OP_EMBED, factor == 1 ? path : lm_record_path(b, "row"), width);
    n->weights[0]    = w;
    lm_value out     = lm_scale(b, n->out, factor);
    lm_pop(b);
    return out;
}

lm_value lm_embedding(lm_builder *b, const char *name, uint32_t rows, uint32_t width)
{
    return lm_embed_scaled(b, name, "", rows, width, 1);
}

/* a look-up reads one row of the table and multiplies nothing */
static void embed_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->weight_elements = lm_width_out(p, n);
    c->writes          = lm_width_out(p, n);
}

static void embed_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, _("row of %" PRIu64 " × %" PRIu64), p->weights[n->weights[0]].dims[0],
                   p->weights[n->weights[0]].dims[1]);
}

const lm_op lm_op_embed = {
    .name           = "embed",
    .weights        = { "weight" },
    .cost           = embed_cost,
    .describe       = embed_describe,
    .formula        = "E[token]",
    .work           = "embedding",
    .trains_weights = 1,
};

/* ---- position, sinusoid: positions -> [T][D] ---- */

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

void lm_sinusoid_row(lm_sinusoid_layout layout, uint32_t position, uint32_t width, float *out)
{
    uint32_t half = width / 2;

    for (uint32_t i = 0; i < half; i++) {
        double inv = layout == LM_SINUSOID_SPREAD ? exp(-log(10000) * i / (half > 1 ? half - 1.0 : 1.0))
                                                  : pow(10000, -2.0 * i / width);
        float  angle = (float)position * (float)inv;
        out[layout == LM_SINUSOID_PAIRS ? 2 * i : i]            = sinf(angle);
        out[layout == LM_SINUSOID_PAIRS ? 2 * i + 1 : half + i] = cosf(angle);
    }
}

/* two functions per pair of lanes */
static void sinusoid_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 2 * lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

static void position_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    if (n->code == LM_OP_POSITION)
        lm_text_printf(out, _("row of %" PRIu64 " × %" PRIu64 " by position"),
                       p->weights[n->weights[0]].dims[0], p->weights[n->weights[0]].dims[1]);
    else
        lm_text_add_str(out, _("sines and cosines of the position"));
    if (n->position.offset)
        lm_text_printf(out, " + %u", n->position.offset);
}

static const lm_op_number position_numbers[] = {
    LM_NODE_NUMBER(U32, position.offset, NULL),
    LM_NODE_NUMBER(U32, position.layout, NULL),
    { 0 }
};

const lm_op lm_op_position = {
    .name           = "position",
    .weights        = { "weight" },
    .numbers        = position_numbers,
    .cost           = embed_cost,
    .describe       = position_describe,
    .formula        = "P[position]",
    .work           = "embedding",
    .trains_weights = 1,
};

const lm_op lm_op_sinusoid = {
    .name       = "sinusoid",
    .numbers    = position_numbers,
    .cost       = sinusoid_cost,
    .describe   = position_describe,
    .formula    = "sin, cos(position / 10000^(2i/D))",
    .expression = "sinusoid(T, {width}, {offset})",
    .work       = "embedding",
};
