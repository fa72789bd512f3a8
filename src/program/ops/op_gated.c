/* op_gated.c - a number per lane that decays as a gate tells (arXiv 2402.19427): gated_recurrence. */
#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

lm_value lm_gated_recurrence(lm_builder *b, const char *word, const char *name, lm_value x, lm_value r)
{
    if (b->failed)
        return LM_NONE;
    uint32_t lanes = lm_record_width(b, x);

    lm_record_need(b, lm_record_width(b, r) == lanes, word,
                   "the widths of a gated recurrence and its gate do not match");
    uint32_t w         = lm_record_weight(b, lm_record_here(b), name, LM_VECTOR, 1, lanes, 1);
    lm_node *n         = lm_record_unary(b, LM_OP_GATED_RECURRENCE, lm_record_path(b, word), x, lanes);
    n->n_in            = 2;
    n->in[1]           = r;
    n->weights[0]      = w;
    n->recurrence.spec = (lm_recurrence){ .n_heads = 1, .n_key_heads = 1, .k_dim = 1, .v_dim = lanes,
                                          .gated = true };
    n->recurrence.state = lm_record_state(b, (uint64_t)lm_recurrence_blocks(&n->recurrence.spec) *
                                                 LM_STATE_COLUMNS);
    return n->out;
}

/* Per lane: -8 softplus of the weight (4); times r, exp; times 2, exp, 1 -, root; a h, m x, add. */
static void gated_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t lanes = lm_width_out(p, n);

    c->weight_elements = lanes;
    c->flops           = 13 * lanes;
    c->reads           = 2 * lanes;
    c->writes          = lanes;
}

static void gated_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("%u dimensions, each with one number that it carries"), n->recurrence.spec.v_dim);
}

static const lm_op_number gated_numbers[] = {
    LM_NODE_NUMBER(U32, recurrence.spec.v_dim, NULL),
    { 0 }
};

const lm_op lm_op_gated_recurrence = {
    .name       = "gated_recurrence",
    .weights    = { "recurrent_param" },
    .numbers    = gated_numbers,
    .cost       = gated_cost,
    .describe   = gated_describe,
    .state      = true,
    .formula    = "a = exp(−8 r ⊙ ln(1 + exp(Λ))), h ← a ⊙ h + √(1 − a²) ⊙ x",
    .expression = "gated_recurrence({0}, {1}, {w0})",
    .helper     = "def gated_recurrence(x, r, param):\n"
                  "    \"\"\"Each lane carries h: decayed by a = exp(-8 r softplus(param)), plus sqrt(1 - a^2) x; the "
                  "first position is x.\"\"\"\n"
                  "    log_a = -8 * r * ($.log(1 + $.exp(-abs(param))) + param * (param > 0))\n"
                  "    a, added = $.exp(log_a), $.sqrt(1 - $.exp(2 * log_a)) * x\n"
                  "    out = [x[:1]]\n"
                  "    for t in range(1, len(x)):\n"
                  "        out.append(a[t] * out[-1] + added[t:t + 1])\n"
                  "    return $cat(out)\n\n\n",
    .work           = "recurrences",
    .trains_inputs  = 3,
    .trains_weights = 1,
    .reverse_reads  = LM_IN0 | LM_IN1,
};
