/* slab.c - greedy placement by size. */
#include "plan/slab.h"

#include <stdlib.h>

#include "base/checked.h"

#define ALIGNMENT 64

static int larger_first(const void *x, const void *y, void *arg)
{
    const lm_buffer *buffers = arg;
    const lm_buffer *a = &buffers[*(const uint32_t *)x], *b = &buffers[*(const uint32_t *)y];
    uint64_t         m = a->stride * a->rows, n = b->stride * b->rows;

    if (m != n)
        return m > n ? -1 : 1;
    return *(const uint32_t *)x < *(const uint32_t *)y ? -1 : 1;
}

static bool live_together(const lm_buffer *a, const lm_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which `size` bytes collide with none of the buffers placed before. Few of them live at the same time:
 * they are gathered once. Every round either ends or moves past one of them. */
static uint64_t lowest_free(const lm_buffer *buffers, const uint32_t *order, uint32_t placed, uint32_t which, uint64_t size,
                            uint32_t *meets)
{
    const lm_buffer *b      = &buffers[which];
    uint64_t         offset = 0;
    uint32_t         n      = 0;
    bool             moved  = true;

    for (uint32_t i = 0; i < placed; i++)
        if (live_together(&buffers[order[i]], b))
            meets[n++] = order[i];
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < n; i++) {
            const lm_buffer *o   = &buffers[meets[i]];
            uint64_t         end = o->offset + o->stride * o->rows;
            if (offset < end && o->offset < offset + size) {
                offset = (end + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
                moved  = true;
            }
        }
    }
    return offset;
}

lm_status lm_slab_place(lm_buffer *buffers, uint32_t n, uint32_t *order, uint64_t *bytes, lm_error *e)
{
    uint64_t total = 0, sum = 0, size;

    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
        if (!lm_mul_u64(buffers[i].stride, buffers[i].rows, &size) || !lm_align_u64(size, ALIGNMENT, &size) ||
            !lm_add_u64(sum, size, &sum) || sum > INT64_MAX)
            return lm_fail(e, LM_NO_FIT, "scratch", LM_NO_OFFSET, "size exceeds the address space");
    }
    qsort_r(order, n, sizeof *order, larger_first, buffers);
    for (uint32_t i = 0; i < n; i++) {
        lm_buffer *b = &buffers[order[i]];
        size         = b->stride * b->rows;
        b->offset    = lowest_free(buffers, order, i, order[i], size, order + n);
        if (b->offset + size > total)
            total = b->offset + size;
    }
    *bytes = (total + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    return LM_OK;
}
