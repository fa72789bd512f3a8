/* axk1.c - A.X K1 (SK Telecom, 2026): DeepSeek-V3's decoder with a norm behind its mixtures. */
#include <stdio.h>

#include "arch/families.h"

typedef struct axk1 {
    uint32_t first, every;               /* plain MLPs, unless listed: layers before `first`, and those whose
                                            index is not a multiple of `every` */
    bool     uncorrected;                /* published files have no corrections of the choice */
    bool     dense[LM_MAX_LAYERS];
} axk1;
LM_OWN_FITS(axk1);

static const lm_own_number own_numbers[] = {
    { "first_k_dense_replace", NULL, LM_OWN_U32, offsetof(axk1, first), 0, LM_MAX_LAYERS, 1, false },
    { "moe_layer_freq", NULL, LM_OWN_U32, offsetof(axk1, every), 1, LM_MAX_LAYERS, 1, false },
    { 0 },
};

/* transformers has the norm inside the module of the mixture, files have it beside. */
static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    const axk1      *own   = lm_own(c);
    lm_mixture_names names = { .module = "mlp",
                               .class_name = "%sMoE",
                               .correction = own->uncorrected ? NULL : "gate.e_score_correction_bias",
                               .parts = { "gate_proj", "up_proj", "down_proj" } };

    return lm_llama_norm(b, c, "post_mlp_layernorm", lm_shared_mixture(b, c, &names, x));
}

static lm_value layer_of(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const axk1 *own = lm_own(c);

    x          = lm_latent_half(b, c, x);
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : mixture(b, c, h));
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = layer_of });
}

static lm_status read_kinds(const lm_source *s, lm_config *c, lm_error *e)
{
    axk1 *own = lm_family_config_mut(c);
    char  name[80];

    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(lm_read_mlp_kinds(s, own->first, own->dense, c, e));
    for (uint32_t i = 0; i < c->n_layers && !lm_meta_has(s->meta, "mlp_layer_types"); i++)
        own->dense[i] |= i % own->every != 0;
    snprintf(name, sizeof name, "model.layers.%u.mlp.gate.e_score_correction_bias",
             lm_leading(own->dense, c));
    own->uncorrected = s->tensors && !lm_has_tensor(s, name);
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_latent_keys latent = { .context = "max_position_embeddings" };
    lm_mixture_keys             keys   = lm_deepseek_keys;
    bool                        pairs;

    keys.normalises = true;
    LM_TRY(lm_read_latent_sizes(s, &latent, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    LM_TRY(lm_read_latent_rotation(s, c, e));
    LM_TRY(lm_read_bool(s, "rope_interleave", NULL, true, &pairs, e));
    c->rope.pairing = pairs ? LM_ROPE_PAIR : LM_ROPE_HALF;
    LM_TRY(lm_read_corrected_mixture(s, &keys, c, e));
    return read_kinds(s, c, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES("model.layers.*.self_attn"),
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.post_mlp_layernorm", "blk.*.post_ffw_norm" },
    { NULL, NULL },
};

const lm_family lm_family_axk1 = {
    .name         = "axk1",
    .class_prefix = "AXK1",
    .hf_types     = (const char *const[]){ "axk1", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 64 }, { "max_position_embeddings", 32768 },
                                          { "intermediate_size", 18432 }, { "n_routed_experts", 192 },
                                          { "num_experts_per_tok", 8 }, { "moe_intermediate_size", 2048 },
                                          { "n_shared_experts", 1 }, { "routed_scaling_factor", 2.5 },
                                          { "first_k_dense_replace", 1 }, { "n_group", 8 },
                                          { "topk_group", 4 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "q_lora_rank", "kv_lora_rank",
                                           "qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim",
                                           "v_head_dim", "n_routed_experts", "num_local_experts",
                                           "n_shared_experts", "num_experts_per_tok",
                                           "moe_intermediate_size", "first_k_dense_replace",
                                           "moe_layer_freq", "mlp_layer_types", "routed_scaling_factor",
                                           "topk_method", "n_group", "topk_group", "norm_topk_prob",
                                           "scoring_func", "rope_interleave", "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq",
                                           "model.layers.*.post_mlp_layernorm.weight", NULL },
};
