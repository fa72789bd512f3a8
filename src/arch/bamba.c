/* bamba.c - Bamba (IBM, Princeton, UIUC, 2024): layers with a Mamba-2 mixer and layers with attention that
 * rotates half of each head; each followed by a gated MLP. GGUF files have the architecture of Granite 4's
 * hybrids, and lanes of q and k in pairs as if whole heads were rotated. */
#include "arch/families.h"

typedef struct bamba { bool rotates; } bamba;
LM_OWN_FITS(bamba);

static const lm_own_number own_numbers[] = {
    { NULL, "rope.scaling.finetuned", LM_OWN_BOOL, offsetof(bamba, rotates), 0, 1, 1, true },
    { 0 },
};

/* Set that lanes i and i + d/2 of every head are next to each other in GGUF; read from there, return them in
 * the order of checkpoints. */
static lm_value in_order(lm_builder *b, const lm_config *c, const char *word, lm_value x, uint32_t heads)
{
    uint32_t half = c->head_dim / 2;

    lm_stored_in_layout(b, x, &(lm_gguf_layout){ .key_heads = 2, .each = half, .width = 1 });
    if (!c->gguf_layout)
        return x;
    lm_value even = lm_columns(b, "even", x, heads * half, 0, 1);
    lm_value odd  = lm_columns(b, "odd", x, heads * half, 1, 1);
    return lm_join(b, word, even, odd, heads, false);
}

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = in_order(b, c, "q", h.q, c->n_heads);
    h.k        = in_order(b, c, "k", h.k, c->n_kv_heads);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value y = lm_llama_scores(b, c, i, h);
    lm_pop(b);
    return y;
}

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

    h = c->stateful[i] ? lm_mamba2(b, c, "mamba", "%sMixer", h) : attention(b, c, i, h);
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

/* Half of each head rotates, in both containers. */
static lm_status read_rotation(const lm_source *s, lm_config *c, lm_error *e)
{
    if (c->head_dim % 4)
        return lm_wrong(s, "num_attention_heads", "attention.head_count", e,
                        "heads of %u dimensions have no half that can be rotated in pairs", c->head_dim);
    LM_TRY(lm_llama_rotation(s, c->head_dim / 2, c, e));
    if (c->rope.dim != c->head_dim / 2)
        return lm_wrong(s, NULL, "rope.dimension_count", e,
                        "%u, but Bamba (a file without logit_scale) rotates half of %u", c->rope.dim,
                        c->head_dim);
    if (!((const bamba *)lm_own(c))->rotates)
        return lm_wrong(s, NULL, "rope.scaling.finetuned", e,
                        "false; Bamba, a file without logit_scale, rotates");
    c->rope.pairing       = LM_ROPE_HALF;
    c->rope.permuted      = false;               /* a layout of the weights instead */
    c->rope.gguf_permutes = false;
    c->gguf_layout        = s->kind == LM_GGUF;
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(lm_read_mixed_sizes(s, "mamba", "rms_norm_eps", c, e));
    for (uint32_t i = 0; s->kind != LM_GGUF && i < c->n_layers; i++)
        c->stateful[i] = true;
    LM_TRY(lm_read_attention_layers(s, "attn_layer_indices", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(read_rotation(s, c, e));
    LM_TRY(lm_read_mamba2(s, &mamba_keys, c, e));
    c->mamba.act = c->act;
    return LM_OK;
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.pre_ff_layernorm", "blk.*.ffn_norm" },
    LM_MAMBA2_NAMES("model.layers.*.mamba"),
    { "model.layers.*.feed_forward.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.feed_forward.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.feed_forward.down_proj", "blk.*.ffn_down" },
    { "model.final_layernorm", "output_norm" },
    { NULL, NULL },
};

const lm_family lm_family_bamba = {
    .name         = "bamba",
    .class_prefix = "Bamba",
    .hf_types     = (const char *const[]){ "bamba", NULL },
    .gguf_archs   = (const char *const[]){ "granitehybrid", NULL },
    .gguf_key     = "!logit_scale",
    .state_word   = "mamba",
    .pad_token    = "0",
    .mamba        = &mamba_keys,
    .orders       = (const lm_order[]){ { "Mixer", "act conv1d in_proj norm out_proj *" },
                                        { "DecoderLayer", "feed_forward input_layernorm pre_ff_layernorm *" },
                                        { "Model", "embed_tokens layers final_layernorm rotary_emb *" },
                                        { NULL, NULL } },
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = names,
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
