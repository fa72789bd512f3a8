/* afmoe.c - AFMoE, Trinity (Arcee, 2025): norms before and behind attention and MLP, a gate for every lane
 * behind attention, and mixtures whose choice is corrected after the first layers. Three of four layers have
 * a window and rotate; the fourth does neither. */
#include <math.h>

#include "arch/families.h"

typedef struct afmoe {
    uint32_t dense_layers;
    bool     scaled;                     /* the embedding is multiplied by the root of its width */
} afmoe;
LM_OWN_FITS(afmoe);

static const lm_own_number own_numbers[] = {
    { "num_dense_layers", "leading_dense_block_count", LM_OWN_U32, offsetof(afmoe, dense_layers), 0, LM_MAX_LAYERS, 0, true },
    { "mup_enabled", NULL, LM_OWN_BOOL, offsetof(afmoe, scaled), 0, 1, 0, false },
    { 0 },
};

static const lm_mixture_keys keys = { .experts = "num_experts", .top_k = "num_experts_per_tok",
                                      .shared = "num_shared_experts", .scale = "route_scale",
                                      .normalised = "route_norm" };

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_norm", h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_norm", h.k, c->n_kv_heads, c->norm_eps);
    if (!c->full[layer])
        lm_rotate_heads(b, c, &c->rope, &h);
    lm_value gate = lm_linear(b, "gate_proj", x, c->n_heads * c->head_dim, false);
    lm_value y    = lm_gate(b, "gated", gate, lm_attention(b, h.q, h.k, h.v, &scores), LM_ACT_SIGMOID);
    y             = lm_linear(b, "o_proj", y, c->hidden, c->bias_o);
    lm_pop(b);
    return y;
}

static lm_value afmoe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module       = "mlp",
                                            .class_name   = "%sSparseMoeBlock",
                                            .router       = "router",
                                            .router_class = "%sTokenChoiceRouter",
                                            .logits       = "gate",
                                            .correction   = "expert_bias",
                                            .parts        = { "gate_proj", "up_proj", "down_proj" } };
    const afmoe                  *own   = lm_own(c);
    lm_value                      h     = lm_llama_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, lm_llama_norm(b, c, "post_attention_layernorm", attention(b, c, layer, h)));
    h = lm_llama_norm(b, c, "pre_mlp_layernorm", x);
    h = layer < own->dense_layers ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &names, h);
    return lm_add(b, x, lm_llama_norm(b, c, "post_mlp_layernorm", h));
}

static lm_value afmoe_embed(lm_builder *b, const lm_config *c)
{
    const afmoe *own = lm_own(c);
    lm_value     x   = lm_llama_embed(b, c);

    return own->scaled ? lm_scale(b, x, sqrtf((float)c->hidden)) : x;
}

static lm_value afmoe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .embed = afmoe_embed, .layer = afmoe_layer });
}

/* Files of published models have these; transformers has no groups. */
static lm_status check_groups(const lm_source *s, lm_error *e)
{
    static const char *const hf[]   = { "n_group", "topk_group", "num_expert_groups", "num_limited_groups" };
    static const char *const gguf[] = { "expert_group_count", "expert_group_used_count", NULL, NULL };
    uint32_t                 n;

    for (int i = 0; i < 4; i++)
        LM_TRY(lm_read_u32(s, hf[i], gguf[i], 1, 1, 1, &n, e));
    return LM_OK;
}

static lm_status afmoe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    afmoe          *own     = lm_family_config_mut(c);
    lm_mixture_keys mixture = keys;

    mixture.normalises = s->kind != LM_GGUF;
    LM_TRY(lm_llama_configure(s, c, e));
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_read_window(s, s->kind == LM_GGUF ? 0 : 1024, c, e));
    LM_TRY(lm_read_window_pattern(s, "global_attn_every_n_layers", 4, c, e));
    if (!c->attention.window)
        return lm_wrong(s, "sliding_window", "attention.sliding_window", e,
                        "missing; layers without a window have no form in this family");
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    own->scaled |= s->kind == LM_GGUF;           /* as llama.cpp does */
    LM_TRY(check_groups(s, e));
    LM_TRY(lm_expect_word(s, "score_func", "sigmoid", e));
    if (s->kind != LM_GGUF)
        LM_TRY(lm_expect_bool(s, "route_norm", true, e));
    return lm_read_corrected_mixture(s, &mixture, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.self_attn.gate_proj", "blk.*.attn_gate" },
    { "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm" },
    { "model.layers.*.pre_mlp_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.post_mlp_layernorm", "blk.*.post_ffw_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.router.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.mlp.expert_bias", "blk.*.exp_probs_b" },
    { NULL, NULL },
};

const lm_family lm_family_afmoe = {
    .name         = "afmoe",
    .class_prefix = "Afmoe",
    .hf_types     = (const char *const[]){ "afmoe", NULL },
    .gguf_archs   = (const char *const[]){ "afmoe", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" },
                                        { "SparseMoeBlock", "router shared_experts *" }, { NULL, NULL } },
    .configure    = afmoe_configure,
    .build        = afmoe_build,
    .own          = own_numbers,
    .mixture      = &keys,
    .names        = names,
    .defaults     = (const lm_default[]){ { "head_dim", 128 }, { "max_position_embeddings", 16384 },
                                          { "rms_norm_eps", 1e-5 }, { "num_dense_layers", 1 },
                                          { "num_experts", 64 }, { "num_experts_per_tok", 6 },
                                          { "num_shared_experts", 2 }, { "moe_intermediate_size", 1408 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "num_dense_layers", "num_experts",
                                           "num_experts_per_tok", "num_shared_experts", "moe_intermediate_size",
                                           "route_scale", "route_norm", "score_func", "n_group", "topk_group",
                                           "num_expert_groups", "num_limited_groups", "mup_enabled",
                                           "global_attn_every_n_layers", "sliding_window", "layer_types",
                                           "load_balance_coeff", "use_grouped_mm", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
