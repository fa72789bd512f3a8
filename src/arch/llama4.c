/* llama4.c - Llama 4, text (Meta, 2025): three of four layers rotate, in pairs, normalise q and k and see the
 * keys of the same chunk; the fourth sees everything without positions, and its queries have a temperature.
 * The weight of an expert multiplies its input (one expert and a shared one, in all or every other layer).
 * Published inside Llama4ForConditionalGeneration, beside layers for images. */
#include <inttypes.h>

#include "arch/families.h"

typedef struct llama4 {
    float    temperature;                /* 0: none */
    uint32_t length;                     /* of its steps */
    uint32_t every;                      /* layer with a mixture */
    uint8_t  kinds[LM_MAX_LAYERS];       /* UNROTATED, DENSE */
} llama4;
LM_OWN_FITS(llama4);

enum { UNROTATED = 1, DENSE = 2 };
enum { CHUNK = 8192, UNNORMED = 128 };   /* llama.cpp: the chunk; the number of experts without norms of
                                            heads */

static const lm_mixture_keys keys = { .experts = "num_local_experts", .top_k = "num_experts_per_tok",
                                      .gguf_shared = LM_SHARED_UNSAID };

/* q and k of each head have one norm without a weight. */
static void norm_heads(lm_builder *b, const lm_config *c, lm_heads *h)
{
    lm_push(b, "qk_norm", "%sL2Norm");
    h->q = lm_rms_heads(b, "q", h->q, c->n_heads, c->norm_eps);
    h->k = lm_rms_heads(b, "k", h->k, c->n_kv_heads, c->norm_eps);
    lm_pop(b);
}

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const llama4 *own = lm_own(c);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    if (!(own->kinds[layer] & UNROTATED)) {
        lm_rotate_heads(b, c, &c->rope, &h);
        if (c->qk_norm)
            norm_heads(b, c, &h);
    } else {
        h.q = lm_temperature(b, h.q, &c->temperature);
    }
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_pop(b);
    return o;
}

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    const lm_expert_spec spec = { .n_experts    = c->route.n_experts,
                                  .top_k        = c->route.top_k,
                                  .width        = c->expert_width,
                                  .act          = c->act,
                                  .names        = { "gate_proj", "up_proj", "down_proj" },
                                  .transposed   = true,
                                  .scaled_input = true,
                                  .joined       = "experts.gate_up_proj",
                                  .alone        = "experts.down_proj" };

    lm_push(b, "feed_forward", "%sMoe");
    lm_value route = lm_route(b, lm_linear(b, "router", x, c->route.n_experts, false), &c->route, NULL);
    lm_value y     = lm_experts_of(b, "experts", x, route, &spec);
    y              = lm_add(b, y, lm_gated_mlp(b, c, "shared_expert", x, c->shared_width));
    lm_pop(b);
    return y;
}

static lm_value llama4_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const llama4 *own = lm_own(c);

    x          = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->kinds[layer] & DENSE ? lm_gated_mlp(b, c, "feed_forward", h, c->intermediate)
                                                  : mixture(b, c, h));
}

static lm_value llama4_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = llama4_layer });
}

/* ---- metadata ---- */

static const lm_own_number own_numbers[] = {
    { "attn_scale", "attention.temperature_scale", LM_OWN_F32, offsetof(llama4, temperature), 0, 1e3, 0.1f, false },
    { "floor_scale", "attention.temperature_length", LM_OWN_U32, offsetof(llama4, length), 1, UINT32_MAX, 8192, false },
    { "interleave_moe_layer_step", "interleave_moe_layer_step", LM_OWN_U32, offsetof(llama4, every), 1, LM_MAX_LAYERS, 1, true },
    { 0 },
};

/* Set a bit in the layers of a list of config.json: those that are 0 in `flags`, or not named in a list of
 * numbers. */
static lm_status read_list(const lm_source *s, const char *key, bool flags, uint8_t bit, lm_config *c,
                           lm_error *e)
{
    llama4       *own = lm_family_config_mut(c);
    lm_meta_value list, item;

    if (s->kind == LM_GGUF || !lm_meta_get(s->meta, key, &list) || list.kind == LM_META_NULL)
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    if (flags && !list.a.n)              /* transformers: the default */
        return LM_OK;
    if (flags && list.a.n != c->n_layers)
        return lm_wrong(s, key, NULL, e, "%" PRIu64 " entries for %u layers", list.a.n, c->n_layers);
    for (uint32_t i = 0; !flags && i < c->n_layers; i++)
        own->kinds[i] |= bit;
    for (uint64_t i = 0; i < list.a.n; i++) {
        if (!lm_meta_at(&list, i, &item) || item.kind != LM_META_UINT || item.u >= (flags ? 2 : c->n_layers))
            return lm_wrong(s, key, NULL, e, "entry %" PRIu64 " is not a number below %u", i,
                            flags ? 2 : c->n_layers);
        uint8_t *of = &own->kinds[flags ? i : item.u];
        *of         = (uint8_t)(flags && !item.u ? *of | bit : *of & ~bit);
    }
    return LM_OK;
}

