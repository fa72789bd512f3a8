/* op_connections.c - hyper-connections between residual streams (arXiv 2409.19606, 2512.24880): repeat,
 * connect, blend, merge. */
#include <stdio.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- repeat: n equal parts, each of which is x ---- */

lm_value lm_repeat_stream(lm_builder *b, const char *word, lm_value x, uint32_t n)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, n > 0 && n <= LM_MAX_CONNECTED, word, "so many streams have no form");
    return lm_record_unary(b, LM_OP_REPEAT, lm_record_path(b, word), x, n * lm_record_width(b, x))->out;
}

static void repeat_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->reads  = lm_width_in(p, n);
    c->writes = lm_width_out(p, n);
}

static void repeat_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, _("%u times"), (unsigned)(lm_width_out(p, n) / lm_width_in(p, n)));
}

const lm_op lm_op_repeat = {
    .name          = "repeat",
    .cost          = repeat_cost,
    .describe      = repeat_describe,
    .formula       = "h_j = x",
    .expression    = "repeat({0}, {width})",
    .helper        = "def repeat(x, width):\n"
                     "    \"\"\"Streams side by side, all of which are x.\"\"\"\n"
                     "    return $cat([x] * (width // x.shape[1]), 1)\n\n\n",
    .trains_inputs = 1,
    .reverse_flops = 1,
};

/* ---- connect: what streams give to a branch, get from it, and get from each other ---- */

/* Record a parameter of the open module. Rows of the family's table have its whole GGUF name. */
static uint32_t parameter(lm_builder *b, const char *name, uint32_t entries)
{
    uint32_t w = lm_record_weight(b, lm_record_here(b), name, LM_VECTOR, 1, entries, 1);

    if (w != LM_NONE)
        b->p->weights[w].gguf = lm_record_gguf(b, b->p->weights[w].path, "");
    return w;
}

lm_value lm_connections(lm_builder *b, const char *word, lm_value x, const char *const names[2],
                    const lm_connect_spec *s)
{
    if (b->failed)
        return LM_NONE;
    uint32_t n = s->streams, width = s->ends ? n : n * (n + 2);

    lm_record_need(b, n > 0 && n <= LM_MAX_CONNECTED && lm_record_width(b, x) == width && s->eps >= 0 &&
                          (s->ends || (s->rounds > 0 && s->rounds <= LM_MAX_ROUNDS)),
                   word, "there is not one number for each pair of streams");
    lm_node *c    = lm_record_unary(b, LM_OP_CONNECT, lm_record_path(b, word), x, width);
    c->connect    = *s;
    c->weights[0] = parameter(b, names[0], width);
    c->weights[1] = parameter(b, names[1], s->ends ? 1 : 3);
    return c->out;
}

/* A product and a sum each; sigmoids; a softmax; then a sum and a quotient of each entry and round. */
static void connect_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t s = n->connect.streams, w = lm_width_out(p, n), rounds = 2 * (uint64_t)n->connect.rounds - 1;

    c->flops           = 2 * w + 5 * s;
    c->reads           = w;
    c->writes          = w;
    c->weight_elements = w + (n->connect.ends ? 1 : 3);
    if (!n->connect.ends)
        c->flops += 5 * s + 6 * s * s + rounds * (2 * s * s + s);
}

static void connect_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("of %u streams"), n->connect.streams);
    if (!n->connect.ends)
        lm_text_printf(out, _(", %u rounds, eps %g"), n->connect.rounds, (double)n->connect.eps);
}

static const lm_op_number connect_numbers[] = {
    LM_NODE_NUMBER(U32, connect.streams, "residual streams"),
    LM_NODE_NUMBER(U32, connect.rounds, NULL),
    LM_NODE_NUMBER(FLOAT, connect.eps, NULL),
    LM_NODE_NUMBER(BOOL, connect.ends, NULL),
    { 0 }
};

