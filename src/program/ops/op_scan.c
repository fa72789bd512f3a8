/* op_scan.c - a state with decays that depend on the token (arXiv 2312.00752): selective_scan. */
#include <string.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

lm_value lm_selective_scan(lm_builder *b, const char *word, const char *name, lm_value C, lm_value B,
                           lm_value x, lm_value delta)
{
    if (b->failed)
        return LM_NONE;
    uint32_t lanes = lm_record_width(b, x), entries = lm_record_width(b, B);

    lm_record_need(b,
                   lm_record_width(b, C) == entries && lm_record_width(b, delta) == lanes && entries &&
                       entries <= LM_MAX_SCAN_STATE,
                   word, "the widths of a selective scan do not match, or its state has more than 256 entries per lane");
    uint32_t w = lm_record_weight(b, lm_record_here(b), name, LM_VECTOR, 2, lanes, entries);
    if (w != LM_NONE) {
        b->p->weights[w].gguf        = lm_record_gguf(b, lm_record_path(b, name), "");
        b->p->weights[w].exponential = -1;
    }
    lm_node       *n    = lm_record_unary(b, LM_OP_SELECTIVE_SCAN, lm_record_path(b, word), C, lanes);
    const lm_value in[] = { C, B, x, delta };
    n->n_in             = 4;
    memcpy(n->in, in, sizeof in);
    n->weights[0]       = w;
    n->recurrence.spec  = (lm_recurrence){ .n_heads = 1, .n_key_heads = 1, .k_dim = entries, .v_dim = lanes,
                                           .selective = true };
    n->recurrence.state = lm_record_state(b, (uint64_t)lm_recurrence_blocks(&n->recurrence.spec) *
                                                 LM_STATE_COLUMNS * entries);
    return n->out;
}

/* Per number: exp of A_log, negate, times delta, exp, decay, times B, add, times C, add; delta x per lane. */
static void scan_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    const lm_recurrence *r = &n->recurrence.spec;

    c->weight_elements = (uint64_t)r->k_dim * r->v_dim;
    c->flops           = 9 * c->weight_elements + r->v_dim;
    c->writes          = lm_width_out(p, n);
    for (uint32_t k = 0; k < n->n_in; k++)
        c->reads += p->values[n->in[k]].width;
}

static void scan_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("%u dimensions, each with %u numbers that it carries"), n->recurrence.spec.v_dim,
                   n->recurrence.spec.k_dim);
}

static const lm_op_number scan_numbers[] = {
    LM_NODE_NUMBER(U32, recurrence.spec.k_dim, NULL),
    LM_NODE_NUMBER(U32, recurrence.spec.v_dim, NULL),
    { 0 }
};

const lm_op lm_op_selective_scan = {
    .name       = "selective_scan",
    .weights    = { "A_log" },
    .numbers    = scan_numbers,
    .cost       = scan_cost,
    .describe   = scan_describe,
    .state      = true,
    .formula    = "S ← e^(−e^A Δ) S + Δ x Bᵀ, y = S C",
    .expression = "selective_scan({0}, {1}, {2}, {3}, {w0})",
    .helper     = "def selective_scan(C, B, x, delta, A_log):\n"
                  "    \"\"\"Each lane i of x carries S[i]: decayed by exp(-exp(A_log[i]) delta[i]), plus delta[i] "
                  "x[i] B.\"\"\"\n"
                  "    S, out = $.zeros(A_log.shape), []\n"
                  "    for t in range(len(x)):\n"
                  "        S = $.exp(-$.exp(A_log) * delta[t][:, None]) * S + (delta[t] * x[t])[:, None] * B[t]\n"
                  "        out.append((S * C[t]).sum(1).reshape(1, -1))\n"
                  "    return $cat(out)\n\n\n",
    .work           = "recurrences",
    .trains_inputs  = 15,
    .trains_weights = 1,
    .reverse_reads  = LM_IN0 | LM_IN1 | LM_IN2 | LM_IN3,
};
