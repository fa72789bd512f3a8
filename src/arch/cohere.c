/* cohere.c - Command-R, Aya (Cohere 2024) and Command R7B (2412): one norm without bias before parallel
 * attention and MLP, rotary pairs, scaled logits. The second generation rotates only in layers with a sliding
 * window. Cohere 2 with experts (2026): mixtures after the first layers, which may rotate without a window;
 * the norms may be RMSNorms. */
#include "arch/families.h"

typedef struct cohere { float logits; } cohere;      /* factor of the logits */
LM_OWN_FITS(cohere);

static lm_value cohere_attention(lm_builder *b, const lm_config *c, uint32_t layer, bool rotates, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_value q = lm_linear(b, "q_proj", x, c->n_heads * c->head_dim, c->bias_qkv);
    lm_value k = lm_linear(b, "k_proj", x, c->n_kv_heads * c->head_dim, c->bias_qkv);
    lm_value v = lm_linear(b, "v_proj", x, c->n_kv_heads * c->head_dim, c->bias_qkv);
    if (c->qk_norm) {
        q = lm_layer_norm_heads(b, "q_norm", q, c->n_heads, c->n_heads, c->norm_eps);
        k = lm_layer_norm_heads(b, "k_norm", k, c->n_kv_heads, c->n_kv_heads, c->norm_eps);
    }
    if (rotates) {
        q = lm_rope(b, q, c->n_heads, &c->rope);
        k = lm_rope(b, k, c->n_kv_heads, &c->rope);
    }
    lm_value o = lm_linear(b, "o_proj", lm_attention(b, q, k, v, &scores), c->hidden, c->bias_qkv);
    lm_pop(b);
    return o;
}

/* Add the norm without bias that precedes the parallel attention and MLP. */
static lm_value cohere_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    x = lm_layer_norm(b, name, x, c->norm_eps, false);
    lm_class_is(b, "%sLayerNorm");
    return x;
}

static lm_value cohere_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = cohere_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, cohere_attention(b, c, layer, !c->full[layer], h));
    return lm_add(b, x, lm_llama_mlp(b, c, h));
}

static lm_value cohere_build(lm_builder *b, const lm_config *c)
{
    const cohere *own    = lm_own(c);
    lm_value logits = lm_decoder_frame(b, c, &(lm_decoder){ .layer = cohere_layer, .norm = cohere_norm });

    return lm_scale(b, logits, own->logits);
}

static const lm_own_number cohere_own[] = {
    { "logit_scale", "logit_scale", LM_OWN_F32, offsetof(cohere, logits), 1e-6, 1e6, 1, true },
    { 0 },
};

/* Read all but the sizes. */
static lm_status read_parts(const lm_source *s, lm_config *c, lm_error *e)
{
    bool file = s->kind == LM_GGUF;

    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, file && lm_has_tensor(s, "blk.0.attn_q.bias"),
                        &c->bias_qkv, e));
    LM_TRY(lm_read_bool(s, "use_qk_norm", NULL, file && lm_has_tensor(s, "blk.0.attn_q_norm.weight"),
                        &c->qk_norm, e));
    LM_TRY(lm_read_own(s, cohere_own, c, e));
    LM_TRY(lm_read_rope(s, c->head_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

static lm_status cohere_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    return read_parts(s, c, e);
}

/* By default every fourth layer has full attention without positions. */
static lm_status cohere2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    float rotated;

    LM_TRY(cohere_configure(s, c, e));
    LM_TRY(lm_read_f32(s, "rotary_pct", NULL, 0, 1, 1, &rotated, e));
    LM_TRY(lm_read_window(s, 4096, c, e));
    LM_TRY(lm_read_window_pattern(s, "sliding_window_pattern", 4, c, e));
    if (rotated < 1)
        return lm_no_form(s, "rotary_pct", "heads rotate whole in this family", e);
    if (c->attention.window == 0)
        return lm_no_form(s, s->kind == LM_GGUF ? "cohere2.attention.sliding_window" : "sliding_window",
                          "layers without a window have no form in this family", e);
    return LM_OK;
}

