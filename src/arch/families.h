/* families.h - the supported families, one file each. */
#ifndef LM_ARCH_FAMILIES_H
#define LM_ARCH_FAMILIES_H

#include "arch/config.h"

extern const lm_family lm_family_llama;
extern const lm_family lm_family_internlm3;
extern const lm_family lm_family_iquestcoder;
extern const lm_family lm_family_helium;
extern const lm_family lm_family_cwm;
extern const lm_family lm_family_mistral;
extern const lm_family lm_family_ministral;
extern const lm_family lm_family_ministral3;
extern const lm_family lm_family_mistral4;
extern const lm_family lm_family_mixtral;
extern const lm_family lm_family_qwen2;
extern const lm_family lm_family_qwen3;
extern const lm_family lm_family_granite;
extern const lm_family lm_family_gpt2;
extern const lm_family lm_family_gpt3;
extern const lm_family lm_family_gpt_neo;
extern const lm_family lm_family_opt;
extern const lm_family lm_family_bloom;
extern const lm_family lm_family_gpt_bigcode;
extern const lm_family lm_family_mpt;
extern const lm_family lm_family_falcon;
extern const lm_family lm_family_gpt_neox;
extern const lm_family lm_family_gptj;
extern const lm_family lm_family_deepseek_v2;
extern const lm_family lm_family_gemma;
extern const lm_family lm_family_gemma2;
extern const lm_family lm_family_vaultgemma;
extern const lm_family lm_family_gemma3;
extern const lm_family lm_family_gemma3n;
extern const lm_family lm_family_gemma4;
extern const lm_family lm_family_gemma4_unified;
extern const lm_family lm_family_olmo;
extern const lm_family lm_family_olmoe;
extern const lm_family lm_family_olmo2;
extern const lm_family lm_family_olmo3;
extern const lm_family lm_family_flex_olmo;
extern const lm_family lm_family_axk1;
extern const lm_family lm_family_exaone4;
extern const lm_family lm_family_exaone_moe;
extern const lm_family lm_family_seed_oss;
extern const lm_family lm_family_arcee;
extern const lm_family lm_family_nemotron;
extern const lm_family lm_family_jais2;
extern const lm_family lm_family_apertus;
extern const lm_family lm_family_granite_swa;
extern const lm_family lm_family_minicpm3;
extern const lm_family lm_family_nanochat;
extern const lm_family lm_family_bitnet;
extern const lm_family lm_family_hunyuan;
extern const lm_family lm_family_hunyuan_moe;
extern const lm_family lm_family_hy_v3;
extern const lm_family lm_family_minimax_m2;
extern const lm_family lm_family_minimax_m3;
extern const lm_family lm_family_dots1;
extern const lm_family lm_family_llama4;
extern const lm_family lm_family_afmoe;
extern const lm_family lm_family_laguna;
extern const lm_family lm_family_mimo_v2_flash;
extern const lm_family lm_family_cohere2_moe;
extern const lm_family lm_family_granitemoe_swa;
extern const lm_family lm_family_smollm3;
extern const lm_family lm_family_ernie;
extern const lm_family lm_family_ernie_moe;
extern const lm_family lm_family_glm;
extern const lm_family lm_family_glm4;
extern const lm_family lm_family_phi3;
extern const lm_family lm_family_phimoe;
extern const lm_family lm_family_qwen2_moe;
extern const lm_family lm_family_qwen3_moe;
extern const lm_family lm_family_granite_moe;
extern const lm_family lm_family_gpt_oss;
extern const lm_family lm_family_deepseek_v3;
extern const lm_family lm_family_phi;
extern const lm_family lm_family_stablelm;
extern const lm_family lm_family_starcoder2;
extern const lm_family lm_family_cohere;
extern const lm_family lm_family_cohere2;
extern const lm_family lm_family_xglm;
extern const lm_family lm_family_ctrl;
extern const lm_family lm_family_openai_gpt;
extern const lm_family lm_family_lfm2;
extern const lm_family lm_family_lfm2_moe;
extern const lm_family lm_family_lfm3;
extern const lm_family lm_family_olmo_hybrid;
extern const lm_family lm_family_qwen3_next;
extern const lm_family lm_family_qwen3_5;
extern const lm_family lm_family_qwen3_5_moe;
extern const lm_family lm_family_granite_4;
extern const lm_family lm_family_granite_hybrid_moe;
extern const lm_family lm_family_granite_hybrid;
extern const lm_family lm_family_nemotron_h;
extern const lm_family lm_family_nemotron_h_moe;
extern const lm_family lm_family_falcon_h1;
extern const lm_family lm_family_bamba;
extern const lm_family lm_family_mamba2;
extern const lm_family lm_family_kimi_linear;
extern const lm_family lm_family_mamba;
extern const lm_family lm_family_falcon_mamba;
extern const lm_family lm_family_jamba;
extern const lm_family lm_family_recurrent_gemma;
extern const lm_family lm_family_bailing_hybrid;
extern const lm_family lm_family_glm4_moe;
extern const lm_family lm_family_deepseek_v32;
extern const lm_family lm_family_deepseek_v4;
extern const lm_family lm_family_glm_moe_dsa;
extern const lm_family lm_family_glm4_moe_lite;

