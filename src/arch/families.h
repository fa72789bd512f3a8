/* families.h - the families there are, each one file. */
#ifndef LM_ARCH_FAMILIES_H
#define LM_ARCH_FAMILIES_H

#include "arch/config.h"

extern const lm_family lm_family_llama;
extern const lm_family lm_family_mistral;
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
extern const lm_family lm_family_gemma3;
extern const lm_family lm_family_olmo2;
extern const lm_family lm_family_smollm3;
extern const lm_family lm_family_ernie;
extern const lm_family lm_family_glm;
extern const lm_family lm_family_glm4;
extern const lm_family lm_family_phi3;
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

/* ---- Llama's decoder, which others vary (llama.c) ---- */

/* Sizes, rotary embedding, biases as Llama reads them. */
lm_status lm_llama_configure(const lm_source *s, lm_config *c, lm_error *e);
lm_value  lm_llama_build(lm_builder *b, const lm_config *c);
/* Embedding, layers, last norm and head with the multipliers and caps of `c`; what a layer is, is the family's, and so may the norm be. */
typedef lm_value lm_layer_builder(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);
typedef lm_value lm_norm_builder(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_value  lm_decoder_frame(lm_builder *b, const lm_config *c, lm_layer_builder *layer, lm_norm_builder *norm);
lm_value  lm_llama_frame(lm_builder *b, const lm_config *c, lm_layer_builder *layer);
lm_value  lm_llama_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x);
lm_value  lm_biased_layer_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x);
/* Rotation as the layer has it, scores, o_proj. */
lm_value  lm_llama_scores(lm_builder *b, const lm_config *c, uint32_t layer, lm_value q, lm_value k, lm_value v);
lm_value  lm_llama_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);
lm_value  lm_llama_mlp(lm_builder *b, const lm_config *c, lm_value x);
extern const lm_name lm_llama_names[];

/* The window of a GGUF file that does not carry one: 4096 for the shape of Mistral 7B v0.1 (v0.2 has another rotary base and
 * none), else 0 (mistral.c). */
uint32_t lm_mistral_window(const lm_config *c);

/* ---- GPT-2's decoder, which others vary (gpt2.c) ---- */

lm_status lm_gpt2_configure(const lm_source *s, lm_config *c, lm_error *e);
lm_value  lm_gpt2_build(lm_builder *b, const lm_config *c);
/* Token and position embeddings, layers, last norm, head. */
lm_value  lm_gpt2_frame(lm_builder *b, const lm_config *c, lm_layer_builder *block);
/* c_fc, activation, c_proj, with projections as the family stores them. */
typedef lm_value lm_linear_builder(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias);
lm_value  lm_gpt2_mlp(lm_builder *b, const lm_config *c, lm_linear_builder *linear, lm_value x);
extern const lm_name lm_gpt2_names[];

/* attention_types: layers that see everything and layers that see the window; without it they take turns (gpt_neo.c). */
lm_status lm_read_attention_types(const lm_source *s, lm_config *c, lm_error *e);

/* Llama with four multipliers (granite.c). */
lm_status lm_granite_configure(const lm_source *s, lm_config *c, lm_error *e);

/* Gate and up in one projection (glm.c). */
lm_value lm_fused_mlp(lm_builder *b, const lm_config *c, lm_value x);

/* Gemma's (gemma.c), and what its second and third editions share (gemma2.c). `act`: config.json's word for the activation;
 * `largest`: layers of the model whose scores GGUF files scale in a way of their own. */
lm_status lm_gemma_configure(const lm_source *s, const char *act, lm_config *c, lm_error *e);
lm_status lm_gemma2_scores(const lm_source *s, uint32_t largest, lm_config *c, lm_error *e);
lm_value  lm_gemma2_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);
lm_value  lm_gemma2_build(lm_builder *b, const lm_config *c);
extern const lm_name lm_gemma2_names[];

/* use_sliding_window, max_window_layers, layer_types (qwen2.c). */
lm_status lm_qwen_windows(const lm_source *s, lm_config *c, lm_error *e);

#endif
