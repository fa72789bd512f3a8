/* exaone4.c - EXAONE 4 (arXiv 2507.11407): norms behind attention and MLP instead of before, each head of q
 * and k normalised. Where there is a window, three of four layers have it and rotate, and the others do not
 * rotate. K-EXAONE (exaone_moe, LG 2026): the same attention behind a norm, and mixtures of experts routed as
 * DeepSeek-V3's. */
#include "arch/families.h"

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_norm", h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_norm", h.k, c->n_kv_heads, c->norm_eps);
    if (!c->attention.window || !c->full[layer])
        lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value exaone4_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    x = lm_add(b, x, lm_llama_norm(b, c, "post_attention_layernorm", attention(b, c, layer, x)));
    return lm_add(b, x, lm_llama_norm(b, c, "post_feedforward_layernorm", lm_llama_mlp(b, c, x)));
}

/* K-EXAONE */
typedef struct exaone_moe {
    uint32_t dense_layers;
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} exaone_moe;
LM_OWN_FITS(exaone_moe);

static const lm_own_number exaone_moe_own[] = {
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(exaone_moe, dense_layers), 0, LM_MAX_LAYERS, 1, true },
    { 0 },
};

static lm_value exaone_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module     = "mlp",
                                            .class_name = "%sSparseMoEBlock",
                                            .correction = "e_score_correction_bias",
                                            .parts      = { "gate_proj", "up_proj", "down_proj" } };
    const exaone_moe             *own   = lm_own(c);

    x          = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &names, h));
}

static lm_value exaone_moe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = exaone_moe_layer });
}

static lm_value exaone4_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = exaone4_layer });
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_sizes(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    /* llama.cpp uses the window of EXAONE 4 with 64 layers only, also without the key; we use it where it is
       given */
    LM_TRY(lm_read_window(s, s->kind == LM_GGUF && c->n_layers != 64 ? 0 : 4096, c, e));
    return c->attention.window ? lm_read_window_pattern(s, "sliding_window_pattern", 4, c, e) : LM_OK;
}

static const lm_mixture_keys exaone_moe_keys = { .experts = "num_experts", .top_k = "num_experts_per_tok",
                                                 .shared = "num_shared_experts", .scale = "routed_scaling_factor",
                                                 .normalised = "norm_topk_prob", .groups = "n_group",
                                                 .gguf_shared = LM_SHARED_BOTH };

static lm_status exaone_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    exaone_moe *own = lm_family_config_mut(c);

    LM_TRY(configure(s, c, e));
    LM_TRY(lm_read_own(s, exaone_moe_own, c, e));
    LM_TRY(lm_read_corrected_mixture(s, &exaone_moe_keys, c, e));
    return lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e);
}

static const lm_order orders[] = { { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } };

const lm_family lm_family_exaone4 = {
    .name         = "exaone4",
    .class_prefix = "Exaone4",
    .hf_types     = (const char *const[]){ "exaone4", NULL },
    .gguf_archs   = (const char *const[]){ "exaone4", NULL },
    .orders       = orders,
    .configure    = configure,
    .build        = exaone4_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 32 }, { "rms_norm_eps", 1e-5 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "sliding_window", "sliding_window_pattern",
                                           "layer_types", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};

static const lm_name exaone_moe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.e_score_correction_bias", "blk.*.exp_probs_b" },
    { NULL, NULL },
};

const lm_family lm_family_exaone_moe = {
    .name         = "exaone_moe",
    .class_prefix = "ExaoneMoe",
    .hf_types     = (const char *const[]){ "exaone_moe", NULL },
    .gguf_archs   = (const char *const[]){ "exaone-moe", NULL },
    .pad_token    = "0",
    .orders       = orders,
    .configure    = exaone_moe_configure,
    .build        = exaone_moe_build,
    .own          = exaone_moe_own,
    .mixture      = &exaone_moe_keys,
    .names        = exaone_moe_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 32 }, { "rms_norm_eps", 1e-5 },
                                          { "num_experts", 64 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 1024 }, { "num_shared_experts", 1 },
                                          { "routed_scaling_factor", 2.5 }, { "norm_topk_prob", true },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "sliding_window", "sliding_window_pattern",
                                           "layer_types", "mlp_layer_types", "first_k_dense_replace",
                                           "num_experts", "num_experts_per_tok", "moe_intermediate_size",
                                           "num_shared_experts", "routed_scaling_factor", "norm_topk_prob",
                                           "scoring_func", "n_group", "topk_group",
                                           "num_nextn_predict_layers", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "mtp.*", NULL },
    .layers       = "model.layers.",
};
