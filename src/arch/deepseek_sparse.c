/* deepseek_sparse.c - DeepSeek-V3.2 (arXiv 2512.02556) and GLM-5: DeepSeek-V3 whose queries see only the keys
 * that an indexer chooses. In some layers of GLM-5 that choice is the one of an earlier layer. */
#include <stdio.h>

#include "arch/families.h"

typedef struct sparse {
    uint32_t n_heads, head_dim, top_k, dense_layers;
    bool     dense[LM_MAX_LAYERS];       /* layers with a plain MLP */
} sparse;
LM_OWN_FITS(sparse);

#define OWN(member) offsetof(sparse, member)
#define OWN_NUMBERS(heads)                                                                              \
    { "index_n_heads", "attention.indexer.head_count", LM_OWN_U32, OWN(n_heads), 1, 1024, heads, true }, \
    { "index_head_dim", "attention.indexer.key_length", LM_OWN_U32, OWN(head_dim), 1, 1024, 128, true }, \
    { "index_topk", "attention.indexer.top_k", LM_OWN_U32, OWN(top_k), 1, 1u << 20, 2048, true },       \
    { "first_k_dense_replace", "leading_dense_block_count", LM_OWN_U32, OWN(dense_layers), 0,           \
      LM_MAX_LAYERS, 3, true }

static const lm_own_number deepseek_numbers[] = { OWN_NUMBERS(64), { 0 } };
static const lm_own_number glm_numbers[]      = { OWN_NUMBERS(32), { 0 } };

static lm_value sparse_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_rope_pairing pairing,
                             lm_value x)
{
    const sparse    *own = lm_own(c);
    const lm_indexer ix  = { own->n_heads, own->head_dim, own->top_k, pairing, c->shared_choice[layer] };
    lm_value         h   = lm_llama_norm(b, c, "input_layernorm", x);

    lm_push(b, "self_attn", "%sAttention");
    h = lm_linear(b, "o_proj", lm_sparse_latent_heads(b, c, &ix, h), c->hidden, c->bias_o);
    lm_pop(b);
    x = lm_add(b, x, h);
    h = lm_llama_norm(b, c, "post_attention_layernorm", x);
    return lm_add(b, x, own->dense[layer] ? lm_llama_mlp(b, c, h) : lm_routed_mlp(b, c, h));
}

/* The indexer of DeepSeek-V3.2 rotates halves, unlike its attention. */
static lm_value deepseek_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return sparse_layer(b, c, layer, LM_ROPE_HALF, x);
}

static lm_value glm_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    return sparse_layer(b, c, layer, LM_ROPE_PAIR, x);
}

static lm_value deepseek_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = deepseek_layer });
}

static lm_value glm_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = glm_layer });
}

/* ---- metadata ---- */

static lm_status configure(const lm_source *s, const lm_own_number *numbers, lm_config *c, lm_error *e)
{
    static const lm_latent_keys latent  = { .context = "max_position_embeddings" };
    lm_mixture_keys             mixture = lm_deepseek_keys;
    sparse                     *own     = lm_family_config_mut(c);
    bool                        words[LM_MAX_LAYERS];

    LM_TRY(lm_read_latent_sizes(s, &latent, c, e));
    LM_TRY(lm_read_same_kv_heads(s, c, e));
    if (!c->latent.q_rank)
        return lm_wrong(s, "q_lora_rank", "attention.q_lora_rank", e,
                        "none, but the indexer reads a latent of queries");
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &c->bias_mlp, e));
    if (c->bias_mlp)
        return lm_no_form(s, "mlp_bias", "true is not supported; false is expected", e);
    if (s->kind != LM_GGUF && lm_meta_has(s->meta, "layer_types"))
        LM_TRY(lm_read_layer_kinds(s, "layer_types", "indexed_attention", "deepseek_sparse_attention", words,
                                   c, e));
    LM_TRY(lm_read_latent_rotation(s, c, e));
    LM_TRY(lm_read_own(s, numbers, c, e));
    if (own->head_dim < c->latent.rope_dim)
        return lm_wrong(s, "index_head_dim", "attention.indexer.key_length", e,
                        "%u is narrower than the %u lanes that rotate", own->head_dim, c->latent.rope_dim);
    if (c->context_length && own->top_k > c->context_length)
        return lm_wrong(s, "index_topk", "attention.indexer.top_k", e,
                        "%u keys are more than the %u positions of the context", own->top_k,
                        c->context_length);
    c->attention.top_k = own->top_k;
    mixture.normalises = true;
    LM_TRY(lm_read_corrected_mixture(s, &mixture, c, e));
    return lm_read_mlp_kinds(s, own->dense_layers, own->dense, c, e);
}

static lm_status deepseek_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    return configure(s, deepseek_numbers, c, e);
}

/* Read index_topk_pattern, one letter for each layer: F has an indexer, S shares. */
static lm_status read_pattern(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_view pattern;

    LM_TRY(lm_meta_string(s->meta, "index_topk_pattern", &pattern, e));
    if (pattern.size != c->n_layers)
        return lm_wrong(s, "index_topk_pattern", NULL, e, "%zu letters for %u layers", pattern.size,
                        c->n_layers);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        char letter = pattern.data[i];
        if (letter != 'F' && letter != 'S')
            return lm_wrong(s, "index_topk_pattern", NULL, e, "'%c' for layer %u; F or S is expected", letter,
                            i);
        c->shared_choice[i] = letter == 'S';
    }
    return LM_OK;
}

