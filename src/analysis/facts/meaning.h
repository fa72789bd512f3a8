/* meaning.h - what a name leads to: a path, a key of config.json, a name that documents use, a module of a layer. Public:
 * lm_facts_named. */
#ifndef LM_ANALYSIS_MEANING_H
#define LM_ANALYSIS_MEANING_H

#include "lamina/facts.h"

/* What documents call a fact: "num_hidden_layers", "params.total". */
typedef struct lm_quantity { const char *name, *path; } lm_quantity;

extern const lm_quantity lm_quantities[];        /* quantities.tsv; ends with NULLs */

/* Where a name can lead: to what the engine has, and to what the description itself gives under that name. Either may be NULL. */
typedef struct lm_meanings { const lm_fact *ours, *described; } lm_meanings;

lm_meanings lm_meanings_of(lm_facts *f, const char *name);

/* Whether documents use this name, of a model that has it or of another. */
bool lm_quantity_known(const char *name);

/* The name that was meant by one that leads nowhere, a typing error apart: of a quantity, or a key of the model's own description.
 * Lives as long as the facts. NULL: none is near. */
const char *lm_nearest_meaning(lm_facts *f, const char *name);

#endif
