/* openai_gpt.c - GPT (Radford et al. 2018): learned positions, norms after attention and MLP, no final norm,
 * tied head. */
#include "arch/families.h"

static lm_value conv1d(lm_builder *b, const char *name, lm_value x, uint32_t out)
{
    lm_value y = lm_linear(b, name, x, out, true);
    lm_stored_transposed(b, y);
    return y;
}

static lm_value gpt_block(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "attn", "Attention");
    lm_value qkv = conv1d(b, "c_attn", x, 3 * c->hidden);
    lm_value q   = lm_columns(b, "q", qkv, 1, 0, c->hidden);
    lm_value k   = lm_columns(b, "k", qkv, 1, c->hidden, c->hidden);
    lm_value v   = lm_columns(b, "v", qkv, 1, 2 * c->hidden, c->hidden);
    lm_value a   = conv1d(b, "c_proj", lm_attention(b, q, k, v, &c->attention), c->hidden);
    lm_dropout(b, "attn_dropout", c->dropout[1], LM_NONE);
    lm_dropout(b, "resid_dropout", c->dropout[2], a);
    lm_pop(b);
    x = lm_layer_norm(b, "ln_1", lm_add(b, x, a), c->norm_eps, true);
    lm_push(b, "mlp", "MLP");
    lm_value m = lm_activate(b, conv1d(b, "c_fc", x, c->intermediate), c->act);
    m          = conv1d(b, "c_proj", m, c->hidden);
    lm_dropout(b, "dropout", c->dropout[2], m);
    lm_pop(b);
    return lm_layer_norm(b, "ln_2", lm_add(b, x, m), c->norm_eps, true);
}

static lm_value gpt_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "transformer", "%sModel");
    lm_value x = lm_embedding(b, "tokens_embed", c->vocab_size, c->hidden);
    x          = lm_add(b, x, lm_position_embed(b, "positions_embed", c->context_length, c->hidden, 0));
    lm_dropout(b, "drop", c->dropout[0], x);
    lm_push(b, "h", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "Block");
        x = gpt_block(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.tokens_embed" : NULL);
}

/* "gelu" means the tanh form in this family only. */
static lm_status gpt_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "n_embd", NULL, 1, 1u << 18, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "n_layer", NULL, 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "n_head", NULL, 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "n_positions", NULL, 1, 1u << 24, 512, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", NULL, 1e-20, 1, 1e-5, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "afn", LM_ACT_GELU, c, e));
    LM_TRY(lm_read_head_dim(s, "n_head", c, e));
    if (c->head_dim * c->n_heads != c->hidden)
        return lm_no_form(s, "head_dim", "heads times width must be the width of the model", e);
    if (c->act == LM_ACT_GELU) {
        c->act       = LM_ACT_GELU_TANH;
        c->act_class = "NewGELUActivation";
    }
    c->intermediate = 4 * c->hidden;
    c->n_kv_heads   = c->n_heads;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

const lm_family lm_family_openai_gpt = {
    .name         = "openai-gpt",
    .class_prefix = "OpenAIGPT",
    .root_class   = "OpenAIGPTLMHeadModel",
    .hf_types     = (const char *const[]){ "openai-gpt", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .act_name     = "act",
    .act_class    = "NewGELUActivation",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attn_pdrop", "resid_pdrop" },
    .dropout      = 0.1f,
    .configure    = gpt_configure,
    .build        = gpt_build,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "n_embd", "n_layer", "n_head", "n_positions", "n_ctx", "n_special", "afn",
                                           "layer_norm_epsilon", "predict_special_tokens", "summary_type", "summary_use_proj",
                                           "summary_activation", "summary_first_dropout",
                                           "summary_proj_to_labels", NULL },
    .ignorable    = (const char *const[]){ "*.attn.bias", "*position_ids", NULL },
};
