/* mpt.c - MPT (MosaicML 2023): ALiBi, no biases, q, k and v in one projection and clamped together. */
#include "arch/families.h"

typedef struct mpt { float clamp; } mpt;         /* q, k and v are clamped to +- this; 0: not clamped */
LM_OWN_FITS(mpt);

static lm_value mpt_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    const mpt *own = lm_own(c);

    lm_push(b, "attn", "%sAttention");
    lm_value qkv = lm_linear(b, "Wqkv", x, 3 * c->hidden, false);
    if (own->clamp > 0)
        qkv = lm_clamp(b, qkv, own->clamp);
    lm_value q = lm_columns(b, "q", qkv, 1, 0, c->hidden);
    lm_value k = lm_columns(b, "k", qkv, 1, c->hidden, c->hidden);
    lm_value v = lm_columns(b, "v", qkv, 1, 2 * c->hidden, c->hidden);
    lm_value o = lm_linear(b, "out_proj", lm_attention(b, q, k, v, &c->attention), c->hidden, false);
    lm_pop(b);
    return o;
}

static lm_value mpt_ffn(lm_builder *b, const lm_config *c, lm_value x, lm_value residual)
{
    lm_push(b, "ffn", "%sMLP");
    lm_value y = lm_activate(b, lm_linear(b, "up_proj", x, c->intermediate, false), LM_ACT_GELU);
    lm_module_arguments(b, "approximate='none'");
    y = lm_add(b, residual, lm_linear(b, "down_proj", y, c->hidden, false));
    lm_pop(b);
    return y;
}

static lm_value mpt_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "transformer", "%sModel");
    lm_value x = lm_embedding(b, "wte", c->vocab_size, c->hidden);
    lm_push(b, "blocks", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sBlock");
        x = lm_add(b, x, mpt_attention(b, c, lm_layer_norm(b, "norm_1", x, c->norm_eps, false)));
        lm_leaf_passing(b, "resid_attn_dropout", "Dropout", x);
        lm_module_arguments(b, "p=%g, inplace=False", (double)c->dropout[2]);
        x = mpt_ffn(b, c, lm_layer_norm(b, "norm_2", x, c->norm_eps, false), x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "norm_f", x, c->norm_eps, false);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.wte" : NULL);
}

/* Check options of MPT's own code that transformers ignores. */
static lm_status check_forms(const lm_source *s, const lm_config *c, lm_error *e)
{
    uint32_t ratio, bias_max;
    bool     alibi, no_bias;

    LM_TRY(lm_read_bool(s, "attn_config/alibi", NULL, true, &alibi, e));
    LM_TRY(lm_read_bool(s, "no_bias", NULL, true, &no_bias, e));
    LM_TRY(lm_read_u32(s, "expansion_ratio", NULL, 1, 1024, 4, &ratio, e));
    LM_TRY(lm_read_u32(s, "attn_config/alibi_bias_max", NULL, 1, 1024, 8, &bias_max, e));
    if (!alibi || (s->kind == LM_GGUF && c->attention.alibi == 0))
        return lm_no_form(s, s->kind == LM_GGUF ? "mpt.attention.max_alibi_bias" : "attn_config/alibi",
                          "learned positions have no form in this family", e);
    if (!no_bias)
        return lm_no_form(s, "no_bias", "biases have no form in this family", e);
    if (ratio != 4)
        return lm_no_form(s, "expansion_ratio", "only 4 has a form in this family", e);
    if (bias_max != 8)
        lm_source_warn(s, "alibi_bias_max has no effect in folders: transformers' slopes are those of 8");
    return LM_OK;
}

static const lm_own_number mpt_own[] = {
    { "attn_config/clip_qkv", "attention.clamp_kqv", LM_OWN_F32, offsetof(mpt, clamp), 0, 1e30, 0, false },
    { 0 },
};

static lm_status mpt_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_meta_value attn;
    lm_view       kind = LM_VIEW("multihead_attention");

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "d_model", "embedding_length", 1, 1u << 18, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "n_layers", "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "n_heads", "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, NULL, "feed_forward_length", 1, 1u << 20, 4 * (int64_t)c->hidden, &c->intermediate,
                       e));
    LM_TRY(lm_read_u32(s, "max_seq_len", "context_length", 1, UINT32_MAX, 2048, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-20, 1, 1e-5, &c->norm_eps,
                       e));
    LM_TRY(lm_read_own(s, mpt_own, c, e));
    LM_TRY(lm_read_head_dim(s, "n_heads", c, e));
    if (lm_meta_get(s->meta, "attn_config", &attn) && attn.kind != LM_META_OBJECT &&
        attn.kind != LM_META_NULL)
        return lm_no_form(s, "attn_config", "is not an object", e);
    if (lm_meta_has(s->meta, "attn_config/attn_type"))
        LM_TRY(lm_meta_string(s->meta, "attn_config/attn_type", &kind, e));
    if (!lm_view_is(kind, "multihead_attention"))
        return lm_no_form(s, "attn_config/attn_type", "only multihead_attention has a form in this family",
                          e);
    LM_TRY(lm_read_own_heads(s, c, e));
    c->attention = lm_plain_attention(c);
    LM_TRY(lm_read_f32(s, NULL, "attention.max_alibi_bias", 0, 1024, 8, &c->attention.alibi, e));
    LM_TRY(lm_read_f32(s, "attn_config/softmax_scale", "attention.scale", 1e-6, 1e6,
                       (double)c->attention.scale, &c->attention.scale, e));
    return check_forms(s, c, e);
}

static const lm_name mpt_names[] = {
    { "transformer.wte", "token_embd" },
    { "transformer.blocks.*.norm_1", "blk.*.attn_norm" },
    { "transformer.blocks.*.attn.Wqkv", "blk.*.attn_qkv" },
    { "transformer.blocks.*.attn.out_proj", "blk.*.attn_output" },
    { "transformer.blocks.*.norm_2", "blk.*.ffn_norm" },
    { "transformer.blocks.*.ffn.up_proj", "blk.*.ffn_up" },
    { "transformer.blocks.*.ffn.down_proj", "blk.*.ffn_down" },
    { "transformer.norm_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_mpt = {
    .name         = "mpt",
    .class_prefix = "Mpt",
    .hf_types     = (const char *const[]){ "mpt", NULL },
    .gguf_archs   = (const char *const[]){ "mpt", NULL },
    .orders       = (const lm_order[]){ { "MLP", "*" }, { "Block", "* resid_attn_dropout" }, { NULL, NULL } },
    .act_name     = "act",
    .act_class    = "GELU",
    .dropout_keys = (const char *const[]){ "emb_pdrop", "attn_config/attn_pdrop", "resid_pdrop" },
    .configure    = mpt_configure,
    .build        = mpt_build,
    .own          = mpt_own,
    .names        = mpt_names,
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "d_model", "n_layers", "n_heads", "max_seq_len", "layer_norm_epsilon", "expansion_ratio",
                                           "no_bias", "attn_config/alibi", "attn_config/alibi_bias_max", "attn_config/attn_type",
                                           "attn_config/clip_qkv", "attn_config/softmax_scale", "attn_config/attn_impl",
                                           "attn_config/attn_pdrop", "attn_config/attn_uses_sequence_id", "init_device",
                                           "init_config", "tokenizer_name", "learned_pos_emb", "embedding_fraction",
                                           "norm_type", "verbose", NULL },
};
