/* deepseek_v4_compressed.c - layers of DeepSeek-V4 whose tokens see compressed entries beside a window of
 * keys: one for each block of many positions, all of them; or one for each block of few, with lanes of the
 * block before it, those that an indexer chooses. */
#include "arch/deepseek_v4.h"

/* The entries of a compressor, which is the open module: in the row that ends a block. */
static lm_value entries(lm_builder *b, const lm_config *c, lm_value x, uint32_t width, uint32_t rate,
                        bool both)
{
    lm_rope_spec rope = c->compress;
    uint32_t     lanes = both ? 2 * width : width;

    rope.rate     = rate;
    lm_value kv   = lm_linear(b, "kv_proj", x, lanes, false);
    lm_value gate = lm_linear(b, "gate_proj", x, lanes, false);
    lm_value y    = lm_compress(b, "compressed", kv, gate, rate, both);
    return lm_rope(b, lm_rms_norm(b, "kv_norm", y, c->norm_eps), 1, &rope);
}

/* The entries that each token sees. */
static lm_value choice(lm_builder *b, const lm_config *c, lm_value x, lm_value latent, uint32_t rate)
{
    const lm_deepseek_v4 *own  = lm_own(c);
    uint32_t              n = own->index_heads, dim = own->index_dim;
    lm_attention_spec     spec = { .n_heads = n, .n_kv_heads = 1, .k_dim = dim, .v_dim = dim, .v_in_k = true,
                                   .scale = 1, .top_k = own->index_top, .rate = rate };

    lm_push(b, "indexer", "%sIndexer");
    lm_value k = entries(b, c, x, dim, rate, true);
    lm_value q = lm_rope(b, lm_linear(b, "q_b_proj", latent, n * dim, false), n, &c->compress);
    lm_push(b, "scorer", "%sIndexerScorer");
    lm_value w = lm_linear(b, "weights_proj", x, n, false);
    lm_value y = lm_select_keys(b, "chosen", q, k, w, &spec);
    lm_pop(b);
    lm_pop(b);
    return y;
}

lm_value lm_deepseek_v4_scores(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x, lm_value latent,
                               lm_value q, lm_value k, const lm_attention_spec *window)
{
    const lm_deepseek_v4 *own    = lm_own(c);
    bool                  sparse = own->kind[layer] == LM_V4_SPARSE;
    lm_attention_spec     spec   = *window;
    lm_value              chosen = LM_NONE;

    if (own->kind[layer] == LM_V4_WINDOW)
        return lm_attention(b, q, k, LM_NONE, window);
    spec.rate  = own->rates[!sparse];
    spec.top_k = sparse ? own->index_top : 0;
    lm_push(b, "compressor", sparse ? "%sCSACompressor" : "%sHCACompressor");
    lm_value e = entries(b, c, x, c->head_dim, spec.rate, sparse);
    if (sparse)
        chosen = choice(b, c, x, latent, spec.rate);
    lm_pop(b);
    return lm_compressed_attention(b, q, k, e, chosen, &spec);
}
