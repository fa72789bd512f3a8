/* cut.h - the part of a stored weight that one rank holds, copied out of it (lm_cut). */
#ifndef LM_RUNTIME_CUT_H
#define LM_RUNTIME_CUT_H

#include "program/program.h"

/* One matrix, as stored ([rows][cols], or [cols][rows] where `transposed`), to [rows held][cols held] of the same type. Columns are cut on
 * the edges of blocks; a transposed matrix has blocks of one. */
void lm_cut_matrix(const lm_weight *w, lm_dtype type, const uint8_t *stored, bool transposed, uint8_t *out);

/* Elements of the whole weight; a vector: the part of float32 values. */
uint64_t lm_cut_whole(const lm_weight *w);
void     lm_cut_floats(const lm_weight *w, const float *whole, float *out);

#endif
