/* adapt.h - attach low-rank adapters (LoRA, arXiv 2106.09685) to a program, which gives a new program.
 *
 * For a product y = x W^T + b, with A [r][in] and B [out][r]:
 *     h = x A^T        d = h B^T        y' = y + s d
 * these are four ordinary operations after the product: linear "MODULE.lora_A", linear "MODULE.lora_B", scale
 * "MODULE.lora_scale", add "MODULE.adapted". All readers of y read y' instead. Consecutive products of the
 * same input (q, k, v) stay together: first the products, then their A's, then their B's, so that each of the
 * three is one stage of a plan.
 *
 * Other targets are a look-up, whose A is a table [V][r], and the projection of a latent in its naive form
 * (latent.c), whose keys and values are lanes of one d. */
#ifndef LM_PROGRAM_ADAPT_H
#define LM_PROGRAM_ADAPT_H

#include "program/program.h"

typedef struct lm_adapt_target {
    uint32_t node;               /* in the original program: see lm_adapt_possible */
    uint32_t rank;
    float    scale;              /* s */
    bool     bias;               /* of B: d = h B^T + bias */
} lm_adapt_target;

/* One adapter. If there are several, each adds to the sum of the earlier ones. */
typedef struct lm_adapt_set {
    const char            *name; /* part of the names of its weights, "MODULE.lora_A.NAME.weight"; NULL:
                                    "MODULE.lora_A.weight" */
    const lm_adapt_target *targets;
    uint32_t               n;
} lm_adapt_set;

/* The names and shape of an adapter for an operation. */
typedef struct lm_adapt_shape {
    const char *module;          /* "model.layers.0.self_attn.q_proj" */
    const char *weight;          /* its weight, "….q_proj.weight" */
    const char *gguf;            /* the same in GGUF, or NULL */
    uint64_t    in, out;         /* lanes that A reads and B produces; for a look-up: rows of the table, its
                                    width */
    bool        table;           /* a look-up */
} lm_adapt_shape;

/* Return whether an operation can have an adapter: products, look-ups, and projections of latents (of their
 * two operations, only the first, that of keys, which represents both). If false, `out` is not changed. */
bool lm_adapt_possible(const lm_program *p, uint32_t node, lm_adapt_shape *out);

/* Return the projection of values that belongs to the projection of keys `node`; LM_NONE if `node` is not
 * such a projection. */
uint32_t lm_adapt_values_of(const lm_program *p, uint32_t node);

/* Return the operation of a module that can have an adapter; LM_NONE if there is none. */
uint32_t lm_adapt_node(const lm_program *p, const char *module);

/* Make a copy of `p` with adapters. It shares strings and rotary tables with p, which must outlive it. Values
 * and weights of p keep their indices; new ones follow. lm_node.adapter of new operations is the number of
 * the set, from 1. LM_USAGE if a target cannot have an adapter or occurs twice in a set. */
lm_status lm_program_adapt(const lm_program *p, const lm_adapt_set *sets, uint32_t n_sets, lm_program **out,
                           lm_error *e);

/* The weights of a target of a set in the adapted program; LM_NONE if it has no such weight. */
typedef struct lm_adapt_weights {
    uint32_t a, b, bias;
} lm_adapt_weights;

lm_adapt_weights lm_adapt_weights_of(const lm_program *adapted, const char *module, const char *set_name);

#endif
