/* stablelm.c - StableLM 3B, Zephyr and StableLM 2 (arXiv 2402.17834): Llama's modules with LayerNorm, rotary
 * embedding on a quarter of each head; biases on q, k, v, a norm per head, and parallel attention and MLP if
 * enabled. */
#include "arch/families.h"

static lm_value head_norms(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t n_heads)
{
    lm_push(b, name, "%sLayerNormPerHead");
    x = lm_layer_norm_heads(b, "norms.*", x, n_heads, n_heads, c->norm_eps);
    lm_pop(b);
    return x;
}

static lm_value stablelm_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_value q = lm_linear(b, "q_proj", x, c->n_heads * c->head_dim, c->bias_qkv);
    lm_value k = lm_linear(b, "k_proj", x, c->n_kv_heads * c->head_dim, c->bias_qkv);
    lm_value v = lm_linear(b, "v_proj", x, c->n_kv_heads * c->head_dim, c->bias_qkv);
    if (c->qk_norm) {
        q = head_norms(b, c, "q_layernorm", q, c->n_heads);
        k = head_norms(b, c, "k_layernorm", k, c->n_kv_heads);
    }
    q          = lm_rope(b, q, c->n_heads, &c->rope);
    k          = lm_rope(b, k, c->n_kv_heads, &c->rope);
    lm_value o = lm_linear(b, "o_proj", lm_attention(b, q, k, v, &c->attention), c->hidden, false);
    lm_pop(b);
    return o;
}

static lm_value stablelm_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    (void)layer;             /* all layers are alike */
    lm_value h = lm_biased_layer_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, stablelm_attention(b, c, h));
    if (!c->parallel)
        h = lm_biased_layer_norm(b, c, "post_attention_layernorm", x);
    h = lm_llama_mlp(b, c, h);
    lm_dropout(b, "dropout", c->dropout[2], h);
    return lm_add(b, x, h);
}

static lm_value stablelm_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = stablelm_layer, .norm = lm_biased_layer_norm });
}

/* In GGUF files the existence of a second norm decides, as in llama.cpp, because converters write the key for
 * all models. */
static lm_status check_parallel(const lm_source *s, const lm_config *c, lm_error *e)
{
    bool stated;

    LM_TRY(lm_read_bool(s, NULL, "use_parallel_residual", c->parallel, &stated, e));
    if (s->kind == LM_GGUF && stated != c->parallel)
        lm_source_warn(
            s,
            "stablelm.use_parallel_residual is %s, but there is %s blk.0.ffn_norm.weight: the tensor decides",
            stated ? "true" : "false", c->parallel ? "no" : "a");
    return LM_OK;
}

static lm_status stablelm_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool     file = s->kind == LM_GGUF;
    uint32_t lanes;

    LM_TRY(lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "use_qkv_bias", NULL, file && lm_has_tensor(s, "blk.0.attn_q.bias"), &c->bias_qkv,
                        e));
    LM_TRY(lm_read_bool(s, "qk_layernorm", NULL, file && lm_has_tensor(s, "blk.0.attn_q_norm.weight"),
                        &c->qk_norm, e));
    LM_TRY(lm_read_bool(s, "use_parallel_residual", NULL, file && !lm_has_tensor(s, "blk.0.ffn_norm.weight"),
                        &c->parallel, e));
    LM_TRY(check_parallel(s, c, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.25, c, &lanes, e));
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    c->attention = lm_plain_attention(c);
    return LM_OK;
}

static const lm_name stablelm_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_layernorm.norms.*", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_layernorm.norms.*", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { NULL, NULL },
};

const lm_family lm_family_stablelm = {
    .name         = "stablelm",
    .class_prefix = "StableLm",
    .hf_types     = (const char *const[]){ "stablelm", NULL },
    .gguf_archs   = (const char *const[]){ "stablelm", NULL },
    .dropout_keys = (const char *const[]){ "hidden_dropout", "attention_dropout", "hidden_dropout" },
    .orders       = (const lm_order[]){ { "DecoderLayer", "self_attn mlp * dropout" }, { NULL, NULL } },
    .configure    = stablelm_configure,
    .build        = stablelm_build,
    .names        = stablelm_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 32 }, { "max_position_embeddings", 4096 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "partial_rotary_factor", "qk_layernorm", "use_qkv_bias",
                                           "use_parallel_residual", "rotary_scaling_factor", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
