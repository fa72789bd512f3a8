/* memory.h - the heap of the server. Its memory counts for the request whose thread allocates it, like that
 * of the library and of jansson, and can be refused to a request that holds too much: see lamina/heap.h.
 *
 * lm_heap_free frees what these return. NULL: out of memory. Threads: any. Memory that one thread allocates
 * and another frees is given back with its exchange. */
#ifndef LM_SERVER_MEMORY_H
#define LM_SERVER_MEMORY_H

#include <string.h>

#include "lamina/heap.h"

/* Allocate n zeroed objects of `size` bytes. */
static inline void *lm_memory_zero(size_t n, size_t size)
{
    size_t bytes;
    void *p = __builtin_mul_overflow(n, size, &bytes) ? NULL : lm_heap_alloc(bytes);

    return p ? memset(p, 0, bytes) : NULL;
}

/* Copy `bytes` bytes of a text, and end them with a NUL. */
static inline char *lm_memory_text(const char *text, size_t bytes)
{
    char *p = lm_heap_alloc(bytes + 1);

    if (p) {
        memcpy(p, text, bytes);
        p[bytes] = 0;
    }
    return p;
}

/* Move `used` bytes of `p` (NULL: none) to a block of `bytes`. On failure `p` is unchanged. */
static inline void *lm_memory_grow(void *p, size_t used, size_t bytes)
{
    void *more = lm_heap_alloc(bytes);

    if (more && used)
        memcpy(more, p, used);
    if (more)
        lm_heap_free(p);
    return more;
}

#endif
