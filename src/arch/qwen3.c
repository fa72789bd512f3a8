/* qwen3.c - Qwen3 (arXiv 2505.09388): Llama's decoder with each head of q and k normalised before the
 * rotation, no biases unless attention_bias is set, and windows like Qwen2. Rotary lanes are halves in both
 * containers. */
#include "arch/families.h"

lm_value lm_normed_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    h.q        = lm_rms_norm_heads(b, "q_norm", h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_norm_heads(b, "k_norm", h.k, c->n_kv_heads, c->norm_eps);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value qwen3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_normed_attention(b, c, layer, h));
    h          = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value qwen3_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = qwen3_layer });
}

static lm_status qwen3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return lm_qwen_windows(s, c, e);
}

const lm_family lm_family_qwen3 = {
    .name         = "qwen3",
    .class_prefix = "Qwen3",
    .hf_types     = (const char *const[]){ "qwen3", NULL },
    .gguf_archs   = (const char *const[]){ "qwen3", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = qwen3_configure,
    .build        = qwen3_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 32 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 32768 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "use_sliding_window", "sliding_window",
                                           "max_window_layers", "layer_types", NULL },
    /* for rerankers, llama.cpp's converter stores two rows of the head again under another name */
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "cls.output.weight", NULL },
};
