/* op_lanes.c - lanes moved, nothing computed: columns, join. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- columns: the same lanes of each of several equal groups, concatenated ---- */

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

/* lanes are moved, nothing is computed */
static void columns_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

static void columns_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint32_t width = (uint32_t)lm_width_out(p, n) / n->columns.groups;

    lm_text_printf(out, _("dimensions %u…%u"), n->columns.offset, n->columns.offset + width - 1);
    if (n->columns.groups > 1)
        lm_text_printf(out, _(" of each of %u groups"), n->columns.groups);
}

static const lm_op_number columns_numbers[] = {
    LM_NODE_NUMBER(U32, columns.groups, NULL),
    LM_NODE_NUMBER(U32, columns.offset, NULL),
    { 0 }
};

const lm_op lm_op_columns = {
    .name          = "columns",
    .numbers       = columns_numbers,
    .cost          = columns_cost,
    .describe      = columns_describe,
    .formula       = "x[i : j]",
    .form          = "{x}",
    .trains_inputs = 1,
};

/* ---- join: lanes of two values concatenated, group by group ---- */

lm_value lm_join(lm_builder *b, const char *word, lm_value x, lm_value y, uint32_t groups, bool y_shared)
{
    if (b->failed)
        return LM_NONE;
    uint32_t w = lm_record_width(b, x), more = lm_record_width(b, y);

    lm_record_need(b, groups && w % groups == 0 && (y_shared || more % groups == 0), word,
                   "groups do not divide what is joined");
    if (b->failed)
        return LM_NONE;
    lm_node *n = lm_record_unary(b, LM_OP_JOIN, lm_record_path(b, word), x,
                                 w + (y_shared ? groups * more : more));
    n->n_in        = 2;
    n->in[1]       = y;
    n->join.groups = groups;
    n->join.shared = y_shared;
    return n->out;
}

static void join_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = lm_width_in(p, n) + p->values[n->in[1]].width;
    c->writes = lm_width_out(p, n);
}

static void join_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint64_t first = lm_width_in(p, n) / n->join.groups;

    lm_text_printf(out, "%u × (%" PRIu64 " | %" PRIu64 "%s)", n->join.groups, first,
                   lm_width_out(p, n) / n->join.groups - first,
                   n->join.shared && n->join.groups > 1 ? _(" shared") : "");
}

static const lm_op_number join_numbers[] = {
    LM_NODE_NUMBER(U32, join.groups, NULL),
    LM_NODE_NUMBER(BOOL, join.shared, NULL),
    { 0 }
};

const lm_op lm_op_join = {
    .name          = "join",
    .numbers       = join_numbers,
    .cost          = join_cost,
    .describe      = join_describe,
    .formula       = "[x ; y]",
    .trains_inputs = 3,
};
