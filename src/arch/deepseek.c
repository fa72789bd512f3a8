/* deepseek.c - DeepSeek-V2, V2-Lite and V3 (arXiv 2405.04434, 2412.19437): latent attention, mixtures of many
 * narrow experts with shared experts that process every token.
 *
 * Keys and values come from one latent per token; each head's key ends in rotated lanes that all heads share.
 * The norms of the latents have an epsilon of 1e-6 regardless of rms_norm_eps. */
#include <math.h>

#include "arch/families.h"

#define LATENT_EPS 1e-6f

/* Plain MLPs are in the first layers, and in those whose index is not a multiple of `moe_every`. */
typedef struct deepseek { uint32_t dense_layers, moe_every; } deepseek;
LM_OWN_FITS(deepseek);

static lm_value queries(lm_builder *b, const lm_config *c, lm_value x)
{
    uint32_t width = c->n_heads * c->head_dim;

    if (!c->latent.q_rank)
        return lm_linear(b, "q_proj", x, width, false);
    x = lm_rms_norm(b, "q_a_layernorm", lm_linear(b, "q_a_proj", x, c->latent.q_rank, c->bias_qkv),
                    LATENT_EPS);
    return lm_linear(b, "q_b_proj", x, width, false);
}

static lm_value attention(lm_builder *b, const lm_config *c, lm_value x)
{
    static const char *const parts[2] = { "k_b_proj", "v_b_proj" };
    uint32_t nope = c->latent.nope_dim, rope = c->latent.rope_dim, rank = c->latent.kv_rank;

    lm_push(b, "self_attn", "%sAttention");
    lm_value q      = queries(b, c, x);
    lm_value q_nope = lm_columns(b, "q_nope", q, c->n_heads, 0, nope);
    lm_value q_pe   = lm_rope(b, lm_columns(b, "q_pe", q, c->n_heads, nope, rope), c->n_heads, &c->rope);
    lm_value kv     = lm_linear(b, "kv_a_proj_with_mqa", x, rank + rope, c->bias_qkv);
    lm_value latent = lm_rms_norm(b, "kv_a_layernorm", lm_columns(b, "latent", kv, 1, 0, rank), LATENT_EPS);
    lm_value k_pe   = lm_rope(b, lm_columns(b, "k_pe", kv, 1, rank, rope), 1, &c->rope);
    lm_value a      = lm_latent_attention(b, "kv_b_proj", parts, q_nope, q_pe, latent, k_pe, &c->attention);
    lm_value o      = lm_linear(b, "o_proj", a, c->hidden, c->bias_o);
    lm_pop(b);
    return o;
}

static lm_value gated(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t width)
{
    lm_push(b, name, "%sMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, width, c->bias_mlp);
    lm_value up   = lm_linear(b, "up_proj", x, width, c->bias_mlp);
    lm_value down = lm_linear(b, "down_proj", lm_glu(b, gate, up, c->act), c->hidden, c->bias_mlp);
    lm_pop(b);
    return down;
}

static lm_value mixture(lm_builder *b, const lm_config *c, lm_value x)
{
    static const char *const names[3] = { "gate_proj", "up_proj", "down_proj" };

    lm_push(b, "mlp", c->route.sigmoid ? "%sMoE" : "%sMoe");
    lm_value route = lm_route(b, lm_linear(b, "gate", x, c->route.n_experts, false), &c->route,
                              c->route.sigmoid ? "gate.e_score_correction_bias" : NULL);
    lm_value y = lm_experts(b, "experts", x, route, c->route.n_experts, c->route.top_k, c->expert_width,
                            c->act, names);
    if (c->shared_width)
        y = lm_add(b, y, gated(b, c, "shared_experts", x, c->shared_width));
    lm_pop(b);
    return y;
}

static lm_value deepseek_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const deepseek *own   = lm_own(c);
    bool            dense = layer < own->dense_layers || layer % own->moe_every != 0;
    lm_value        h     = lm_rms_norm(b, "input_layernorm", x, c->norm_eps);

    x = lm_add(b, x, attention(b, c, h));
    h = lm_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
    return lm_add(b, x, dense ? gated(b, c, "mlp", h, c->intermediate) : mixture(b, c, h));
}

