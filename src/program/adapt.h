/* adapt.h - low-rank adapters (LoRA, arXiv 2106.09685) attached to a program: program to program.
 *
 * Of a product y = x W^T + b, with A [r][in] and B [out][r]:
 *     h = x A^T        d = h B^T        y' = y + s d
 * four ordinary operations after the product: linear "MODULE.lora_A", linear "MODULE.lora_B", scale "MODULE.lora_scale", add
 * "MODULE.adapted". Whatever read y reads y'. Products of one input that follow each other (q, k, v) stay together: first they, then
 * their A's, then their B's, so that each of the three is one stage of a plan.
 *
 * Targets besides products: a look-up, whose A is a table [V][r]; and the projection of a latent in its naive form (latent.c), whose
 * keys and values are lanes of one d. */
#ifndef LM_PROGRAM_ADAPT_H
#define LM_PROGRAM_ADAPT_H

#include "program/program.h"

typedef struct lm_adapt_target {
    uint32_t node;               /* of the program that is adapted: see lm_adapt_possible */
    uint32_t rank;
    float    scale;              /* s */
    bool     bias;               /* of B: d = h B^T + bias */
} lm_adapt_target;

/* One adapter. A later one of several adds to the sum of those before it. */
typedef struct lm_adapt_set {
    const char            *name; /* in the names of its weights, "MODULE.lora_A.NAME.weight"; NULL: "MODULE.lora_A.weight" */
    const lm_adapt_target *targets;
    uint32_t               n;
} lm_adapt_set;

/* What an adapter of an operation is made of. */
typedef struct lm_adapt_shape {
    const char *module;          /* "model.layers.0.self_attn.q_proj" */
    const char *weight;          /* of it, "….q_proj.weight", and in GGUF, or NULL */
    const char *gguf;
    uint64_t    in, out;         /* lanes that A reads and B makes; of a look-up: rows of the table, its width */
    bool        table;           /* a look-up */
} lm_adapt_shape;

/* Whether an operation can have an adapter: products, look-ups, projections of latents (of whose two operations the first, of keys, stands
 * for both). False: `out` is untouched. */
bool lm_adapt_possible(const lm_program *p, uint32_t node, lm_adapt_shape *out);

/* The projection of values that belongs to the projection of keys `node`; LM_NONE: this is none. */
uint32_t lm_adapt_values_of(const lm_program *p, uint32_t node);

/* The operation of a module that can have an adapter; LM_NONE when there is none. */
uint32_t lm_adapt_node(const lm_program *p, const char *module);

/* `p` with adapters. Texts and tables of rotation are p's, which must outlive it. Values and weights of p keep their numbers; new ones
 * follow. lm_node.adapter of new operations: the number of the set, from 1. LM_USAGE for a target that is none, or named twice. */
lm_status lm_program_adapt(const lm_program *p, const lm_adapt_set *sets, uint32_t n_sets, lm_program **out, lm_error *e);

/* The weights that a target of a set has in the adapted program; LM_NONE where it has no such. */
typedef struct lm_adapt_weights {
    uint32_t a, b, bias;
} lm_adapt_weights;

lm_adapt_weights lm_adapt_weights_of(const lm_program *adapted, const char *module, const char *set_name);

#endif
