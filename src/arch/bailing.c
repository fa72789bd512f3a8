/* bailing.c - Ling 3 (inclusionAI, 2026): layers with Kimi delta attention, whose decay has a lower bound,
 * and layers with latent attention whose heads are gated; each followed by an MLP, or by a mixture of experts
 * with a shared one. */
#include "arch/families.h"

typedef struct bailing {
    uint32_t taps, head_dim, dense_layers, group;
    bool     bounded;
    float    bound;
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} bailing;
LM_OWN_FITS(bailing);

#define OWN(member) offsetof(bailing, member)
static const lm_own_number bailing_own[] = {
    { "short_conv_kernel_size", "ssm.conv_kernel", LM_OWN_U32, OWN(taps), 2, 64, 4, true },
    { "head_dim", "kda.head_dim", LM_OWN_U32, OWN(head_dim), 1, 1024, 128, true },
    { "kda_safe_gate", "kda.safe_gate", LM_OWN_BOOL, OWN(bounded), 0, 1, 1, true },
    { "kda_lower_bound", "kda.gate_lower_bound", LM_OWN_F32, OWN(bound), -1e3, -1e-3, -5, true },
    { "layer_group_size", NULL, LM_OWN_U32, OWN(group), 1, LM_MAX_LAYERS, 6, false },
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, OWN(dense_layers), 0, LM_MAX_LAYERS, 2, true },
    { 0 },
};

static lm_value delta_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    const bailing *own  = lm_own(c);
    lm_kda         rule = { .n_heads  = c->n_heads,
                            .head_dim = own->head_dim,
                            .taps     = own->taps,
                            .bound    = own->bounded ? own->bound : 0,
                            .output   = "o_proj",
                            .gate     = "ssm_g_a" };

    lm_push(b, "attention", "%sDeltaAttention");
    x = lm_kda_heads(b, c, &rule, x);
    lm_pop(b);
    return x;
}

static lm_value latent_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "attention", "%sAttention");
    lm_value gate = lm_linear(b, "g_proj", x, c->n_heads, false);
    lm_value y    = lm_gate(b, "gated", gate, lm_latent_heads(b, c, x), LM_ACT_SIGMOID);
    y             = lm_linear(b, "dense", y, c->hidden, c->bias_o);
    lm_pop(b);
    return y;
}

static lm_value bailing_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module     = "mlp",
                                            .class_name = "%sMoE",
                                            .correction = "gate.expert_bias",
                                            .parts      = { "gate_proj", "up_proj", "down_proj" } };
    const bailing *own = lm_own(c);
    lm_value       h   = lm_llama_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, c->stateful[layer] ? delta_attention(b, c, h) : latent_attention(b, c, h));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &names, h));
}

static lm_value embed(lm_builder *b, const lm_config *c)
{
    lm_value x = lm_embedding(b, "word_embeddings", c->vocab_size, c->hidden);

    lm_set_padding(b, c);
    return x;
}

static lm_value bailing_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = bailing_layer,
                                                 .embed = embed,
                                                 .table = "model.word_embeddings" });
}

/* ---- configuration ---- */

/* Return the name of a member that transformers writes otherwise than the published files. */
static const char *spelled(const lm_source *s, const char *published, const char *own)
{
    return s->kind != LM_GGUF && lm_meta_has(s->meta, own) ? own : published;
}

/* Members of the published files whose other values mean another computation. */
static lm_status check_switches(const lm_source *s, lm_error *e)
{
    static const struct { const char *key; bool expected; } switches[] = {
        { "use_mla_nope", false }, { "no_kda_lora", true }, { "use_kda_lora", false }, { "value_norm", false },
        { "scale_router_input", false }, { "use_qkv_bias", false }, { "rope_interleave", true },
        { "moe_router_enable_expert_bias", true },
    };
    static const char *const lists[] = { "expert_swiglu_limit_list", "share_expert_swiglu_limit_list" };

    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        LM_TRY(lm_expect_bool(s, switches[i].key, switches[i].expected, e));
    for (size_t i = 0; s->kind != LM_GGUF && i < 2; i++)
        if (lm_meta_has(s->meta, lists[i]))
            return lm_no_form(s, lists[i], "limits of expert activations are not supported", e);
    LM_TRY(lm_expect_word(s, "gated_attention_proj_granularity_type", "head_wise", e));
    return lm_expect_word(s, "score_function", "sigmoid", e);
}