/* ---- Llama's decoder, also used by variants (llama.c) ---- */

/* Read sizes, activation and biases like Llama; then the rotation of `lanes` of each head, and its
 * attention. */
lm_status lm_llama_shape(const lm_source *s, lm_config *c, lm_error *e);
lm_status lm_read_llama_biases(const lm_source *s, lm_config *c, lm_error *e);
lm_status lm_llama_rotation(const lm_source *s, uint32_t lanes, lm_config *c, lm_error *e);
/* Do both, with all lanes rotated. */
lm_status lm_llama_configure(const lm_source *s, lm_config *c, lm_error *e);
lm_value  lm_llama_build(lm_builder *b, const lm_config *c);

/* The parts of a decoder; NULL: Llama's. */
typedef lm_value lm_embed_builder(lm_builder *b, const lm_config *c);
typedef lm_value lm_layer_builder(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);
typedef lm_value lm_norm_builder(lm_builder *b, const lm_config *c, const char *name, lm_value x);
typedef struct lm_decoder {
    const char       *model_class;   /* of the decoder without its head: "%sModel" */
    const char       *rotary_class;  /* "%sRotaryEmbedding"; "": there is none */
    /* builds the modules of more rotations; NULL: there are none */
    void            (*rotaries)(lm_builder *b, const lm_config *c);
    lm_embed_builder *embed;
    lm_layer_builder *layer;         /* not NULL */
    lm_norm_builder  *norm;          /* the final norm */
    const char       *table;         /* path of the embedding, for a tied head: "model.embed_tokens" */
} lm_decoder;
/* Build the embedding, layers, final norm and head. */
lm_value  lm_decoder_frame(lm_builder *b, const lm_config *c, const lm_decoder *d);

lm_value  lm_llama_embed(lm_builder *b, const lm_config *c);
lm_value  lm_llama_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_value  lm_biased_layer_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_value  lm_llama_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);
lm_value  lm_llama_mlp(lm_builder *b, const lm_config *c, lm_value x);
extern const lm_name lm_llama_names[];

/* The GGUF names that decoders with separate projections share. */
#define LM_DECODER_NAMES                                          \
    { "model.embed_tokens", "token_embd" },                       \
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },      \
    { "model.layers.*.self_attn.q_proj", "blk.*.attn_q" },        \
    { "model.layers.*.self_attn.k_proj", "blk.*.attn_k" },        \
    { "model.layers.*.self_attn.v_proj", "blk.*.attn_v" },        \
    { "model.layers.*.self_attn.o_proj", "blk.*.attn_output" },   \
    { "model.norm", "output_norm" },                              \
    { "lm_head", "output" }

