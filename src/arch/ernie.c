/* ernie.c - ERNIE 4.5 (Baidu, 2025): Llama's decoder with rotation of adjacent lanes, like GLM, and one
 * switch for all biases; with experts, mixtures by softmax whose choice is corrected. */
#include <inttypes.h>

#include "arch/families.h"

static lm_status ernie_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    if (s->kind != LM_GGUF) {
        LM_TRY(lm_read_bool(s, "use_bias", NULL, false, &c->bias_qkv, e));
        c->bias_o = c->bias_mlp = c->bias_qkv;
    }
    c->rope.pairing  = LM_ROPE_PAIR;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

/* ---- with experts ---- */

typedef struct ernie_moe {
    uint32_t first, every;               /* mixtures are in every `every`-th layer, from `first` to `last` */
    uint32_t last;
} ernie_moe;
LM_OWN_FITS(ernie_moe);

static const lm_own_number ernie_moe_own[] = {
    { "moe_layer_start_index", "leading_dense_block_count", LM_OWN_U32, offsetof(ernie_moe, first), 0, LM_MAX_LAYERS, 0, true },
    { "moe_layer_interval", "interleave_moe_layer_step", LM_OWN_U32, offsetof(ernie_moe, every), 1, LM_MAX_LAYERS, 1, true },
    { 0 },
};

static const lm_mixture_keys ernie_moe_keys = { .experts = "moe_num_experts", .top_k = "moe_k",
                                                .shared = "moe_num_shared_experts",
                                                .gguf_shared = LM_SHARED_BOTH };

static bool has_mixture(const ernie_moe *own, uint32_t layer)
{
    return layer >= own->first && layer <= own->last && (layer + 1) % own->every == 0;
}

static lm_value ernie_moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module     = "mlp",
                                            .class_name = "%sSparseMoeBlock",
                                            .correction = "moe_statics.e_score_correction_bias",
                                            .in_row     = true,
                                            .parts      = { "gate_proj", "up_proj", "down_proj" } };

    x          = lm_add(b, x, lm_llama_attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    h          = has_mixture(lm_own(c), layer) ? lm_shared_mixture(b, c, &names, h) : lm_llama_mlp(b, c, h);
    return lm_add(b, x, h);
}

static lm_value ernie_moe_build(lm_builder *b, const lm_config *c)
{
    lm_value logits = lm_decoder_frame(b, c, &(lm_decoder){ .layer = ernie_moe_layer });

    if (c->bias_o)
        lm_with_bias(b, logits);
    return logits;
}

/* The last layer with a mixture: a number, or -1, which is the last layer. */
static lm_status read_last(const lm_source *s, lm_config *c, lm_error *e)
{
    ernie_moe    *own = lm_family_config_mut(c);
    lm_meta_value v;

    own->last = c->n_layers - 1;
    if (s->kind == LM_GGUF || !lm_meta_get(s->meta, "moe_layer_end_index", &v) ||
        (v.kind == LM_META_INT && v.i == -1))
        return LM_OK;
    return lm_read_u32(s, "moe_layer_end_index", NULL, 0, LM_MAX_LAYERS, -1, &own->last, e);
}

static lm_status ernie_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    float least;

    LM_TRY(ernie_configure(s, c, e));
    LM_TRY(lm_read_own(s, ernie_moe_own, c, e));
    LM_TRY(read_last(s, c, e));
    LM_TRY(lm_read_shared_mixture(s, &ernie_moe_keys, c, e));
    /* the smallest divisor of the weights: chosen softmax scores always exceed it */
    LM_TRY(lm_read_f32(s, "moe_norm_min", NULL, 0, 1e-9, 1e-12, &least, e));
    c->route.renormalise = true;
    return LM_OK;
}

const lm_family lm_family_ernie = {
    .name         = "ernie4_5",
    .class_prefix = "Ernie4_5",
    .hf_types     = (const char *const[]){ "ernie4_5", NULL },
    .gguf_archs   = (const char *const[]){ "ernie4_5", NULL },
    .pad_token    = "0",
    .configure    = ernie_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "rope_theta", 5e5 }, { "tie_word_embeddings", true },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "use_bias", "compression_ratio", "use_flash_attention", "rope_3d", "use_rmsnorm",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

static const lm_name ernie_moe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { "model.layers.*.mlp.moe_statics.e_score_correction_bias", "blk.*.exp_probs_b" },
    { NULL, NULL },
};

const lm_family lm_family_ernie_moe = {
    .name         = "ernie4_5_moe",
    .class_prefix = "Ernie4_5_Moe",
    .hf_types     = (const char *const[]){ "ernie4_5_moe", NULL },
    .gguf_archs   = (const char *const[]){ "ernie4_5-moe", NULL },
    .pad_token    = "0",
    .configure    = ernie_moe_configure,
    .build        = ernie_moe_build,
    .own          = ernie_moe_own,
    .mixture      = &ernie_moe_keys,
    .names        = ernie_moe_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "rope_theta", 5e5 },
                                          { "tie_word_embeddings", true }, { "moe_intermediate_size", 1536 },
                                          { "moe_k", 6 }, { "moe_num_experts", 64 },
                                          { "moe_num_shared_experts", 2 }, { "moe_layer_start_index", 1 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "use_bias", "moe_num_experts", "moe_k",
                                           "moe_num_shared_experts", "moe_intermediate_size",
                                           "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval",
                                           "moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free",
                                           "router_aux_loss_coef", "compression_ratio", "use_flash_attention",
                                           "rope_3d", "use_rmsnorm", "num_nextn_predict_layers", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "model.mtp_block.*", "model.mtp_emb_norm.*",
                                           "model.mtp_hidden_norm.*", "model.mtp_linear_proj.*", NULL },
};