static lm_status read_delta_attention(const lm_source *s, lm_config *c, lm_error *e)
{
    bailing *own = lm_family_config_mut(c);

    LM_TRY(lm_read_own(s, bailing_own, c, e));
    if (s->kind == LM_GGUF)
        return LM_OK;
    /* transformers overwrites head_dim when it saves */
    LM_TRY(lm_read_u32(s, "linear_head_dim", NULL, 1, 1024, own->head_dim, &own->head_dim, e));
    if (lm_meta_has(s->meta, "layer_types"))
        return lm_read_layer_kinds(s, "layer_types", "linear_attention", "full_attention", c->stateful, c, e);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->stateful[i] = (i + 1) % own->group != 0;
    return LM_OK;
}

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    const lm_mixture_keys keys = { .experts = "num_experts",
                                   .top_k = spelled(s, "num_experts_per_tok", "num_experts_per_token"),
                                   .shared = "num_shared_experts", .scale = "routed_scaling_factor",
                                   .normalised = spelled(s, "norm_topk_prob", "moe_renormalize"),
                                   .normalises = s->kind != LM_GGUF,
                                   .groups = spelled(s, "n_group", "num_expert_group") };
    bailing              *own  = lm_family_config_mut(c);
    uint32_t              shared;

    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    LM_TRY(lm_read_u32(s, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length", 0,
                       1u << 20, c->shared_width, &shared, e));
    if (shared != c->shared_width)
        return lm_wrong(s, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length", e,
                        "%u, but the shared experts are %u wide together", shared, c->shared_width);
    return lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e);
}

static lm_status bailing_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    const lm_latent_keys keys = { .context = spelled(s, "max_position_embeddings", "model_max_length"),
                                  .any_value_length = true };

    LM_TRY(check_switches(s, e));
    LM_TRY(lm_read_latent_sizes(s, &keys, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    LM_TRY(lm_read_rope(s, c->latent.rope_dim, s->kind == LM_GGUF ? 10000 : 6e6, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    if (c->rope.type != LM_ROPE_DEFAULT)
        return lm_no_form(s, "rope_scaling", "scaled rotary embeddings are not supported in this family", e);
    LM_TRY(read_delta_attention(s, c, e));
    return read_mixture(s, c, e);
}

#define ATTENTION "model.layers.*.attention"
static const lm_name names[] = {
    { "model.word_embeddings", "token_embd" },
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },
    { ATTENTION ".q_proj", "blk.*.attn_q" },
    { ATTENTION ".k_proj", "blk.*.attn_k" },
    { ATTENTION ".v_proj", "blk.*.attn_v" },
    { ATTENTION ".o_proj", "blk.*.attn_output" },
    { ATTENTION ".dense", "blk.*.attn_output" },
    { ATTENTION ".f_proj", "blk.*.ssm_f_a" },
    { ATTENTION ".g_proj", "blk.*.attn_gate" },
    LM_LATENT_NAMES(ATTENTION),
    LM_KDA_NAMES(ATTENTION),
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.gate.expert_bias", "blk.*.exp_probs_b" },
    { "model.norm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

static const lm_order orders[] = {
    { "DeltaAttention", "q_proj k_proj v_proj q_conv1d k_conv1d v_conv1d f_proj b_proj g_proj o_norm *" },
    { NULL, NULL },
};

const lm_family lm_family_bailing_hybrid = {
    .name         = "bailing_hybrid",
    .class_prefix = "BailingHybrid",
    .hf_types     = (const char *const[]){ "bailing_hybrid", NULL },
    .gguf_archs   = (const char *const[]){ "bailingmoe3", NULL },
    .orders       = orders,
    .pad_token    = "156892",
    .state_word   = "linear_attention",
    .configure    = bailing_configure,
    .build        = bailing_build,
    .own          = bailing_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 262144 },
                                          { "intermediate_size", 6144 },
                                          { "num_key_value_heads", 32 }, { "q_lora_rank", 0 },
                                          { "num_experts", 512 }, { "num_experts_per_tok", 8 },
                                          { "num_shared_experts", 1 }, { "moe_intermediate_size", 768 },
                                          { "routed_scaling_factor", 2.5 }, { "n_group", 8 },
                                          { "topk_group", 4 }, { "norm_topk_prob", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "q_lora_rank", "kv_lora_rank",
                                           "qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim",
                                           "v_head_dim", "head_dim", "layer_types", "layer_group_size",
                                           "short_conv_kernel_size", "kda_safe_gate", "kda_lower_bound",
                                           "linear_conv_kernel_dim", "linear_head_dim", "linear_num_heads",
                                           "num_experts", "num_experts_per_tok", "num_experts_per_token",
                                           "num_shared_experts", "moe_intermediate_size",
                                           "moe_shared_expert_intermediate_size", "norm_topk_prob",
                                           "moe_renormalize", "n_group", "num_expert_group", "topk_group",
                                           "score_function", "routed_scaling_factor",
                                           "first_k_dense_replace", "mlp_layer_types", "use_mla_nope",
                                           "no_kda_lora", "use_kda_lora", "value_norm",
                                           "scale_router_input", "use_qkv_bias", "rope_interleave",
                                           "moe_router_enable_expert_bias", "use_qk_norm",
                                           "expert_swiglu_limit_list", "share_expert_swiglu_limit_list",
                                           "gated_attention_proj_granularity_type", "max_window_layers",
                                           "mtp_use_kda", "mtp_loss_scaling_factor",
                                           "num_kv_heads_for_linear_attn", "router_dtype",
                                           "num_nextn_predict_layers", "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
    .gguf_unread  = (const char *const[]){ "attention.value_length", NULL },
    .layers       = "model.layers.",
};
