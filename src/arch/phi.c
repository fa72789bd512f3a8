/* phi.c - Phi-1, 1.5 and 2 (arXiv 2306.11644, 2309.05463): one norm before parallel attention and MLP, rotary
 * halves on the first lanes of each head, biases everywhere including the output head. */
#include "arch/families.h"

/* GGUF files made from Microsoft's first checkpoints store q, k and v in one matrix. */
static void project(lm_builder *b, const lm_config *c, lm_value x, lm_value qkv[3])
{
    static const char *const names[] = { "q_proj", "k_proj", "v_proj" }, *const words[] = { "q", "k", "v" };
    uint32_t width[] = { c->n_heads * c->head_dim, c->n_kv_heads * c->head_dim, c->n_kv_heads * c->head_dim };
    lm_value all = c->qkv_groups ? lm_linear(b, "Wqkv", x, width[0] + width[1] + width[2], true) : LM_NONE;

    for (uint32_t i = 0, at = 0; i < 3; at += width[i++])
        qkv[i] = c->qkv_groups ? lm_columns(b, words[i], all, 1, at, width[i])
                               : lm_linear(b, names[i], x, width[i], true);
}

static lm_value phi_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value qkv[3];

    lm_push(b, "self_attn", "%sAttention");
    project(b, c, x, qkv);
    lm_value q = qkv[0], k = qkv[1], v = qkv[2];
    if (c->qk_norm) {
        q = lm_layer_norm_heads(b, "q_layernorm", q, c->n_heads, 0, c->norm_eps);
        k = lm_layer_norm_heads(b, "k_layernorm", k, c->n_kv_heads, 0, c->norm_eps);
    }
    q          = lm_rope(b, q, c->n_heads, &c->rope);
    k          = lm_rope(b, k, c->n_kv_heads, &c->rope);
    lm_value o = lm_linear(b, "dense", lm_attention(b, q, k, v, &c->attention), c->hidden, true);
    lm_pop(b);
    return o;
}

static lm_value phi_layer(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value h = lm_layer_norm(b, "input_layernorm", x, c->norm_eps, true);
    x          = lm_add(b, x, phi_attention(b, c, h));
    lm_push(b, "mlp", "%sMLP");
    h = lm_activate(b, lm_linear(b, "fc1", h, c->intermediate, true), c->act);
    h = lm_linear(b, "fc2", h, c->hidden, true);
    lm_pop(b);
    lm_dropout(b, "resid_dropout", c->dropout[2], h);
    return lm_add(b, x, h);
}

static lm_value phi_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "model", "%sModel");
    lm_value x = lm_embedding(b, "embed_tokens", c->vocab_size, c->hidden);
    lm_set_padding(b, c);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = phi_layer(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    lm_leaf(b, "rotary_emb", "%sRotaryEmbedding");
    lm_dropout(b, "embed_dropout", c->dropout[0], LM_NONE);
    x = lm_layer_norm(b, "final_layernorm", x, c->norm_eps, true);
    lm_pop(b);
    x = lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.embed_tokens" : NULL);
    lm_with_bias(b, x);
    return x;
}

static lm_status phi_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_bool(s, "qk_layernorm", NULL, false, &c->qk_norm, e));
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.5, c, &lanes, e));
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    c->attention  = lm_plain_attention(c);
    c->qkv_groups = s->kind == LM_GGUF && lm_has_tensor(s, "blk.0.attn_qkv.weight") ? 1 : 0;
    return LM_OK;
}

static const lm_name phi_names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },
    { "model.layers.*.self_attn.q_proj", "blk.*.attn_q" },
    { "model.layers.*.self_attn.k_proj", "blk.*.attn_k" },
    { "model.layers.*.self_attn.v_proj", "blk.*.attn_v" },
    { "model.layers.*.self_attn.Wqkv", "blk.*.attn_qkv" },
    { "model.layers.*.self_attn.dense", "blk.*.attn_output" },
    { "model.layers.*.mlp.fc1", "blk.*.ffn_up" },
    { "model.layers.*.mlp.fc2", "blk.*.ffn_down" },
    { "model.final_layernorm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_phi = {
    .name         = "phi",
    .class_prefix = "Phi",
    .hf_types     = (const char *const[]){ "phi", NULL },
    .gguf_archs   = (const char *const[]){ "phi2", NULL },
    .orders       = (const lm_order[]){
        { "MLP", "activation_fn *" },
        { "DecoderLayer", "self_attn mlp * resid_dropout" },
        { NULL, NULL },
    },
    .act_name     = "activation_fn",
    .act_class    = "NewGELUActivation",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attention_dropout", "resid_pdrop" },
    .configure    = phi_configure,
    .build        = phi_build,
    .names        = phi_names,
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "partial_rotary_factor",
                                           "qk_layernorm", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
