/* starcoder2.c - StarCoder2 (arXiv 2402.19173): rotary grouped-query attention with LayerNorm, a plain
 * tanh-GELU MLP, biases everywhere, a sliding window in the smaller models. */
#include "arch/families.h"

static lm_value starcoder2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_biased_layer_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    h          = lm_biased_layer_norm(b, c, "post_attention_layernorm", x);
    lm_push(b, "mlp", "%sMLP");
    h = lm_activate(b, lm_linear(b, "c_fc", h, c->intermediate, c->bias_mlp), c->act);
    h = lm_linear(b, "c_proj", h, c->hidden, c->bias_mlp);
    lm_pop(b);
    return lm_add(b, x, h);
}

static lm_value starcoder2_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = starcoder2_layer, .norm = lm_biased_layer_norm });
}

static lm_status starcoder2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool bias;

    LM_TRY(lm_read_layer_norm_sizes(s, "norm_epsilon", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_bool(s, "use_bias", NULL, s->kind != LM_GGUF || lm_has_tensor(s, "blk.0.attn_q.bias"),
                        &bias, e));
    c->bias_qkv = c->bias_o = c->bias_mlp = bias;
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->attention = lm_plain_attention(c);
    return lm_read_window(s, 0, c, e);
}

static const lm_name starcoder2_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.c_fc", "blk.*.ffn_up" },
    { "model.layers.*.mlp.c_proj", "blk.*.ffn_down" },
    { NULL, NULL },
};

const lm_family lm_family_starcoder2 = {
    .name         = "starcoder2",
    .class_prefix = "Starcoder2",
    .hf_types     = (const char *const[]){ "starcoder2", NULL },
    .gguf_archs   = (const char *const[]){ "starcoder2", NULL },
    .act_name     = "act",
    .configure    = starcoder2_configure,
    .build        = starcoder2_build,
    .names        = starcoder2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "max_position_embeddings", 4096 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "norm_epsilon", "use_bias", "sliding_window", "mlp_type", "norm_type",
                                           "residual_dropout", "embedding_dropout", "activation_function",
                                           "scale_attn_weights", "attention_softmax_in_fp32",
                                           "scale_attention_softmax_in_fp32", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
