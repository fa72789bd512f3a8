/* granite_swa.c - Granite with windows (IBM, 2026): Granite's decoder with a learned sink per head and a
 * window in three of four layers. The rotation of a layer may have a base of its own, or be left out. Also
 * with experts (granitemoe_swa): Granite MoE's mixture, whose matrices have other names. */
#include <stdio.h>

#include "arch/families.h"

enum { BASES = 8 };

typedef struct granite_swa {
    lm_granite_moe moe;              /* must be first: the frame and lm_granite_experts access it */
    uint8_t    rotation[LM_MAX_LAYERS];  /* 0: c->rope; 1: none; else with bases[rotation - 2] */
    float      bases[BASES];
} granite_swa;
LM_OWN_FITS(granite_swa);

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const granite_swa *own  = lm_own(c);
    uint8_t            kind = own->rotation[layer];
    lm_rope_spec       rope = c->rope;

    rope.base = kind > 1 ? own->bases[kind - 2] : rope.base;
    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    if (kind != 1)
        lm_rotate_heads(b, c, &rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    const lm_expert_spec spec = { .n_experts = c->route.n_experts,
                                  .top_k     = c->route.top_k,
                                  .width     = c->expert_width,
                                  .act       = c->act,
                                  .names     = { "gate_proj", "up_proj", "down_proj" },
                                  .joined    = "experts.gate_up_proj",
                                  .alone     = "experts.down_proj" };

    lm_push(b, "block_sparse_moe", "%sMoE");
    lm_value route = lm_route(b, lm_linear(b, "router", x, c->route.n_experts, false), &c->route, NULL);
    lm_value y     = lm_experts_of(b, "experts", x, route, &spec);
    lm_pop(b);
    return c->shared_width ? lm_add(b, y, lm_granite_shared_mlp(b, c, x)) : y;
}

static lm_value granite_swa_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const granite_swa *own      = lm_own(c);
    float              residual = own->moe.granite.residual;
    lm_value           h = attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x));

    x = lm_add(b, x, lm_scale(b, h, residual));
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    h = c->route.n_experts ? mixture(b, c, h) : lm_llama_mlp(b, c, h);
    return lm_add(b, x, lm_scale(b, h, residual));
}

/* transformers has a module for each base. */
static void rotaries(lm_builder *b, const lm_config *c)
{
    const granite_swa *own   = lm_own(c);
    bool               plain = false;
    uint32_t           n     = 0;
    char               name[16];

    for (uint32_t i = 0; i < c->n_layers; i++)
        plain |= own->rotation[i] == 0;
    for (uint32_t i = 0; i < BASES && own->bases[i] != 0; i++)
        n++;
    lm_push(b, "rotary_embs", "ModuleList");
    for (uint32_t i = 0; i < n + plain; i++) {
        snprintf(name, sizeof name, "%u", i);
        lm_leaf(b, name, "%sRotaryEmbedding");
    }
    lm_pop(b);
}

static lm_value granite_swa_build(lm_builder *b, const lm_config *c)
{
    const granite_swa *own = lm_own(c);
    lm_decoder         d = { .embed = lm_granite_embed, .layer = granite_swa_layer, .rotaries = rotaries };

    return lm_scale(b, lm_decoder_frame(b, c, &d), 1 / own->moe.granite.logits);
}

static lm_status add_base(const lm_source *s, uint32_t layer, double base, lm_config *c, lm_error *e)
{
    granite_swa *own = lm_family_config_mut(c);
    uint32_t     i   = 0;

    while (i < BASES && own->bases[i] != 0 && own->bases[i] != (float)base)
        i++;
    if (i == BASES)
        return lm_no_form(s, "layer_rope_theta", "more than 8 different bases have no form here", e);
    own->bases[i]        = (float)base;
    own->rotation[layer] = (uint8_t)(2 + i);
    return LM_OK;
}

/* layer_rope_theta has a base for each layer, 0 for none. */
static lm_status read_bases(const lm_source *s, lm_config *c, lm_error *e)
{
    granite_swa  *own = lm_family_config_mut(c);
    lm_meta_value list, item;

    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, "layer_rope_theta"))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, "layer_rope_theta", LM_MAX_LAYERS, &list, e));
    if (list.a.n != c->n_layers)
        return lm_wrong(s, "layer_rope_theta", NULL, e, "has %u entries for %u layers", (unsigned)list.a.n,
                        c->n_layers);
    for (uint32_t i = 0; i < c->n_layers && lm_meta_at(&list, i, &item); i++) {
        double base = item.kind == LM_META_UINT ? (double)item.u : item.kind == LM_META_FLOAT ? item.f : -1;
        if (base != 0 && !(base >= 1e-3 && base <= 1e30))
            return lm_wrong(s, "layer_rope_theta", NULL, e, "entry %u is neither 0 nor a base up to 1e30", i);
        own->rotation[i] = base == 0;
        if (base != 0 && base != c->rope.base)
            LM_TRY(add_base(s, i, base, c, e));
    }
    return LM_OK;
}

