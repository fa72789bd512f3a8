/* heap.h - count and limit a thread's heap allocations, to bound the cost of one request.
 *
 *   lm_heap_watch w = { .more = ask, .arg = budget };
 *   lm_heap_begin(&w);                     start counting this thread's allocations
 *   …                                      library functions return LM_NO_MEMORY if `more` returns false
 *   kept = lm_heap_end(&w);                bytes allocated and not freed
 *
 * Counts the library's allocations on the watching thread, with the C library's rounding. Memory of engines
 * and mapped files is not included: see lm_engine_predict. Threads: a watch belongs to the thread that began
 * it. */
#ifndef LAMINA_HEAP_H
#define LAMINA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LM_HEAP_STEP (UINT64_C(1) << 16)     /* `more` is asked for so many bytes at least: once for many
                                                allocations */

typedef struct lm_heap_watch {
    /* Whether `bytes` more may be allocated; if true, they count as granted. false: the allocation fails.
     * NULL: no limit. Called in the thread of the watch. */
    bool     (*more)(void *arg, uint64_t bytes);
    void      *arg;
    uint64_t   granted;              /* by `more` so far */
    int64_t    held;                 /* bytes allocated since the beginning minus bytes freed; may be
                                        negative */
    uint64_t   wanted;               /* size of the first rejected allocation; 0: none */
    uint64_t   reserved[4];          /* zero */
} lm_heap_watch;

/* Start a watch. A thread has one at a time; a new one ends the previous. `w` must not move until
 * lm_heap_end. */
void     lm_heap_begin(lm_heap_watch *w);
/* End the watch. Returns the bytes held, or 0 if more were freed than allocated. */
uint64_t lm_heap_end(lm_heap_watch *w);

/* Counted malloc and free, for allocations of the program or of other libraries. Memory of lm_heap_alloc may
 * also be passed to free, which is not counted. */
void    *lm_heap_alloc(size_t bytes);
void     lm_heap_free(void *p);

#ifdef __cplusplus
}
#endif
#endif
