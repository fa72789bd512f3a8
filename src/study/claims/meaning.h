/* meaning.h - what a name refers to: a path, a key of config.json, a name used in documents, a module of a
 * layer. The public function is lm_facts_named. */
#ifndef LM_ANALYSIS_MEANING_H
#define LM_ANALYSIS_MEANING_H

#include "lamina/study/facts.h"

/* A name that documents use for a fact: "num_hidden_layers", "params.total". */
typedef struct lm_quantity { const char *name, *path; } lm_quantity;

extern const lm_quantity lm_quantities[];        /* quantities.tsv; terminated by NULLs */

/* What a name refers to: the engine's fact, and the value that the model's description gives under that name.
 * Either may be NULL. */
typedef struct lm_meanings { const lm_fact *ours, *described; } lm_meanings;

lm_meanings lm_meanings_of(lm_facts *f, const char *name);

/* Return whether documents use this name, whether or not the model has the quantity. */
bool lm_quantity_known(const char *name);

/* Return the name that was probably meant by an unknown one with a typing error: of a quantity, or a key of
 * the model's description. It lives as long as the facts. NULL: none is close. */
const char *lm_nearest_meaning(lm_facts *f, const char *name);

#endif
