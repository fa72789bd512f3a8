/* describe_match.h - internal to descriptions: find published models by what a module tree shows. */
#ifndef LM_ARCH_DESCRIBE_MATCH_H
#define LM_ARCH_DESCRIBE_MATCH_H

#include "arch/config.h"
#include "lamina/preset.h"

typedef struct lm_tree_shape {
    uint32_t hidden, layers, vocab;
    uint64_t parameters;             /* shown by the tree, each module once */
} lm_tree_shape;

/* Return the first published model of the family with these sizes whose parameters are those of the tree, or
 * those plus `unseen` parameters of experts and routers, which frameworks print without sizes. NULL: none. */
const lm_preset *lm_preset_of_tree(const lm_family *f, const lm_tree_shape *s, uint64_t *unseen);

#endif
