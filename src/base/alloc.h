/* alloc.h - the only access to the heap, so that allocations can be counted, and made to fail in tests. */
#ifndef LM_BASE_ALLOC_H
#define LM_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* malloc, calloc, realloc and free with counters. NULL: out of memory. n * size is checked. */
void *lm_alloc(size_t bytes);
void *lm_alloc_zero(size_t n, size_t size);
void *lm_realloc(void *p, size_t bytes);
void  lm_free(void *p);
char *lm_strdup(const char *s);

/* Allocate `bytes` of zeroed memory aligned to `alignment` (a power of two, at most 2 MiB). Large blocks come
 * from anonymous mappings with huge pages requested. Free them with lm_free_aligned and the same size. */
void *lm_alloc_aligned(size_t bytes, size_t alignment);
void  lm_free_aligned(void *p, size_t bytes);

/* Like lm_alloc_aligned, and add the bytes allocated to *counted: the count of one owner, whatever other
 * threads allocate. */
void *lm_alloc_counted(size_t bytes, size_t alignment, uint64_t *counted);

typedef struct lm_alloc_stats {
    uint64_t calls;          /* allocations made since the start, all threads */
    uint64_t live_bytes;     /* not yet freed (as the C library rounds them up) */
    uint64_t aligned_bytes;  /* those of lm_alloc_aligned, exactly as requested */
} lm_alloc_stats;

lm_alloc_stats lm_alloc_statistics(void);

/* Make the n-th allocation from now on fail (0: none). For tests. */
void lm_alloc_fail_at(uint64_t n);

#endif