/* Read which layers rotate and which have a mixture. GGUF: those without a chunk do not rotate. */
static lm_status read_kinds(const lm_source *s, lm_config *c, lm_error *e)
{
    llama4  *own = lm_family_config_mut(c);
    uint32_t step;

    LM_TRY(lm_read_u32(s, "no_rope_layer_interval", NULL, 1, LM_MAX_LAYERS, 4, &step, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        own->kinds[i] = (uint8_t)((s->kind == LM_GGUF ? c->full[i] : (i + 1) % step == 0 ? UNROTATED : 0) |
                                  ((i + 1) % own->every ? DENSE : 0));
    LM_TRY(read_list(s, "no_rope_layers", true, UNROTATED, c, e));
    return read_list(s, "moe_layers", false, DENSE, c, e);
}

static lm_status read_chunks(const lm_source *s, lm_config *c, lm_error *e)
{
    const llama4 *own   = lm_own(c);
    uint32_t     *chunk = &c->attention.window;
    lm_meta_value v;

    *chunk = 0;
    if (s->kind == LM_GGUF) {
        LM_TRY(lm_read_u32(s, NULL, "attention.sliding_window", 1, UINT32_MAX, CHUNK, chunk, e));
        LM_TRY(lm_read_window_pattern(s, NULL, 4, c, e));
        LM_TRY(read_kinds(s, c, e));
    } else {
        LM_TRY(read_kinds(s, c, e));
        if (!lm_meta_get(s->meta, "attention_chunk_size", &v) || v.kind != LM_META_NULL)
            LM_TRY(lm_read_u32(s, "attention_chunk_size", NULL, 1, UINT32_MAX, CHUNK, chunk, e));
        for (uint32_t i = 0; i < c->n_layers; i++)
            c->full[i] = own->kinds[i] & UNROTATED;
        if (lm_meta_has(s->meta, "layer_types"))
            LM_TRY(lm_read_layer_kinds(s, "layer_types", "full_attention", "chunked_attention", c->full, c,
                                       e));
    }
    c->attention.chunked = *chunk > 0;
    return LM_OK;
}

static lm_status read_temperature(const lm_source *s, lm_config *c, lm_error *e)
{
    const llama4 *own = lm_own(c);
    bool          on;

    LM_TRY(lm_read_bool(s, "attn_temperature_tuning", NULL, true, &on, e));
    c->temperature = (lm_temperature_spec){ .beta   = on ? own->temperature : 0,
                                            .length = own->length,
                                            .offset = 1 };
    return LM_OK;
}

/* intermediate_size is the width of an expert. */
static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t scoring;

    c->route = (lm_route_spec){ .sigmoid = true, .scale = 1 };
    LM_TRY(lm_read_u32(s, "num_local_experts", "expert_count", 1, LM_MAX_EXPERTS, -1, &c->route.n_experts,
                       e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, c->route.n_experts, -1,
                       &c->route.top_k, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 2, 2, 2, &scoring, e));
    c->expert_width = c->intermediate;
    if (s->kind != LM_GGUF)
        LM_TRY(lm_read_u32(s, "intermediate_size_mlp", NULL, 1, 1u << 20, 16384, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_feed_forward_length", 1, 1u << 20, c->expert_width,
                       &c->expert_width, e));
    c->shared_width = c->expert_width;
    return LM_OK;
}

static lm_status llama4_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_shape(s, c, e));
    c->bias_mlp = false;
    LM_TRY(lm_read_rope(s, c->head_dim, 500000, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    c->attention    = lm_plain_attention(c);
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(read_chunks(s, c, e));
    LM_TRY(read_temperature(s, c, e));
    LM_TRY(read_mixture(s, c, e));
    return lm_read_bool(s, "use_qk_norm", NULL, s->kind != LM_GGUF || c->route.n_experts != UNNORMED,
                        &c->qk_norm, e);
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.feed_forward.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.feed_forward.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.feed_forward.down_proj", "blk.*.ffn_down" },
    { "model.layers.*.feed_forward.router", "blk.*.ffn_gate_inp" },
    { "model.layers.*.feed_forward.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.feed_forward.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.feed_forward.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.layers.*.feed_forward.shared_expert.gate_proj", "blk.*.ffn_gate_shexp" },
    { "model.layers.*.feed_forward.shared_expert.up_proj", "blk.*.ffn_up_shexp" },
    { "model.layers.*.feed_forward.shared_expert.down_proj", "blk.*.ffn_down_shexp" },
    { NULL, NULL },
};

const lm_family lm_family_llama4 = {
    .name         = "llama4_text",
    .class_prefix = "Llama4Text",
    .root_class   = "Llama4ForCausalLM",
    .hf_types     = (const char *const[]){ "llama4_text", NULL },
    .gguf_archs   = (const char *const[]){ "llama4", NULL },
    .act_name     = "activation_fn",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = llama4_configure,
    .build        = llama4_build,
    .own          = own_numbers,
    .mixture      = &keys,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 }, { "rms_norm_eps", 1e-5 },
                                          { "intermediate_size", 8192 }, { "num_local_experts", 16 },
                                          { "num_experts_per_tok", 1 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "intermediate_size_mlp",
                                           "num_local_experts", "num_experts_per_tok", "moe_layers",
                                           "interleave_moe_layer_step", "use_qk_norm", "no_rope_layers",
                                           "no_rope_layer_interval", "attention_chunk_size", "layer_types",
                                           "attn_temperature_tuning", "floor_scale", "attn_scale",
                                           "router_aux_loss_coef", "router_jitter_noise", "for_llm_compressor",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};
