/* olmo.c - OLMo (arXiv 2402.00838): Llama's decoder with LayerNorm without weights, whose queries, keys and
 * values may be clamped; and OLMoE (2409.02060): RMSNorm, q and k normalised across all heads, and mixtures
 * of experts as MLPs. */
#include "arch/families.h"

typedef struct olmo { float clamp; } olmo;       /* q, k and v are clamped to +- this; 0: not clamped */
LM_OWN_FITS(olmo);

static const lm_own_number olmo_own[] = {
    { "clip_qkv", "attention.clamp_kqv", LM_OWN_F32, offsetof(olmo, clamp), 1e-9, 1e30, 0, false },
    { 0 },
};

/* ---- the models ---- */

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, bool normed, lm_value x)
{
    const olmo *own = lm_own(c);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    if (normed) {
        h.q = lm_rms_norm_heads(b, "q_norm", h.q, 1, c->norm_eps);
        h.k = lm_rms_norm_heads(b, "k_norm", h.k, 1, c->norm_eps);
    }
    if (own->clamp > 0)
        h = (lm_heads){ lm_clamp(b, h.q, own->clamp), lm_clamp(b, h.k, own->clamp),
                        lm_clamp(b, h.v, own->clamp) };
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value plain_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    return lm_layer_unweighted(b, name, x, c->norm_eps);
}

static lm_value olmo_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    x = lm_add(b, x, attention(b, c, layer, false, plain_norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, lm_llama_mlp(b, c, plain_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value olmoe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    x = lm_add(b, x, attention(b, c, layer, true, lm_llama_norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, lm_qwen_moe(b, c, false, lm_llama_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value olmo_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = olmo_layer, .norm = plain_norm });
}

static lm_value olmoe_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = olmoe_layer });
}

/* ---- metadata ---- */

/* The eps is not in config.json: always 1e-5. */
static lm_status olmo_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_layer_norm_sizes(s, NULL, c, e));
    LM_TRY(lm_read_own(s, olmo_own, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_llama_biases(s, c, e));
    c->bias_mlp = false;
    return lm_llama_rotation(s, c->head_dim, c, e);
}

static lm_status olmoe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_read_own(s, olmo_own, c, e));
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    c->expert_width  = c->intermediate;
    return lm_read_routing(s, false, c, e);
}

const lm_family lm_family_olmo = {
    .name         = "olmo",
    .class_prefix = "Olmo",
    .hf_types     = (const char *const[]){ "olmo", NULL },
    .gguf_archs   = (const char *const[]){ "olmo", NULL },
    .pad_token    = "1",
    .configure    = olmo_configure,
    .build        = olmo_build,
    .own          = olmo_own,
    .names        = lm_llama_names,
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "clip_qkv", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_olmoe = {
    .name         = "olmoe",
    .class_prefix = "Olmoe",
    .hf_types     = (const char *const[]){ "olmoe", NULL },
    .gguf_archs   = (const char *const[]){ "olmoe", NULL },
    .pad_token    = "1",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = olmoe_configure,
    .build        = olmoe_build,
    .own          = olmo_own,
    .names        = lm_qwen_moe_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 }, { "rms_norm_eps", 1e-5 },
                                          { "intermediate_size", 2048 }, { "num_experts", 64 },
                                          { "num_experts_per_tok", 8 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "clip_qkv", "num_experts",
                                           "num_local_experts", "num_experts_per_tok", "norm_topk_prob",
                                           "router_aux_loss_coef", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
