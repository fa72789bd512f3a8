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
lm_value  lm_llama_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x);
lm_value  lm_llama_mlp(lm_builder *b, const lm_config *c, lm_value x);
extern const lm_name lm_llama_names[];

/* ---- GPT-2's decoder, which GPT-3 varies (gpt2.c) ---- */

lm_status lm_gpt2_configure(const lm_source *s, lm_config *c, lm_error *e);
lm_value  lm_gpt2_build(lm_builder *b, const lm_config *c);

/* attention_types: layers that see everything and layers that see the window; without it they take turns (gpt_neo.c). */
lm_status lm_read_attention_types(const lm_source *s, lm_config *c, lm_error *e);

/* use_sliding_window, max_window_layers, layer_types (qwen2.c). */
lm_status lm_qwen_windows(const lm_source *s, lm_config *c, lm_error *e);

#endif
