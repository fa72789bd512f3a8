/* ring.c - one writer, one reader. A record is a head of 16 bytes with its size, then its bytes. A record
 * that would pass the end of the memory begins at its start, and a head with SKIP marks the gap. `head` and
 * `tail` are sequentially consistent with the flags of the thread that sleeps until they change. */
#include "schedule/ring.h"

#include <string.h>

#include "base/alloc.h"

enum { HEAD = 16, SKIP = 0x7fffffff };

static uint32_t whole(uint32_t n)
{
    return HEAD + (n + HEAD - 1) / HEAD * HEAD;
}

lm_status lm_ring_open(lm_ring *r, uint32_t size, lm_error *e)
{
    uint32_t n = 1024;

    while (n < size && n < UINT32_C(1) << 30)
        n *= 2;
    *r = (lm_ring){ .bytes = lm_alloc_aligned(n, 64), .size = n };
    return r->bytes ? LM_OK : lm_fail_memory(e, "the reply", n);
}

void lm_ring_close(lm_ring *r)
{
    if (r->bytes)
        lm_free_aligned(r->bytes, r->size);
    r->bytes = NULL;
}

static uint32_t *size_at(const lm_ring *r, uint32_t at)
{
    return (uint32_t *)(void *)(r->bytes + (at & (r->size - 1)));
}

/* The gap at the end of the memory is never larger than the largest record. */
bool lm_ring_fits(const lm_ring *r, uint32_t n)
{
    uint32_t used = atomic_load(&r->head) - atomic_load(&r->tail);

    return (uint64_t)used + 2 * (uint64_t)n + 2 * HEAD <= r->size;
}

void *lm_ring_add(lm_ring *r, uint32_t n)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire), at = r->open,
             end = r->size - (at & (r->size - 1));
    uint32_t skipped = whole(n) > end ? end : 0;

    if (n > r->size / 2 || (uint64_t)(at - tail) + skipped + whole(n) > r->size)
        return NULL;
    if (skipped)
        *size_at(r, at) = SKIP;
    at += skipped;
    *size_at(r, at) = n;
    r->open         = at + whole(n);
    return r->bytes + (at & (r->size - 1)) + HEAD;
}

void lm_ring_publish(lm_ring *r)
{
    atomic_store(&r->head, r->open);
}

const void *lm_ring_next(lm_ring *r, uint32_t *n)
{
    uint32_t head = atomic_load(&r->head), at = atomic_load_explicit(&r->tail, memory_order_relaxed);

    if (at == head)
        return NULL;
    if (*size_at(r, at) == SKIP)
        at += r->size - (at & (r->size - 1));
    *n      = *size_at(r, at);
    r->seen = at + whole(*n);
    return r->bytes + (at & (r->size - 1)) + HEAD;
}

void lm_ring_done(lm_ring *r)
{
    atomic_store(&r->tail, r->seen);
}
