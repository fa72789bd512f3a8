/* op_compress.c - a softmax-weighted mean over each block of positions: compress. */
#include "base/language.h"
#include "program/op.h"
#include "program/record.h"

lm_value lm_compress(lm_builder *b, const char *word, lm_value kv, lm_value gate, uint32_t rate, bool overlap)
{
    if (b->failed)
        return LM_NONE;
    uint32_t    width = lm_record_width(b, kv), lanes = overlap ? width / 2 : width;
    const char *here  = lm_record_here(b);

    lm_record_need(b, rate && lm_record_width(b, gate) == width && (!overlap || width % 2 == 0), word,
                   "a compressor needs a rate, and as many gates as lanes");
    if (b->failed)
        return LM_NONE;
    uint32_t w = lm_record_weight(b, here, "position_bias", LM_VECTOR, 2, rate, width);
    if (w != LM_NONE)                    /* a row of the family's table names it */
        b->p->weights[w].gguf = lm_record_gguf(b, b->p->weights[w].path, "weight");
    lm_node *n          = lm_record_unary(b, LM_OP_COMPRESS, lm_record_path(b, word), kv, lanes);
    n->n_in             = 2;
    n->in[1]            = gate;
    n->weights[0]       = w;
    n->compress.rate    = rate;
    n->compress.overlap = overlap;
    n->compress.state   = lm_record_state(b, (uint64_t)3 * width);
    return n->out;
}

/* Per lane of kv: the bias, the difference to the maximum, exp, and a multiply-add each of the sum and of the
 * weighted sum; then the quotient. */
static void compress_cost(const lm_program *p, const lm_node *n, lm_cost *c)
{
    uint64_t width = lm_width_in(p, n);

    c->flops           = 6 * width + lm_width_out(p, n);
    c->reads           = 2 * width;
    c->writes          = lm_width_out(p, n);
    c->weight_elements = width;
}

static void compress_describe(const lm_program *p, const lm_node *n, lm_text *out)
{
    (void)p;
    lm_text_printf(out, n->compress.overlap ? _("blocks of %u positions, with the block before")
                                            : _("blocks of %u positions"),
                   n->compress.rate);
}

static const lm_op_number compress_numbers[] = {
    LM_NODE_NUMBER(U32, compress.rate, "windows"),
    LM_NODE_NUMBER(BOOL, compress.overlap, "windows"),
    { 0 }
};

const lm_op lm_op_compress = {
    .name       = "compress",
    .weights    = { "position_bias" },
    .numbers    = compress_numbers,
    .cost       = compress_cost,
    .describe   = compress_describe,
    .state      = true,
    .formula    = N_("Σ_j softmax_j(g_j + β_j) ⊙ x_j, j in the block of t"),
    .expression = "compress({0}, {1}, {w0}, {rate}, {overlap})",
    .helper     = "def compress(kv, gate, bias, rate, overlap):\n"
                  "    \"\"\"Each row: the mean of its block up to the row, weighted by the softmax of the gates. With "
                  "overlap,\n"
                  "    the first half of the lanes of the block before counts too.\"\"\"\n"
                  "    width, out = kv.shape[1] // (1 + overlap), []\n"
                  "    for t in range(len(kv)):\n"
                  "        first = t - t % rate\n"
                  "        x, g = kv[first:t + 1, -width:], gate[first:t + 1, -width:] + bias[:t + 1 - first, -width:]\n"
                  "        if overlap and first:\n"
                  "            x = $cat([kv[first - rate:first, :width], x])\n"
                  "            g = $cat([gate[first - rate:first, :width] + bias[:, :width], g])\n"
                  "        p = $.exp(g - $.amax(g, 0))\n"
                  "        out.append(((p / p.sum(0)) * x).sum(0).reshape(1, -1))\n"
                  "    return $cat(out)\n\n\n",
    .work          = "compression",
    .trains_inputs = LM_IN0 | LM_IN1,
    .trains_weights = 1,
    .reverse_reads = LM_IN0 | LM_IN1 | LM_OUT,
    .reverse_flops = 12,
};
