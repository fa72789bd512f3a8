/* gather.h - rows of a weight that a folder stores interleaved with others (lm_interleaved). */
#ifndef LM_RUNTIME_GATHER_H
#define LM_RUNTIME_GATHER_H

#include "runtime/model/model.h"

/* Write the matrix of expert `expert` as the program uses it: dst [out] rows of `in` values of the type that
 * the model has for it. Binding has checked every shape. Reads the mapped file: call it inside
 * lm_filemap_guard. */
void lm_gather_expert(const lm_model *m, uint32_t weight, uint64_t expert, uint8_t *dst);

/* Write a vector of all experts: dst [experts][n]. */
void lm_gather_floats(const lm_model *m, uint32_t weight, float *dst);

#endif
