/* program_difference.h - whether a written file describes the same model as its source. */
#ifndef LM_EXPORT_PROGRAM_DIFFERENCE_H
#define LM_EXPORT_PROGRAM_DIFFERENCE_H

#include "arch/config.h"

/* The first thing in which the model that a reader of the file gets computes something else than the one that was described; NULL:
 * nothing. How weights are stored, and so how fused projections are taken apart and lanes are paired, is no such thing. */
const char *lm_program_difference(const lm_program *meant, const lm_config *m, const lm_program *read, const lm_config *r);

#endif