/* And of Gemma 2 and its successors. */
#define LM_GEMMA2_NAMES                                                         \
    LM_DECODER_NAMES,                                                           \
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },                 \
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },                 \
    { "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm" }, \
    { "model.layers.*.pre_feedforward_layernorm", "blk.*.ffn_norm" },           \
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },                       \
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },                           \
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },                       \
    { "model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm" }

/* The parts of attention, inside its module: q_proj, k_proj and v_proj; the rotation; scores and o_proj. */
typedef struct lm_heads { lm_value q, k, v; } lm_heads;
lm_heads  lm_llama_heads(lm_builder *b, const lm_config *c, lm_value x);
/* The same with the heads of a layer. */
lm_heads  lm_layer_heads(lm_builder *b, const lm_config *c, const lm_attention_spec *a, lm_value x);
void      lm_rotate_heads(lm_builder *b, const lm_config *c, const lm_rope_spec *rope, lm_heads *h);
lm_value  lm_llama_scores(lm_builder *b, const lm_config *c, uint32_t layer, lm_heads h);

/* Infer a window that GGUF files omit from the shape of the model (implied_window.c). */
void lm_implied_window(const lm_source *s, lm_config *c);

/* ---- GPT-2's decoder, also used by variants (gpt2.c) ---- */

lm_status lm_gpt2_configure(const lm_source *s, lm_config *c, lm_error *e);
extern const lm_own_number lm_gpt2_own[];
lm_value  lm_gpt2_build(lm_builder *b, const lm_config *c);
/* Build token and position embeddings, layers, final norm, head. */
lm_value  lm_gpt2_frame(lm_builder *b, const lm_config *c, lm_layer_builder *block);
/* Build c_fc, activation, c_proj, with projections as the family stores them. */
typedef lm_value lm_linear_builder(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias);
lm_value  lm_gpt2_mlp(lm_builder *b, const lm_config *c, lm_linear_builder *linear, lm_value x);
extern const lm_name lm_gpt2_names[];
/* Read the sizes, and whether scores are scaled. `widest`: the largest hidden size. */
lm_status lm_gpt2_shape(const lm_source *s, uint32_t widest, lm_config *c, bool *scaled, lm_error *e);

/* Read attention_types: which layers have full attention and which a window; without it they alternate
 * (gpt_neo.c). */
lm_status lm_read_attention_types(const lm_source *s, lm_config *c, lm_error *e);

/* Llama with four multipliers (granite.c): three in the family's own struct, that of the scores in
 * c->attention. */
typedef struct lm_granite { float embedding, residual, logits; } lm_granite;
extern const lm_own_number lm_granite_own[];
/* The rows of its table, for families whose own struct begins with lm_granite. */
#define LM_GRANITE_FACTOR(hf, gguf, member, always) \
    { hf, gguf, LM_OWN_F32, offsetof(lm_granite, member), 1e-6, 1e6, 1, always }
#define LM_GRANITE_NUMBERS                                                                  \
    LM_GRANITE_FACTOR("embedding_multiplier", "embedding_scale", embedding, false),         \
    LM_GRANITE_FACTOR("residual_multiplier", "residual_scale", residual, false),            \
    LM_GRANITE_FACTOR("logits_scaling", "logit_scale", logits, true)
lm_status lm_granite_multipliers(const lm_source *s, const lm_own_number *own, lm_config *c, lm_error *e);
lm_status lm_granite_configure(const lm_source *s, lm_config *c, lm_error *e);
lm_value  lm_granite_embed(lm_builder *b, const lm_config *c);
lm_value  lm_granite_frame(lm_builder *b, const lm_config *c, lm_layer_builder *layer);

