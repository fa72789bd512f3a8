/* nanochat.c - nanochat (github.com/karpathy/nanochat): norms without weights, one of them behind the
 * embedding, q and k normalised behind a rotation that turns the other way, plain MLPs of squared ReLU,
 * capped logits. */
#include <math.h>

#include "arch/families.h"

typedef struct nanochat { float cap; } nanochat;         /* of the logits; 0: none */
LM_OWN_FITS(nanochat);

static const char norm_class[] = "%sRMSNorm";

static lm_value norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    return lm_rms_unweighted(b, name, norm_class, x, 1, c->norm_eps);
}

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    lm_rotate_heads(b, c, &c->rope, &h);
    h.q        = lm_rms_unweighted(b, "q_norm", norm_class, h.q, c->n_heads, c->norm_eps);
    h.k        = lm_rms_unweighted(b, "k_norm", norm_class, h.k, c->n_kv_heads, c->norm_eps);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value up = lm_activate(b, lm_linear(b, "fc1", x, c->intermediate, false), c->act);
    up          = lm_linear(b, "fc2", up, c->hidden, false);
    lm_pop(b);
    return up;
}

static lm_value nanochat_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    x = lm_add(b, x, attention(b, c, layer, norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, mlp(b, c, norm(b, c, "post_attention_layernorm", x)));
}

/* The module of the final norm also normalises the embedding: a module appears once, so this is an operation
 * of its own. */
static lm_value embed(lm_builder *b, const lm_config *c)
{
    lm_value x = lm_llama_embed(b, c);

    return lm_unit_heads(b, "embedding_norm", x, 1, c->norm_eps * (float)c->hidden, sqrtf((float)c->hidden));
}

static lm_value nanochat_build(lm_builder *b, const lm_config *c)
{
    const nanochat *own = lm_own(c);
    lm_decoder      d   = { .embed = embed, .layer = nanochat_layer, .norm = norm };

    return lm_capped(b, lm_decoder_frame(b, c, &d), own->cap);
}

static lm_status nanochat_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    nanochat *own = lm_family_config_mut(c);

    LM_TRY(lm_read_sizes(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_RELU2, c, e));
    LM_TRY(lm_read_llama_biases(s, c, e));
    LM_TRY(lm_llama_rotation(s, c->head_dim, c, e));
    LM_TRY(lm_read_optional_f32(s, "final_logit_softcapping", NULL, 15, &own->cap, e));
    c->rope.backwards     = true;
    c->rope.gguf_permutes = false;
    return LM_OK;
}

static const lm_name names[] = { { NULL, NULL } };

const lm_family lm_family_nanochat = {
    .name         = "nanochat",
    .class_prefix = "NanoChat",
    .pad_token    = "1",
    .hf_types     = (const char *const[]){ "nanochat", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .orders       = (const lm_order[]){
        { "Attention", "q_proj k_proj v_proj o_proj *" },
        { "MLP", "activation_fn *" },
        { "DecoderLayer", "self_attn mlp *" },
        { NULL, NULL },
    },
    .act_name     = "activation_fn",
    .configure    = nanochat_configure,
    .build        = nanochat_build,
    .names        = names,
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "final_logit_softcapping", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
