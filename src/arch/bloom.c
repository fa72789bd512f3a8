/* bloom.c - BLOOM (arXiv 2211.05100): ALiBi, a LayerNorm after the embedding, q, k and v interleaved per
 * head. */
#include "arch/families.h"

typedef struct bloom { bool residual_normed; } bloom;        /* residuals add to the normalised input */
LM_OWN_FITS(bloom);

/* GGUF stores all of q, then k, then v; checkpoints store q, k and v head by head. */
static lm_value bloom_attention(lm_builder *b, const lm_config *c, lm_value x, lm_value residual)
{
    lm_push(b, "self_attention", "%sAttention");
    lm_called_by_position(b);
    lm_value qkv  = lm_linear(b, "query_key_value", x, 3 * c->hidden, true);
    uint32_t part = c->hidden / c->qkv_groups;
    lm_value q    = lm_columns(b, "q", qkv, c->qkv_groups, 0, part);
    lm_value k    = lm_columns(b, "k", qkv, c->qkv_groups, part, part);
    lm_value v    = lm_columns(b, "v", qkv, c->qkv_groups, 2 * part, part);
    lm_value o    = lm_linear(b, "dense", lm_attention(b, q, k, v, &c->attention), c->hidden, true);
    o             = lm_add(b, residual, o);
    lm_dropout(b, "attention_dropout", c->dropout[1], LM_NONE);
    lm_pop(b);
    return o;
}

static lm_value bloom_mlp(lm_builder *b, const lm_config *c, lm_value x, lm_value residual)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value y = lm_activate(b, lm_linear(b, "dense_h_to_4h", x, c->intermediate, true), LM_ACT_GELU_TANH);
    y          = lm_add(b, residual, lm_linear(b, "dense_4h_to_h", y, c->hidden, true));
    lm_pop(b);
    return y;
}

static lm_value bloom_build(lm_builder *b, const lm_config *c)
{
    const bloom *own = lm_own(c);

    lm_push(b, "transformer", "%sModel");
    lm_called_by_position(b);
    lm_value x = lm_embedding(b, "word_embeddings", c->vocab_size, c->hidden);
    x          = lm_layer_norm(b, "word_embeddings_layernorm", x, c->norm_eps, true);
    lm_push(b, "h", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sBlock");
        lm_value h = lm_layer_norm(b, "input_layernorm", x, c->norm_eps, true);
        x          = bloom_attention(b, c, h, own->residual_normed ? h : x);
        h          = lm_layer_norm(b, "post_attention_layernorm", x, c->norm_eps, true);
        x          = bloom_mlp(b, c, h, own->residual_normed ? h : x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "ln_f", x, c->norm_eps, true);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.word_embeddings" : NULL);
}

static const lm_own_number bloom_own[] = {
    { "apply_residual_connection_post_layernorm", NULL, LM_OWN_BOOL, offsetof(bloom, residual_normed), 0, 1, false, false },
    { 0 },
};

/* Older checkpoints use n_embed and num_attention_heads. seq_length is not a limit, because there are no
 * position embeddings. */
static lm_status bloom_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool        old_width = s->kind != LM_GGUF && lm_meta_has(s->meta, "n_embed");
    const char *heads = s->kind != LM_GGUF && lm_meta_has(s->meta, "num_attention_heads")
                            ? "num_attention_heads"
                            : "n_head";
    const char *layers = s->kind != LM_GGUF && lm_meta_has(s->meta, "num_hidden_layers") ? "num_hidden_layers"
                                                                                         : "n_layer";

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, old_width ? "n_embed" : "hidden_size", "embedding_length", 1, 1u << 18, -1,
                       &c->hidden, e));
    LM_TRY(lm_read_u32(s, layers, "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, heads, "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, NULL, "feed_forward_length", 1, 1u << 20, 4 * (int64_t)c->hidden, &c->intermediate,
                       e));
    LM_TRY(lm_read_u32(s, "seq_length", "context_length", 1, UINT32_MAX, 2048, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-20, 1, 1e-5, &c->norm_eps,
                       e));
    LM_TRY(lm_read_own(s, bloom_own, c, e));
    LM_TRY(lm_read_head_dim(s, heads, c, e));
    LM_TRY(lm_read_own_heads(s, c, e));
    c->qkv_groups      = s->kind == LM_GGUF ? 1 : c->n_heads;
    c->qkv_groups_hf   = c->n_heads;
    c->attention       = lm_plain_attention(c);
    c->attention.alibi = 8;
    return LM_OK;
}

static const lm_name bloom_names[] = {
    { "transformer.word_embeddings", "token_embd" },
    { "transformer.word_embeddings_layernorm", "token_embd_norm" },
    { "transformer.h.*.input_layernorm", "blk.*.attn_norm" },
    { "transformer.h.*.self_attention.query_key_value", "blk.*.attn_qkv" },
    { "transformer.h.*.self_attention.dense", "blk.*.attn_output" },
    { "transformer.h.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "transformer.h.*.mlp.dense_h_to_4h", "blk.*.ffn_up" },
    { "transformer.h.*.mlp.dense_4h_to_h", "blk.*.ffn_down" },
    { "transformer.ln_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_bloom = {
    .name         = "bloom",
    .class_prefix = "Bloom",
    .hf_types     = (const char *const[]){ "bloom", NULL },
    .gguf_archs   = (const char *const[]){ "bloom", NULL },
    .orders       = (const lm_order[]){ { "MLP", "*" }, { NULL, NULL } },
    .act_name     = "gelu_impl",
    .act_class    = "BloomGelu",
    .dropout_keys = (const char *const[]){ "hidden_dropout", "attention_dropout", "hidden_dropout" },
    .configure    = bloom_configure,
    .build        = bloom_build,
    .own          = bloom_own,
    .names        = bloom_names,
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "n_embed", "n_layer", "n_head", "layer_norm_epsilon", "seq_length", "pretraining_tp",
                                           "slow_but_exact", "apply_residual_connection_post_layernorm",
                                           "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
                                           "offset_alibi", "skip_bias_add", "skip_bias_add_qkv",
                                           "unk_token_id", NULL },
};
