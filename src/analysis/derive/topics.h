/* topics.h - the derivations, one for each topic that has arithmetic. Each says its quantities and steps into `d`, for any
 * program: what varies between layers is listed by kind. */
#ifndef LM_ANALYSIS_TOPICS_H
#define LM_ANALYSIS_TOPICS_H

#include "analysis/derive/derive.h"
#include "analysis/facts/ledger.h"
#include "analysis/facts/traits.h"

typedef void lm_topic_steps(lm_derivation *d);

lm_topic_steps lm_derive_parameters, lm_derive_kv, lm_derive_kv_cache, lm_derive_flops, lm_derive_memory, lm_derive_quantization,
    lm_derive_gqa, lm_derive_mla, lm_derive_rope, lm_derive_swa, lm_derive_alibi, lm_derive_swiglu, lm_derive_moe, lm_derive_norm,
    lm_derive_residual, lm_derive_mlp, lm_derive_relu, lm_derive_gelu, lm_derive_silu, lm_derive_router, lm_derive_learned,
    lm_derive_sinusoidal, lm_derive_mask, lm_derive_tokenizer,
    lm_derive_attention, lm_derive_embedding, lm_derive_tying, lm_derive_sampling, lm_derive_estimate;

/* The sizes that formulas name: hidden, layers, heads … as far as the model has them. */
void lm_let_sizes(lm_derivation *d);

/* A width in symbols where some name or product of names has this value ("kv_heads * head_dim"), else the number. `role`:
 * what the product does; `inner`: the width that it reads. */
const char *lm_width_formula(lm_derivation *d, uint16_t role, bool inner, uint64_t width);

/* The matrix of the head: "vocab * hidden", or with the width that its input really has. */
const char *lm_head_formula(lm_derivation *d);

/* Classes of layers whose caches are alike: the class of each cache in `of` [n_caches], how many there are, and a first one. */
typedef struct lm_cache_class { uint32_t first, n; } lm_cache_class;
enum { LM_MOST_CLASSES = 12 };
size_t lm_cache_classes(const lm_program *p, bool windows_matter, lm_cache_class out[LM_MOST_CLASSES]);

/* What one position of such a cache holds, in symbols: "2 * kv_heads * head_dim". */
const char *lm_cache_formula(lm_derivation *d, const lm_cache *c);

/* The operation that attends in the layer of a cache. */
const lm_node *lm_attention_of(const lm_program *p, uint32_t cache);

/* "layers" when it is all of them, else the number. */
const char *lm_layers_formula(lm_derivation *d, uint64_t n);
/* Parameters of one routed expert, and of the router of a layer, with their biases where they have some. */
const char *lm_expert_formula(lm_derivation *d);
const char *lm_router_formula(lm_derivation *d);

#endif