static lm_value deepseek_build(lm_builder *b, const lm_config *c)
{
    lm_push(b, "model", "%sModel");
    lm_value x = lm_embedding(b, "embed_tokens", c->vocab_size, c->hidden);
    lm_set_padding(b, c);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = deepseek_layer(b, c, i, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_rms_norm(b, "norm", x, c->norm_eps);
    lm_leaf(b, "rotary_emb", "%sRotaryEmbedding");
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.embed_tokens" : NULL);
}

/* ---- metadata ---- */

static lm_status wrong(const lm_source *s, const char *key, lm_status code, const char *message, lm_error *e)
{
    lm_fail(e, code, key, LM_NO_OFFSET, "%s", message);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

/* Check that a string has this value, or is absent: other values mean other computations. */
static lm_status expect(const lm_source *s, const char *key, const char *word, lm_error *e)
{
    lm_view found;

    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_string(s->meta, key, &found, e));
    return lm_view_is(found, word) ? LM_OK
                                   : wrong(s, key, LM_UNSUPPORTED, "is not what this family computes", e);
}

/* Read the head sizes. Newer GGUF files have those of the latent as key and value length, and those of a head
 * in separate keys. */
static lm_status read_latent(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_meta_value v;
    char          key[128];

    if (s->kind == LM_GGUF || (lm_meta_get(s->meta, "q_lora_rank", &v) && v.kind == LM_META_NULL))
        LM_TRY(lm_read_u32(s, NULL, "attention.q_lora_rank", 0, 1u << 18, 0, &c->latent.q_rank, e));
    else
        LM_TRY(lm_read_u32(s, "q_lora_rank", NULL, 1, 1u << 18, 1536, &c->latent.q_rank, e));
    LM_TRY(lm_read_u32(s, "kv_lora_rank", "attention.kv_lora_rank", 1, 1u << 18, 512, &c->latent.kv_rank, e));
    LM_TRY(lm_read_u32(s, "qk_rope_head_dim", "rope.dimension_count", 2, 65536, 64, &c->latent.rope_dim, e));
    if (s->kind == LM_GGUF) {
        bool newer = lm_meta_has(s->meta, lm_gguf_key(s, "attention.key_length_mla", key, sizeof key));
        LM_TRY(lm_read_u32(s, NULL, newer ? "attention.key_length_mla" : "attention.key_length", 1, 65536, -1,
                           &c->head_dim, e));
        LM_TRY(lm_read_u32(s, NULL, newer ? "attention.value_length_mla" : "attention.value_length", 1, 65536,
                           -1, &c->latent.v_dim, e));
        if (c->head_dim <= c->latent.rope_dim)
            return wrong(s, lm_gguf_key(s, "rope.dimension_count", key, sizeof key), LM_BAD_MODEL,
                         "leaves no dimensions of a key that are not rotated", e);
        c->latent.nope_dim = c->head_dim - c->latent.rope_dim;
    } else {
        LM_TRY(lm_read_u32(s, "qk_nope_head_dim", NULL, 1, 65536, 128, &c->latent.nope_dim, e));
        LM_TRY(lm_read_u32(s, "v_head_dim", NULL, 1, 65536, 128, &c->latent.v_dim, e));
        c->head_dim = c->latent.nope_dim + c->latent.rope_dim;
    }
    uint64_t all = (uint64_t)c->head_dim + c->latent.v_dim + c->latent.kv_rank;

    if (c->n_heads * all > 1u << 24)
        return wrong(s, "num_attention_heads", LM_BAD_MODEL, "heads times their widths are beyond 16777216",
                     e);
    return LM_OK;
}

static lm_status expect_u32(const lm_source *s, const char *name, uint32_t value, const char *because,
                            lm_error *e)
{
    char     key[128];
    uint32_t v;

    LM_TRY(lm_read_u32(s, NULL, name, 1, 1u << 20, value, &v, e));
    if (v == value)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, lm_gguf_key(s, name, key, sizeof key), LM_NO_OFFSET, "%u, but %s make it %u", v,
            because, value);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

/* Newer GGUF files describe what is cached, one head that is the latent; older ones describe the actual
 * heads. */
static lm_status check_heads(const lm_source *s, const lm_config *c, lm_error *e)
{
    char key[128];

    if (s->kind != LM_GGUF)
        return LM_OK;
    if (!lm_meta_has(s->meta, lm_gguf_key(s, "attention.key_length_mla", key, sizeof key)))
        return expect_u32(s, "attention.head_count_kv", c->n_heads,
                          "heads with separate keys (attention.head_count)", e);
    LM_TRY(expect_u32(s, "attention.head_count_kv", 1, "heads that share a latent (attention.key_length_mla)",
                      e));
    LM_TRY(expect_u32(s, "attention.key_length", c->latent.kv_rank + c->latent.rope_dim,
                      "attention.kv_lora_rank and rope.dimension_count", e));
    return expect_u32(s, "attention.value_length", c->latent.kv_rank,
                      "attention.kv_lora_rank and attention.value_length_mla", e);
}

static lm_status read_sizes(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", "embedding_length", 1, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_hidden_layers", "block_count", 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "num_attention_heads", "attention.head_count", 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "intermediate_size", "feed_forward_length", 1, 1u << 20, -1, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", "context_length", 1, UINT32_MAX, 2048,
                       &c->context_length, e));
    LM_TRY(
        lm_read_f32(s, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-20, 1, 1e-6, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_SILU, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    c->bias_o     = c->bias_qkv;
    c->n_kv_heads = c->n_heads;
    return LM_OK;
}

static const lm_own_number deepseek_own[] = {
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, offsetof(deepseek, dense_layers), 0, LM_MAX_LAYERS, 0, false },
    { "moe_layer_freq", NULL, LM_OWN_U32, offsetof(deepseek, moe_every), 1, LM_MAX_LAYERS, 1, false },
    { 0 },
};