const lm_family lm_family_cohere = {
    .name         = "cohere",
    .class_prefix = "Cohere",
    .hf_types     = (const char *const[]){ "cohere", NULL },
    .gguf_archs   = (const char *const[]){ "command-r", NULL },
    .pad_token    = "0",
    .configure    = cohere_configure,
    .build        = cohere_build,
    .own          = cohere_own,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 8192 }, { "rope_theta", 5e5 },
                                          { "tie_word_embeddings", true }, { "logit_scale", 0.0625 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "attention_bias", "use_qk_norm", "logit_scale",
                                           "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_cohere2 = {
    .name         = "cohere2",
    .class_prefix = "Cohere2",
    .hf_types     = (const char *const[]){ "cohere2", NULL },
    .gguf_archs   = (const char *const[]){ "cohere2", NULL },
    .pad_token    = "0",
    .configure    = cohere2_configure,
    .build        = cohere_build,
    .own          = cohere_own,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true },
                                          { "logit_scale", 0.0625 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "attention_bias", "logit_scale", "sliding_window",
                                           "sliding_window_pattern", "layer_types", "rotary_pct", "layer_switch",
                                           "order_of_interleaved_layers", "position_embedding_type", "use_embedding_sharing",
                                           "use_gated_activation", "use_parallel_block", "use_parallel_embedding",
                                           "cache_implementation", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

/* ---- with experts ---- */

typedef struct cohere_moe {
    cohere   base;                       /* must be first: cohere_build accesses it */
    bool     rms, averaged;              /* kind of norms; the sum with shared experts is halved */
    uint32_t dense_layers;
    uint32_t prefix_every;               /* of the first layers, every one of this number has no window; 1:
                                            they rotate nonetheless */
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} cohere_moe;
LM_OWN_FITS(cohere_moe);

static const lm_own_number moe_own[] = {
    { "logit_scale", "logit_scale", LM_OWN_F32, offsetof(cohere_moe, base.logits), 1e-6, 1e6, 1, true },
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(cohere_moe, dense_layers), 0, LM_MAX_LAYERS, 0, true },
    { "prefix_dense_sliding_window_pattern", NULL, LM_OWN_U32, offsetof(cohere_moe, prefix_every), 1, LM_MAX_LAYERS, 1, false },
    { 0 },
};

static const lm_mixture_keys moe_keys = { .experts = "num_experts", .top_k = "num_experts_per_tok",
                                          .shared = "num_shared_experts", .width = "intermediate_size",
                                          .normalised = "norm_topk_prob", .says_function = true,
                                          .gguf_shared = LM_SHARED_BOTH };

static lm_value moe_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    const cohere_moe *own = lm_own(c);

    return own->rms ? lm_llama_norm(b, c, name, x) : cohere_norm(b, c, name, x);
}

static lm_value moe_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const cohere_moe      *own     = lm_own(c);
    const lm_mixture_names parts   = { .module     = "mlp",
                                       .class_name = "%sSparseMoeBlock",
                                       .averaged   = own->averaged,
                                       .parts      = { "gate_proj", "up_proj", "down_proj" } };
    bool                   rotates = !c->full[layer] || (own->dense[layer] && own->prefix_every == 1);

    lm_value h = moe_norm(b, c, "input_layernorm", x);
    x          = lm_add(b, x, cohere_attention(b, c, layer, rotates, h));
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_shared_mixture(b, c, &parts, h));
}

static lm_value moe_build(lm_builder *b, const lm_config *c)
{
    const cohere *own    = lm_own(c);
    lm_value logits = lm_decoder_frame(b, c, &(lm_decoder){ .layer = moe_layer, .norm = moe_norm });

    return lm_scale(b, logits, own->logits);
}