/* GGUF files need not have the list: layers that share a choice lack an indexer. */
static lm_status read_listed(const lm_source *s, lm_config *c, lm_error *e)
{
    bool own[LM_MAX_LAYERS];
    char name[64];

    for (uint32_t i = 0; i < c->n_layers; i++) {
        snprintf(name, sizeof name, "blk.%u.indexer.attn_k.weight", i);
        own[i] = !s->tensors || lm_has_tensor(s, name);
    }
    LM_TRY(lm_read_flags(s, "attention.indexer.types", c->n_layers, own, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->shared_choice[i] = !own[i];
    return LM_OK;
}

static lm_status read_shared(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_meta_value v;
    uint32_t      every, offset;

    if (s->kind == LM_GGUF)
        return read_listed(s, c, e);
    if (lm_meta_get(s->meta, "indexer_types", &v) && v.kind != LM_META_NULL)
        return lm_read_layer_kinds(s, "indexer_types", "shared", "full", c->shared_choice, c, e);
    if (lm_meta_get(s->meta, "index_topk_pattern", &v) && v.kind != LM_META_NULL)
        return read_pattern(s, c, e);
    LM_TRY(lm_read_u32(s, "index_topk_freq", NULL, 1, LM_MAX_LAYERS, 1, &every, e));
    LM_TRY(lm_read_u32(s, "index_skip_topk_offset", NULL, 0, LM_MAX_LAYERS, 2, &offset, e));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->shared_choice[i] = i + 1 > offset && (i + 1 - offset) % every != 0;
    return LM_OK;
}

static lm_status glm_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(configure(s, glm_numbers, c, e));
    LM_TRY(read_shared(s, c, e));
    return c->shared_choice[0] ? lm_wrong(s, "indexer_types", "attention.indexer.types", e,
                                          "the first layer has no earlier choice to share")
                               : LM_OK;
}

#define ATTENTION "model.layers.*.self_attn"
static const lm_name names[] = {
    LM_DECODER_NAMES,
    LM_LATENT_NAMES(ATTENTION),
    { ATTENTION ".indexer.wq_b", "blk.*.indexer.attn_q_b" },
    { ATTENTION ".indexer.wk", "blk.*.indexer.attn_k" },
    { ATTENTION ".indexer.k_norm", "blk.*.indexer.k_norm" },
    { ATTENTION ".indexer.weights_proj", "blk.*.indexer.proj" },
    { "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    LM_GATED_MLP_NAMES,
    LM_ROUTED_MLP_NAMES,
    { NULL, NULL },
};

/* transformers creates the indexer last. */
static const lm_order orders[] = {
    { "Attention", "q_a_proj q_a_layernorm q_b_proj kv_a_proj_with_mqa kv_a_layernorm kv_b_proj o_proj *" },
    { NULL, NULL },
};

#define KEYS                                                                                      \
    "hidden_act", "attention_bias", "mlp_bias", "q_lora_rank", "kv_lora_rank",                    \
    "qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim", "v_head_dim", "head_dim",              \
    "layer_types", "mlp_layer_types", "first_k_dense_replace", "index_n_heads", "index_head_dim", \
    "index_topk", "n_routed_experts", "n_shared_experts", "num_experts_per_tok",                  \
    "moe_intermediate_size", "routed_scaling_factor", "topk_method", "n_group", "topk_group",     \
    "norm_topk_prob", "scoring_func", "moe_layer_freq", "num_nextn_predict_layers", "ep_size",    \
    "pretraining_tp", "rope_interleave", "indexer_rope_interleave"
#define COMMON                                                                                     \
    .orders     = orders, .names = names,                                                          \
    .ignorable  = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },                          \
    .layers     = "model.layers."

const lm_family lm_family_deepseek_v32 = {
    COMMON,
    .name         = "deepseek_v32",
    .class_prefix = "DeepseekV32",
    .hf_types     = (const char *const[]){ "deepseek_v32", NULL },
    .gguf_archs   = (const char *const[]){ "deepseek32", NULL },
    .configure    = deepseek_configure,
    .build        = deepseek_build,
    .own          = deepseek_numbers,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 163840 },
                                          { "num_key_value_heads", 128 },
                                          { "n_routed_experts", 256 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 2048 }, { "n_shared_experts", 1 },
                                          { "routed_scaling_factor", 2.5 }, { "n_group", 8 },
                                          { "topk_group", 4 }, { NULL, 0 } },
    .keys         = (const char *const[]){ KEYS, NULL },
};

const lm_family lm_family_glm_moe_dsa = {
    COMMON,
    .name         = "glm_moe_dsa",
    .class_prefix = "GlmMoeDsa",
    .hf_types     = (const char *const[]){ "glm_moe_dsa", NULL },
    .gguf_archs   = (const char *const[]){ "glm-dsa", NULL },
    .configure    = glm_configure,
    .build        = glm_build,
    .own          = glm_numbers,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 202752 },
                                          { "num_key_value_heads", 64 },
                                          { "rms_norm_eps", 1e-5 }, { "q_lora_rank", 2048 },
                                          { "qk_nope_head_dim", 192 }, { "v_head_dim", 256 },
                                          { "n_routed_experts", 256 }, { "num_experts_per_tok", 8 },
                                          { "moe_intermediate_size", 2048 }, { "n_shared_experts", 1 },
                                          { "routed_scaling_factor", 2.5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ KEYS, "indexer_types", "index_topk_pattern", "index_topk_freq",
                                           "index_skip_topk_offset", NULL },
};
