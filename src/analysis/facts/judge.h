/* judge.h - a statement about a model against the fact that answers it. The judging is public: lamina/facts.h. */
#ifndef LM_ANALYSIS_JUDGE_H
#define LM_ANALYSIS_JUDGE_H

/* What documents call a fact: "num_hidden_layers", "params.total". */
typedef struct lm_quantity { const char *name, *path; } lm_quantity;

extern const lm_quantity lm_quantities[];        /* quantities.tsv; ends with NULLs */

#endif
