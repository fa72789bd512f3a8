/* falcon.c - Falcon (arXiv 2311.16867) in its three forms: one key-value head with a parallel MLP (7B);
 * groups of q, k and v with separate norms for attention and MLP (40B, "new decoder architecture"); ALiBi
 * with sequential attention and MLP (RW). */
#include "arch/families.h"

typedef struct falcon { bool own_norms; } falcon;        /* attention and MLP have separate norms */
LM_OWN_FITS(falcon);

static lm_value falcon_linear(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t out)
{
    lm_value y = lm_linear(b, name, x, out, c->bias_qkv);

    lm_class_is(b, "%sLinear");
    return y;
}

/* Checkpoints store the queries of a group, its k, its v, then the next group; GGUF stores all q, all k, all
 * v. */
static lm_value falcon_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    uint32_t groups = c->qkv_groups, q_width = c->hidden / groups,
             kv_width = c->n_kv_heads * c->head_dim / groups;

    lm_push(b, "self_attention", "%sAttention");
    lm_value qkv = falcon_linear(b, c, "query_key_value", x, groups * (q_width + 2 * kv_width));
    lm_value q   = lm_columns(b, "q", qkv, groups, 0, q_width);
    lm_value k   = lm_columns(b, "k", qkv, groups, q_width, kv_width);
    lm_value v   = lm_columns(b, "v", qkv, groups, q_width + kv_width, kv_width);
    if (c->attention.alibi == 0) {
        q = lm_rope(b, q, c->n_heads, &c->rope);
        k = lm_rope(b, k, c->n_kv_heads, &c->rope);
    }
    lm_value o = falcon_linear(b, c, "dense", lm_attention(b, q, k, v, &c->attention), c->hidden);
    lm_dropout(b, "attention_dropout", c->dropout[1], LM_NONE);
    lm_pop(b);
    return o;
}

static lm_value falcon_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value y = lm_activate(b, falcon_linear(b, c, "dense_h_to_4h", x, c->intermediate), c->act);
    y          = falcon_linear(b, c, "dense_4h_to_h", y, c->hidden);
    lm_pop(b);
    return y;
}

static lm_value falcon_layer(lm_builder *b, const lm_config *c, lm_value x)
{
    const falcon *own = lm_own(c);
    lm_value h = lm_layer_norm(b, own->own_norms ? "ln_attn" : "input_layernorm", x, c->norm_eps, true);
    lm_value m = own->own_norms ? lm_layer_norm(b, "ln_mlp", x, c->norm_eps, true) : h;
    lm_value y = lm_add(b, x, falcon_attention(b, c, h));
    if (!c->parallel)
        m = lm_layer_norm(b, "post_attention_layernorm", y, c->norm_eps, true);
    return lm_add(b, y, falcon_mlp(b, c, m));
}

static lm_value falcon_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "transformer", "%sModel");
    lm_value x = lm_embedding(b, "word_embeddings", c->vocab_size, c->hidden);
    lm_push(b, "h", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = falcon_layer(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "ln_f", x, c->norm_eps, true);
    lm_leaf(b, "rotary_emb", "%sRotaryEmbedding");
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.word_embeddings" : NULL);
}