/* Experts, and a shared MLP whose gate and up are one tensor in folders (granite_moe.c). */
typedef struct lm_granite_moe {
    lm_granite granite;              /* must be first: lm_granite_own and the frame access it */
    bool       shared_apart;         /* gate and up of the shared MLP are separate tensors, as in GGUF */
} lm_granite_moe;
lm_status lm_granite_experts(const lm_source *s, uint32_t least, lm_config *c, lm_error *e);
lm_value  lm_granite_mlp(lm_builder *b, const lm_config *c, lm_value x);
lm_value  lm_granite_shared_mlp(lm_builder *b, const lm_config *c, lm_value x);
#define LM_GRANITE_EXPERT_NAMES                                                           \
    { "model.layers.*.block_sparse_moe.router.layer", "blk.*.ffn_gate_inp" },             \
    { "model.layers.*.block_sparse_moe.experts.gate_proj", "blk.*.ffn_gate_exps" },       \
    { "model.layers.*.block_sparse_moe.experts.up_proj", "blk.*.ffn_up_exps" },           \
    { "model.layers.*.block_sparse_moe.experts.down_proj", "blk.*.ffn_down_exps" },       \
    { "model.layers.*.shared_mlp.gate_linear", "blk.*.ffn_gate_shexp" },                  \
    { "model.layers.*.shared_mlp.up_linear", "blk.*.ffn_up_shexp" },                      \
    { "model.layers.*.shared_mlp.output_linear", "blk.*.ffn_down_shexp" }

/* Bamba's gated MLP (bamba.c). */
lm_value  lm_feed_forward(lm_builder *b, const lm_config *c, lm_value x);

