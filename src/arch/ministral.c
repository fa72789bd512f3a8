/* ministral.c - Ministral 3: Mistral's decoder with YaRN and a temperature of the queries, which grows with
 * their position; Mistral Small 4: the same with latent attention and mixtures of experts. Published inside
 * Mistral3, beside layers for images. */
#include "arch/families.h"

#define TEMPERATURE "llama_4_scaling_beta"

typedef struct mistral4 { uint32_t dense_layers; } mistral4;
LM_OWN_FITS(mistral4);

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    lm_rotate_heads(b, c, &c->rope, &h);
    h.q        = lm_temperature(b, h.q, &c->temperature);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value ministral_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);

    x = lm_add(b, x, attention(b, c, layer, h));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value ministral_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = ministral_layer });
}

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    static const lm_mixture_names names = { .module = "mlp",
                                            .class_name = "%sMoE",
                                            .parts = { "gate_proj", "up_proj", "down_proj" },
                                            .joined = "experts.gate_up_proj",
                                            .alone = "experts.down_proj" };

    return lm_shared_mixture(b, c, &names, x);
}

static lm_value mistral4_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const mistral4 *own = lm_own(c);

    x          = lm_latent_half(b, c, x);
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, layer < own->dense_layers ? lm_llama_mlp(b, c, h) : mixture(b, c, h));
}

static lm_value mistral4_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = mistral4_layer });
}

/* ---- metadata ---- */

static const lm_own_number own_numbers[] = {
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(mistral4, dense_layers), 0, LM_MAX_LAYERS, 0, true },
    { 0 },
};

/* Read the temperature, after the rotation; use the published rotation if a folder has none. */
static lm_status read_temperature(const lm_source *s, lm_rope_spec implied, double absent, lm_config *c,
                                  lm_error *e)
{
    lm_rope_spec *r = &c->rope;

    if (s->kind == LM_GGUF || lm_rope_is_given(s))
        return lm_read_temperature(s, TEMPERATURE, absent, c, e);
    r->type             = LM_ROPE_YARN;
    r->base             = implied.base;
    r->factor           = implied.factor;
    r->original_context = implied.original_context;
    r->beta_fast        = 32;
    r->beta_slow        = r->mscale = r->mscale_all_dim = 1;
    r->truncate         = true;
    c->temperature      = (lm_temperature_spec){ .beta = 0.1f, .length = r->original_context };
    return LM_OK;
}

static lm_status ministral3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_rope_spec implied = { .base = 1e6, .factor = 16, .original_context = 16384 };

    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_read_window(s, 0, c, e));
    if (s->kind == LM_GGUF) {            /* lm_family.whole_mscale; the other magnitude is always 1 */
        c->rope.mscale_all_dim /= 10;
        c->rope.mscale = c->rope.mscale_all_dim > 0;
    }
    return read_temperature(s, implied, 0, c, e);
}

/* Groups of experts are chosen by the sum of their best two. */
static lm_status mistral4_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_rope_spec   implied = { .base = 1e4, .factor = 128, .original_context = 8192 };
    static const lm_latent_keys latent  = { .context = "max_position_embeddings" };
    uint32_t                    scoring, lanes = 0;
    bool                        pairs;

    LM_TRY(lm_read_latent_sizes(s, &latent, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", (double)c->latent.rope_dim / c->head_dim, c,
                                &lanes, e));
    if (lanes != c->latent.rope_dim)
        return lm_no_form(s, "partial_rotary_factor", "differs from qk_rope_head_dim", e);
    LM_TRY(lm_read_latent_rotation(s, c, e));
    LM_TRY(read_temperature(s, implied, 0.1, c, e));
    lm_latent_scale(c);
    LM_TRY(lm_read_bool(s, "rope_interleave", NULL, true, &pairs, e));
    c->rope.pairing = pairs ? LM_ROPE_PAIR : LM_ROPE_HALF;
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(lm_read_shared_mixture(s, &lm_deepseek_keys, c, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 0, 1, 1, &scoring, e));
    LM_TRY(lm_read_expert_groups(s, "n_group", c, e));
    LM_TRY(lm_read_bool(s, "norm_topk_prob", "expert_weights_norm", s->kind != LM_GGUF,
                        &c->route.renormalise, e));
    c->route.group_sum_two = true;
    return LM_OK;
}

const lm_family lm_family_ministral3 = {
    .name         = "ministral3",
    .class_prefix = "Ministral3",
    .hf_types     = (const char *const[]){ "ministral3", NULL },
    .gguf_archs   = (const char *const[]){ "mistral3", NULL },
    .pad_token    = "11",
    .whole_mscale = true,
    .temperature  = TEMPERATURE,
    .configure    = ministral3_configure,
    .build        = ministral_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 262144 }, { "rms_norm_eps", 1e-5 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "sliding_window", "layer_types", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

static const lm_name mistral4_names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES("model.layers.*.self_attn"),
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.experts.gate_up_proj", "blk.*.ffn_gate_up_exps" },
    { NULL, NULL },
};

const lm_family lm_family_mistral4 = {
    .name         = "mistral4",
    .class_prefix = "Mistral4",
    .hf_types     = (const char *const[]){ "mistral4", NULL },
    .gguf_archs   = (const char *const[]){ "mistral4", NULL },
    .pad_token    = "11",
    .temperature  = TEMPERATURE,
    .configure    = mistral4_configure,
    .build        = mistral4_build,
    .own          = own_numbers,
    .names        = mistral4_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 1048576 },
                                          { "intermediate_size", 12288 },
                                          { "num_key_value_heads", 32 }, { "q_lora_rank", 1024 },
                                          { "kv_lora_rank", 256 }, { "qk_nope_head_dim", 64 },
                                          { "n_routed_experts", 128 }, { "num_experts_per_tok", 4 },
                                          { "moe_intermediate_size", 2048 }, { "n_shared_experts", 1 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "q_lora_rank", "kv_lora_rank",
                                           "qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim", "v_head_dim",
                                           "n_routed_experts", "n_shared_experts", "num_experts_per_tok",
                                           "num_local_experts", "moe_intermediate_size", "first_k_dense_replace",
                                           "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob",
                                           "rope_interleave", "partial_rotary_factor", "pretraining_tp",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