/* The older forms ignore num_kv_heads: one head in total with multi_query, otherwise one per query head. */
static lm_status read_forms(const lm_source *s, lm_config *c, lm_error *e)
{
    falcon  *own = lm_family_config_mut(c);
    uint32_t norms, kv_heads;
    bool     grouped, multi_query, alibi, normed;

    LM_TRY(lm_read_bool(s, "new_decoder_architecture", NULL, false, &grouped, e));
    LM_TRY(lm_read_bool(s, "multi_query", NULL, true, &multi_query, e));
    LM_TRY(lm_read_bool(s, "parallel_attn", NULL, true, &c->parallel, e));
    LM_TRY(lm_read_bool(s, "alibi", NULL, false, &alibi, e));
    LM_TRY(lm_read_u32(s, "num_kv_heads", "attention.head_count_kv", 1, 1024, c->n_heads, &kv_heads, e));
    LM_TRY(lm_read_u32(s, "num_ln_in_parallel_attn", NULL, 1, 2, grouped ? 2 : 1, &norms, e));
    LM_TRY(lm_read_bool(s, "apply_residual_connection_post_layernorm", NULL, false, &normed, e));
    if (normed)
        return lm_no_form(s, "apply_residual_connection_post_layernorm",
                          "residuals behind the norm have no form in this family", e);
    if (grouped && !c->parallel)
        return lm_no_form(s, "parallel_attn", "the new decoder architecture is parallel", e);
    if (!grouped && norms == 2)
        return lm_no_form(s, "num_ln_in_parallel_attn", "two norms belong to the new decoder architecture",
                          e);
    c->n_kv_heads = grouped || s->kind == LM_GGUF ? kv_heads : multi_query ? 1 : c->n_heads;
    if (c->n_heads % c->n_kv_heads)
        return lm_no_form(s, s->kind == LM_GGUF ? "falcon.attention.head_count_kv" : "num_kv_heads",
                          "does not divide the number of query heads", e);
    own->own_norms = s->kind == LM_GGUF ? lm_has_tensor(s, "blk.0.attn_norm_2.weight") : norms == 2;
    c->qkv_groups    = s->kind == LM_GGUF ? 1 : c->n_kv_heads;
    c->qkv_groups_hf = c->n_kv_heads;
    c->attention  = lm_plain_attention(c);
    c->attention.alibi      = alibi ? 8 : 0;
    c->attention.alibi_half = alibi;
    return LM_OK;
}

static lm_status falcon_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1u << 18, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_hidden_layers", "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "ffn_hidden_size", "feed_forward_length", 1, 1u << 20, 4 * (int64_t)c->hidden,
                       &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 2048,
                       &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-20, 1, 1e-5, &c->norm_eps,
                       e));
    LM_TRY(lm_read_act(s, "activation", LM_ACT_GELU, c, e));
    LM_TRY(lm_read_bool(s, "bias", NULL, lm_has_tensor(s, "blk.0.attn_qkv.bias"), &c->bias_qkv, e));
    LM_TRY(lm_read_head_dim(s, "num_attention_heads", c, e));
    if (c->head_dim * c->n_heads != c->hidden)
        return lm_no_form(s, "head_dim", "heads times width must be the width of the model", e);
    LM_TRY(read_forms(s, c, e));
    if (c->attention.alibi == 0)
        LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    return LM_OK;
}

static const lm_name falcon_names[] = {
    { "transformer.word_embeddings", "token_embd" },
    { "transformer.h.*.input_layernorm", "blk.*.attn_norm" },
    { "transformer.h.*.ln_mlp", "blk.*.attn_norm" },
    { "transformer.h.*.ln_attn", "blk.*.attn_norm_2" },
    { "transformer.h.*.self_attention.query_key_value", "blk.*.attn_qkv" },
    { "transformer.h.*.self_attention.dense", "blk.*.attn_output" },
    { "transformer.h.*.mlp.dense_h_to_4h", "blk.*.ffn_up" },
    { "transformer.h.*.mlp.dense_4h_to_h", "blk.*.ffn_down" },
    { "transformer.ln_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_falcon = {
    .name         = "falcon",
    .class_prefix = "Falcon",
    .hf_types     = (const char *const[]){ "falcon", NULL },
    .gguf_archs   = (const char *const[]){ "falcon", NULL },
    .coarse_mixture = true,
    .orders       = (const lm_order[]){
        { "MLP", "*" },
        { "DecoderLayer", "self_attention mlp post_attention_layernorm *" },
        { NULL, NULL },
    },
    .act_name     = "act",
    .dropout_keys = (const char *const[]){ "hidden_dropout", "attention_dropout", "hidden_dropout" },
    .configure    = falcon_configure,
    .build        = falcon_build,
    .names        = falcon_names,
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "num_kv_heads", "num_ln_in_parallel_attn", "ffn_hidden_size", "layer_norm_epsilon",
                                           "activation", "ff_factor", "alibi", "bias", "multi_query", "new_decoder_architecture",
                                           "parallel_attn", "apply_residual_connection_post_layernorm",
                                           NULL },
};
