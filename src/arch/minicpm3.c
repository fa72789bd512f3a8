/* minicpm3.c - MiniCPM 3 (arXiv 2404.06395; openbmb, 2024): latent attention in a dense decoder, whose
 * embedding, residual branches and logits are scaled. */
#include <math.h>

#include "arch/families.h"

typedef struct minicpm3 { float embedding, depth, base; } minicpm3;
LM_OWN_FITS(minicpm3);

static lm_value minicpm3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const minicpm3 *own = lm_own(c);
    float           part = own->depth / sqrtf((float)c->n_layers);
    lm_value        h   = lm_llama_norm(b, c, "input_layernorm", x);

    (void)layer;
    x = lm_add(b, x, lm_scale(b, lm_latent_mixer(b, c, h), part));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_scale(b, lm_llama_mlp(b, c, h), part));
}

static lm_value embed(lm_builder *b, const lm_config *c)
{
    const minicpm3 *own = lm_own(c);
    lm_value        x   = lm_embed_scaled(b, "embed_tokens", "%sScaledWordEmbedding", c->vocab_size,
                                          c->hidden, own->embedding);

    lm_set_padding(b, c);
    return x;
}

static lm_value minicpm3_build(lm_builder *b, const lm_config *c)
{
    const minicpm3 *own = lm_own(c);
    lm_value logits = lm_decoder_frame(b, c, &(lm_decoder){ .embed = embed, .layer = minicpm3_layer });

    return lm_scale(b, logits, own->base / (float)c->hidden);
}

/* llama.cpp has the numbers of the published model, which are the defaults, and no keys for others. */
static const lm_own_number minicpm3_own[] = {
    { "scale_emb", NULL, LM_OWN_F32, offsetof(minicpm3, embedding), 1e-6, 1e6, 12, false },
    { "scale_depth", NULL, LM_OWN_F32, offsetof(minicpm3, depth), 1e-6, 1e6, 1.4, false },
    { "dim_model_base", NULL, LM_OWN_F32, offsetof(minicpm3, base), 1, 1 << 20, 256, false },
    { 0 },
};

/* null in config.json: the factor has no effect. */
static void set_neutral(const lm_source *s, lm_config *c)
{
    minicpm3     *own = lm_family_config_mut(c);
    lm_meta_value v;

    if (s->kind == LM_GGUF)
        return;
    if (lm_meta_get(s->meta, "scale_depth", &v) && v.kind == LM_META_NULL)
        own->depth = sqrtf((float)c->n_layers);
    if (lm_meta_get(s->meta, "dim_model_base", &v) && v.kind == LM_META_NULL)
        own->base = (float)c->hidden;
}

static lm_status minicpm3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    static const lm_latent_keys keys = { .context = "max_position_embeddings", .value_of_hidden = true };

    LM_TRY(lm_read_latent_sizes(s, &keys, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    LM_TRY(lm_read_latent_rotation(s, c, e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    LM_TRY(lm_read_own(s, minicpm3_own, c, e));
    set_neutral(s, c);
    if (s->kind == LM_GGUF)
        lm_source_warn(s, "the file has no factors of embedding, residuals and logits: those of the published "
                          "model, 12, 1.4 and 256, are used");
    c->rope.pairing = LM_ROPE_HALF;
    return LM_OK;
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES("model.layers.*.self_attn"),
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_minicpm3 = {
    .name         = "minicpm3",
    .class_prefix = "MiniCPM3",
    .hf_types     = (const char *const[]){ "minicpm3", NULL },
    .gguf_archs   = (const char *const[]){ "minicpm3", NULL },
    .joint_latent = true,
    .configure    = minicpm3_configure,
    .build        = minicpm3_build,
    .own          = minicpm3_own,
    .names        = names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 32768 }, { "rms_norm_eps", 1e-5 },
                                          { "q_lora_rank", 768 }, { "kv_lora_rank", 256 },
                                          { "qk_nope_head_dim", 64 }, { "qk_rope_head_dim", 32 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "q_lora_rank",
                                           "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                                           "qk_head_dim", "scale_emb", "scale_depth", "dim_model_base",
                                           "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
