/* op_round.c - rows rounded to eight bits: round. */
#include "program/op.h"
#include "program/record.h"

lm_value lm_round_row(lm_builder *b, const char *word, lm_value x)
{
    if (b->failed)
        return LM_NONE;
    return lm_record_unary(b, LM_OP_ROUND, lm_record_path(b, word), x, lm_record_width(b, x))->out;
}

/* magnitude and maximum, multiply, round, divide */
static void round_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 5 * lm_width_out(p, n);
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

const lm_op lm_op_round = {
    .name          = "round",
    .cost          = round_cost,
    .formula       = "⌊x s⌉ / s, s = 127 / max |x|",
    .form          = "round₈({x})",
    .expression    = "round_row({0})",
    .helper        = "def round_row(x):\n"
                     "    \"\"\"Round each row to 8 bits (arXiv 2402.17764).\"\"\"\n"
                     "    s = 127 / $.maximum($.abs(x), $.ones_like(x) * 1e-5)\n"
                     "    s = s.min(-1)[..., None] if $.__name__ == \"numpy\" else s.min(-1).values[..., None]\n"
                     "    return $.clip($.round(x * s), -128, 127) / s\n\n\n",
    .in_place      = true,
    .trains_inputs = 1,
    .reverse_flops = 1,
};
