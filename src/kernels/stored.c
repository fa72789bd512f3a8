/* stored.c - multiply with a matrix in the layout of the file, using a kernel that has its own layout: a
 * group of outputs that fits in the cache is packed, then multiplied as if it were the whole matrix. No sum
 * runs over outputs, so the results are bit-identical to those of the packed matrix. For a single row of x,
 * packing takes longer than multiplying, so some kernels also read the file's layout. */
#include "kernels/kernels.h"

#define GROUP_BYTES (256u << 10)

/* Return the number of outputs in a group. */
static uint64_t group_of(const lm_matmul *m, uint64_t cols)
{
    uint64_t one = m->packed_bytes(m->row_group, cols), max = GROUP_BYTES / (one ? one : 1);

    return m->row_group * (max < 1 ? 1 : max > 4 ? 4 : max);
}

static uint64_t own_scratch(const lm_matmul *m, uint64_t cols)
{
    return m->scratch_bytes ? (m->scratch_bytes(cols) + 63) & ~UINT64_C(63) : 0;
}

uint64_t lm_stored_scratch(const lm_matmul *m, uint64_t cols)
{
    return own_scratch(m, cols) + (m->pack ? m->packed_bytes(group_of(m, cols), cols) : 0);
}

void lm_stored_run(const lm_matmul *m, const lm_matmul_args *a, uint64_t row_bytes)
{
    if (!m->pack) {
        m->run(a);
        return;
    }
    uint64_t group  = group_of(m, a->cols), from = a->first;
    uint8_t *packed = (uint8_t *)a->scratch + own_scratch(m, a->cols);
    if (m->run_stored && a->n == 1) {
        from += (a->last - from) / 8 * 8;
        m->run_stored(a, row_bytes, from);
    }
    for (uint64_t at = from; at < a->last; at += group) {
        uint64_t       n    = a->last - at < group ? a->last - at : group;
        lm_matmul_args part = *a;
        m->pack(packed, (const uint8_t *)a->w + at * row_bytes, n, a->cols, 0, n);
        part.w     = packed;
        part.rows  = n;
        part.first = 0;
        part.last  = n;
        part.y     = a->y + at;
        part.bias  = a->bias ? a->bias + at : NULL;
        part.add   = a->add ? a->add + at : NULL;
        m->run(&part);
    }
}
