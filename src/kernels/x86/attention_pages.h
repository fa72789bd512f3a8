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

/* The keys [least, most) of the page that begins at `start` that any row sees; false: none. */
static inline bool any_sees(const lm_attention_args *a, uint32_t start, uint32_t *least, uint32_t *most)
{
    sight see;

    *least = LM_PAGE;
    *most = 0;
    for (uint32_t r = 0; r < a->rows; r++) {
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

/* Rows of `a` from `from` on, TILE at most. */
static inline lm_attention_args tile_of(const lm_attention_args *a, uint32_t from)
{
    lm_attention_args t = *a;

    t.rows = a->rows - from < TILE ? a->rows - from : TILE;
    t.position += from;
    t.q += from * a->q_stride;
    t.out += from * a->out_stride;
    return t;
}

/* The same rows with values [rows][group][v_dim] for their output. */
static inline lm_attention_args aside(const lm_attention_args *a, float *values)
{
    lm_attention_args t = *a;

    t.out = values;
    t.out_stride = (uint64_t)a->group * a->kv->v_dim;
    return t;
}

/* What a kernel does, with the worker's memory: what is done once for the rows of a tile; a tile against a page; what a query has of one
 * more range, to what it has of those before; the end of a query: its sink, and the division by the sum. */
typedef void begin_fn(const lm_attention_args *a, void *memory);
typedef void page_fn(const lm_attention_args *a, void *memory, running *states, uint32_t page);
typedef void join_fn(running *s, float *out, const running *part, const float *values, uint32_t width);
typedef void finish_fn(const lm_attention_args *a, running *s, uint32_t g, float *out);

#define INLINE static inline __attribute__((always_inline))

/* The pages of a range that a tile sees, from nothing. */
INLINE void pages_of_range(const lm_attention_args *t, void *memory, running *states, uint32_t range, page_fn *against)
{
    const uint32_t pages = LM_RANGE / LM_PAGE;
    uint32_t page = first_seen(t, t->position) / LM_PAGE, end = (t->position + t->rows - 1) / LM_PAGE + 1;

    page = page > range * pages ? page : range * pages;
    end = end < (range + 1) * pages ? end : (range + 1) * pages;
    for (uint32_t r = 0; r < t->rows; r++) {
        for (uint32_t g = 0; g < t->group; g++)
            states[r * t->group + g] = (running){ -INFINITY, 0.0f };
        memset(out_of(t, r, 0), 0, (uint64_t)t->group * t->kv->v_dim * sizeof(float));
    }
    for (; page < end; page++)
        against(t, memory, states, page);
}

/* A sum of zero: nothing was seen, for the largest score adds one. */
INLINE void join_part(running *s, float *out, const running *part, const float *values, uint32_t width, join_fn *join)
{
    if (part->sum == 0.0f)
        return;
    if (s->sum != 0.0f) {
        join(s, out, part, values, width);
        return;
    }
    *s = *part;
    memcpy(out, values, width * sizeof *out);
}

/* `states` [2][TILE][group] and `values` [TILE][group][v_dim]: of all ranges so far, and of one. */
INLINE void run_ranges(const lm_attention_args *a, void *memory, running *states, float *values, begin_fn *begin, page_fn *against,
                       join_fn *join, finish_fn *finish)
{
    for (uint32_t from = 0; from < a->rows; from += TILE) {
        lm_attention_args t = tile_of(a, from), part = aside(&t, values);
        uint32_t range = first_seen(&t, t.position) / LM_RANGE, last = (t.position + t.rows - 1) / LM_RANGE, n = t.rows * t.group;
        if (begin)
            begin(&t, memory);
        pages_of_range(&t, memory, states, range, against);
        while (range++ < last) {
            pages_of_range(&part, memory, states + n, range, against);
            for (uint32_t i = 0; i < n; i++)
                join_part(&states[i], out_of(&t, i / t.group, i % t.group), &states[n + i], values + (uint64_t)i * t.kv->v_dim,
                          t.kv->v_dim, join);
        }
        for (uint32_t i = 0; i < n; i++)
            finish(a, &states[i], i % t.group, out_of(&t, i / t.group, i % t.group));
    }
}

/* A part's values [rows][group][v_dim], then its states [rows][group]. */
INLINE void run_part(const lm_attention_args *a, void *memory, uint32_t range, void *part, begin_fn *begin, page_fn *against)
{
    float *values = part;
    uint64_t n = (uint64_t)a->rows * a->group;
    running *states = (running *)(void *)(values + n * a->kv->v_dim);

    for (uint32_t from = 0; from < a->rows; from += TILE) {
        lm_attention_args t = tile_of(a, from);
        t = aside(&t, values + (uint64_t)from * a->group * a->kv->v_dim);
        if (begin)
            begin(&t, memory);
        pages_of_range(&t, memory, states + from * a->group, range, against);
    }
}

INLINE void merge_parts(const lm_attention_args *a, const void *parts, uint32_t n, join_fn *join, finish_fn *finish)
{
    uint64_t queries = (uint64_t)a->rows * a->group, bytes = lm_attention_part_bytes(a->kv, queries);
    uint32_t width = a->kv->v_dim;

    for (uint32_t i = 0; i < queries; i++) {
        running s = { -INFINITY, 0.0f };
        float *out = out_of(a, i / a->group, i % a->group);
        for (uint32_t k = 0; k < n; k++) {
            const float *values = (const float *)(const void *)((const uint8_t *)parts + k * bytes);
            const running *states = (const running *)(const void *)(values + queries * width);
            join_part(&s, out, &states[i], values + (uint64_t)i * width, width, join);
        }
        finish(a, &s, i % a->group, out);
    }
}

#endif