/* Mamba-2's mixer, in a module of its own (mamba_layers.c). */
lm_value  lm_mamba2(lm_builder *b, const lm_config *c, const char *name, const char *class_name, lm_value x);
/* Read c->mamba, after c->hidden and c->stateful. */
lm_status lm_read_mamba2(const lm_source *s, const lm_mamba_keys *k, lm_config *c, lm_error *e);
/* The same for Mamba, of class "%sMixer" or, where c->mamba.inner_norm has weights, "%sMambaMixer". */
lm_value  lm_mamba(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_status lm_read_mamba(const lm_source *s, const lm_mamba_keys *k, lm_config *c, lm_error *e);
/* Build the embedding, layers of one mixer each, final norm and head (mamba2.c). printed: what the norms
 * print in place of their shape; NULL: their shape. */
typedef lm_value lm_mixer_builder(lm_builder *b, const lm_config *c, lm_value x);
lm_value  lm_mamba_frame(lm_builder *b, const lm_config *c, lm_mixer_builder *mixer, const char *printed);
/* Read the sizes of a model without attention and MLPs (mamba2.c). */
lm_status lm_read_mamba_sizes(const lm_source *s, lm_config *c, lm_error *e);
#define LM_MAMBA_NAMES(mixer)                    \
    { mixer ".in_proj", "blk.*.ssm_in" },        \
    { mixer ".conv1d", "blk.*.ssm_conv1d" },     \
    { mixer ".x_proj", "blk.*.ssm_x" },          \
    { mixer ".dt_proj", "blk.*.ssm_dt" },        \
    { mixer ".A_log", "blk.*.ssm_a" },           \
    { mixer ".D", "blk.*.ssm_d" },               \
    { mixer ".out_proj", "blk.*.ssm_out" }
#define LM_MAMBA2_NAMES(mixer)                   \
    { mixer ".in_proj", "blk.*.ssm_in" },        \
    { mixer ".conv1d", "blk.*.ssm_conv1d" },     \
    { mixer ".dt_bias", "blk.*.ssm_dt.bias" },   \
    { mixer ".A_log", "blk.*.ssm_a" },           \
    { mixer ".D", "blk.*.ssm_d" },               \
    { mixer ".norm", "blk.*.ssm_norm" },         \
    { mixer ".out_proj", "blk.*.ssm_out" }

/* Latent attention and mixtures with shared experts (latent_layers.c). The heads of attention, inside its
 * module, without o_proj; c->rope.dim 0: nothing is rotated. */
lm_value  lm_latent_heads(lm_builder *b, const lm_config *c, lm_value x);
/* The same with attention to the keys that an indexer chooses, in a module "indexer", or to those that the
 * last layer before with an indexer has chosen. c->attention.top_k: ix->top_k. */
typedef struct lm_indexer {
    uint32_t n_heads, head_dim, top_k;
    lm_rope_pairing pairing;
    bool     shared;
} lm_indexer;
lm_value  lm_sparse_latent_heads(lm_builder *b, const lm_config *c, const lm_indexer *ix, lm_value x);
lm_value  lm_gated_mlp(lm_builder *b, const lm_config *c, const char *name, lm_value x, uint32_t width);
lm_value  lm_gated_mlp_of(lm_builder *b, const lm_config *c, const char *name, const char *class_name,
                          lm_value x, uint32_t width);
typedef struct lm_mixture_names {
    const char *module, *class_name;
    const char *correction;          /* lm_route */
    const char *parts[3];            /* lm_experts */
    const char *joined, *alone;      /* lm_expert_spec; NULL: folders store each matrix separately */
    const char *router, *router_class, *logits;  /* a module with the projection to logits; NULL: "gate" alone
                                                    is the projection */
    const char *shared, *shared_class;       /* NULL: "shared_experts", "%sMLP" */
    bool        averaged;            /* the sum with shared experts is halved */
    float       cap;                 /* lm_capped, of the logits */
    bool        in_row, unsuffixed;  /* the correction: lm_correction_in_row, lm_correction_unsuffixed */
} lm_mixture_names;
lm_value  lm_shared_mixture(lm_builder *b, const lm_config *c, const lm_mixture_names *names, lm_value x);
/* The same of DeepSeek: "mlp", with a correction of the choice where scores are sigmoids; and its layer with
 * latent attention and that mixture or a plain MLP. */
lm_value  lm_routed_mlp(lm_builder *b, const lm_config *c, lm_value x);
lm_value  lm_latent_layer(lm_builder *b, const lm_config *c, bool dense, lm_value x);
/* Its attention, with o_proj; its first half: the sum of x and the attention of its norm. */
lm_value  lm_latent_mixer(lm_builder *b, const lm_config *c, lm_value x);
lm_value  lm_latent_half(lm_builder *b, const lm_config *c, lm_value x);
/* Read the sizes of the decoder and of its heads; GGUF may have 0 for the key/value heads of layers with a
 * state. */
typedef struct lm_latent_keys {
    const char *context;             /* config.json's key for the context */
    bool        value_of_hidden;     /* values are as wide as the model divided by its heads, unless stated */
    bool        any_value_length;    /* GGUF's attention.value_length is a number that nothing uses */
} lm_latent_keys;
lm_status lm_read_latent_sizes(const lm_source *s, const lm_latent_keys *k, lm_config *c, lm_error *e);
lm_status lm_read_shared_mixture(const lm_source *s, const lm_mixture_keys *k, lm_config *c, lm_error *e);
/* The same for DeepSeek-V3's mixture: sigmoids, whose choice is corrected, and groups by their best two. */
lm_status lm_read_corrected_mixture(const lm_source *s, const lm_mixture_keys *k, lm_config *c, lm_error *e);
extern const lm_mixture_keys lm_deepseek_keys;
/* Read the rotation of latent attention, in pairs; the scores are also multiplied by the square of YaRN's
 * magnitude. */
lm_status lm_read_latent_rotation(const lm_source *s, lm_config *c, lm_error *e);
void      lm_latent_scale(lm_config *c);         /* from the rotation */
/* Check that config.json has as many key/value heads as heads. */
lm_status lm_read_same_kv_heads(const lm_source *s, const lm_config *c, lm_error *e);
/* Read which layers have a plain MLP: mlp_layer_types, else the first ones. */
lm_status lm_read_mlp_kinds(const lm_source *s, uint32_t first, bool *dense, const lm_config *c, lm_error *e);
/* Return how many of the first layers have one. */
uint32_t  lm_leading(const bool *dense, const lm_config *c);
/* The same for GGUF files that do not say it: layers have the MLP whose tensors they have. */
void      lm_find_mlp_kinds(const lm_source *s, bool *dense, const lm_config *c);
/* Read a list of true and false with this many entries, at most LM_MAX_LAYERS, of a GGUF file; without it,
 * and in config.json, `flags` stays (qwen_next.c). */
lm_status lm_read_flags(const lm_source *s, const char *name, uint32_t entries, bool *flags, lm_error *e);
/* `hf`: config.json's key for the number of groups of experts. */
lm_status lm_read_expert_groups(const lm_source *s, const char *hf, lm_config *c, lm_error *e);
#define LM_LATENT_NAMES(attention)                            \
    { attention ".q_a_proj", "blk.*.attn_q_a" },              \
    { attention ".q_a_layernorm", "blk.*.attn_q_a_norm" },    \
    { attention ".q_b_proj", "blk.*.attn_q_b" },              \
    { attention ".kv_a_proj_with_mqa", "blk.*.attn_kv_a_mqa" }, \
    { attention ".kv_a_layernorm", "blk.*.attn_kv_a_norm" },  \
    { attention ".kv_b_proj", "blk.*.attn_kv_b" },            \
    { attention ".k_b_proj", "blk.*.attn_k_b" },              \
    { attention ".v_b_proj", "blk.*.attn_v_b" }

#define LM_GATED_MLP_NAMES                                        \
    { "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate" },         \
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },             \
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" }
#define LM_SHARED_MLP_NAMES                                                             \
    { "model.layers.*.mlp.shared_mlp.gate_proj", "blk.*.ffn_gate_shexp" },               \
    { "model.layers.*.mlp.shared_mlp.up_proj", "blk.*.ffn_up_shexp" },                   \
    { "model.layers.*.mlp.shared_mlp.down_proj", "blk.*.ffn_down_shexp" }
