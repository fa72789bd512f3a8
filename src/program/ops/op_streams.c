/* op_streams.c - several residual streams side by side in one value (arXiv 2301.13310): mix, match; and gates
 * of which most are 0: gaussian_top. */
#include <stdio.h>

#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

/* ---- mix: y_j = x_j + sum over i of (plus + c_ji) z_i ---- */

lm_value lm_mix(lm_builder *b, const char *word, lm_value x, lm_value z, lm_value c, uint32_t n,
                uint32_t first, float plus)
{
    if (b->failed)
        return LM_NONE;
    uint32_t w = lm_record_width(b, x), each = n ? w / n : 0, more = lm_record_width(b, z);

    lm_record_need(b, n && each && w % n == 0 && more % each == 0 && first < n, word,
                   "streams do not divide what is mixed");
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, c == LM_NONE || lm_record_width(b, c) == n * (more / each), word,
                   "there is not one coefficient for each pair of streams");
    lm_node *m = lm_record_unary(b, LM_OP_MIX, lm_record_path(b, word), x, w);
    m->n_in    = c == LM_NONE ? 2 : 3;
    m->in[1]   = z;
    if (c != LM_NONE)
        m->in[2] = c;
    m->mix.streams = n;
    m->mix.first   = first;
    m->mix.plus    = plus;
    return m->out;
}

static void mix_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t w = lm_width_out(p, n), each = w / n->mix.streams, z = p->values[n->in[1]].width,
             coefficients = n->n_in > 2 ? p->values[n->in[2]].width : 0;

    c->flops  = 2 * (n->mix.streams - n->mix.first) * z + (n->mix.plus != 0 ? coefficients : 0);
    c->reads  = w + (n->in[1] == n->in[0] ? 0 : z) + coefficients;
    c->writes = each * n->mix.streams;
}

static void mix_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    uint64_t each = lm_width_out(p, n) / n->mix.streams;

    lm_text_printf(out, _("%u streams, adds %u"), n->mix.streams,
                   (unsigned)(p->values[n->in[1]].width / each));
    if (n->mix.first)
        lm_text_printf(out, _(", from stream %u on"), n->mix.first);
}

static const lm_op_number mix_numbers[] = {
    LM_NODE_NUMBER(U32, mix.streams, "residual streams"),
    LM_NODE_NUMBER(U32, mix.first, NULL),
    LM_NODE_NUMBER(FLOAT, mix.plus, NULL),
    { 0 }
};

const lm_op lm_op_mix = {
    .name          = "mix",
    .numbers       = mix_numbers,
    .cost          = mix_cost,
    .describe      = mix_describe,
    .formula       = "x_j + Σ_i (b + c_ji) z_i",
    .helper        = "def mix(x, z, c, n, first, plus):\n"
                     "    \"\"\"Add to each of n streams a weighted sum of the streams of z (AltUp, arXiv 2301.13310).\"\"\"\n"
                     "    T = len(x)\n"
                     "    x = x.reshape(T, n, -1)\n"
                     "    c = plus if c is None else plus + c.reshape(T, n, -1, 1)\n"
                     "    y = x + (c * z.reshape(T, 1, -1, x.shape[2])).sum(2)\n"
                     "    return $cat([x[:, :first], y[:, first:]], 1).reshape(T, -1)\n\n\n",
    .trains_inputs = 7,
    .reverse_reads = LM_IN1 | LM_IN2,
};

/* ---- match: x rms(y) / rms(x) ---- */

lm_value lm_match_rms(lm_builder *b, const char *word, lm_value x, lm_value y, uint32_t n)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, n && lm_record_width(b, x) == (uint64_t)n * lm_record_width(b, y), word,
                   "what is matched is not as wide as its parts");
    lm_node *m      = lm_record_unary(b, LM_OP_MATCH, lm_record_path(b, word), x, lm_record_width(b, x));
    m->n_in         = 2;
    m->in[1]        = y;
    m->match.groups = n;
    return m->out;
}

/* two sums of squares, one product per lane */
static void match_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t w = lm_width_out(p, n), y = p->values[n->in[1]].width;

    c->flops  = 3 * w + 2 * y;
    c->reads  = w + y;
    c->writes = w;
}

static void match_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    if (n->match.groups > 1)
        lm_text_printf(out, _("each of %u streams"), n->match.groups);
}

static const lm_op_number match_numbers[] = {
    LM_NODE_NUMBER(U32, match.groups, NULL),
    { 0 }
};

const lm_op lm_op_match = {
    .name          = "match",
    .numbers       = match_numbers,
    .cost          = match_cost,
    .describe      = match_describe,
    .formula       = "x rms(y) / rms(x)",
    .expression    = "match({0}, {1}, {groups})",
    .helper        = "def match(x, y, n):\n"
                     "    \"\"\"Scale each of n streams to the root mean square of y.\"\"\"\n"
                     "    x = x.reshape(len(x), n, -1)\n"
                     "    r = ((x ** 2).mean(-1).clip(1e-5) ** 0.5)[..., None]\n"
                     "    return (x * ((y ** 2).mean(-1) ** 0.5)[:, None, None] / r).reshape(len(x), -1)\n\n\n",
    .work          = "norms",
    .trains_inputs = 3,
    .reverse_reads = LM_IN0 | LM_IN1,
};

/* ---- gaussian_top: max(x - mean - c std, 0) ---- */

lm_value lm_gaussian_top(lm_builder *b, const char *word, lm_value x, float c)
{
    if (b->failed)
        return LM_NONE;
    lm_node *n = lm_record_unary(b, LM_OP_GAUSSIAN_TOP, lm_record_path(b, word), x, lm_record_width(b, x));
    n->scale.factor = c;
    return n->out;
}

static void gaussian_top_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    c->flops  = 6 * lm_width_out(p, n);
    c->reads  = lm_width_out(p, n);
    c->writes = lm_width_out(p, n);
}

static void gaussian_top_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, _("above mean + %g deviations"), (double)n->scale.factor);
}

static const lm_op_number gaussian_top_numbers[] = {
    LM_NODE_NUMBER(FLOAT, scale.factor, "limits"),
    { 0 }
};

const lm_op lm_op_gaussian_top = {
    .name          = "gaussian_top",
    .numbers       = gaussian_top_numbers,
    .cost          = gaussian_top_cost,
    .describe      = gaussian_top_describe,
    .formula       = "max(x − mean(x) − c std(x), 0)",
    .expression    = "gaussian_top({0}, {factor})",
    .helper        = "def gaussian_top(x, c):\n"
                     "    \"\"\"Keep what is c deviations above the mean.\"\"\"\n"
                     "    mean = x.mean(-1)[:, None]\n"
                     "    return (x - mean - c * ((x - mean) ** 2).mean(-1)[:, None] ** 0.5).clip(0)\n\n\n",
    .work          = "activations",
    .trains_inputs = 1,
    .reverse_reads = LM_IN0,
};
