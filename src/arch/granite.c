/* granite.c - Granite 3 (IBM, 2024): Llama's decoder with four multipliers. The multiplier of the scores
 * replaces 1/sqrt(D), and the logits are divided by theirs. */
#include "arch/families.h"

LM_OWN_FITS(lm_granite);

static lm_value granite_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const lm_granite *own = lm_own(c);
    lm_value          h   = lm_llama_norm(b, c, "input_layernorm", x);
    x = lm_add(b, x, lm_scale(b, lm_llama_attention(b, c, layer, h), own->residual));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_scale(b, lm_llama_mlp(b, c, h), own->residual));
}

lm_value lm_granite_embed(lm_builder *b, const lm_config *c)
{
    const lm_granite *own = lm_own(c);

    return lm_scale(b, lm_llama_embed(b, c), own->embedding);
}

lm_value lm_granite_frame(lm_builder *b, const lm_config *c, lm_layer_builder *layer)
{
    const lm_granite *own    = lm_own(c);
    lm_value logits = lm_decoder_frame(b, c, &(lm_decoder){ .embed = lm_granite_embed, .layer = layer });

    return lm_scale(b, logits, 1 / own->logits);
}

static lm_value granite_build(lm_builder *b, const lm_config *c)
{
    return lm_granite_frame(b, c, granite_layer);
}

const lm_own_number lm_granite_own[] = { LM_GRANITE_NUMBERS, { 0 } };

/* GGUF files omit the multiplier of the scores if the model has none. */
lm_status lm_granite_multipliers(const lm_source *s, const lm_own_number *own, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_own(s, own, c, e));
    return lm_read_f32(s, "attention_multiplier", "attention.scale", 1e-6, 1e6,
                       s->kind == LM_GGUF ? (double)c->attention.scale : 1, &c->attention.scale, e);
}

lm_status lm_granite_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool rotates;

    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_read_bool(s, NULL, "rope.scaling.finetuned", true, &rotates, e));
    if (!rotates)
        return lm_no_form(s, "rope.scaling.finetuned", "attention of this family rotates", e);
    return lm_granite_multipliers(s, lm_granite_own, c, e);
}

const lm_family lm_family_granite = {
    .name         = "granite",
    .class_prefix = "Granite",
    .hf_types     = (const char *const[]){ "granite", NULL },
    .gguf_archs   = (const char *const[]){ "granite", NULL },
    .configure    = lm_granite_configure,
    .build        = granite_build,
    .own          = lm_granite_own,
    .names        = lm_llama_names,
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "embedding_multiplier", "residual_multiplier",
                                           "attention_multiplier", "logits_scaling", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};
