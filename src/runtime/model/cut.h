/* cut.h - copy the part of a stored weight that one rank holds (lm_cut). */
#ifndef LM_RUNTIME_CUT_H
#define LM_RUNTIME_CUT_H

#include "program/program.h"

/* Copy the held part of one matrix, stored as [rows][cols], or [cols][rows] if `transposed`, to [rows
 * held][cols held] of the same type. Columns are cut at the edges of blocks; a transposed matrix has blocks
 * of one. */
void lm_cut_matrix(const lm_weight *w, lm_dtype type, const uint8_t *stored, bool transposed, uint8_t *out);

/* Return the number of elements of the whole weight; lm_cut_floats copies the held part of a vector of
 * float32 values. */
uint64_t lm_cut_whole(const lm_weight *w);
void     lm_cut_floats(const lm_weight *w, const float *whole, float *out);

#endif