#define LM_ROUTED_MLP_NAMES                                                             \
    { "model.layers.*.mlp.gate", "blk.*.ffn_gate_inp" },                                \
    { "model.layers.*.mlp.gate.e_score_correction_bias", "blk.*.exp_probs_b" },         \
    { "model.layers.*.mlp.experts.gate_proj", "blk.*.ffn_gate_exps" },                  \
    { "model.layers.*.mlp.experts.up_proj", "blk.*.ffn_up_exps" },                      \
    { "model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps" },                  \
    { "model.layers.*.mlp.shared_experts.gate_proj", "blk.*.ffn_gate_shexp" },          \
    { "model.layers.*.mlp.shared_experts.up_proj", "blk.*.ffn_up_shexp" },              \
    { "model.layers.*.mlp.shared_experts.down_proj", "blk.*.ffn_down_shexp" }

/* Kimi delta attention (kda.c): a gated delta rule with a decay for each row of the state, after separate
 * short convolutions of q, k and v. */
typedef struct lm_kda {
    uint32_t n_heads, head_dim, taps;
    bool     low_rank;               /* the decay and the gate of the output are from products of two
                                        matrices */
    float    bound;                  /* of ln of the decay, from below; 0: none */
    bool     padded;                 /* lm_padded_column of A_log */
    const char *output;              /* "o_proj" */
    const char *gate;                /* GGUF name of the gate of the output, if that of its module is another
                                        tensor's in other layers; NULL: that of its module */
} lm_kda;
/* act(convolution(x W)): "q_proj", "q_conv1d" and "q_act" for the name "q". */
lm_value lm_convolved(lm_builder *b, const char *name, lm_value x, uint32_t width, uint32_t taps, lm_act act);
/* The operations inside its module. */
lm_value lm_kda_heads(lm_builder *b, const lm_config *c, const lm_kda *k, lm_value x);
#define LM_KDA_NAMES(attention)                          \
    { attention ".q_conv1d", "blk.*.ssm_conv1d_q" },     \
    { attention ".k_conv1d", "blk.*.ssm_conv1d_k" },     \
    { attention ".v_conv1d", "blk.*.ssm_conv1d_v" },     \
    { attention ".dt_bias", "blk.*.ssm_dt.bias" },       \
    { attention ".A_log", "blk.*.ssm_a" },               \
    { attention ".b_proj", "blk.*.ssm_beta" },           \
    { attention ".o_norm", "blk.*.ssm_norm" }

