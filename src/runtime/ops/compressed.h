/* compressed.h - running softmaxes over the positions of a block (program/builder.h, lm_compress).
 *
 * A state is [1 or 2][3][lanes]: the maximum of the gates, the sum of their exponentials, the weighted sum of
 * the values, all relative to the maximum. With overlap the first is of the block's first half of lanes,
 * which the next block continues, the second that of the entry. Rows are added one by one, so an entry does
 * not depend on how its rows arrive. */
#ifndef LM_RUNTIME_COMPRESSED_H
#define LM_RUNTIME_COMPRESSED_H

#include "program/program.h"

/* Add the row at `position`, lanes [first, last) of `lanes`, to the state, and write the mean so far to out.
 * kv, gate [lanes], or [2 lanes] with overlap; bias: position_bias. A block begins anew, so what the state
 * holds before position 0 does not matter. */
void lm_compress_row(const lm_node *n, uint32_t position, const float *kv, const float *gate,
                     const float *bias, float *state, float *out, uint64_t lanes, uint64_t first,
                     uint64_t last);

/* Copy lanes [first, last) of a state, `lanes` wide; `from` NULL: nothing, the state begins anew. */
void lm_compress_carry(const lm_node *n, const float *from, float *to, uint64_t lanes, uint64_t first,
                       uint64_t last);

#endif
