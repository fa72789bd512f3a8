/* minimax_m3.c - MiniMax M3 (MiniMax, 2026), the language model: MiniMax M2's mixtures with a shared expert
 * and clamped gates, norms stored less one, each head of q and k normalised, and, in most layers, attention
 * to the blocks of keys that an indexer chooses for each group of heads. */
#include <math.h>

#include "arch/families.h"

typedef struct minimax_m3 {
    uint32_t n_heads, head_dim, block, blocks, local;    /* of the indexer */
    uint32_t dense_layers;               /* first layers with a plain MLP */
    float    limit;                      /* of the gates: lm_expert_spec */
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} minimax_m3;
LM_OWN_FITS(minimax_m3);

#define OWN(member)  offsetof(minimax_m3, member)
#define PUBLISHED(x) "sparse_attention_config/sparse_" x
#define INDEXER(hf, word, member, min, max, absent) \
    { hf, "attention.indexer." word, LM_OWN_U32, OWN(member), min, max, absent, true }

/* As published, and as transformers saves them. */
static const lm_own_number numbers[] = {
    INDEXER(PUBLISHED("num_index_heads"), "head_count", n_heads, 1, LM_MAX_HEADS, 4),
    INDEXER(PUBLISHED("index_dim"), "key_length", head_dim, 2, 1024, 128),
    INDEXER(PUBLISHED("block_size"), "block_size", block, 1, 1u << 16, 128),
    INDEXER(PUBLISHED("topk_blocks"), "top_k", blocks, 1, 1u << 16, 16),
    INDEXER(PUBLISHED("local_block"), "local_blocks", local, 0, 1u << 16, 1),
    { NULL, "leading_dense_block_count", LM_OWN_U32, OWN(dense_layers), 0, LM_MAX_LAYERS, 0, true },
    { "swiglu_limit", NULL, LM_OWN_F32, OWN(limit), 1e-6, 1e9, 7, false },
    { 0 },
};
static const char *const flat[] = { "index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks",
                                    "index_local_blocks" };

static const lm_mixture_keys mixture = { .experts = "num_local_experts", .top_k = "num_experts_per_tok",
                                         .shared = "n_shared_experts", .scale = "routed_scaling_factor",
                                         .normalised = "norm_topk_prob", .normalises = true,
                                         .width = "intermediate_size" };

static lm_value norm_heads(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t n_heads)
{
    lm_value y = lm_rms_norm_heads(b, name, x, n_heads, c->norm_eps);

    lm_stored_minus_one(b, y);
    return y;
}

/* The blocks of keys that each group of heads sees. */
static lm_value choice_of_blocks(lm_builder *b, const lm_config *c, lm_value x)
{
    const minimax_m3 *own  = lm_own(c);
    lm_attention_spec spec = { .n_heads = own->n_heads, .n_kv_heads = 1, .k_dim = own->head_dim,
                               .v_dim = own->head_dim, .v_in_k = true, .scale = 1,
                               .top_k = c->attention.top_k, .block = own->block, .local = own->local };

    lm_value q = lm_linear(b, "index_q_proj", x, own->n_heads * own->head_dim, false);
    lm_value k = lm_linear(b, "index_k_proj", x, own->head_dim, false);
    q          = lm_rope(b, norm_heads(b, c, "index_q_norm", q, own->n_heads), own->n_heads, &c->rope);
    k          = lm_rope(b, norm_heads(b, c, "index_k_norm", k, 1), 1, &c->rope);
    return lm_select_keys(b, "chosen", q, k, LM_NONE, &spec);
}

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec spec = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h      = lm_llama_heads(b, c, x);
    h.q             = norm_heads(b, c, "q_norm", h.q, c->n_heads);
    h.k             = norm_heads(b, c, "k_norm", h.k, c->n_kv_heads);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value chosen = spec.top_k ? choice_of_blocks(b, c, x) : LM_NONE;
    lm_value o      = lm_linear(b, "o_proj", lm_sparse_attention(b, h.q, h.k, h.v, chosen, &spec), c->hidden,
                                false);
    lm_pop(b);
    return o;
}