const lm_op lm_op_connect = {
    .name           = "connect",
    .weights        = { "base", "scale" },
    .numbers        = connect_numbers,
    .cost           = connect_cost,
    .describe       = connect_describe,
    .formula        = "σ(α x + β) + ε, 2 σ(α x + β), Sinkhorn(α x + β)",
    .expression     = "connect({0}, {w0}, {w1}, {streams}, {rounds}, {eps})",
    .helper         = "def connect(x, base, scale, n, rounds, eps):\n"
                      "    \"\"\"What n streams give to a branch and get from it, and a doubly stochastic matrix between them.\"\"\"\n"
                      "    T = len(x)\n"
                      "    pre = 1 / (1 + $.exp(-(x[:, :n] * scale[0] + base[:n]))) + eps\n"
                      "    if x.shape[1] == n:\n"
                      "        return pre\n"
                      "    post = 2 / (1 + $.exp(-(x[:, n:2 * n] * scale[1] + base[n:2 * n])))\n"
                      "    m = $.exp(x[:, 2 * n:] * scale[2] + base[2 * n:]).reshape(T, n, n)\n"
                      "    m = m / m.sum(2)[:, :, None] + eps\n"
                      "    m = m / (m.sum(1)[:, None] + eps)\n"
                      "    for _ in range(rounds - 1):\n"
                      "        m = m / (m.sum(2)[:, :, None] + eps)\n"
                      "        m = m / (m.sum(1)[:, None] + eps)\n"
                      "    return $cat([pre, post, m.reshape(T, n * n)], 1)\n\n\n",
    .trains_inputs  = 1,
    .trains_weights = 3,
    .reverse_reads  = LM_IN0,
};

/* ---- blend: sum over j of c_j h_j ---- */

lm_value lm_blend_streams(lm_builder *b, const char *word, lm_value x, lm_value c, uint32_t n)
{
    if (b->failed)
        return LM_NONE;
    uint32_t w = lm_record_width(b, x);

    lm_record_need(b, n && w % n == 0 && lm_record_width(b, c) >= n, word,
                   "there is not one coefficient for each stream");
    lm_node *m       = lm_record_unary(b, LM_OP_BLEND, lm_record_path(b, word), x, n ? w / n : 0);
    m->n_in          = 2;
    m->in[1]         = c;
    m->blend.streams = n;
    return m->out;
}

static void blend_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 2 * lm_width_in(p, n) - lm_width_out(p, n);
    c->reads  = lm_width_in(p, n) + n->blend.streams;
    c->writes = lm_width_out(p, n);
}

static void streams_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("of %u streams"), n->blend.streams);
}

static const lm_op_number blend_numbers[] = {
    LM_NODE_NUMBER(U32, blend.streams, "residual streams"),
    { 0 }
};

const lm_op lm_op_blend = {
    .name          = "blend",
    .numbers       = blend_numbers,
    .cost          = blend_cost,
    .describe      = streams_describe,
    .formula       = "Σ_j c_j h_j",
    .expression    = "blend({0}, {1}, {streams})",
    .helper        = "def blend(x, c, n):\n"
                     "    \"\"\"The sum of n streams, each times its coefficient.\"\"\"\n"
                     "    return (x.reshape(len(x), n, -1) * c[:, :n, None]).sum(1)\n\n\n",
    .trains_inputs = 3,
    .reverse_reads = LM_IN0 | LM_IN1,
};

/* ---- merge: c_k y + sum over j of m_jk h_j ---- */

lm_value lm_merge_streams(lm_builder *b, const char *word, lm_value x, lm_value y, lm_value c, uint32_t n)
{
    if (b->failed)
        return LM_NONE;
    uint32_t w = lm_record_width(b, x);

    lm_record_need(b, n && w == n * lm_record_width(b, y) && lm_record_width(b, c) == n * (n + 2), word,
                   "there is not one coefficient for each pair of streams");
    lm_node *m       = lm_record_unary(b, LM_OP_MERGE, lm_record_path(b, word), x, w);
    m->n_in          = 3;
    m->in[1]         = y;
    m->in[2]         = c;
    m->blend.streams = n;
    return m->out;
}

static void merge_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t w = lm_width_in(p, n), s = n->blend.streams;

    c->flops  = 2 * w * s + w;
    c->reads  = w + w / s + s * (s + 1);
    c->writes = w;
}

const lm_op lm_op_merge = {
    .name          = "merge",
    .numbers       = blend_numbers,
    .cost          = merge_cost,
    .describe      = streams_describe,
    .formula       = "c_k y + Σ_j m_jk h_j",
    .expression    = "merge({0}, {1}, {2}, {streams})",
    .helper        = "def merge(x, y, c, n):\n"
                     "    \"\"\"Add y to n streams, each times its coefficient, and mix these by a matrix.\"\"\"\n"
                     "    T = len(x)\n"
                     "    m = c[:, 2 * n:].reshape(T, n, n)\n"
                     "    mixed = (m[..., None] * x.reshape(T, n, 1, -1)).sum(1)\n"
                     "    return (c[:, n:2 * n, None] * y[:, None] + mixed).reshape(T, -1)\n\n\n",
    .trains_inputs = 7,
    .reverse_reads = LM_IN0 | LM_IN1 | LM_IN2,
};
