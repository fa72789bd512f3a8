/* gpt2.c - GPT-2 (Radford et al. 2019): learned positions, pre-LayerNorm, tanh-GELU, biases everywhere, tied
 * head.
 *
 * Hugging Face checkpoints store the projections transposed (Conv1D), and masks as buffers. */
#include <math.h>

#include "arch/families.h"

typedef struct gpt2 { bool scores_by_layer; } gpt2;      /* scores are divided by layer + 1 */
LM_OWN_FITS(gpt2);

static lm_value conv1d(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias)
{
    lm_value y = lm_linear(b, name, x, out, bias);
    lm_stored_transposed(b, y);
    return y;
}

static lm_value gpt2_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const gpt2       *own    = lm_own(c);
    lm_attention_spec scores = lm_layer_attention(c, layer);
    uint32_t          width  = c->n_heads * c->head_dim;

    lm_push(b, "attn", "%sAttention");
    lm_called_by_position(b);
    if (own->scores_by_layer)
        scores.scale /= (float)(layer + 1);
    lm_value qkv = conv1d(b, "c_attn", x, 3 * width, true);
    lm_value q   = lm_columns(b, "q", qkv, 1, 0, width);
    lm_value k   = lm_columns(b, "k", qkv, 1, width, width);
    lm_value v   = lm_columns(b, "v", qkv, 1, 2 * width, width);
    lm_value o   = conv1d(b, "c_proj", lm_attention(b, q, k, v, &scores), c->hidden, true);
    lm_dropout(b, "attn_dropout", c->dropout[1], LM_NONE);
    lm_dropout(b, "resid_dropout", c->dropout[2], o);
    lm_pop(b);
    return o;
}

lm_value lm_gpt2_mlp(lm_builder *b, const lm_config *c, lm_linear_builder *linear, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value y = lm_activate(b, linear(b, "c_fc", x, c->intermediate, true), c->act);
    y          = linear(b, "c_proj", y, c->hidden, true);
    lm_dropout(b, "dropout", c->dropout[2], y);
    lm_pop(b);
    return y;
}

static lm_value gpt2_block(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_layer_norm(b, "ln_1", x, c->norm_eps, true);
    x          = lm_add(b, x, gpt2_attention(b, c, layer, h));
    h          = lm_layer_norm(b, "ln_2", x, c->norm_eps, true);
    return lm_add(b, x, lm_gpt2_mlp(b, c, conv1d, h));
}

lm_value lm_gpt2_frame(lm_builder *b, const lm_config *c, lm_layer_builder *block)
{
    lm_push(b, "transformer", "%sModel");
    lm_called_by_position(b);
    lm_value x = lm_embedding(b, "wte", c->vocab_size, c->hidden);
    x          = lm_add(b, x, lm_position_embed(b, "wpe", c->context_length, c->hidden, 0));
    lm_dropout(b, "drop", c->dropout[0], x);
    lm_push(b, "h", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sBlock");
        x = block(b, c, i, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "ln_f", x, c->norm_eps, true);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.wte" : NULL);
}

lm_value lm_gpt2_build(lm_builder *b, const lm_config *c)
{
    return lm_gpt2_frame(b, c, gpt2_block);
}

const lm_own_number lm_gpt2_own[] = {
    { "scale_attn_by_inverse_layer_idx", NULL, LM_OWN_BOOL, offsetof(gpt2, scores_by_layer), 0, 1, false, false },
    { 0 },
};

lm_status lm_gpt2_shape(const lm_source *s, uint32_t widest, lm_config *c, bool *scaled, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "n_embd", "embedding_length", 1, widest, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "n_layer", "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "n_head", "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "n_inner", "feed_forward_length", 1, 1u << 20, 4 * (int64_t)c->hidden,
                       &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "n_positions", "context_length", 1, 1u << 24, 1024, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-20, 1, 1e-5, &c->norm_eps,
                       e));
    LM_TRY(lm_read_act(s, "activation_function", LM_ACT_GELU_TANH, c, e));
    return lm_read_bool(s, "scale_attn_weights", NULL, true, scaled, e);
}

lm_status lm_gpt2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool scaled;

    LM_TRY(lm_gpt2_shape(s, 1u << 20, c, &scaled, e));
    LM_TRY(lm_read_own(s, lm_gpt2_own, c, e));
    LM_TRY(lm_read_head_dim(s, "n_head", c, e));
    LM_TRY(lm_read_own_heads(s, c, e));
    c->attention       = lm_plain_attention(c);
    c->attention.scale = scaled ? c->attention.scale : 1;
    return LM_OK;
}

const lm_name lm_gpt2_names[] = {
    { "transformer.wte", "token_embd" },
    { "transformer.wpe", "position_embd" },
    { "transformer.h.*.ln_1", "blk.*.attn_norm" },
    { "transformer.h.*.attn.c_attn", "blk.*.attn_qkv" },
    { "transformer.h.*.attn.c_proj", "blk.*.attn_output" },
    { "transformer.h.*.ln_2", "blk.*.ffn_norm" },
    { "transformer.h.*.mlp.c_fc", "blk.*.ffn_up" },
    { "transformer.h.*.mlp.c_proj", "blk.*.ffn_down" },
    { "transformer.ln_f", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_gpt2 = {
    .name         = "gpt2",
    .class_prefix = "GPT2",
    .root_class   = "GPT2LMHeadModel",
    .hf_types     = (const char *const[]){ "gpt2", NULL },
    .gguf_archs   = (const char *const[]){ "gpt2", NULL },
    .act_name     = "act",
    .act_class    = "NewGELUActivation",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attn_pdrop", "resid_pdrop" },
    .dropout      = 0.1f,
    .configure    = lm_gpt2_configure,
    .build        = lm_gpt2_build,
    .own          = lm_gpt2_own,
    .names        = lm_gpt2_names,
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "n_ctx", "layer_norm_epsilon",
                                           "activation_function", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
                                           "reorder_and_upcast_attn", "summary_type", "summary_use_proj", "summary_activation",
                                           "summary_first_dropout", "summary_proj_to_labels", NULL },
    .ignorable    = (const char *const[]){ "*.attn.bias", "*.attn.masked_bias", NULL },
};
