/* kimi_linear.c - Kimi Linear (arXiv 2510.26692): layers with Kimi delta attention and layers with latent
 * attention that does not rotate; each followed by an MLP, or by a mixture of experts with a shared one. */
#include <inttypes.h>
#include <string.h>

#include "arch/families.h"

typedef struct kimi {
    uint32_t taps, head_dim, n_heads, dense_layers;
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} kimi;
LM_OWN_FITS(kimi);

#define OWN(member) offsetof(kimi, member)
static const lm_own_number kimi_own[] = {
    { "linear_attn_config/short_conv_kernel_size", "ssm.conv_kernel", LM_OWN_U32, OWN(taps), 2, 64, 4, true },
    { "linear_attn_config/head_dim", "kda.head_dim", LM_OWN_U32, OWN(head_dim), 1, 1024, 128, true },
    { "linear_attn_config/num_heads", NULL, LM_OWN_U32, OWN(n_heads), 1, 1024, 32, false },
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, OWN(dense_layers), 0, LM_MAX_LAYERS, 1, true },
    { 0 },
};

static lm_value delta_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    const kimi *own  = lm_own(c);
    lm_kda      rule = { .n_heads = own->n_heads,
                         .head_dim = own->head_dim,
                         .taps = own->taps,
                         .low_rank = true,
                         .padded = true,
                         .output = "o_proj" };

    lm_push(b, "self_attn", "%sDeltaAttention");
    x = lm_kda_heads(b, c, &rule, x);
    lm_pop(b);
    return x;
}

static lm_value latent_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    x = lm_linear(b, "o_proj", lm_latent_heads(b, c, x), c->hidden, c->bias_o);
    lm_pop(b);
    return x;
}

static lm_value kimi_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module     = "block_sparse_moe",
                                            .class_name = "%sMoE",
                                            .correction = "gate.e_score_correction_bias",
                                            .parts      = { "w1", "w3", "w2" } };
    const kimi *own = lm_own(c);
    lm_value    h   = lm_llama_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, c->stateful[layer] ? delta_attention(b, c, h) : latent_attention(b, c, h));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &names, h));
}

static lm_value kimi_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = kimi_layer, .rotary_class = "" });
}

/* ---- configuration ---- */

/* Mark the layers of a list, which counts from 1, in `seen`. */
static lm_status mark_layers(const lm_source *s, const char *key, const lm_config *c, bool *seen, lm_error *e)
{
    lm_meta_value list, item;

    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    for (uint64_t i = 0; i < list.a.n; i++) {
        bool known = lm_meta_at(&list, i, &item) && item.kind == LM_META_UINT && item.u >= 1 &&
                     item.u <= c->n_layers;
        if (!known || seen[item.u - 1])
            return lm_wrong(s, key, NULL, e,
                            "entry %" PRIu64 " is not a layer number from 1 to %u, or occurs twice",
                            i, c->n_layers);
        seen[item.u - 1] = true;
    }
    return LM_OK;
}

/* Read which layers have a state: transformers writes layer_types, the published files have two lists. */
static lm_status read_kinds(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const lists[2] = { "linear_attn_config/kda_layers",
                                          "linear_attn_config/full_attn_layers" };
    bool                     seen[LM_MAX_LAYERS] = { false };

    if (s->kind == LM_GGUF)
        return LM_OK;                    /* read with the heads */
    if (lm_meta_has(s->meta, "layer_types"))
        return lm_read_layer_kinds(s, "layer_types", "linear_attention", "full_attention", c->stateful, c, e);
    if (!lm_meta_has(s->meta, lists[0]) && !lm_meta_has(s->meta, lists[1])) {
        for (uint32_t i = 0; i < c->n_layers; i++)
            c->stateful[i] = i == 0 || i % 4 != 0;
        return LM_OK;
    }
    LM_TRY(mark_layers(s, lists[0], c, seen, e));
    memcpy(c->stateful, seen, sizeof seen);
    LM_TRY(mark_layers(s, lists[1], c, seen, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (!seen[i])
            return lm_wrong(s, lists[0], NULL, e, "layer %u is missing here and in %s", i + 1, lists[1]);
    return LM_OK;
}

/* Read the sizes of the delta attention, which transformers writes with other names. */
static lm_status read_delta_attention(const lm_source *s, lm_config *c, lm_error *e)
{
    kimi *own = lm_family_config_mut(c);

    LM_TRY(lm_read_own(s, kimi_own, c, e));
    if (s->kind == LM_GGUF) {
        own->n_heads = c->n_heads;
        return LM_OK;
    }
    if (!lm_meta_has(s->meta, "linear_attn_config")) {
        LM_TRY(lm_read_u32(s, "linear_conv_kernel_dim", NULL, 2, 64, 4, &own->taps, e));
        LM_TRY(lm_read_u32(s, "linear_head_dim", NULL, 1, 1024, 128, &own->head_dim, e));
        LM_TRY(lm_read_u32(s, "linear_num_heads", NULL, 1, 1024, 32, &own->n_heads, e));
    }
    return LM_OK;
}

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_mixture_keys keys = { .experts = "num_experts", .top_k = "num_experts_per_token",
                                          .shared = "num_shared_experts",
                                          .scale = "routed_scaling_factor",
                                          .groups = "num_expert_group" };
    kimi                        *own  = lm_family_config_mut(c);
    uint32_t                     every;

    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    LM_TRY(lm_expect_word(s, "moe_router_activation_func", "sigmoid", e));
    LM_TRY(lm_read_u32(s, "moe_layer_freq", NULL, 1, LM_MAX_LAYERS, 1, &every, e));
    if (every != 1)
        return lm_no_form(s, "moe_layer_freq", "leaves out layers, which transformers does not compute", e);
    LM_TRY(lm_read_bool(s, "moe_renormalize", NULL, true, &c->route.renormalise, e));
    return lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e);
}

