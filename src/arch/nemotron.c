/* nemotron.c - decoders with plain MLPs of squared ReLU: Arcee's AFM (arcee.ai, 2025), else like Llama;
 * Jais 2 (Inception, 2025), which has LayerNorm; and Nemotron (arXiv 2402.16819, Minitron 2407.14679), which
 * has LayerNorm stored less one, and rotates a part of each head. */
#include "arch/families.h"

static lm_value plain_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value up = lm_activate(b, lm_linear(b, "up_proj", x, c->intermediate, c->bias_mlp), c->act);
    up          = lm_linear(b, "down_proj", up, c->hidden, c->bias_mlp);
    lm_pop(b);
    return up;
}

static lm_value layer_with(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x,
                           lm_norm_builder *norm)
{
    x = lm_add(b, x, lm_llama_attention(b, c, layer, norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, plain_mlp(b, c, norm(b, c, "post_attention_layernorm", x)));
}

/* ---- Arcee ---- */

static lm_value arcee_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return layer_with(b, c, layer, x, lm_llama_norm);
}

static lm_value arcee_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = arcee_layer });
}

/* Read the activation and the biases; there is no gate whose bias GGUF files could have. */
static lm_status read_mlp(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_RELU2, c, e));
    LM_TRY(lm_read_llama_biases(s, c, e));
    if (s->kind == LM_GGUF)
        c->bias_mlp = lm_has_tensor(s, "blk.0.ffn_up.bias");
    return LM_OK;
}

static lm_status arcee_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_sizes(s, c, e));
    LM_TRY(read_mlp(s, c, e));
    return lm_llama_rotation(s, c->head_dim, c, e);
}

const lm_family lm_family_arcee = {
    .name         = "arcee",
    .class_prefix = "Arcee",
    .hf_types     = (const char *const[]){ "arcee", NULL },
    .gguf_archs   = (const char *const[]){ "arcee", NULL },
    .configure    = arcee_configure,
    .build        = arcee_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 }, { "rms_norm_eps", 1e-5 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};

/* ---- Jais 2 ---- */

static lm_value jais2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return layer_with(b, c, layer, x, lm_biased_layer_norm);
}

static lm_value jais2_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = jais2_layer, .norm = lm_biased_layer_norm });
}

static lm_status jais2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    LM_TRY(read_mlp(s, c, e));
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

const lm_family lm_family_jais2 = {
    .name         = "jais2",
    .class_prefix = "Jais2",
    .hf_types     = (const char *const[]){ "jais2", NULL },
    .gguf_archs   = (const char *const[]){ "jais2", NULL },
    .configure    = jais2_configure,
    .build        = jais2_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 8192 }, { "attention_bias", true },
                                          { "mlp_bias", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "layer_norm_eps",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};

/* ---- Nemotron ---- */

static lm_value norm_plus_one(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    lm_value y = lm_biased_layer_norm(b, c, name, x);

    lm_class_is(b, "%sLayerNorm1P");
    lm_stored_minus_one(b, y);
    return y;
}

static lm_value nemotron_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return layer_with(b, c, layer, x, norm_plus_one);
}

static lm_value nemotron_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = nemotron_layer, .norm = norm_plus_one });
}

static lm_status nemotron_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_read_layer_norm_sizes(s, "norm_eps", c, e));
    LM_TRY(read_mlp(s, c, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.5, c, &lanes, e));
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

const lm_family lm_family_nemotron = {
    .name         = "nemotron",
    .class_prefix = "Nemotron",
    .hf_types     = (const char *const[]){ "nemotron", NULL },
    .gguf_archs   = (const char *const[]){ "nemotron", NULL },
    .configure    = nemotron_configure,
    .build        = nemotron_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "norm_eps",
                                           "partial_rotary_factor", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
