/* llama.c - Llama (arXiv 2302.13971, 2307.09288, 2407.21783): pre-norm decoder, rotary grouped-query
 * attention, SwiGLU.
 *
 * Also every checkpoint of class LlamaForCausalLM: SmolLM2, DeepSeek-LLM, granite-code (biases
 * everywhere); and InternLM3 and IQuest-Coder, whose model_type stands for other defaults of that class. */
#include "arch/families.h"

lm_value lm_llama_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    return lm_rms_norm(b, name, x, c->norm_eps);
}

lm_value lm_biased_layer_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    return lm_layer_norm(b, name, x, c->norm_eps, true);
}

lm_heads lm_layer_heads(lm_builder *b, const lm_config *c, const lm_attention_spec *a, lm_value x)
{
    lm_value q = lm_linear(b, "q_proj", x, a->n_heads * a->k_dim, c->bias_qkv);
    lm_value k = lm_linear(b, "k_proj", x, a->n_kv_heads * a->k_dim, c->bias_qkv);
    lm_value v = lm_linear(b, "v_proj", x, a->n_kv_heads * a->v_dim, c->bias_qkv);

    return (lm_heads){ q, k, v };
}

lm_heads lm_llama_heads(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_attention_spec a = lm_plain_attention(c);

    return lm_layer_heads(b, c, &a, x);
}

void lm_rotate_heads(lm_builder *b, const lm_config *c, const lm_rope_spec *rope, lm_heads *h)
{
    h->q = lm_rope(b, h->q, c->n_heads, rope);
    h->k = lm_rope(b, h->k, c->n_kv_heads, rope);
}

lm_value lm_llama_scores(lm_builder *b, const lm_config *c, uint32_t layer, lm_heads h)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    return lm_linear(b, "o_proj", lm_attention(b, h.q, h.k, h.v, &scores), c->hidden, c->bias_o);
}

lm_value lm_llama_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

lm_value lm_llama_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, c->intermediate, c->bias_mlp);
    lm_value up   = lm_linear(b, "up_proj", x, c->intermediate, c->bias_mlp);
    lm_value down = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, c->bias_mlp);
    lm_pop(b);
    return down;
}

static lm_value llama_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    h          = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

lm_value lm_llama_embed(lm_builder *b, const lm_config *c)
{
    lm_value x = lm_embedding(b, "embed_tokens", c->vocab_size, c->hidden);

    lm_set_padding(b, c);
    return x;
}

lm_value lm_decoder_frame(lm_builder *b, const lm_config *c, const lm_decoder *d)
{
    lm_push(b, "model", d->model_class ? d->model_class : "%sModel");
    lm_value x = d->embed ? d->embed(b, c) : lm_llama_embed(b, c);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = d->layer(b, c, i, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = d->norm ? d->norm(b, c, "norm", x) : lm_llama_norm(b, c, "norm", x);
    if (!d->rotary_class || *d->rotary_class)
        lm_leaf(b, "rotary_emb", d->rotary_class ? d->rotary_class : "%sRotaryEmbedding");
    if (d->rotaries)
        d->rotaries(b, c);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, !c->tied ? NULL : d->table ? d->table : "model.embed_tokens");
}

lm_value lm_llama_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = llama_layer });
}

lm_status lm_read_llama_biases(const lm_source *s, lm_config *c, lm_error *e)
{
    if (s->kind == LM_GGUF) {
        c->bias_qkv = lm_has_tensor(s, "blk.0.attn_q.bias");
        c->bias_o   = lm_has_tensor(s, "blk.0.attn_output.bias");
        c->bias_mlp = lm_has_tensor(s, "blk.0.ffn_gate.bias");
        return LM_OK;
    }
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    c->bias_o = c->bias_qkv;
    return LM_OK;
}

lm_status lm_llama_shape(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_sizes(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    return lm_read_llama_biases(s, c, e);
}

/* Mistral's GGUF files have this architecture, too, so a window in the file is used. */
lm_status lm_llama_rotation(const lm_source *s, uint32_t lanes, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    c->rope.pairing  = s->kind == LM_GGUF ? LM_ROPE_PAIR : LM_ROPE_HALF;
    c->rope.permuted = s->kind == LM_GGUF;
    c->rope.gguf_permutes = true;
    c->attention     = lm_plain_attention(c);
    return s->kind == LM_GGUF ? lm_read_window(s, 0, c, e) : LM_OK;
}

lm_status lm_llama_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_shape(s, c, e));
    return lm_llama_rotation(s, c->head_dim, c, e);
}

/* The switches have other names. */
static lm_status internlm3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool qkv, others;

    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_read_bool(s, "qkv_bias", NULL, c->bias_qkv, &qkv, e));
    LM_TRY(lm_read_bool(s, "bias", NULL, c->bias_mlp, &others, e));
    if (qkv != others)
        return lm_no_form(s, "qkv_bias", "differs from `bias`: o_proj would have one of the two", e);
    c->bias_qkv = c->bias_o = c->bias_mlp = qkv;
    return LM_OK;
}

static lm_status iquestcoder_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_meta_value clip;

    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_expect_bool(s, "use_sliding_window", false, e));
    if (lm_meta_get(s->meta, "clip_qkv", &clip) && clip.kind != LM_META_NULL)
        return lm_no_form(s, "clip_qkv", "this family does not clamp q, k and v", e);
    return LM_OK;
}

const lm_name lm_llama_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { NULL, NULL },
};

const lm_family lm_family_llama = {
    .name         = "llama",
    .class_prefix = "Llama",
    .hf_types     = (const char *const[]){ "llama", NULL },
    .gguf_archs   = (const char *const[]){ "llama", NULL },
    .configure    = lm_llama_configure,
    .ternary      = true,
    .build        = lm_llama_build,
    .gguf_implied = lm_implied_window,
    .names        = lm_llama_names,
    .keys         = (const char *const[]){ "attention_bias", "mlp_bias", "hidden_act", "pretraining_tp",
                                           "rope_interleaved", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "blk.*.attn_rot_embd",
                                           "rope_freqs.weight", NULL },
};

const lm_family lm_family_internlm3 = {
    .name         = "internlm3",
    .class_prefix = "Llama",
    .hf_types     = (const char *const[]){ "internlm3", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .gguf_as      = "llama",
    .pad_token    = "2",
    .configure    = internlm3_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 32768 }, { "rms_norm_eps", 1e-5 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "attention_bias", "mlp_bias", "qkv_bias", "bias", "hidden_act",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_iquestcoder = {
    .name         = "iquestcoder",
    .class_prefix = "Llama",
    .hf_types     = (const char *const[]){ "iquestcoder", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .gguf_as      = "llama",
    .configure    = iquestcoder_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 }, { "rms_norm_eps", 1e-5 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "attention_bias", "mlp_bias", "hidden_act", "clip_qkv",
                                           "use_sliding_window", "sliding_window",
                                           "max_window_layers", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
