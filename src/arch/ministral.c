/* ministral.c - Ministral 3: Mistral's decoder with YaRN and a temperature of the queries, which grows with
 * their position. Published inside Mistral3, beside layers for images. */
#include "arch/families.h"

#define TEMPERATURE "llama_4_scaling_beta"

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

/* ---- metadata ---- */

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