static lm_status kimi_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_latent_keys keys = { .context = "model_max_length", .any_value_length = true };
    bool                        unrotated;

    LM_TRY(lm_read_latent_sizes(s, &keys, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    LM_TRY(lm_read_bool(s, "mla_use_nope", NULL, true, &unrotated, e));
    if (!unrotated)
        return lm_no_form(s, "mla_use_nope", "rotary embeddings are not supported in this family", e);
    LM_TRY(read_delta_attention(s, c, e));
    LM_TRY(read_kinds(s, c, e));
    return read_mixture(s, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES("model.layers.*.self_attn"),
    LM_KDA_NAMES("model.layers.*.self_attn"),
    { "model.layers.*.self_attn.f_a_proj", "blk.*.ssm_f_a" },
    { "model.layers.*.self_attn.f_b_proj", "blk.*.ssm_f_b" },
    { "model.layers.*.self_attn.g_a_proj", "blk.*.ssm_g_a" },
    { "model.layers.*.self_attn.g_b_proj", "blk.*.ssm_g_b" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { "model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.block_sparse_moe.gate.e_score_correction_bias", "blk.*.exp_probs_b" },
    { "model.layers.*.block_sparse_moe.experts.w1", "blk.*.ffn_gate_exps" },
    { "model.layers.*.block_sparse_moe.experts.w3", "blk.*.ffn_up_exps" },
    { "model.layers.*.block_sparse_moe.experts.w2", "blk.*.ffn_down_exps" },
    { "model.layers.*.block_sparse_moe.shared_experts.gate_proj", "blk.*.ffn_gate_shexp" },
    { "model.layers.*.block_sparse_moe.shared_experts.up_proj", "blk.*.ffn_up_shexp" },
    { "model.layers.*.block_sparse_moe.shared_experts.down_proj", "blk.*.ffn_down_shexp" },
    { NULL, NULL },
};

static const lm_order orders[] = {
    { "DeltaAttention",
      "q_proj k_proj v_proj q_conv1d k_conv1d v_conv1d f_a_proj f_b_proj b_proj g_a_proj g_b_proj o_norm *" },
    { NULL, NULL },
};

const lm_family lm_family_kimi_linear = {
    .name         = "kimi_linear",
    .class_prefix = "KimiLinear",
    .hf_types     = (const char *const[]){ "kimi_linear", NULL },
    .gguf_archs   = (const char *const[]){ "kimi-linear", NULL },
    .orders       = orders,
    .pad_token    = "163839",
    .state_word   = "linear_attention",
    .gguf_renormalises = true,
    .configure    = kimi_configure,
    .build        = kimi_build,
    .own          = kimi_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "model_max_length", 1048576 }, { "intermediate_size", 9216 },
                                          { "rms_norm_eps", 1e-5 }, { "num_key_value_heads", 32 },
                                          { "q_lora_rank", 0 }, { "num_experts", 256 },
                                          { "num_experts_per_token", 8 }, { "num_shared_experts", 1 },
                                          { "moe_intermediate_size", 1024 },
                                          { "routed_scaling_factor", 2.446 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                                           "qk_rope_head_dim", "qk_head_dim", "v_head_dim", "mla_use_nope", "layer_types",
                                           "linear_attn_config/kda_layers", "linear_attn_config/full_attn_layers",
                                           "linear_attn_config/head_dim", "linear_attn_config/num_heads",
                                           "linear_attn_config/short_conv_kernel_size", "linear_conv_kernel_dim",
                                           "linear_head_dim", "linear_num_heads", "num_experts", "num_experts_per_token",
                                           "num_shared_experts", "moe_intermediate_size", "moe_renormalize",
                                           "moe_router_activation_func", "moe_layer_freq", "num_expert_group",
                                           "topk_group", "use_grouped_topk", "routed_scaling_factor", "first_k_dense_replace",
                                           "mlp_layer_types", "num_nextn_predict_layers",
                                           "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
    .gguf_unread  = (const char *const[]){ "attention.value_length", "rope.freq_base", NULL },
    .layers       = "model.layers.",
};
