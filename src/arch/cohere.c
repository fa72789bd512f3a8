/* cohere.c - Command-R, Aya (Cohere 2024) and Command R7B (2412): one norm without bias before parallel
 * attention and MLP, rotary pairs, scaled logits. The second generation rotates only in layers with a sliding
 * window. */
#include "arch/families.h"

typedef struct cohere { float logits; } cohere;      /* factor of the logits */
LM_OWN_FITS(cohere);

static lm_value cohere_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_value q = lm_linear(b, "q_proj", x, c->n_heads * c->head_dim, c->bias_qkv);
    lm_value k = lm_linear(b, "k_proj", x, c->n_kv_heads * c->head_dim, c->bias_qkv);
    lm_value v = lm_linear(b, "v_proj", x, c->n_kv_heads * c->head_dim, c->bias_qkv);
    if (c->qk_norm) {
        q = lm_layer_norm_heads(b, "q_norm", q, c->n_heads, c->n_heads, c->norm_eps);
        k = lm_layer_norm_heads(b, "k_norm", k, c->n_kv_heads, c->n_kv_heads, c->norm_eps);
    }
    if (!c->full[layer]) {
        q = lm_rope(b, q, c->n_heads, &c->rope);
        k = lm_rope(b, k, c->n_kv_heads, &c->rope);
    }
    lm_value o = lm_linear(b, "o_proj", lm_attention(b, q, k, v, &scores), c->hidden, c->bias_qkv);
    lm_pop(b);
    return o;
}

/* Add the norm without bias that precedes the parallel attention and MLP. */
static lm_value cohere_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    x = lm_layer_norm(b, name, x, c->norm_eps, false);
    lm_class_is(b, "%sLayerNorm");
    return x;
}

static lm_value cohere_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = cohere_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, cohere_attention(b, c, layer, h));
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value cohere_build(lm_builder *b, const lm_config *c)
{
    const cohere *own    = lm_own(c);
    lm_value logits = lm_decoder_frame(b, c, &(lm_decoder){ .layer = cohere_layer, .norm = cohere_norm });

    return lm_scale(b, logits, own->logits);
}

static const lm_own_number cohere_own[] = {
    { "logit_scale", "logit_scale", LM_OWN_F32, offsetof(cohere, logits), 1e-6, 1e6, 1, true },
    { 0 },
};

static lm_status cohere_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool file = s->kind == LM_GGUF;

    LM_TRY(lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, file && lm_has_tensor(s, "blk.0.attn_q.bias"),
                        &c->bias_qkv, e));
    LM_TRY(lm_read_bool(s, "use_qk_norm", NULL, file && lm_has_tensor(s, "blk.0.attn_q_norm.weight"),
                        &c->qk_norm, e));
    LM_TRY(lm_read_own(s, cohere_own, c, e));
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

/* By default every fourth layer has full attention without positions. */
static lm_status cohere2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    float rotated;

    LM_TRY(cohere_configure(s, c, e));
    LM_TRY(lm_read_f32(s, "rotary_pct", NULL, 0, 1, 1, &rotated, e));
    LM_TRY(lm_read_window(s, 4096, c, e));
    LM_TRY(lm_read_window_pattern(s, "sliding_window_pattern", 4, c, e));
    if (rotated < 1)
        return lm_no_form(s, "rotary_pct", "heads rotate whole in this family", e);
    if (c->attention.window == 0)
        return lm_no_form(s, s->kind == LM_GGUF ? "cohere2.attention.sliding_window" : "sliding_window",
                          "layers without a window have no form in this family", e);
    return LM_OK;
}

const lm_family lm_family_cohere = {
    .name         = "cohere",
    .class_prefix = "Cohere",
    .hf_types     = (const char *const[]){ "cohere", NULL },
    .gguf_archs   = (const char *const[]){ "command-r", NULL },
    .pad_token    = "0",
    .configure    = cohere_configure,
    .build        = cohere_build,
    .own          = cohere_own,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 8192 }, { "rope_theta", 5e5 },
                                          { "tie_word_embeddings", true }, { "logit_scale", 0.0625 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "attention_bias", "use_qk_norm", "logit_scale",
                                           "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_cohere2 = {
    .name         = "cohere2",
    .class_prefix = "Cohere2",
    .hf_types     = (const char *const[]){ "cohere2", NULL },
    .gguf_archs   = (const char *const[]){ "cohere2", NULL },
    .pad_token    = "0",
    .configure    = cohere2_configure,
    .build        = cohere_build,
    .own          = cohere_own,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true },
                                          { "logit_scale", 0.0625 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "attention_bias", "logit_scale", "sliding_window",
                                           "sliding_window_pattern", "layer_types", "rotary_pct", "layer_switch",
                                           "order_of_interleaved_layers", "position_embedding_type", "use_embedding_sharing",
                                           "use_gated_activation", "use_parallel_block", "use_parallel_embedding",
                                           "cache_implementation", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