/* GGUF lists the layers that rotate. */
static lm_status read_pattern(const lm_source *s, lm_config *c, lm_error *e)
{
    granite_swa  *own = lm_family_config_mut(c);
    lm_meta_value list, item;
    char          key[128];

    lm_gguf_key(s, "attention.rope_pattern", key, sizeof key);
    if (s->kind != LM_GGUF || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    if (list.a.n != c->n_layers)
        return lm_wrong(s, NULL, "attention.rope_pattern", e, "has %u entries for %u layers",
                        (unsigned)list.a.n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers && lm_meta_at(&list, i, &item); i++) {
        if (item.kind != LM_META_BOOL)
            return lm_wrong(s, NULL, "attention.rope_pattern", e, "entry %u is not true or false", i);
        own->rotation[i] = !item.b;
    }
    return LM_OK;
}

/* Without layer_types, the layers with full attention are the first, the fifth, … */
static lm_status read_windows(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_window(s, 128, c, e));
    if (s->kind == LM_GGUF)
        return lm_read_window_pattern(s, NULL, 1, c, e);
    for (uint32_t i = 0; i < c->n_layers && !lm_meta_has(s->meta, "layer_types"); i++)
        c->full[i] = i % 4 == 0;
    return LM_OK;
}

static lm_status granite_swa_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    LM_TRY(lm_granite_multipliers(s, lm_granite_own, c, e));
    c->attention.sinks = true;
    LM_TRY(read_bases(s, c, e));
    LM_TRY(read_pattern(s, c, e));
    return read_windows(s, c, e);
}

/* GGUF files have gate and up in one tensor, too. */
static lm_status granitemoe_swa_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    granite_swa *own = lm_family_config_mut(c);

    LM_TRY(granite_swa_configure(s, c, e));
    c->bias_mlp = false;
    LM_TRY(lm_granite_experts(s, 1, c, e));
    own->moe.shared_apart = false;
    return LM_OK;
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.sinks", "blk.*.attn_sinks" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_granite_swa = {
    .name         = "granite_swa",
    .class_prefix = "GraniteSWA",
    .hf_types     = (const char *const[]){ "granite_swa", NULL },
    .gguf_archs   = (const char *const[]){ "granite_swa", NULL },
    .configure    = granite_swa_configure,
    .build        = granite_swa_build,
    .own          = lm_granite_own,
    .lists_rotations = true,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "max_position_embeddings", 8192 },
                                          { "rms_norm_eps", 1e-5 }, { "tie_word_embeddings", true },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "embedding_multiplier",
                                           "residual_multiplier", "attention_multiplier", "logits_scaling",
                                           "sliding_window", "layer_types", "layer_rope_theta", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};

static const lm_name moe_names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.sinks", "blk.*.attn_sinks" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.block_sparse_moe.router", "blk.*.ffn_gate_inp" },
    { "model.layers.*.block_sparse_moe.experts.gate_up_proj", "blk.*.ffn_gate_up_exps" },
    { "model.layers.*.block_sparse_moe.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.block_sparse_moe.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.block_sparse_moe.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.layers.*.shared_mlp.input_linear", "blk.*.ffn_up_shexp" },
    { "model.layers.*.shared_mlp.output_linear", "blk.*.ffn_down_shexp" },
    { NULL, NULL },
};

const lm_family lm_family_granitemoe_swa = {
    .name         = "granitemoe_swa",
    .class_prefix = "GraniteMoeSWA",
    .hf_types     = (const char *const[]){ "granitemoe_swa", NULL },
    .gguf_archs   = (const char *const[]){ "granite_swa", NULL },
    .gguf_key     = "expert_count",
    .configure    = granitemoe_swa_configure,
    .build        = granite_swa_build,
    .own          = lm_granite_own,
    .lists_rotations = true,
    .names        = moe_names,
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "embedding_multiplier",
                                           "residual_multiplier", "attention_multiplier", "logits_scaling",
                                           "sliding_window", "layer_types", "layer_rope_theta",
                                           "num_local_experts", "num_experts_per_tok",
                                           "router_aux_loss_coef", "shared_intermediate_size", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};
