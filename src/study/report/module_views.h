/* module_views.h - texts about the modules of a model, shared by views and chapters. */
#ifndef LM_ANALYSIS_MODULE_VIEWS_H
#define LM_ANALYSIS_MODULE_VIEWS_H

#include "study/facts/fact.h"

/* Append the module tree as PyTorch prints it, `depth` levels deep; 0: 16. */
void lm_put_module_tree(const lm_facts *f, unsigned depth, lm_text *out);

/* Append the table that torchinfo prints, `depth` levels deep; 0: 4.
 *
 * `compatible`: as torchinfo 1.8.0 prints it for a pass of [1, tokens], byte for byte, including its
 * over-counts. Otherwise the same table with every weight counted once, products of the whole pass, look-ups
 * free, and no backward pass. */
void lm_put_torchinfo(lm_facts *f, unsigned depth, bool compatible, lm_text *out);

#endif
