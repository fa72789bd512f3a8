/* attention_pages.h - the keys of a page that are visible to a query, prefetching, and allocation of a
 * worker's scratch: shared by the attention kernels of x86. */
#ifndef LM_KERNELS_X86_ATTENTION_PAGES_H
#define LM_KERNELS_X86_ATTENTION_PAGES_H

#include "kernels/attention_parts.h"
#include "kernels/x86/vec_256.h"

/* The keys [from, to) of a page that are visible to a query. The page begins at position `start`; the query
 * is `distance` positions after it. */
typedef struct sight {
    uint32_t start, from, to, distance;
} sight;

/* Compute the keys of the page that begins at `start` that are visible to the query at p; return false if
 * there are none. */
static inline bool sees(const lm_attention_args *a, uint32_t p, uint32_t start, sight *see)
{
    uint32_t first = lm_first_seen(a->window, a->chunked, p);

    if (p < start || first >= start + LM_PAGE)
        return false;
    see->start = start;
    see->from = first > start ? first - start : 0;
    see->to = p - start < LM_PAGE ? p - start + 1 : LM_PAGE;
    see->distance = p - start;
    return true;
}

/* Compute the range [min, max) of the keys of the page that begins at `start` that are visible to any row;
 * return false if there are none. */
static inline bool any_sees(const lm_attention_args *a, uint32_t start, uint32_t *min, uint32_t *max)
{
    sight see;

    *min = LM_PAGE;
    *max = 0;
    for (uint32_t r = 0; r < a->rows; r++) {
        if (!sees(a, a->position + r, start, &see))
            continue;
        *min = see.from < *min ? see.from : *min;
        *max = see.to > *max ? see.to : *max;
    }
    return *max > *min;
}

/* The rest of a head's part of the next page, to be prefetched while this page is multiplied: pages are not
 * contiguous, and hardware prefetchers do not find the next one. */
typedef struct ahead {
    const uint8_t *at, *end;
} ahead;

/* Prefetch two cache lines. */
INLINE void ask(ahead *x)
{
    if (x->at >= x->end)
        return;
    _mm_prefetch((const char *)x->at, _MM_HINT_T1);
    _mm_prefetch((const char *)x->at + 64, _MM_HINT_T1);
    x->at += 128;
}

/* Return the head's part of the page after `number`, or nothing if no row reaches it. `bytes`: size of a
 * head's part of a page. */
static inline ahead page_after(const lm_attention_args *a, uint32_t number, uint64_t bytes)
{
    ahead x = { NULL, NULL };

    if (number < (a->position + a->rows - 1) / LM_PAGE) {
        x.at = a->base + a->pages[number + 1] * a->page_stride + a->head * bytes;
        x.end = x.at + bytes;
    }
    return x;
}

/* Allocate the next `bytes` of scratch, in whole cache lines. */
static inline void *take(uint8_t *scratch, uint64_t *used, uint64_t bytes)
{
    uint8_t *at = scratch + *used;

    *used += (bytes + 63) & ~UINT64_C(63);
    return at;
}

#endif