static lm_value minimax_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    static const lm_mixture_names names = { .module       = "block_sparse_moe",
                                            .class_name   = "%sSparseMoeBlock",
                                            .correction   = "e_score_correction_bias",
                                            .parts        = { "w1", "w3", "w2" },
                                            .shared_class = "%sDenseMLP" };
    const minimax_m3             *own   = lm_own(c);

    x          = lm_add(b, x, attention(b, c, layer, lm_gemma_norm(b, c, "input_layernorm", x)));
    lm_value h = lm_gemma_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_gated_mlp_of(b, c, "mlp", "%sDenseMLP", h, c->intermediate)
                                          : lm_shared_mixture(b, c, &names, h));
}

static lm_value minimax_build(lm_builder *b, const lm_config *c)
{
    static const lm_decoder decoder = { .model_class = "%sTextModel", .layer = minimax_layer,
                                        .norm = lm_gemma_norm };

    return lm_decoder_frame(b, c, &decoder);
}

/* ---- metadata ---- */

/* Read a list with one 0 or 1 for each layer, if config.json has it. */
static lm_status read_list(const lm_source *s, const char *key, const lm_config *c, bool *is, lm_error *e)
{
    lm_meta_value list, item;

    if (!lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, LM_MAX_LAYERS, &list, e));
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (list.a.n != c->n_layers || !lm_meta_at(&list, i, &item) || item.kind != LM_META_UINT ||
            item.u > 1)
            return lm_wrong(s, key, NULL, e, "does not have a 0 or a 1 for each of %u layers", c->n_layers);
        is[i] = item.u;
    }
    return LM_OK;
}

/* Read which layers have a plain MLP, and which have attention to all keys. */
static lm_status read_kinds(const lm_source *s, lm_config *c, lm_error *e)
{
    minimax_m3 *own = lm_family_config_mut(c);
    bool        moe[LM_MAX_LAYERS], sparse[LM_MAX_LAYERS] = { false };

    for (uint32_t i = 0; i < c->n_layers; i++)
        moe[i] = s->kind != LM_GGUF || (sparse[i] = i >= own->dense_layers);
    if (s->kind != LM_GGUF) {
        LM_TRY(lm_meta_has(s->meta, "layer_types")
                   ? lm_read_layer_kinds(s, "layer_types", "minimax_m3_sparse", "full_attention", sparse, c,
                                         e)
                   : read_list(s, PUBLISHED("attention_freq"), c, sparse, e));
        LM_TRY(lm_meta_has(s->meta, "mlp_layer_types")
                   ? lm_read_layer_kinds(s, "mlp_layer_types", "sparse", "dense", moe, c, e)
                   : read_list(s, "moe_layer_freq", c, moe, e));
    }
    own->dense_layers = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        own->dense[i] = !moe[i];
        c->full[i]    = !sparse[i];
        own->dense_layers += own->dense_layers == i && !moe[i];
    }
    return LM_OK;
}

/* Read the sizes of the indexer: as published, else under the names of transformers. */
static lm_status read_indexer(const lm_source *s, lm_config *c, lm_error *e)
{
    const minimax_m3 *own = lm_own(c);

    for (size_t i = 0; numbers[i].hf || numbers[i].gguf; i++) {
        lm_own_number row[2] = { numbers[i], { 0 } };
        if (s->kind != LM_GGUF && i < sizeof flat / sizeof *flat && !lm_meta_has(s->meta, numbers[i].hf))
            row->hf = flat[i];
        LM_TRY(lm_read_own(s, row, c, e));
    }
    if (c->n_kv_heads % own->n_heads)
        return lm_wrong(s, PUBLISHED("num_index_heads"), "attention.indexer.head_count", e,
                        "%u does not divide the number of key/value heads, %u", own->n_heads, c->n_kv_heads);
    if (own->head_dim < c->rope.dim)
        return lm_wrong(s, PUBLISHED("index_dim"), "attention.indexer.key_length", e,
                        "%u is narrower than the %u lanes that rotate", own->head_dim, c->rope.dim);
    if (own->local > own->blocks)
        return lm_wrong(s, PUBLISHED("local_block"), "attention.indexer.local_blocks", e,
                        "%u last blocks are more than the %u that a token sees", own->local, own->blocks);
    if ((uint64_t)own->blocks * own->block > 1u << 20)
        return lm_wrong(s, PUBLISHED("topk_blocks"), "attention.indexer.top_k", e,
                        "%u blocks of %u keys are beyond 1048576 keys", own->blocks, own->block);
    c->attention.top_k     = own->blocks * own->block;
    c->attention.block     = own->block;
    c->attention.local     = own->local;
    c->attention.n_choices = own->n_heads;
    return LM_OK;
}

