/* strips_pack_avx2.c - pack the blocks of a file into strips, eight rows at a time: the bytes of
 * strips_pack.c. */
#include "kernels/x86/avx2/rows_256.h"

#include "kernels/strips_pack_lanes.h"
#include "kernels/x86/avx2/levels_avx2.h"

void lm_strip_pack_avx2(const lm_strip_layout *l, void *dst, const void *stored, uint64_t rows, uint64_t cols,
                        uint64_t first, uint64_t last)
{
    (void)rows;
    pack_type(l, dst, stored, cols, first, last);
}