/* The windows of the first layers have a pattern of their own, and that of the others begins after them. */
static lm_status read_moe_windows(const lm_source *s, lm_config *c, lm_error *e)
{
    const cohere_moe *own = lm_own(c);
    uint32_t          every, first = own->dense_layers;

    LM_TRY(lm_read_window(s, s->kind == LM_GGUF ? 0 : 4096, c, e));
    if (!c->attention.window)
        return lm_wrong(s, "sliding_window", "attention.sliding_window", e,
                        "missing; layers without a window have no form in this family");
    if (s->kind == LM_GGUF || lm_meta_has(s->meta, "layer_types"))
        return lm_read_pattern_from_first(s, 4, c, e);
    LM_TRY(lm_read_u32(s, "sliding_window_pattern", NULL, 1, LM_MAX_LAYERS, 4, &every, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->full[i] = i < first ? (i + 1) % own->prefix_every == 0 : (i - first + 1) % every == 0;
    return LM_OK;
}

/* intermediate_size is the width of an expert. */
static lm_status read_moe(const lm_source *s, lm_config *c, lm_error *e)
{
    cohere_moe *own  = lm_family_config_mut(c);
    bool        file = s->kind == LM_GGUF, sum = false;
    uint32_t    function = 2;
    lm_view     word = LM_VIEW("softmax"), joined = LM_VIEW("average");

    if (!file && lm_meta_has(s->meta, "expert_selection_fn"))
        LM_TRY(lm_meta_string(s->meta, "expert_selection_fn", &word, e));
    if (!file && !lm_view_is(word, "softmax") && !lm_view_is(word, "sigmoid"))
        return lm_no_form(s, "expert_selection_fn", "is neither \"softmax\" nor \"sigmoid\"", e);
    if (!file && lm_meta_has(s->meta, "shared_expert_combination_strategy"))
        LM_TRY(lm_meta_string(s->meta, "shared_expert_combination_strategy", &joined, e));
    sum = lm_view_is(joined, "sum");
    if (!sum && !lm_view_is(joined, "average"))
        return lm_no_form(s, "shared_expert_combination_strategy", "is neither \"sum\" nor \"average\"", e);
    LM_TRY(lm_read_shared_mixture(s, &moe_keys, c, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 1, 2, 2, &function, e));
    LM_TRY(lm_read_bool(s, "norm_topk_prob", "expert_weights_norm", !file, &c->route.renormalise, e));
    c->route.sigmoid = file ? function == 2 : lm_view_is(word, "sigmoid");
    c->route.renormalise |= !file && !c->route.sigmoid;      /* the softmax is of the chosen */
    own->averaged = !sum;
    return file ? LM_OK
                : lm_read_u32(s, "prefix_dense_intermediate_size", NULL, 1, 1u << 20, c->intermediate,
                              &c->intermediate, e);
}

static lm_status cohere2_moe_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    cohere_moe   *own = lm_family_config_mut(c);
    char          key[128];
    lm_meta_value v;

    lm_gguf_key(s, "attention.layer_norm_rms_epsilon", key, sizeof key);
    own->rms = lm_meta_get(s->meta, s->kind == LM_GGUF ? key : "rms_norm_eps", &v) && v.kind != LM_META_NULL;
    LM_TRY(own->rms ? lm_read_sizes(s, c, e) : lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    LM_TRY(read_parts(s, c, e));
    if (c->qk_norm)
        return lm_no_form(s, "use_qk_norm", "heads are not normalised in this family", e);
    LM_TRY(lm_read_own(s, moe_own, c, e));
    LM_TRY(lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e));
    own->dense_layers = lm_leading(own->dense, c);
    LM_TRY(read_moe_windows(s, c, e));
    return read_moe(s, c, e);
}

static const lm_name moe_names[] = {
    LM_DECODER_NAMES,
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

const lm_family lm_family_cohere2_moe = {
    .name         = "cohere2_moe",
    .class_prefix = "Cohere2Moe",
    .hf_types     = (const char *const[]){ "cohere2_moe", NULL },
    .gguf_archs   = (const char *const[]){ "cohere2moe", NULL },
    .pad_token    = "0",
    .configure    = cohere2_moe_configure,
    .build        = moe_build,
    .own          = moe_own,
    .mixture      = &moe_keys,
    .names        = moe_names,
    .defaults     = (const lm_default[]){ { "head_dim", 128 }, { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true }, { "logit_scale", 0.0625 },
                                          { "num_experts", 8 }, { "num_experts_per_tok", 2 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "attention_bias", "use_qk_norm",
                                           "logit_scale", "sliding_window", "sliding_window_pattern",
                                           "layer_types", "mlp_layer_types", "first_k_dense_replace",
                                           "prefix_dense_sliding_window_pattern",
                                           "prefix_dense_intermediate_size", "num_experts",
                                           "num_experts_per_tok", "num_shared_experts", "norm_topk_prob",
                                           "shared_expert_combination_strategy", "expert_selection_fn",
                                           "use_parallel_block", "use_gated_activation",
                                           "use_embedding_sharing", "position_embedding_type",
                                           "num_nextn_predict_layers", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
    .layers       = "model.layers.",
};
