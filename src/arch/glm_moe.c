/* glm_moe.c - GLM-4.5 to 4.7 (arXiv 2508.06471): Llama's attention with half of each head's lanes rotated, in
 * halves, and DeepSeek-V3's mixtures after the first layers. GLM-4.7-Flash (glm4_moe_lite) has DeepSeek's
 * latent attention. */
#include <inttypes.h>
#include <stdio.h>

#include "arch/families.h"

typedef struct glm_moe {
    uint32_t dense_layers;
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} glm_moe;
LM_OWN_FITS(glm_moe);

static const lm_own_number own_numbers[] = {
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(glm_moe, dense_layers), 0, LM_MAX_LAYERS, 0, true },
    { 0 },
};

static lm_value glm4_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const glm_moe *own = lm_own(c);
    lm_value       h   = lm_llama_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, c->qk_norm ? lm_normed_attention(b, c, layer, h) : lm_llama_attention(b, c, layer, h));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_routed_mlp(b, c, h));
}

static lm_value glm4_moe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = glm4_moe_layer });
}

static lm_value lite_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const glm_moe *own = lm_own(c);

    return lm_latent_layer(b, c, own->dense[layer], x);
}

static lm_value lite_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = lite_layer });
}

/* ---- metadata ---- */

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_mixture_keys keys = lm_deepseek_keys;
    glm_moe        *own  = lm_family_config_mut(c);

    keys.normalises = true;
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    return lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e);
}

static lm_status glm4_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_llama_shape(s, c, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.5, c, &lanes, e));
    LM_TRY(lm_llama_rotation(s, lanes, c, e));
    c->bias_o        = c->bias_mlp = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_read_bool(s, "use_qk_norm", NULL,
                        s->kind == LM_GGUF && lm_has_tensor(s, "blk.0.attn_q_norm.weight"), &c->qk_norm, e));
    return read_mixture(s, c, e);
}

static lm_status lite_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_latent_keys keys = { .context = "max_position_embeddings" };
    bool                        pairs;

    LM_TRY(lm_read_latent_sizes(s, &keys, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    LM_TRY(lm_read_latent_rotation(s, c, e));
    LM_TRY(lm_read_bool(s, "rope_interleave", NULL, true, &pairs, e));
    c->rope.pairing = pairs ? LM_ROPE_PAIR : LM_ROPE_HALF;
    return read_mixture(s, c, e);
}

/* llama.cpp's converter stores no function of the scores for GLM-4.7-Flash; DeepSeek-V2's files, which have
 * none either, contain no correction. */
static bool has_correction(const lm_source *s)
{
    lm_meta_value v;
    char          name[64];
    bool          some  = lm_meta_get(s->meta, "deepseek2.leading_dense_block_count", &v);
    uint64_t      dense = some && v.kind == LM_META_UINT ? v.u : 0;

    snprintf(name, sizeof name, "blk.%" PRIu64 ".exp_probs_b.bias", dense);
    return lm_has_tensor(s, name);
}

static const lm_name glm4_moe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

static const lm_name lite_names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES("model.layers.*.self_attn"),
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

#define MIXTURE_KEYS                                                                                     \
    "hidden_act", "attention_bias", "n_routed_experts", "n_shared_experts", "num_experts_per_tok",       \
        "moe_intermediate_size", "first_k_dense_replace", "routed_scaling_factor", "topk_method", "n_group", \
        "topk_group", "norm_topk_prob", "scoring_func", "num_nextn_predict_layers"

const lm_family lm_family_glm4_moe = {
    .name         = "glm4_moe",
    .class_prefix = "Glm4Moe",
    .hf_types     = (const char *const[]){ "glm4_moe", NULL },
    .gguf_archs   = (const char *const[]){ "glm4moe", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = glm4_moe_configure,
    .build        = glm4_moe_build,
    .own          = own_numbers,
    .names        = glm4_moe_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "n_routed_experts", 128 },
                                          { "num_experts_per_tok", 8 }, { "n_shared_experts", 1 },
                                          { "moe_intermediate_size", 1408 }, { "first_k_dense_replace", 1 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ MIXTURE_KEYS, "partial_rotary_factor", "use_qk_norm", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
    .layers       = "model.layers.",
};

const lm_family lm_family_glm4_moe_lite = {
    .name         = "glm4_moe_lite",
    .class_prefix = "Glm4MoeLite",
    .hf_types     = (const char *const[]){ "glm4_moe_lite", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek2", NULL },
    .gguf_key     = "!expert_gating_func",   /* files that have it are read as DeepSeek-V3's: the same
                                                computation */
    .gguf_suits   = has_correction,
    .configure    = lite_configure,
    .build        = lite_build,
    .own          = own_numbers,
    .names        = lite_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 20 },
                                          { "max_position_embeddings", 202752 },
                                          { "rms_norm_eps", 1e-5 }, { "q_lora_rank", 768 },
                                          { "qk_nope_head_dim", 192 }, { "v_head_dim", 256 },
                                          { "n_routed_experts", 64 }, { "num_experts_per_tok", 4 },
                                          { "n_shared_experts", 1 }, { "moe_intermediate_size", 1536 },
                                          { "routed_scaling_factor", 1.8 }, { "first_k_dense_replace", 1 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ MIXTURE_KEYS, "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                                           "qk_rope_head_dim", "v_head_dim", "qk_head_dim", "rope_interleave",
                                           "mlp_layer_types", "partial_rotary_factor",
                                           "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
    .layers       = "model.layers.",
};