static lm_status read_mixture(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_route_spec *r = &c->route;
    uint32_t       shared;

    LM_TRY(lm_read_u32(s, "n_routed_experts", "expert_count", 1, LM_MAX_EXPERTS, -1, &r->n_experts, e));
    LM_TRY(lm_read_u32(s, "num_experts_per_tok", "expert_used_count", 1, r->n_experts, -1, &r->top_k, e));
    LM_TRY(lm_read_u32(s, "moe_intermediate_size", "expert_feed_forward_length", 1, 1u << 20, -1,
                       &c->expert_width, e));
    LM_TRY(lm_read_u32(s, "n_shared_experts", "expert_shared_count", 0, 1024, 0, &shared, e));
    LM_TRY(lm_read_f32(s, "routed_scaling_factor", "expert_weights_scale", 1e-6, 1e6, 1, &r->scale, e));
    LM_TRY(lm_read_own(s, deepseek_own, c, e));
    if ((uint64_t)shared * c->expert_width > 1u << 20)
        return wrong(s, "n_shared_experts", LM_BAD_MODEL, "times the width of an expert is beyond 1048576",
                     e);
    c->shared_width = shared * c->expert_width;
    return LM_OK;
}

static lm_status read_groups(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_route_spec *r = &c->route;

    LM_TRY(lm_read_u32(s, "n_group", "expert_group_count", 1, LM_MAX_GROUPS, 1, &r->n_groups, e));
    LM_TRY(lm_read_u32(s, "topk_group", "expert_group_used_count", 1, r->n_groups, r->n_groups,
                       &r->top_groups, e));
    char        key[128];
    const char *groups = s->kind == LM_GGUF ? lm_gguf_key(s, "expert_group_count", key, sizeof key)
                                            : "n_group";
    if (r->n_experts % r->n_groups)
        return wrong(s, groups, LM_BAD_MODEL, "does not divide the number of experts", e);
    if (r->top_groups * (r->n_experts / r->n_groups) < r->top_k)
        return wrong(s, groups, LM_BAD_MODEL, "the groups that are open hold fewer experts than a token uses",
                     e);
    return LM_OK;
}

/* Read sizes, latents, rotation and mixture, but not groups. The scores are also multiplied by the square of
 * YaRN's magnitude. */
static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(read_sizes(s, c, e));
    LM_TRY(read_latent(s, c, e));
    LM_TRY(check_heads(s, c, e));
    LM_TRY(lm_read_rope(s, c->latent.rope_dim, 10000, c, e));
    c->rope.pairing = LM_ROPE_PAIR;
    double m = c->rope.type != LM_ROPE_DEFAULT && c->rope.factor > 1
                   ? 0.1 * c->rope.mscale_all_dim * log(c->rope.factor) + 1
                   : 1;
    c->attention = (lm_attention_spec){ .n_heads = c->n_heads,
                                        .n_kv_heads = c->n_heads,
                                        .k_dim = c->head_dim,
                                        .v_dim = c->latent.v_dim,
                                        .scale = (float)(m * m / sqrt(c->head_dim)) };
    return read_mixture(s, c, e);
}

static lm_status deepseek_v2_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_view  method = LM_VIEW("group_limited_greedy");
    uint32_t scoring;

    LM_TRY(configure(s, c, e));
    /* 0: unspecified, which also means softmax */
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 0, 1, 1, &scoring, e));
    LM_TRY(expect(s, "scoring_func", "softmax", e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    if (s->kind != LM_GGUF) {
        method = LM_VIEW("greedy");
        if (lm_meta_has(s->meta, "topk_method"))
            LM_TRY(lm_meta_string(s->meta, "topk_method", &method, e));
    }
    if (lm_view_is(method, "group_limited_greedy"))
        return read_groups(s, c, e);
    return lm_view_is(method, "greedy")
               ? LM_OK
               : wrong(s, "topk_method", LM_UNSUPPORTED, "is not what this family computes", e);
}

static lm_status deepseek_v3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t scoring;
    bool     pairs;

    LM_TRY(configure(s, c, e));
    LM_TRY(lm_read_u32(s, NULL, "expert_gating_func", 2, 2, 2, &scoring, e));
    LM_TRY(expect(s, "scoring_func", "sigmoid", e));
    LM_TRY(expect(s, "topk_method", "noaux_tc", e));
    LM_TRY(read_groups(s, c, e));
    LM_TRY(lm_read_bool(s, "norm_topk_prob", "expert_weights_norm", false, &c->route.renormalise, e));
    LM_TRY(lm_read_bool(s, "rope_interleave", NULL, true, &pairs, e));
    c->rope.pairing        = pairs ? LM_ROPE_PAIR : LM_ROPE_HALF;
    c->route.sigmoid       = true;
    c->route.group_sum_two = true;
    return LM_OK;
}

