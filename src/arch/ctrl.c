/* ctrl.c - CTRL (arXiv 1909.05858): a pre-norm decoder with sinusoidal positions, sines before cosines. The
 * embedding is multiplied by the square root of its width; the head has a bias. */
#include <math.h>

#include "arch/families.h"

#define BLOCK_EPS 1e-6f              /* of the norms inside blocks, regardless of layer_norm_epsilon */

static lm_value ctrl_layer(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value h = lm_layer_norm(b, "layernorm1", x, BLOCK_EPS, true);

    lm_push(b, "multi_head_attention", "MultiHeadAttention");
    lm_value q = lm_linear(b, "Wq", h, c->hidden, true);
    lm_value k = lm_linear(b, "Wk", h, c->hidden, true);
    lm_value v = lm_linear(b, "Wv", h, c->hidden, true);
    h          = lm_linear(b, "dense", lm_attention(b, q, k, v, &c->attention), c->hidden, true);
    lm_pop(b);
    x = lm_add(b, x, h);
    h = lm_layer_norm(b, "layernorm2", x, BLOCK_EPS, true);
    lm_push(b, "ffn", "Sequential");
    h = lm_activate(b, lm_linear(b, "0", h, c->intermediate, true), LM_ACT_RELU);
    h = lm_linear(b, "2", h, c->hidden, true);
    lm_pop(b);
    return lm_add(b, x, h);
}

static lm_value ctrl_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "transformer", "%sModel");
    lm_value x = lm_scale(b, lm_embedding(b, "w", c->vocab_size, c->hidden), sqrtf((float)c->hidden));
    x          = lm_add(b, x, lm_sinusoid(b, "pos_encoding", c->hidden, LM_SINUSOID_HALVES, 0));
    lm_push(b, "h", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "EncoderLayer");
        x = ctrl_layer(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "layernorm", x, c->norm_eps, true);
    lm_pop(b);
    x = lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "transformer.w" : NULL);
    lm_with_bias(b, x);
    return x;
}

static lm_status ctrl_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "n_embd", NULL, 2, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "n_layer", NULL, 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "n_head", NULL, 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "dff", NULL, 1, 1u << 20, -1, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "n_positions", NULL, 1, 1u << 24, 256, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", NULL, 1e-20, 1, 1e-6, &c->norm_eps, e));
    LM_TRY(lm_read_head_dim(s, "n_head", c, e));
    if (c->head_dim * c->n_heads != c->hidden)
        return lm_no_form(s, "head_dim", "heads times width must be the width of the model", e);
    c->n_kv_heads = c->n_heads;
    c->attention  = lm_plain_attention(c);
    return LM_OK;
}

const lm_family lm_family_ctrl = {
    .name         = "ctrl",
    .class_prefix = "CTRL",
    .root_class   = "CTRLLMHeadModel",
    .hf_types     = (const char *const[]){ "ctrl", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .configure    = ctrl_configure,
    .build        = ctrl_build,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "n_embd", "n_layer", "n_head", "n_positions", "n_ctx", "dff", "layer_norm_epsilon",
                                           "summary_type", "summary_use_proj", "summary_activation", "summary_first_dropout",
                                           "summary_proj_to_labels", NULL },
};