/* Check the members of config.json that have one value in the published model. */
static lm_status check_words(const lm_source *s, const lm_config *c, lm_error *e)
{
    static const struct { const char *key; bool value; } flags[] = {
        { "use_qk_norm", true }, { "use_gemma_norm", true }, { "use_routing_bias", true },
        { "attention_output_gate", false }, { "norm_topk_prob", true },
        { "sparse_attention_config/use_sparse_attention", true },
    };
    bool     apart[LM_MAX_LAYERS];
    lm_view  act;
    float    alpha;
    uint32_t first;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        LM_TRY(lm_expect_bool(s, flags[i].key, flags[i].value, e));
    LM_TRY(lm_expect_word(s, "qk_norm_type", "per_head", e));
    LM_TRY(lm_expect_word(s, PUBLISHED("score_type"), "max", e));
    LM_TRY(lm_read_u32(s, PUBLISHED("init_block"), NULL, 0, 0, 0, &first, e));
    LM_TRY(lm_read_f32(s, "swiglu_alpha", NULL, 0, 1e6, 1.702, &alpha, e));
    if (alpha != 1.702f)
        return lm_no_form(s, "swiglu_alpha",
                          "gates by another sigmoid than that of 1.702 x have no form here", e);
    if (s->kind == LM_GGUF)
        return LM_OK;
    if (lm_meta_has(s->meta, "hidden_act")) {    /* transformers saves silu, which its gates do not use */
        LM_TRY(lm_meta_string(s->meta, "hidden_act", &act, e));
        if (!lm_view_is(act, "swigluoai") && !lm_view_is(act, "silu"))
            return lm_no_form(s, "hidden_act", "is not swigluoai", e);
    }
    for (uint32_t i = 0; i < c->n_layers; i++)
        apart[i] = true;
    LM_TRY(read_list(s, PUBLISHED("disable_index_value"), c, apart, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (!c->full[i] && !apart[i])
            return lm_no_form(s, PUBLISHED("disable_index_value"),
                              "an indexer with values has no form here", e);
    return LM_OK;
}

static lm_status read_rotation(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t dim, lanes;

    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 1, c, &lanes, e));
    LM_TRY(lm_read_u32(s, "rotary_dim", NULL, 2, c->head_dim, lanes, &dim, e));
    if (dim != lanes)                    /* transformers reads one, others read the other */
        return lm_wrong(s, "rotary_dim", NULL, e, "%u; partial_rotary_factor makes it %u of %u", dim, lanes,
                        c->head_dim);
    LM_TRY(lm_llama_rotation(s, lanes, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

/* Read the widths of plain MLPs and of the shared expert, which folders have apart. */
static lm_status read_widths(const lm_source *s, lm_config *c, lm_error *e)
{
    uint32_t shared = c->shared_width;

    if (s->kind == LM_GGUF)
        return LM_OK;
    LM_TRY(lm_read_u32(s, "dense_intermediate_size", NULL, 1, LM_MAX_WIDTH, 12288, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "shared_intermediate_size", NULL, 1, LM_MAX_WIDTH, 3072, &c->shared_width, e));
    return !shared || shared == c->expert_width || shared == c->shared_width
               ? LM_OK
               : lm_wrong(s, "n_shared_experts", NULL, e,
                          "%u of %u lanes are not the %u of shared_intermediate_size",
                          shared / c->expert_width, c->expert_width, c->shared_width);
}

static lm_status minimax_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    const minimax_m3 *own = lm_own(c);

    LM_TRY(lm_read_sizes(s, c, e));
    c->act = LM_ACT_GELU_QUICK;
    LM_TRY(read_rotation(s, c, e));
    LM_TRY(read_indexer(s, c, e));
    c->gate_limit = own->limit;
    c->gate_plus  = 1;
    LM_TRY(read_kinds(s, c, e));
    LM_TRY(check_words(s, c, e));
    LM_TRY(lm_read_corrected_mixture(s, &mixture, c, e));
    return read_widths(s, c, e);
}

#define MOE "model.layers.*.block_sparse_moe"
static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.self_attn.index_q_proj", "blk.*.indexer.q_proj" },
    { "model.layers.*.self_attn.index_k_proj", "blk.*.indexer.k_proj" },
    { "model.layers.*.self_attn.index_q_norm", "blk.*.indexer.q_norm" },
    { "model.layers.*.self_attn.index_k_norm", "blk.*.indexer.k_norm" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    { MOE ".gate", "blk.*.ffn_gate_inp" },
    { MOE ".e_score_correction_bias", "blk.*.exp_probs_b" },
    { MOE ".experts.w1", "blk.*.ffn_gate_exps" },
    { MOE ".experts.w3", "blk.*.ffn_up_exps" },
    { MOE ".experts.w2", "blk.*.ffn_down_exps" },
    { MOE ".shared_experts.gate_proj", "blk.*.ffn_gate_shexp" },
    { MOE ".shared_experts.up_proj", "blk.*.ffn_up_shexp" },
    { MOE ".shared_experts.down_proj", "blk.*.ffn_down_shexp" },
    { NULL, NULL },
};

const lm_family lm_family_minimax_m3 = {
    .name         = "minimax_m3",
    .class_prefix = "MiniMaxM3VL",
    .hf_types     = (const char *const[]){ "minimax_m3_vl_text", NULL },
    .gguf_archs   = (const char *const[]){ "minimax-m3", NULL },
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .act_name     = "",
    .configure    = minimax_configure,
    .build        = minimax_build,
    .own          = numbers,
    .mixture      = &mixture,
    .names        = names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 524288 }, { "rope_theta", 5e6 },
                                          { "intermediate_size", 3072 }, { "num_local_experts", 128 },
                                          { "num_experts_per_tok", 4 }, { "routed_scaling_factor", 2 },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "num_local_experts", "num_experts_per_tok",
                                           "rotary_dim", "partial_rotary_factor",
                                           "dense_intermediate_size", "shared_intermediate_size",
                                           "n_shared_experts", "swiglu_alpha", "swiglu_limit",
                                           "mlp_layer_types", "layer_types", "moe_layer_freq",
                                           "index_n_heads", "index_head_dim", "index_block_size",
                                           "index_topk_blocks", "index_local_blocks",
                                           "routed_scaling_factor", "use_qk_norm", "qk_norm_type",
                                           "use_gemma_norm", "use_routing_bias", "scoring_func",
                                           "norm_topk_prob", "attention_output_gate",
                                           "num_mtp_modules", "num_nextn_predict_layers",
                                           "mtp_transformer_layers", "use_mtp", "router_aux_loss_coef",
                                           "router_jitter_noise", PUBLISHED("num_index_heads"),
                                           PUBLISHED("index_dim"), PUBLISHED("block_size"),
                                           PUBLISHED("topk_blocks"), PUBLISHED("local_block"),
                                           PUBLISHED("attention_freq"), PUBLISHED("score_type"),
                                           PUBLISHED("init_block"), PUBLISHED("disable_index_value"),
                                           "sparse_attention_config/use_sparse_attention", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "model.mtp.*", "mtp.*", NULL },
    .layers       = "model.layers.",
};
