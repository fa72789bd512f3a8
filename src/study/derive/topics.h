/* topics.h - the derivations, one per topic that involves arithmetic. Each adds its quantities and steps to
 * `d`, for any program: what varies between layers is listed by kind. */
#ifndef LM_ANALYSIS_TOPICS_H
#define LM_ANALYSIS_TOPICS_H

#include "study/derive/derive.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"

typedef void lm_topic_steps(lm_derivation *d);

lm_topic_steps lm_derive_parameters, lm_derive_kv, lm_derive_kv_cache, lm_derive_flops, lm_derive_memory,
    lm_derive_quantization, lm_derive_gqa, lm_derive_mla, lm_derive_rope, lm_derive_swa, lm_derive_alibi,
    lm_derive_swiglu, lm_derive_moe, lm_derive_norm, lm_derive_residual, lm_derive_mlp, lm_derive_relu,
    lm_derive_gelu, lm_derive_silu, lm_derive_router, lm_derive_learned, lm_derive_sinusoidal, lm_derive_mask,
    lm_derive_tokenizer, lm_derive_attention, lm_derive_embedding, lm_derive_tying, lm_derive_sampling,
    lm_derive_estimate, lm_derive_convolution, lm_derive_recurrence, lm_derive_scan,
    lm_derive_gated, lm_derive_sparse;

/* Name the sizes that formulas use: hidden, layers, heads and so on, as far as the model has them. */
void lm_let_sizes(lm_derivation *d);

/* Return a width in symbols if a name or a product of names has this value ("kv_heads * head_dim"), otherwise
 * the number. `role`: the role of the product; `inner`: the width is that of its input. */
const char *lm_width_formula(lm_derivation *d, uint16_t role, bool inner, uint64_t width);

/* Return the size of the head's matrix: "vocab * hidden", or with the actual width of its input. */
const char *lm_head_formula(lm_derivation *d);

/* Group the layers whose caches are alike into classes, by their shape, also by their windows, or also by the
 * keys that a token sees of them: the first cache of each class, the number of its caches and of the layers
 * that read them. Returns the number of classes, or 0 if there are more than LM_MAX_CLASSES. */
typedef struct lm_cache_class { uint32_t first, n, readers; } lm_cache_class;
enum { LM_MAX_CLASSES = 12 };
typedef enum lm_class_by { LM_BY_SHAPE, LM_BY_WINDOW, LM_BY_REACH } lm_class_by;
size_t lm_cache_classes(const lm_program *p, lm_class_by by, lm_cache_class out[LM_MAX_CLASSES]);

/* Return the number of heads of an attention: "heads", or the number itself if it is another. */
const char *lm_heads_formula(lm_derivation *d, const lm_node *attention);

/* Return the values cached per token, or those with keys and values of every query head, in symbols. */
const char *lm_elements_formula(lm_derivation *d, bool every_head);

/* Return what one position of such a cache contains, in symbols: "2 * kv_heads * head_dim". */
const char *lm_cache_formula(lm_derivation *d, const lm_cache *c);

/* Return the operation that reads a cache: attention, or an indexer. */
const lm_node *lm_attention_of(const lm_program *p, uint32_t cache);

/* Return the operations per visible key of a layer's attention or indexer, in symbols. */
const char *lm_score_formula(lm_derivation *d, const lm_node *n);

/* Return "layers" if `n` is all of them, otherwise the number. */
const char *lm_layers_formula(lm_derivation *d, uint64_t n);
/* Return the parameters of one routed expert, and of a layer's router, including any biases. */
const char *lm_expert_formula(lm_derivation *d);
/* Return how many matrices an expert has: one that is its own gate counts once. */
unsigned lm_expert_matrices(const lm_node *n);
const char *lm_router_formula(lm_derivation *d);

#endif
