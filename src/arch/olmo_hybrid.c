/* olmo_hybrid.c - OLMo Hybrid (Ai2, 2026): layers with a gated delta rule (arXiv 2412.06464) whose update may
 * be as large as twice the difference, with norms before both parts; and OLMo 2's layers, which need not
 * rotate. */
#include <math.h>
#include <stdio.h>

#include "arch/families.h"

typedef struct olmo_hybrid {
    uint32_t taps, k_heads, v_heads, k_dim, v_dim;
    bool     one_name;                   /* all layers have the names of those with a state */
    bool     doubled;                    /* beta is up to 2, so that a state can change its sign */
} olmo_hybrid;
LM_OWN_FITS(olmo_hybrid);

#define OWN(member) offsetof(olmo_hybrid, member)
static const lm_own_number olmo_hybrid_own[] = {
    { "linear_conv_kernel_dim", NULL, LM_OWN_U32, OWN(taps), 2, 64, 4, true },
    { "linear_allow_neg_eigval", NULL, LM_OWN_BOOL, OWN(doubled), 0, 1, 1, false },
    { 0 },
};

static lm_value delta_rule(lm_builder *b, const lm_config *c, lm_value x)
{
    const olmo_hybrid *own  = lm_own(c);
    uint32_t           keys = own->k_heads * own->k_dim, values = own->v_heads * own->v_dim;
    lm_recurrence      rule = { .n_heads     = own->v_heads,
                                .n_key_heads = own->k_heads,
                                .k_dim       = own->k_dim,
                                .v_dim       = own->v_dim,
                                .delta       = true };

    lm_push(b, "linear_attn", "%sGatedDeltaNet");
    lm_value q = lm_convolved(b, "q", x, keys, own->taps, c->act);
    lm_value k = lm_convolved(b, "k", x, keys, own->taps, c->act);
    lm_value v = lm_convolved(b, "v", x, values, own->taps, c->act);
    q          = lm_unit_heads(b, "q_unit", q, own->k_heads, 1e-6f, 1 / sqrtf((float)own->k_dim));
    k          = lm_unit_heads(b, "k_unit", k, own->k_heads, 1e-6f, 1);
    lm_value f     = lm_add_bias(b, "dt_bias", lm_linear(b, "a_proj", x, own->v_heads, false));
    lm_value decay = lm_decay(b, "A_log", lm_function(b, "dt", f, LM_ACT_SOFTPLUS), own->v_heads);
    lm_value beta  = lm_function(b, "beta", lm_linear(b, "b_proj", x, own->v_heads, false), LM_ACT_SIGMOID);
    if (own->doubled)
        beta = lm_scale(b, beta, 2);
    lm_value y = lm_linear_recurrence(b, "delta_rule", &rule, q, k, v, decay, beta);
    /* the eps of the kernel with which the models were trained, whatever rms_norm_eps is */
    y = lm_rms_norm_gated(b, "o_norm", y, lm_linear(b, "g_proj", x, values, false), own->v_heads, 1e-5f,
                          LM_ACT_SILU);
    y = lm_linear(b, "o_proj", y, c->hidden, false);
    lm_pop(b);
    return y;
}

static lm_value olmo_hybrid_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const olmo_hybrid *own = lm_own(c);

    if (!c->stateful[layer])
        return lm_olmo2_parts(b, c, layer,
                              own->one_name ? "feedforward_layer_norm" : "post_attention_layernorm", x);
    x = lm_add(b, x, delta_rule(b, c, lm_llama_norm(b, c, "attention_layer_norm", x)));
    return lm_add(b, x, lm_llama_mlp(b, c, lm_llama_norm(b, c, "feedforward_layer_norm", x)));
}

static lm_value olmo_hybrid_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = olmo_hybrid_layer,
                                                 .rotary_class = c->rope.dim ? NULL : "" });
}