/* Build an MLP with gate and up in one projection (glm.c). */
lm_value lm_fused_mlp(lm_builder *b, const lm_config *c, lm_value x);

/* Gemma (gemma.c), and what Gemma 2 and 3 share (gemma2.c). `act`: config.json's key for the activation;
 * `largest`: number of layers of the model whose scores are scaled differently in GGUF files. */
lm_status lm_gemma_shape(const lm_source *s, const char *act, lm_config *c, lm_error *e);
lm_status lm_gemma_configure(const lm_source *s, const char *act, lm_config *c, lm_error *e);
lm_value  lm_gemma_embed(lm_builder *b, const lm_config *c);
lm_value  lm_gemma_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_status lm_gemma2_scores(const lm_source *s, uint32_t largest, lm_config *c, lm_error *e);
lm_value lm_gemma2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x,
                         lm_layer_builder *attention);
lm_value  lm_capped(lm_builder *b, lm_value logits, float cap);       /* 0: unchanged */
extern const lm_name lm_gemma2_names[];

/* What Gemma 3n and 4 share (gemma3n.c). last: the last attention with its own keys, of layers with a window
 * and of others; k_is_v: layers without a window have no values of their own; rows: of the table of the
 * layers' inputs; each: the width of the inputs of a layer. */
lm_value  lm_gemma3n_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_value  lm_gemma3n_unweighted(lm_builder *b, const lm_config *c, const char *name, lm_value x,
                                uint32_t n_heads);
bool      lm_gemma3n_reads_earlier(const lm_config *c, uint32_t layer);
lm_status lm_gemma3n_readers(const lm_source *s, int64_t fallback, lm_config *c, lm_error *e);
lm_value  lm_gemma3n_attention(lm_builder *b, const lm_config *c, uint32_t layer, const lm_rope_spec *local,
                               bool k_is_v, lm_value x, lm_value last[2]);
lm_value  lm_gemma3n_inputs(lm_builder *b, const lm_config *c, uint32_t rows, uint32_t each, lm_value x);
lm_value  lm_gemma3n_from_inputs(lm_builder *b, const lm_config *c, uint32_t layer, uint32_t each, lm_value x,
                                 lm_value inputs);

/* OLMo 2's attention, with q and k each normalised across all lanes (olmo2.c). */
lm_value lm_olmo2_attention(lm_builder *b, const lm_config *c, uint32_t layer, const lm_rope_spec *rope,
                            lm_value x);
/* OLMo 2's layer (olmo2.c); `norm`: the name of that behind attention; c->rope.dim 0: nothing is rotated. */
lm_value lm_olmo2_parts(lm_builder *b, const lm_config *c, uint32_t layer, const char *norm, lm_value x);

/* Build Llama's attention with each head of q and k normalised before the rotation (qwen3.c). */
lm_value lm_normed_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);

/* The parts of mixtures of Qwen2-MoE (qwen_moe.c): experts and, if c->shared_width, a shared expert with a
 * gate; `joined`: folders store gate and up in one tensor. `normalised`: GGUF files without the key
 * renormalise the weights. `dense` [n_layers]: layers with a plain MLP. */
lm_value  lm_qwen_moe(lm_builder *b, const lm_config *c, bool joined, lm_value x);
lm_status lm_qwen_experts(const lm_source *s, bool normalised, lm_config *c, lm_error *e);
/* Read the same without widths. */
lm_status lm_read_routing(const lm_source *s, bool normalised, lm_config *c, lm_error *e);
lm_status lm_read_dense_layers(const lm_source *s, const lm_config *c, bool *dense, lm_error *e);
extern const lm_name lm_qwen_moe_names[];

/* Read use_sliding_window, max_window_layers, layer_types (qwen2.c). */
lm_status lm_qwen_windows(const lm_source *s, lm_config *c, lm_error *e);

#endif
