/* gptj.c - GPT-J (Wang and Komatsuzaki 2021): one norm before parallel attention and MLP, rotary pairs on the
 * first lanes of each head, a head with a bias. */
#include "arch/families.h"

static lm_value gptj_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "attn", "%sAttention");
    lm_value k = lm_linear(b, "k_proj", x, c->hidden, false);
    lm_value v = lm_linear(b, "v_proj", x, c->hidden, false);
    lm_value q = lm_linear(b, "q_proj", x, c->hidden, false);
    q          = lm_rope(b, q, c->n_heads, &c->rope);
    k          = lm_rope(b, k, c->n_heads, &c->rope);
    lm_value o = lm_linear(b, "out_proj", lm_attention(b, q, k, v, &c->attention), c->hidden, false);
    lm_dropout(b, "attn_dropout", c->dropout[1], LM_NONE);
    lm_dropout(b, "resid_dropout", c->dropout[2], o);
    lm_pop(b);
    return o;
}

static lm_value gptj_block(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value h = lm_layer_norm(b, "ln_1", x, c->norm_eps, true);
    x          = lm_add(b, x, gptj_attention(b, c, h));
    lm_push(b, "mlp", "%sMLP");
    h = lm_activate(b, lm_linear(b, "fc_in", h, c->intermediate, true), c->act);
    h = lm_linear(b, "fc_out", h, c->hidden, true);
    lm_dropout(b, "dropout", c->dropout[2], h);
    lm_pop(b);
    return lm_add(b, x, h);
}

static lm_value gptj_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "transformer", "%sModel");
    lm_value x = lm_embedding(b, "wte", c->vocab_size, c->hidden);
    lm_dropout(b, "drop", c->dropout[0], x);
    lm_push(b, "h", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sBlock");
        x = gptj_block(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "ln_f", x, c->norm_eps, true);
    lm_pop(b);
    x = lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.wte" : NULL);
    lm_with_bias(b, x);
    return x;
}

/* A null rotary_dim would rotate with the frequencies of the whole head; no checkpoint has it. The reference
 * has no angles for positions beyond n_positions; here there is no such limit. */
static lm_status gptj_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t lanes;

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "n_embd", NULL, 1, 1u << 18, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "n_layer", NULL, 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "n_head", NULL, 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "n_inner", NULL, 1, 1u << 20, 4 * (int64_t)c->hidden, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "n_positions", NULL, 1, 1u << 24, 2048, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", NULL, 1e-20, 1, 1e-5, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "activation_function", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_head_dim(s, "n_head", c, e));
    if (c->head_dim * c->n_heads != c->hidden)
        return lm_no_form(s, "head_dim", "heads times width must be the width of the model", e);
    LM_TRY(lm_read_u32(s, "rotary_dim", NULL, 2, c->head_dim, 64, &lanes, e));
    if (lanes > c->head_dim)
        return lm_no_form(s, "rotary_dim", "missing; its default of 64 dimensions exceeds the head size", e);
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    c->n_kv_heads   = c->n_heads;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

const lm_family lm_family_gptj = {
    .name         = "gptj",
    .class_prefix = "GPTJ",
    .hf_types     = (const char *const[]){ "gptj", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .orders       = (const lm_order[]){ { "Attention", "attn_dropout resid_dropout *" }, { NULL, NULL } },
    .act_name     = "act",
    .act_class    = "NewGELUActivation",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attn_pdrop", "resid_pdrop" },
    .configure    = gptj_configure,
    .build        = gptj_build,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .keys         = (const char *const[]){ "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "rotary_dim", "layer_norm_epsilon",
                                           "activation_function", "scale_attn_weights", "rotary", "summary_type", "summary_use_proj",
                                           "summary_activation", "summary_first_dropout",
                                           "summary_proj_to_labels", NULL },
    .ignorable    = (const char *const[]){ "*.attn.bias", "*.attn.masked_bias", NULL },
};
