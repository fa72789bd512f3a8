/* slab.c - greedy placement by size. */
#include "plan/slab.h"

#include <stdlib.h>
#include <string.h>

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

/* A placed buffer. Placed buffers are in a separate compact array, ordered by offset: a training step of a
 * large model has ten thousand buffers, and each is compared with most of the earlier ones. */
typedef struct place {
    uint64_t offset, end;
    uint32_t first, last;
} place;

/* Return the lowest offset at which `size` bytes do not overlap any buffer whose lifetime overlaps that of
 * b. */
static uint64_t lowest_free(const place *placed, uint32_t n, const lm_buffer *b, uint64_t size)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < n && placed[i].offset < offset + size; i++)
        if (offset < placed[i].end && placed[i].first <= b->last && b->first <= placed[i].last)
            offset = (placed[i].end + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    return offset;
}

/* Insert a buffer into the n placed ones. */
static void insert(place *placed, uint32_t n, const lm_buffer *b, uint64_t size)
{
    uint32_t low = 0;

    for (uint32_t high = n; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        if (placed[middle].offset <= b->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(placed + low + 1, placed + low, (n - low) * sizeof *placed);
    placed[low] = (place){ b->offset, b->offset + size, b->first, b->last };
}

lm_status lm_slab_place(lm_buffer *buffers, uint32_t n, uint64_t *scratch, uint64_t *bytes, lm_error *e)
{
    uint64_t  total = 0, sum = 0, size;
    place    *placed = (place *)scratch;
    uint32_t *order  = (uint32_t *)(placed + n);

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
        b->offset    = lowest_free(placed, i, b, size);
        insert(placed, i, b, size);
        if (b->offset + size > total)
            total = b->offset + size;
    }
    *bytes = (total + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    return LM_OK;
}
