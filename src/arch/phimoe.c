/* phimoe.c - Phi-3.5-MoE, Phi-mini-MoE, Phi-tiny-MoE (arXiv 2404.14219, 2506.18349): Mixtral's decoder with
 * LayerNorm and biases, whose router chooses two experts one after the other (SparseMixer, 2409.12136). */
#include <math.h>
#include <string.h>

#include "arch/families.h"

typedef struct phimoe {
    float near;                          /* lm_route_spec */
    bool  head_bias;
} phimoe;
LM_OWN_FITS(phimoe);

/* llama.cpp has no key: it uses a plain softmax. */
static const lm_own_number own_numbers[] = {
    { "router_jitter_noise", NULL, LM_OWN_F32, offsetof(phimoe, near), 0, 1e3, 0.01, false },
    { 0 },
};

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    static const char *const names[3] = { "w1", "w3", "w2" };

    lm_push(b, "block_sparse_moe", "%sSparseMoeBlock");
    lm_value route = lm_route(b, lm_linear(b, "gate", x, c->route.n_experts, false), &c->route, NULL);
    lm_value y = lm_experts(b, "experts", x, route, c->route.n_experts, c->route.top_k, c->expert_width,
                            c->act, names);
    lm_pop(b);
    return y;
}

static lm_value phimoe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_biased_layer_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, lm_llama_attention(b, c, layer, h));
    return lm_add(b, x, mixture(b, c, lm_biased_layer_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value phimoe_build(lm_builder *b, const lm_config *c)
{
    const phimoe *own    = lm_own(c);
    lm_value      logits = lm_decoder_frame(
        b, c, &(lm_decoder){ .layer = phimoe_layer, .norm = lm_biased_layer_norm });

    if (own->head_bias)
        lm_with_bias(b, logits);
    return logits;
}

/* transformers takes the short factors whatever the length, and a magnitude from the file in place of that
 * of longrope. */
static lm_status read_rotation(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const keys[2][2] = {
        { "rope_scaling/short_mscale", "rope_parameters/short_mscale" },
        { "rope_scaling/long_mscale", "rope_parameters/long_mscale" },
    };
    float magnitude[2] = { 0, 0 };

    LM_TRY(lm_llama_rotation(s, c->head_dim, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    if (s->kind == LM_GGUF || c->rope.type == LM_ROPE_DEFAULT)
        return LM_OK;
    if (c->rope.type != LM_ROPE_LONGROPE)
        return lm_no_form(s, "rope_scaling", "this family scales its rotation by longrope alone", e);
    for (int i = 0; i < 2; i++)
        LM_TRY(lm_read_f32(s, keys[i][lm_meta_has(s->meta, keys[i][1])], NULL, 1e-3, 1e3, (double)NAN,
                           &magnitude[i], e));
    if (magnitude[0] != magnitude[1])
        return lm_no_form(s, "long_mscale", "a magnitude that differs from short_mscale has no form here", e);
    memcpy(c->longrope[1], c->longrope[0], sizeof c->longrope[1]);
    c->rope.attention_factor = (double)magnitude[0];
    return LM_OK;
}

static lm_status read_biases(const lm_source *s, lm_config *c, lm_error *e)
{
    phimoe *own = lm_family_config_mut(c);

    c->bias_mlp = false;
    if (s->kind == LM_GGUF)
        own->head_bias = lm_has_tensor(s, "output.bias");
    return s->kind == LM_GGUF ? LM_OK : lm_read_bool(s, "lm_head_bias", NULL, false, &own->head_bias, e);
}

static lm_status phimoe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    const phimoe *own = lm_own(c);

    LM_TRY(lm_llama_shape(s, c, e));
    LM_TRY(read_biases(s, c, e));
    LM_TRY(read_rotation(s, c, e));
    LM_TRY(lm_read_window(s, 0, c, e));
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    c->route = (lm_route_spec){ .one_by_one = true, .near = own->near, .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_local_experts", "expert_count", 2, LM_MAX_EXPERTS, 16, &c->route.n_experts,
                       e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 2, 2, 2, &c->route.top_k, e));
    c->expert_width = c->intermediate;
    return LM_OK;
}

static const lm_name phimoe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.block_sparse_moe.experts.w1", "blk.*.ffn_gate_exps" },
    { "model.layers.*.block_sparse_moe.experts.w3", "blk.*.ffn_up_exps" },
    { "model.layers.*.block_sparse_moe.experts.w2", "blk.*.ffn_down_exps" },
    { NULL, NULL },
};

const lm_family lm_family_phimoe = {
    .name         = "phimoe",
    .class_prefix = "Phimoe",
    .hf_types     = (const char *const[]){ "phimoe", NULL },
    .gguf_archs   = (const char *const[]){ "phimoe", NULL },
    .configure    = phimoe_configure,
    .build        = phimoe_build,
    .own          = own_numbers,
    .rms_epsilon  = true,
    .names        = phimoe_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "rope_theta", 1e6 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "sliding_window",
                                           "num_local_experts", "num_experts_per_tok", "lm_head_bias",
                                           "router_aux_loss_coef", "router_jitter_noise",
                                           "input_jitter_noise", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
