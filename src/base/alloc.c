/* alloc.c - the counted heap, and the accounting of one thread (lamina/heap.h). */
#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lamina/heap.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

static atomic_uint_fast64_t calls, live, aligned, fail_at;

/* Count one allocation; false: it is the one that a test makes fail. */
static bool admit(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&fail_at, memory_order_relaxed);
    while (n)
        if (atomic_compare_exchange_weak(&fail_at, &n, n - 1))
            return n != 1;
    return true;
}

/* ---- accounting of one thread ---- */

static _Thread_local lm_heap_watch *watch;

void lm_heap_begin(lm_heap_watch *w)
{
    watch = w;
}

uint64_t lm_heap_end(lm_heap_watch *w)
{
    if (watch == w)
        watch = NULL;
    return w && w->held > 0 ? (uint64_t)w->held : 0;
}

/* Return whether this thread may allocate that many more bytes. */
static bool may_take(size_t bytes)
{
    lm_heap_watch *w = watch;

    if (!w || !w->more || bytes > INT64_MAX / 2)
        return true;
    int64_t missing = w->held + (int64_t)bytes - (int64_t)w->granted;
    if (missing <= 0)
        return true;
    uint64_t max = (uint64_t)missing > LM_HEAP_STEP ? (uint64_t)missing : LM_HEAP_STEP;
    if (!w->more(w->arg, max)) {
        w->wanted = w->wanted ? w->wanted : max;
        return false;
    }
    w->granted += max;
    return true;
}

/* ---- counters of all threads ---- */

static void count(int64_t bytes)
{
    if (watch)
        watch->held += bytes;
    atomic_fetch_add_explicit(&live, (uint64_t)bytes, memory_order_relaxed);
}

static void *counted(void *p)
{
    if (p)
        count((int64_t)malloc_usable_size(p));
    return p;
}

void *lm_alloc(size_t bytes)
{
    return admit() && may_take(bytes) ? counted(malloc(bytes ? bytes : 1)) : NULL;
}

void *lm_alloc_zero(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || !admit() || !may_take(bytes))
        return NULL;
    return counted(calloc(bytes ? bytes : 1, 1));
}

void *lm_realloc(void *p, size_t bytes)
{
    size_t before = p ? malloc_usable_size(p) : 0;

    if (!admit() || (bytes > before && !may_take(bytes - before)))
        return NULL;
    void *q = realloc(p, bytes ? bytes : 1);
    if (q) {
        count(-(int64_t)before);
        counted(q);
    }
    return q;
}

void lm_free(void *p)
{
    if (p)
        count(-(int64_t)malloc_usable_size(p));
    free(p);
}

void *lm_heap_alloc(size_t bytes)
{
    return lm_alloc(bytes);
}

void lm_heap_free(void *p)
{
    lm_free(p);
}

char *lm_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char  *p = lm_alloc(n);

    if (p)
        memcpy(p, s, n);
    return p;
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) & ~(page - 1);
}

/* Map memory that begins at a huge-page boundary, so that the kernel may back it with huge pages; the kernel
 * zeroes it lazily. More is mapped than requested; what lies before the boundary and after the end is
 * unmapped. Without MAP_NORESERVE, memory that the machine can never provide is refused here, instead of the
 * process being killed later. */
static void *map_huge(size_t bytes)
{
    size_t kept, padded;

    if (bytes > SIZE_MAX / 2)
        return NULL;
    kept      = whole_pages(bytes);
    padded    = kept + HUGE_PAGE;
    char *raw = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    char *start = (char *)(((uintptr_t)raw + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (start > raw)
        munmap(raw, (size_t)(start - raw));
    if (start + kept < raw + padded)
        munmap(start + kept, (size_t)(raw + padded - (start + kept)));
    madvise(start, kept, MADV_HUGEPAGE);
    return start;
}

void *lm_alloc_aligned(size_t bytes, size_t alignment)
{
    void *p = NULL;

    if (!admit() || !alignment || alignment & (alignment - 1) || alignment > HUGE_PAGE)
        return NULL;
    if (bytes >= HUGE_PAGE) {
        p = map_huge(bytes);
    } else if (posix_memalign(&p, alignment < sizeof(void *) ? sizeof(void *) : alignment,
                              bytes ? bytes : 1) == 0) {
        memset(p, 0, bytes);
    } else {
        p = NULL;
    }
    if (!p)
        return NULL;
    atomic_fetch_add_explicit(&aligned, bytes, memory_order_relaxed);
    return p;
}

void *lm_alloc_counted(size_t bytes, size_t alignment, uint64_t *counted)
{
    void *p = lm_alloc_aligned(bytes, alignment);

    *counted += p ? bytes : 0;
    return p;
}

void lm_free_aligned(void *p, size_t bytes)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&aligned, bytes, memory_order_relaxed);
    if (bytes >= HUGE_PAGE)
        munmap(p, whole_pages(bytes));
    else
        free(p);
}

lm_alloc_stats lm_alloc_statistics(void)
{
    uint64_t a = atomic_load_explicit(&aligned, memory_order_relaxed);

    return (lm_alloc_stats){ atomic_load_explicit(&calls, memory_order_relaxed),
                             atomic_load_explicit(&live, memory_order_relaxed) + a, a };
}

void lm_alloc_fail_at(uint64_t n)
{
    atomic_store(&fail_at, n);
}
