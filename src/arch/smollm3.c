/* smollm3.c - SmolLM3 (Hugging Face, 2025): Llama's decoder in which every fourth layer does not rotate;
 * those layers may have a window. */
#include "arch/families.h"

typedef struct smollm3 { bool no_rope[LM_MAX_LAYERS]; } smollm3;         /* layers without rotation */
LM_OWN_FITS(smollm3);

static lm_value smollm3_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const smollm3 *own = lm_own(c);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    if (!own->no_rope[layer])
        lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value smollm3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, smollm3_attention(b, c, layer, h));
    h          = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value smollm3_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = smollm3_layer });
}

/* no_rope_layers has 1 for layers that *do* rotate. */
static lm_status read_rotating(const lm_source *s, lm_config *c, lm_error *e)
{
    smollm3      *own = lm_family_config_mut(c);
    lm_meta_value list, item;
    uint32_t      every;

    LM_TRY(lm_read_u32(s, "no_rope_layer_interval", NULL, 1, LM_MAX_LAYERS, 4, &every, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        own->no_rope[i] = (i + 1) % every == 0;
    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, "no_rope_layers"))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, "no_rope_layers", LM_MAX_LAYERS, &list, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (list.a.n != c->n_layers || !lm_meta_at(&list, i, &item) || item.kind != LM_META_UINT ||
            item.u > 1) {
            lm_fail(e, LM_BAD_MODEL, "no_rope_layers", LM_NO_OFFSET, "does not have a 0 or 1 per layer");
            return lm_fail_in(e, lm_meta_file(s->meta));
        }
        own->no_rope[i] = !item.u;
    }
    return LM_OK;
}

static lm_status smollm3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    const smollm3 *own = lm_own(c);
    bool           on;

    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(read_rotating(s, c, e));
    LM_TRY(lm_read_bool(s, "use_sliding_window", NULL, false, &on, e));
    if (!on)
        return LM_OK;
    LM_TRY(lm_read_window(s, 0, c, e));
    for (uint32_t i = 0; i < c->n_layers && !lm_meta_has(s->meta, "layer_types"); i++)
        c->full[i] = !own->no_rope[i];
    return LM_OK;
}

const lm_family lm_family_smollm3 = {
    .name         = "smollm3",
    .class_prefix = "SmolLM3",
    .hf_types     = (const char *const[]){ "smollm3", NULL },
    .gguf_archs   = (const char *const[]){ "smollm3", NULL },
    .pad_token    = "128004",
    .configure    = smollm3_configure,
    .build        = smollm3_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "max_position_embeddings", 32768 },
                                          { "rope_theta", 2e6 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval",
                                           "use_sliding_window", "sliding_window", "layer_types", "max_window_layers", "pretraining_tp",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
