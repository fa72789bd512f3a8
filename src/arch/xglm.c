/* xglm.c - XGLM (arXiv 2112.10668): a pre-norm decoder with sinusoidal positions, sines before cosines,
 * starting at position 2. The embedding is multiplied by the square root of its width. */
#include <math.h>

#include "arch/families.h"

#define FIRST_POSITION 2             /* rows 0 and 1 of fairseq's table are reserved for padding */

typedef struct xglm { float embedding; } xglm;       /* factor of its rows */
LM_OWN_FITS(xglm);

static lm_value xglm_layer(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value h = lm_layer_norm(b, "self_attn_layer_norm", x, c->norm_eps, true);

    lm_push(b, "self_attn", "%sAttention");
    lm_value k = lm_linear(b, "k_proj", h, c->hidden, true);
    lm_value v = lm_linear(b, "v_proj", h, c->hidden, true);
    lm_value q = lm_linear(b, "q_proj", h, c->hidden, true);
    h          = lm_linear(b, "out_proj", lm_attention(b, q, k, v, &c->attention), c->hidden, true);
    lm_pop(b);
    x = lm_add(b, x, h);
    h = lm_layer_norm(b, "final_layer_norm", x, c->norm_eps, true);
    h = lm_activate(b, lm_linear(b, "fc1", h, c->intermediate, true), c->act);
    return lm_add(b, x, lm_linear(b, "fc2", h, c->hidden, true));
}

static lm_value xglm_build(lm_builder *b, const lm_config *c)
{
    const xglm *own = lm_own(c);

    lm_push(b, "model", "%sModel");
    lm_value x = lm_embed_scaled(b, "embed_tokens", "%sScaledWordEmbedding", c->vocab_size, c->hidden,
                                 own->embedding);
    lm_set_padding(b, c);
    x = lm_add(b, x, lm_sinusoid(b, "embed_positions", c->hidden, LM_SINUSOID_SPREAD, FIRST_POSITION));
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = xglm_layer(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "layer_norm", x, c->norm_eps, true);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.embed_tokens" : NULL);
}

static lm_status xglm_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    xglm    *own = lm_family_config_mut(c);
    uint32_t padding;
    bool     scaled;

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "d_model", NULL, 4, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_layers", NULL, 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "attention_heads", NULL, 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "ffn_dim", NULL, 1, 1u << 20, -1, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", NULL, 1, UINT32_MAX, 2048, &c->context_length, e));
    LM_TRY(lm_read_act(s, "activation_function", LM_ACT_GELU, c, e));
    LM_TRY(lm_read_bool(s, "scale_embedding", NULL, true, &scaled, e));
    LM_TRY(lm_read_u32(s, "pad_token_id", NULL, 0, UINT32_MAX, 1, &padding, e));
    LM_TRY(lm_read_head_dim(s, "attention_heads", c, e));
    if (padding >= FIRST_POSITION)
        return lm_no_form(s, "pad_token_id", "above 1 it would blank the sinusoid of a position", e);
    if (c->head_dim * c->n_heads != c->hidden)
        return lm_no_form(s, "head_dim", "heads times width must be the width of the model", e);
    own->embedding = scaled ? sqrtf((float)c->hidden) : 1;
    c->norm_eps    = 1e-5f;
    c->n_kv_heads  = c->n_heads;
    c->attention   = lm_plain_attention(c);
    return LM_OK;
}

const lm_family lm_family_xglm = {
    .name         = "xglm",
    .class_prefix = "XGLM",
    .hf_types     = (const char *const[]){ "xglm", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .orders       = (const lm_order[]){ { "DecoderLayer",
                                          "self_attn activation_fn self_attn_layer_norm fc1 fc2 *" },
                                          { NULL, NULL } },
    .act_name     = "activation_fn",
    .pad_token    = "1",
    .configure    = xglm_configure,
    .build        = xglm_build,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "d_model", "num_layers", "attention_heads", "ffn_dim", "activation_function",
                                           "activation_dropout", "scale_embedding", "init_std", NULL },
    .ignorable    = (const char *const[]){ "model.embed_positions.weights", NULL },
};
