/* dots.c - dots.llm1 (arXiv 2506.05767): Qwen3's attention, and DeepSeek-V3's mixtures after the first
 * layers. */
#include "arch/families.h"

typedef struct dots1 { uint32_t dense_layers; } dots1;
LM_OWN_FITS(dots1);

static const lm_own_number own_numbers[] = {
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(dots1, dense_layers), 0, LM_MAX_LAYERS, 0, true },
    { 0 },
};

static lm_value dots1_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const dots1 *own = lm_own(c);

    x          = lm_add(b, x, lm_normed_attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, layer < own->dense_layers ? lm_llama_mlp(b, c, h) : lm_routed_mlp(b, c, h));
}

static lm_value dots1_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = dots1_layer });
}

/* Without layer_types, layers from max_window_layers on have the window. */
static lm_status read_windows(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t first = 0;
    bool     used  = false;

    LM_TRY(lm_read_window(s, s->kind == LM_GGUF ? 0 : 4096, c, e));
    if (s->kind == LM_GGUF)
        return c->attention.window ? lm_read_window_pattern(s, NULL, 0, c, e) : LM_OK;
    LM_TRY(lm_read_u32(s, "max_window_layers", NULL, 0, UINT32_MAX, 62, &first, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!lm_meta_has(s->meta, "layer_types"))
            c->full[i] = i < first;
        used |= !c->full[i];
    }
    if (!used)
        c->attention.window = 0;
    return LM_OK;
}

static lm_status dots1_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(read_windows(s, c, e));
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    return lm_read_corrected_mixture(s, &lm_deepseek_keys, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_dots1 = {
    .name         = "dots1",
    .class_prefix = "Dots1",
    .hf_types     = (const char *const[]){ "dots1", NULL },
    .gguf_archs   = (const char *const[]){ "dots1", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = dots1_configure,
    .build        = dots1_build,
    .own          = own_numbers,
    .mixture      = &lm_deepseek_keys,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 32 }, { "moe_intermediate_size", 1408 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "sliding_window", "max_window_layers",
                                           "layer_types", "use_sliding_window", "n_routed_experts",
                                           "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size",
                                           "first_k_dense_replace", "routed_scaling_factor", "topk_method",
                                           "n_group", "topk_group", "norm_topk_prob", "scoring_func",
                                           "moe_layer_freq", "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