static const lm_name deepseek_names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },
    { "model.layers.*.self_attn.q_proj", "blk.*.attn_q" },
    { "model.layers.*.self_attn.q_a_proj", "blk.*.attn_q_a" },
    { "model.layers.*.self_attn.q_a_layernorm", "blk.*.attn_q_a_norm" },
    { "model.layers.*.self_attn.q_b_proj", "blk.*.attn_q_b" },
    { "model.layers.*.self_attn.kv_a_proj_with_mqa", "blk.*.attn_kv_a_mqa" },
    { "model.layers.*.self_attn.kv_a_layernorm", "blk.*.attn_kv_a_norm" },
    { "model.layers.*.self_attn.kv_b_proj", "blk.*.attn_kv_b" },
    { "model.layers.*.self_attn.k_b_proj", "blk.*.attn_k_b" },
    { "model.layers.*.self_attn.v_b_proj", "blk.*.attn_v_b" },
    { "model.layers.*.self_attn.o_proj", "blk.*.attn_output" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { "model.layers.*.mlp.gate", "blk.*.ffn_gate_inp" },
    { "model.layers.*.mlp.gate.e_score_correction_bias", "blk.*.exp_probs_b" },
    { "model.layers.*.mlp.experts.gate_proj", "blk.*.ffn_gate_exps" },
    { "model.layers.*.mlp.experts.up_proj", "blk.*.ffn_up_exps" },
    { "model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps" },
    { "model.layers.*.mlp.shared_experts.gate_proj", "blk.*.ffn_gate_shexp" },
    { "model.layers.*.mlp.shared_experts.up_proj", "blk.*.ffn_up_shexp" },
    { "model.layers.*.mlp.shared_experts.down_proj", "blk.*.ffn_down_shexp" },
    { "model.norm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

/* transformers ignores norm_topk_prob for V2; seq_aux, ep_size and pretraining_tp only affect training. */
static const char *const deepseek_keys[] = {
    "hidden_act", "attention_bias", "mlp_bias", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "qk_head_dim", "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size", "first_k_dense_replace",
    "moe_layer_freq", "routed_scaling_factor", "topk_method", "n_group", "topk_group", "norm_topk_prob", "scoring_func",
    "rope_interleave", "aux_loss_alpha", "seq_aux", "ep_size", "pretraining_tp", "num_nextn_predict_layers",
    NULL,
};

/* Some GGUF files contain both attn_kv_b and its parts. */
static const char *const deepseek_ignorable[] = { "*.rotary_emb.inv_freq", "blk.*.attn_k_b.weight",
                                                  "blk.*.attn_v_b.weight", NULL };

const lm_family lm_family_deepseek_v2 = {
    .name         = "deepseek_v2",
    .class_prefix = "DeepseekV2",
    .hf_types     = (const char *const[]){ "deepseek_v2", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek2", NULL },
    .configure    = deepseek_v2_configure,
    .build        = deepseek_build,
    .own          = deepseek_own,
    .names        = deepseek_names,
    .defaults     = (const lm_default[]){ { "n_routed_experts", 64 }, { "moe_intermediate_size", 1407 },
                                          { "n_shared_experts", 2 },
                                          { NULL, 0 } },
    .keys         = deepseek_keys,
    .ignorable    = deepseek_ignorable,
    .layers       = "model.layers.",
};

const lm_family lm_family_deepseek_v3 = {
    .name         = "deepseek_v3",
    .class_prefix = "DeepseekV3",
    .hf_types     = (const char *const[]){ "deepseek_v3", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek2", NULL },
    .gguf_key     = "expert_gating_func=2",
    .configure    = deepseek_v3_configure,
    .build        = deepseek_build,
    .own          = deepseek_own,
    .names        = deepseek_names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 4096 }, { "intermediate_size", 18432 },
                                          { "n_routed_experts", 256 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 2048 }, { "n_shared_experts", 1 },
                                          { "routed_scaling_factor", 2.5 }, { "first_k_dense_replace", 3 }, { "n_group", 8 },
                                          { "topk_group", 4 }, { "norm_topk_prob", true }, { NULL, 0 } },
    .keys         = deepseek_keys,
    .ignorable    = deepseek_ignorable,
    .layers       = "model.layers.",
};
