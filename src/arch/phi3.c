/* phi3.c - Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219, 2412.08905, 2503.01743): Llama's decoder with q, k and
 * v in one projection, gate and up in another, longrope, partial rotation in Phi-4-mini, and a window in all
 * layers of some models. */
#include "arch/families.h"

static lm_value phi3_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    uint32_t heads = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;

    lm_push(b, "self_attn", "%sAttention");
    lm_value all = lm_linear(b, "qkv_proj", x, heads + 2 * kv, false);
    lm_heads h;
    h.q = lm_columns(b, "q", all, 1, 0, heads);
    h.k = lm_columns(b, "k", all, 1, heads, kv);
    h.v = lm_columns(b, "v", all, 1, heads + kv, kv);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value phi3_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);
    h          = phi3_attention(b, c, layer, h);
    lm_dropout(b, "resid_attn_dropout", c->dropout[2], h);
    x = lm_add(b, x, h);
    h = lm_fused_mlp(b, c, lm_llama_norm(b, c, "post_attention_layernorm", x));
    lm_dropout(b, "resid_mlp_dropout", c->dropout[2], h);
    return lm_add(b, x, h);
}

static lm_value phi3_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = phi3_layer });
}

static lm_status phi3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_llama_shape(s, c, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 1, c, &lanes, e));
    LM_TRY(lm_llama_rotation(s, lanes, c, e));
    c->bias_qkv = c->bias_o = c->bias_mlp = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    if (s->kind != LM_GGUF && c->rope.type != LM_ROPE_DEFAULT && c->rope.type != LM_ROPE_LONGROPE)
        return lm_no_form(s, "rope_scaling", "this family scales its rotation by longrope alone", e);
    return lm_read_window(s, 0, c, e);
}

static const lm_name phi3_names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },
    { "model.layers.*.self_attn.qkv_proj", "blk.*.attn_qkv" },
    { "model.layers.*.self_attn.o_proj", "blk.*.attn_output" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { "model.norm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_phi3 = {
    .name         = "phi3",
    .class_prefix = "Phi3",
    .hf_types     = (const char *const[]){ "phi3", NULL },
    .gguf_archs   = (const char *const[]){ "phi3", NULL },
    .orders       = (const lm_order[]){
        { "Attention", "o_proj *" },
        { "DecoderLayer", "self_attn mlp * resid_attn_dropout resid_mlp_dropout" },
        { NULL, NULL },
    },
    .act_name     = "activation_fn",
    .pad_token    = "32000",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attention_dropout", "resid_pdrop" },
    .configure    = phi3_configure,
    .build        = phi3_build,
    .names        = phi3_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 },
                                          { "original_max_position_embeddings", 4096 },
                                          { "rms_norm_eps", 1e-5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "partial_rotary_factor",
                                           "sliding_window", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
