/* op_ranks.c - what split and edited programs add: all_reduce, all_gather, send, receive, edit, given. They
 * are recorded by program/split.c, split_layers.c, edited.c and tail.c. */
#include "base/language.h"
#include "program/op.h"

/* one addition per lane of each rank except the first */
static void all_reduce_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = (n->exchange.ranks - 1) * lm_width_out(p, n);
    c->reads  = n->exchange.ranks * lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
    c->sends  = lm_width_out(p, n);
}

static void all_gather_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
    c->sends  = lm_width_in(p, n);
}

static void all_reduce_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, P_(n->exchange.ranks, "sum over %u rank", "sum over %u ranks"), n->exchange.ranks);
}

static void all_gather_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, P_(n->exchange.ranks, "lanes of %u rank", "lanes of %u ranks"), n->exchange.ranks);
}

static void send_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads = lm_width_in(p, n);
    c->sends = lm_width_in(p, n);
}

static void receive_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->writes = lm_width_out(p, n);
}

static void send_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "to rank %u", n->message.peer);
}

static void receive_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, "from rank %u", n->message.peer);
}

const lm_op lm_op_all_reduce = {
    .name     = "all_reduce",
    .cost     = all_reduce_cost,
    .describe = all_reduce_describe,
};

const lm_op lm_op_all_gather = {
    .name     = "all_gather",
    .cost     = all_gather_cost,
    .describe = all_gather_describe,
};

const lm_op lm_op_send       = { .name = "send", .cost = send_cost, .describe = send_describe };
const lm_op lm_op_receive    = { .name = "receive", .cost = receive_cost, .describe = receive_describe };

/* ---- an intervention; rows supplied by the caller ---- */

static void edit_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = lm_width_out(p, n);
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

/* rows are copied */
static void input_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

const lm_op lm_op_edit = {
    .name     = "edit",
    .cost     = edit_cost,
    .formula  = N_("x, changed"),
    .in_place = true,
};

const lm_op lm_op_given = { .name = "given", .cost = input_cost, .formula = "x" };
