/* mixtral.c - Mixtral (arXiv 2401.04088): Mistral's decoder with mixtures of gated experts as MLPs; the
 * weights of the selected experts are renormalised. Its GGUF files have architecture llama with
 * expert_count. */
#include "arch/families.h"

static lm_value mixtral_moe(lm_builder *b, const lm_config *c, lm_value x)
{
    static const char *const names[3] = { "w1", "w3", "w2" };

    lm_push(b, "block_sparse_moe", "%sSparseMoeBlock");
    lm_value route = lm_route(b, lm_linear(b, "gate", x, c->route.n_experts, false), &c->route, NULL);
    lm_value y = lm_experts(b, "experts", x, route, c->route.n_experts, c->route.top_k, c->expert_width,
                            c->act, names);
    lm_pop(b);
    return y;
}

static lm_value mixtral_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_rms_norm(b, "input_layernorm", x, c->norm_eps);
    x          = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    h          = lm_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
    return lm_add(b, x, mixtral_moe(b, c, h));
}

static lm_value mixtral_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = mixtral_layer });
}

static lm_status mixtral_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_read_window(s, 0, c, e));
    c->route = (lm_route_spec){ .renormalise = true, .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_local_experts", "expert_count", 1, LM_MAX_EXPERTS, 8, &c->route.n_experts, e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, c->route.n_experts, 2,
                       &c->route.top_k, e));
    c->expert_width = c->intermediate;
    return LM_OK;
}

static const lm_name mixtral_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.block_sparse_moe.experts.w1", "blk.*.ffn_gate_exps" },
    { "model.layers.*.block_sparse_moe.experts.w3", "blk.*.ffn_up_exps" },
    { "model.layers.*.block_sparse_moe.experts.w2", "blk.*.ffn_down_exps" },
    { NULL, NULL },
};

const lm_family lm_family_mixtral = {
    .name         = "mixtral",
    .class_prefix = "Mixtral",
    .hf_types     = (const char *const[]){ "mixtral", NULL },
    .gguf_archs   = (const char *const[]){ "llama", NULL },
    .gguf_key     = "expert_count",
    .configure    = mixtral_configure,
    .build        = mixtral_build,
    .names        = mixtral_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "rope_theta", 1e6 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "sliding_window", "num_local_experts", "num_experts_per_tok",
                                           "router_aux_loss_coef", "router_jitter_noise", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
