/* deepseek.c - DeepSeek-V2, V2-Lite and V3 (arXiv 2405.04434, 2412.19437): latent attention, mixtures of many
 * narrow experts with shared experts that process every token. */
#include "arch/families.h"

/* Plain MLPs are in the first layers, and in those whose index is not a multiple of `moe_every`. */
typedef struct deepseek { uint32_t dense_layers, moe_every; } deepseek;
LM_OWN_FITS(deepseek);

static lm_value deepseek_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const deepseek *own = lm_own(c);

    return lm_latent_layer(b, c, layer < own->dense_layers || layer % own->moe_every != 0, x);
}

static lm_value deepseek_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = deepseek_layer });
}

/* ---- metadata ---- */

static const lm_own_number deepseek_own[] = {
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(deepseek, dense_layers), 0, LM_MAX_LAYERS, 0, false },
    { "moe_layer_freq", NULL, LM_OWN_U32, offsetof(deepseek, moe_every), 1, LM_MAX_LAYERS, 1, false },
    { 0 },
};

/* Read sizes, latents and rotation. */
static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_latent_keys latent_keys = { .context = "max_position_embeddings" };

    LM_TRY(lm_read_latent_sizes(s, &latent_keys, c, e));
    LM_TRY(lm_read_latent_rotation(s, c, e));
    return lm_read_own(s, deepseek_own, c, e);
}

static lm_status deepseek_v2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_view  method = LM_VIEW("group_limited_greedy");
    uint32_t scoring;

    LM_TRY(configure(s, c, e));
    LM_TRY(lm_read_shared_mixture(s, &lm_deepseek_keys, c, e));
    /* 0: unspecified, which also means softmax */
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 0, 1, 1, &scoring, e));
    LM_TRY(lm_expect_word(s, "scoring_func", "softmax", e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    if (s->kind != LM_GGUF) {
        method = LM_VIEW("greedy");
        if (lm_meta_has(s->meta, "topk_method"))
            LM_TRY(lm_meta_string(s->meta, "topk_method", &method, e));
    }
    if (lm_view_is(method, "group_limited_greedy"))
        return lm_read_expert_groups(s, "n_group", c, e);
    return lm_view_is(method, "greedy")
               ? LM_OK
               : lm_no_form(s, "topk_method", "is not what this family computes", e);
}

static lm_status deepseek_v3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool pairs;

    LM_TRY(configure(s, c, e));
    LM_TRY(lm_read_corrected_mixture(s, &lm_deepseek_keys, c, e));
    LM_TRY(lm_read_bool(s, "rope_interleave", NULL, true, &pairs, e));
    c->rope.pairing = pairs ? LM_ROPE_PAIR : LM_ROPE_HALF;
    return LM_OK;
}

static const lm_name deepseek_names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES("model.layers.*.self_attn"),
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

/* transformers ignores norm_topk_prob for V2; seq_aux, ep_size and pretraining_tp only affect training. */
static const char *const deepseek_keys[] = {
    "hidden_act", "attention_bias", "mlp_bias", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "qk_head_dim", "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size", "first_k_dense_replace",
    "moe_layer_freq", "routed_scaling_factor", "topk_method", "n_group", "topk_group", "norm_topk_prob", "scoring_func",
    "rope_interleave", "aux_loss_alpha", "seq_aux", "ep_size", "pretraining_tp", "num_nextn_predict_layers",
    NULL,
};

/* Some GGUF files contain both attn_kv_b and its parts. */
static const char *const deepseek_ignorable[] = { "*.rotary_emb.inv_freq", "blk.*.attn_k_b.weight",
                                                  "blk.*.attn_v_b.weight", NULL };

const lm_family lm_family_deepseek_v2 = {
    .name         = "deepseek_v2",
    .class_prefix = "DeepseekV2",
    .hf_types     = (const char *const[]){ "deepseek_v2", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek2", NULL },
    .configure    = deepseek_v2_configure,
    .build        = deepseek_build,
    .own          = deepseek_own,
    .names        = deepseek_names,
    .defaults     = (const lm_default[]){ { "n_routed_experts", 64 }, { "moe_intermediate_size", 1407 },
                                          { "n_shared_experts", 2 },
                                          { NULL, 0 } },
    .keys         = deepseek_keys,
    .ignorable    = deepseek_ignorable,
    .layers       = "model.layers.",
};

const lm_family lm_family_deepseek_v3 = {
    .name         = "deepseek_v3",
    .class_prefix = "DeepseekV3",
    .hf_types     = (const char *const[]){ "deepseek_v3", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek2", NULL },
    .gguf_key     = "expert_gating_func=2",
    .configure    = deepseek_v3_configure,
    .build        = deepseek_build,
    .own          = deepseek_own,
    .names        = deepseek_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 }, { "intermediate_size", 18432 },
                                          { "n_routed_experts", 256 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 2048 }, { "n_shared_experts", 1 },
                                          { "routed_scaling_factor", 2.5 }, { "first_k_dense_replace", 3 }, { "n_group", 8 },
                                          { "topk_group", 4 }, { "norm_topk_prob", true }, { NULL, 0 } },
    .keys         = deepseek_keys,
    .ignorable    = deepseek_ignorable,
    .layers       = "model.layers.",
};
