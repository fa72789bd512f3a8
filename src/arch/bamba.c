/* bamba.c - Bamba (IBM, Princeton, UIUC, 2024): layers with a Mamba-2 mixer and layers with attention that
 * rotates half of each head; each followed by a gated MLP. */
#include "arch/families.h"

lm_value lm_feed_forward(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "feed_forward", "%sMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, c->intermediate, c->bias_mlp);
    lm_value up   = lm_linear(b, "up_proj", x, c->intermediate, c->bias_mlp);
    x             = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, c->bias_mlp);
    lm_pop(b);
    return x;
}

static lm_value layer(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);

    h = c->stateful[i] ? lm_mamba2(b, c, "mamba", "%sMixer", h) : lm_llama_attention(b, c, i, h);
    x = lm_add(b, x, h);
    return lm_add(b, x, lm_feed_forward(b, c, lm_llama_norm(b, c, "pre_ff_layernorm", x)));
}

static lm_value final_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    (void)name;
    return lm_llama_norm(b, c, "final_layernorm", x);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = layer, .norm = final_norm });
}

static const lm_mamba_keys mamba_keys = {
    .heads     = "mamba_n_heads",
    .head_dim  = "mamba_d_head",
    .state     = "mamba_d_state",
    .groups    = "mamba_n_groups",
    .taps      = "mamba_d_conv",
    .conv_bias = "mamba_conv_bias",
    .in_bias   = "mamba_proj_bias",
    .out_bias  = "mamba_proj_bias",
    .expand    = "mamba_expand",
};

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_mixed_sizes(s, "mamba", "rms_norm_eps", c, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->stateful[i] = true;
    LM_TRY(lm_read_attention_layers(s, "attn_layer_indices", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(lm_llama_rotation(s, c->head_dim / 2, c, e));
    LM_TRY(lm_read_mamba2(s, &mamba_keys, c, e));
    c->mamba.act = c->act;
    return LM_OK;
}

const lm_family lm_family_bamba = {
    .name         = "bamba",
    .class_prefix = "Bamba",
    .hf_types     = (const char *const[]){ "bamba", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .pad_token    = "0",
    .mamba        = &mamba_keys,
    .orders       = (const lm_order[]){ { "Mixer", "act conv1d in_proj norm out_proj *" },
                                        { "DecoderLayer", "feed_forward input_layernorm pre_ff_layernorm *" },
                                        { "Model", "embed_tokens layers final_layernorm rotary_emb *" },
                                        { NULL, NULL } },
    .configure    = configure,
    .build        = build,
    .defaults     = (const lm_default[]){ { "intermediate_size", 14336 }, { "num_key_value_heads", 8 },
                                          { "max_position_embeddings", 262144 }, { "rms_norm_eps", 1e-5 },
                                          { "mamba_n_heads", 128 }, { "mamba_n_groups", 1 }, { "mamba_d_state", 256 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "attn_layer_indices", "mamba_n_heads",
                                           "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv",
                                           "mamba_conv_bias", "mamba_proj_bias", "mamba_expand", "mamba_chunk_size",
                                           "time_step_limit", "attn_rotary_emb", "partial_rotary_factor", "z_loss_coefficient",
                                           "num_logits_to_keep", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
