/* minimax.c - MiniMax M2 (MiniMax, 2025): Llama's decoder with q and k each normalised across all heads, a
 * part of each head rotated, in halves, and in every layer a mixture whose choice is corrected. */
#include "arch/families.h"

static const lm_mixture_keys keys = { .experts = "num_local_experts", .top_k = "num_experts_per_tok",
                                      .width = "intermediate_size", .gguf_shared = LM_SHARED_UNSAID };

static lm_value minimax_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module     = "block_sparse_moe",
                                            .class_name = "%sSparseMoeBlock",
                                            .correction = "e_score_correction_bias",
                                            .parts      = { "w1", "w3", "w2" } };

    x = lm_add(b, x, lm_olmo2_attention(b, c, layer, &c->rope, lm_llama_norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, lm_shared_mixture(b, c, &names, lm_llama_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value minimax_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = minimax_layer });
}

/* Check that all layers have attention over all tokens: 1. */
static lm_status check_layers(const lm_source *s, const lm_config *c, lm_error *e)
{
    lm_meta_value list, item;

    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, "attn_type_list"))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, "attn_type_list", LM_MAX_LAYERS, &list, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (list.a.n != c->n_layers || !lm_meta_at(&list, i, &item) || item.kind != LM_META_UINT ||
            item.u != 1)
            return lm_no_form(s, "attn_type_list", "does not have a 1 per layer, which is full attention", e);
    return LM_OK;
}

static lm_status minimax_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t dim, lanes;

    LM_TRY(lm_llama_shape(s, c, e));
    LM_TRY(check_layers(s, c, e));
    LM_TRY(lm_expect_bool(s, "use_qk_norm", true, e));
    LM_TRY(lm_expect_bool(s, "use_routing_bias", true, e));
    LM_TRY(lm_expect_word(s, "qk_norm_type", "per_layer", e));
    LM_TRY(lm_read_u32(s, "rotary_dim", NULL, 2, c->head_dim, c->head_dim, &dim, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", (double)dim / c->head_dim, c, &lanes, e));
    LM_TRY(lm_llama_rotation(s, lanes, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    return c->expert_width == c->intermediate
               ? LM_OK
               : lm_wrong(s, NULL, "expert_feed_forward_length", e, "%u; %u is expected, as feed_forward_length",
                          c->expert_width, c->intermediate);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.block_sparse_moe.e_score_correction_bias", "blk.*.exp_probs_b" },
    { "model.layers.*.block_sparse_moe.experts.w1", "blk.*.ffn_gate_exps" },
    { "model.layers.*.block_sparse_moe.experts.w3", "blk.*.ffn_up_exps" },
    { "model.layers.*.block_sparse_moe.experts.w2", "blk.*.ffn_down_exps" },
    { NULL, NULL },
};

const lm_family lm_family_minimax_m2 = {
    .name         = "minimax_m2",
    .class_prefix = "MiniMaxM2",
    .hf_types     = (const char *const[]){ "minimax_m2", NULL },
    .gguf_archs   = (const char *const[]){ "minimax-m2", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = minimax_configure,
    .build        = minimax_build,
    .mixture      = &keys,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 196608 }, { "rope_theta", 5e6 },
                                          { "num_local_experts", 256 }, { "num_experts_per_tok", 8 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "num_local_experts", "num_experts_per_tok", "rotary_dim",
                                           "partial_rotary_factor", "use_qk_norm", "qk_norm_type",
                                           "use_routing_bias", "scoring_func", "attn_type_list",
                                           "num_mtp_modules", "mtp_transformer_layers", "use_mtp",
                                           "router_aux_loss_coef", "router_jitter_noise", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "model.mtp.*", "mtp.*", NULL },
    .layers       = "model.layers.",
};