/* Every fourth layer has attention; among fewer than four, the last one. */
static lm_status read_layers(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t states = 0;

    if (!lm_meta_has(s->meta, "layer_types"))
        for (uint32_t i = 0; i < c->n_layers; i++)
            c->stateful[i] = i % 4 != 3 && (c->n_layers > 3 || i + 1 < c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++)
        states += c->stateful[i];
    if (!states || states == c->n_layers)
        return lm_wrong(s, "layer_types", NULL, e,
                        "%u of %u layers are \"linear_attention\"; at least one of each kind is expected",
                        states, c->n_layers);
    return LM_OK;
}

static lm_status read_delta_rule(const lm_source *s, lm_config *c, lm_error *e)
{
    olmo_hybrid *own = lm_family_config_mut(c);

    LM_TRY(lm_read_own(s, olmo_hybrid_own, c, e));
    LM_TRY(lm_read_u32(s, "linear_num_key_heads", NULL, 1, 1024, c->n_heads, &own->k_heads, e));
    LM_TRY(lm_read_u32(s, "linear_num_value_heads", NULL, 1, 1024, c->n_heads, &own->v_heads, e));
    if (own->v_heads % own->k_heads)
        return lm_wrong(s, "linear_num_value_heads", NULL, e,
                        "%u is not a multiple of the number of key heads, %u", own->v_heads, own->k_heads);
    LM_TRY(lm_read_u32(s, "linear_key_head_dim", NULL, 1, 1024, (int64_t)(0.75 * c->hidden / own->k_heads),
                       &own->k_dim, e));
    if (own->k_dim < 1 || own->k_dim > 1024)             /* derived from the other sizes */
        return lm_wrong(s, "linear_key_head_dim", NULL, e, "%u by default; 1 to 1024 is expected",
                        own->k_dim);
    return lm_read_u32(s, "linear_value_head_dim", NULL, 1, 2048, 2 * (int64_t)own->k_dim, &own->v_dim, e);
}

/* transformers renames the norms of every layer when it saves. */
static bool has_one_name(const lm_source *s, const lm_config *c)
{
    char     name[64];
    uint32_t layer = 0;

    while (layer < c->n_layers && c->stateful[layer])
        layer++;
    snprintf(name, sizeof name, "model.layers.%u.feedforward_layer_norm.weight", layer);
    return lm_has_tensor(s, name);
}

/* A base of null means that attention has no positions, as in published models. */
static bool rotates(const lm_source *s)
{
    static const char *const keys[] = { "rope_scaling/rope_theta", "rope_parameters/rope_theta",
                                        "rope_theta" };
    lm_meta_value            v;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (lm_meta_get(s->meta, keys[i], &v))
            return v.kind != LM_META_NULL;
    return true;
}

static lm_status olmo_hybrid_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_mixed_sizes(s, "linear_attention", "rms_norm_eps", c, e));
    LM_TRY(read_layers(s, c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o = c->bias_qkv;
    LM_TRY(read_delta_rule(s, c, e));
    ((olmo_hybrid *)lm_family_config_mut(c))->one_name = has_one_name(s, c);
    c->attention = lm_plain_attention(c);
    if (!rotates(s))
        return LM_OK;
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_HALF;
    return LM_OK;
}

static const lm_order orders[] = {
    { "Attention", "q_proj k_proj v_proj o_proj *" },
    { "GatedDeltaNet", "q_proj k_proj v_proj a_proj b_proj g_proj o_proj q_conv1d k_conv1d v_conv1d o_norm *" },
    { "DecoderLayer", "self_attn linear_attn mlp *" },
    { NULL, NULL },
};

const lm_family lm_family_olmo_hybrid = {
    .name         = "olmo_hybrid",
    .class_prefix = "OlmoHybrid",
    .hf_types     = (const char *const[]){ "olmo_hybrid", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .pad_token    = "100277",
    .state_word   = "linear_attention",
    .orders       = orders,
    .configure    = olmo_hybrid_configure,
    .build        = olmo_hybrid_build,
    .own          = olmo_hybrid_own,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 65536 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "layer_types", "linear_conv_kernel_dim",
                                           "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
                                           "linear_value_head_dim", "linear_allow_neg_eigval", "linear_a_log_min",
                                           "linear_a_log_max", "linear_dt_min", "linear_dt_max",
                                           "linear_dt_init_floor", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
