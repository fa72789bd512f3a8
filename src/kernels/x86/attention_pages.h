/* attention_pages.h - what the attention kernels of x86 share: the order of pages and rows, and what a query sees of a page. A file
 * that includes it has before it TILE, rows that go through the pages together. */
#ifndef LM_KERNELS_X86_ATTENTION_PAGES_H
#define LM_KERNELS_X86_ATTENTION_PAGES_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* The running state of one query: what it would be if the softmax ended here. */
typedef struct running {
    float max, sum;
} running;

/* The keys [from, to) of the page that begins at position `start` that a query at `distance` past its first position sees. */
typedef struct sight {
    uint32_t start, from, to, distance;
} sight;

static inline uint64_t round64(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

static inline uint32_t first_seen(const lm_attention_args *a, uint32_t p)
{
    return a->window && p >= a->window ? p - a->window + 1 : 0;
}

/* False when the query at p sees nothing of the page that begins at `start`. */
static inline bool sees(const lm_attention_args *a, uint32_t p, uint32_t start, sight *see)
{
    uint32_t first = first_seen(a, p);

    if (p < start || first >= start + LM_PAGE)
        return false;
    see->start = start;
    see->from = first > start ? first - start : 0;
    see->to = p - start < LM_PAGE ? p - start + 1 : LM_PAGE;
    see->distance = p - start;
    return true;
}

/* The keys [least, most) of the page that begins at `start` that any of rows [from, to) sees; false: none. */
static inline bool any_sees(const lm_attention_args *a, uint32_t start, uint32_t from, uint32_t to, uint32_t *least, uint32_t *most)
{
    sight see;

    *least = LM_PAGE;
    *most = 0;
    for (uint32_t r = from; r < to; r++) {
        if (!sees(a, a->position + r, start, &see))
            continue;
        *least = see.from < *least ? see.from : *least;
        *most = see.to > *most ? see.to : *most;
    }
    return *most > *least;
}

static inline float *out_of(const lm_attention_args *a, uint32_t r, uint32_t g)
{
    return a->out + r * a->out_stride + (uint64_t)g * a->kv->v_dim;
}

/* What is done once for rows [from, to), with the worker's memory; these rows against a page; the end of a query: its sink, and the
 * division by the sum. */
typedef void begin_fn(const lm_attention_args *a, void *memory, uint32_t from, uint32_t to);
typedef void page_fn(const lm_attention_args *a, void *memory, uint32_t page, uint32_t from, uint32_t to);
typedef void finish_fn(const lm_attention_args *a, running *s, uint32_t g, float *out);

static inline __attribute__((always_inline)) void run_pages(const lm_attention_args *a, void *memory, running *states,
                                                            begin_fn *begin, page_fn *against, finish_fn *finish)
{
    for (uint32_t from = 0; from < a->rows; from += TILE) {
        uint32_t to = a->rows - from < TILE ? a->rows : from + TILE;
        for (uint32_t r = from; r < to; r++) {
            for (uint32_t g = 0; g < a->group; g++) {
                states[(r - from) * a->group + g] = (running){ -INFINITY, 0.0f };
                memset(out_of(a, r, g), 0, a->kv->v_dim * sizeof(float));
            }
        }
        if (begin)
            begin(a, memory, from, to);
        uint32_t last = (a->position + to - 1) / LM_PAGE;
        for (uint32_t page = first_seen(a, a->position + from) / LM_PAGE; page <= last; page++)
            against(a, memory, page, from, to);
        for (uint32_t r = from; r < to; r++)
            for (uint32_t g = 0; g < a->group; g++)
                finish(a, &states[(r - from) * a->group + g], g, out_of(a, r, g));
    }
}

#endif
