/* mamba2.c - Mamba-2 (arXiv 2405.21060): every layer is one mixer; no attention, no MLP. Also Mamba
 * Codestral, whose tensors are named model.backbone…. */
#include "arch/families.h"

static lm_value norm(lm_builder *b, const lm_config *c, const char *name, const char *printed, lm_value x)
{
    x = lm_llama_norm(b, c, name, x);
    if (printed)
        lm_module_arguments(b, "=%s", printed);
    return x;
}

lm_value lm_mamba_frame(lm_builder *b, const lm_config *c, lm_mixer_builder *mixer, const char *printed)
{
    lm_push(b, "backbone", "%sModel");
    lm_value x = lm_embedding(b, "embeddings", c->vocab_size, c->hidden);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sBlock");
        x = lm_add(b, x, mixer(b, c, norm(b, c, "norm", printed, x)));
        lm_pop(b);
    }
    lm_pop(b);
    x = norm(b, c, "norm_f", printed, x);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "backbone.embeddings" : NULL);
}

static lm_value mixer(lm_builder *b, const lm_config *c, lm_value x)
{
    return lm_mamba2(b, c, "mixer", "%sMixer", x);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    return lm_mamba_frame(b, c, mixer, "");
}

static const lm_mamba_keys mamba_keys = {
    .heads     = "num_heads",
    .head_dim  = "head_dim",
    .state     = "state_size",
    .groups    = "n_groups",
    .taps      = "conv_kernel",
    .conv_bias = "use_conv_bias",
    .in_bias   = "use_bias",
    .out_bias  = "use_bias",
    .expand    = "expand",
};

lm_status lm_read_mamba_sizes(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_hidden_layers", "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", "attention.layer_norm_rms_epsilon", 1e-20, 1, 1e-5,
                       &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->stateful[i] = c->no_attention[i] = c->no_mlp[i] = true;
    /* no position is stored: the number that llama.cpp's converter writes */
    return lm_read_u32(s, NULL, "context_length", 1, UINT32_MAX, 1 << 20, &c->context_length, e);
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_mamba_sizes(s, c, e));
    LM_TRY(lm_read_mamba2(s, &mamba_keys, c, e));
    c->mamba.act         = c->act;
    c->mamba.gated_class = "MambaRMSNormGated";
    return LM_OK;
}

static const lm_name names[] = {
    { "backbone.embeddings", "token_embd" },
    { "backbone.layers.*.norm", "blk.*.attn_norm" },
    LM_MAMBA2_NAMES("backbone.layers.*.mixer"),
    { "backbone.norm_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_mamba2 = {
    .name         = "mamba2",
    .class_prefix = "Mamba2",
    .hf_types     = (const char *const[]){ "mamba2", NULL },
    .gguf_archs   = (const char *const[]){ "mamba2", NULL },
    .mamba        = &mamba_keys,
    .orders       = (const lm_order[]){ { "Mixer", "act conv1d in_proj norm out_proj *" }, { NULL, NULL } },
    .configure    = configure,
    .build        = build,
    .names        = names,
    .pad_token    = "1",
    .defaults     = (const lm_default[]){ { "head_dim", 64 }, { "state_size", 128 },
                                          { "n_groups", 8 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_epsilon", "num_heads", "head_dim", "state_size", "n_groups",
                                           "conv_kernel", "use_conv_bias", "use_bias", "expand", "chunk_size",
                                           "time_step_limit", "norm_before_gate", "residual_in_fp32", "rms_norm",
                                           "rescale_prenorm_residual", "time_step_rank", "time_step_min", "time_step_max",
                                           "time_step_floor", NULL },
};
