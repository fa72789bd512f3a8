/* describe_match.h - internal to descriptions: published models by what a module tree shows of them. */
#ifndef LM_ARCH_DESCRIBE_MATCH_H
#define LM_ARCH_DESCRIBE_MATCH_H

#include "arch/config.h"
#include "lamina/preset.h"

typedef struct lm_tree_shape {
    uint32_t hidden, layers, vocab;
    uint64_t parameters;             /* that the tree shows, each module once */
} lm_tree_shape;

/* The first published model of the family with these widths whose parameters are those that the tree shows, or those and
 * `unseen` more of experts and routers that frameworks print without sizes. NULL: none. */
const lm_preset *lm_preset_of_tree(const lm_family *f, const lm_tree_shape *s, uint64_t *unseen);

#endif
