/* gemma.c - Gemma (arXiv 2403.08295): Llama's decoder with GELU in its gates, embeddings scaled by sqrt(D),
 * norms stored less one. */
#include <math.h>
#include <string.h>

#include "arch/families.h"

lm_value lm_gemma_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    lm_value y = lm_rms_norm(b, name, x, c->norm_eps);

    lm_stored_minus_one(b, y);
    return y;
}

lm_value lm_gemma_embed(lm_builder *b, const lm_config *c)
{
    lm_value x = lm_embed_scaled(b, "embed_tokens", "%sTextScaledWordEmbedding", c->vocab_size, c->hidden,
                                 sqrtf((float)c->hidden));

    lm_set_padding(b, c);
    return x;
}

static lm_value gemma_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_gemma_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    h          = lm_gemma_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value gemma_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c,
                            &(lm_decoder){
                                .embed = lm_gemma_embed, .layer = gemma_layer, .norm = lm_gemma_norm });
}

lm_status lm_gemma_shape(const lm_source *s, const char *act, lm_config *c, lm_error *e)
{
    lm_meta_value both;

    LM_TRY(lm_llama_shape(s, c, e));
    /* "gelu" in hidden_act of the first files means the tanh form, as in the rest of the family */
    LM_TRY(lm_read_act(s, act, LM_ACT_GELU_TANH, c, e));
    if (strcmp(act, "hidden_act") == 0 && c->act == LM_ACT_GELU) {
        c->act       = LM_ACT_GELU_TANH;
        c->act_class = NULL;
    }
    c->bias_mlp = false;
    if (s->kind != LM_GGUF && lm_meta_get(s->meta, "use_bidirectional_attention", &both) &&
        both.kind == LM_META_BOOL && both.b)
        return lm_no_form(s, "use_bidirectional_attention", "attention in both directions has no form here",
                          e);
    return LM_OK;
}

lm_status lm_gemma_configure(const lm_source *s, const char *act, lm_config *c, lm_error *e)
{
    LM_TRY(lm_gemma_shape(s, act, c, e));
    LM_TRY(lm_llama_rotation(s, c->head_dim, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

static lm_status gemma_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    return lm_gemma_configure(s, "hidden_act", c, e);
}

const lm_family lm_family_gemma = {
    .name         = "gemma",
    .class_prefix = "Gemma",
    .hf_types     = (const char *const[]){ "gemma", NULL },
    .gguf_archs   = (const char *const[]){ "gemma", NULL },
    .pad_token    = "0",
    .configure    = gemma_configure,
    .build        = gemma_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 16 }, { "head_dim", 256 },
                                          { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "hidden_activation", "attention_bias",
                                           "use_bidirectional_attention", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
