/* heap.h - what a thread takes from the heap, counted and bounded: for programs that bound what one request may cost.
 *
 *   lm_heap_watch w = { .more = ask, .arg = budget };
 *   lm_heap_begin(&w);                     this thread's allocations count from here on
 *   …                                      anything: the library's functions report LM_NO_MEMORY where `more` refuses
 *   kept = lm_heap_end(&w);                bytes that were taken and not given back
 *
 * Counted is what the library allocates and frees, as the C library rounds it up, on the thread that watches. The memory of engines
 * and files is not: lm_engine_predict tells that. Threads: a watch belongs to the thread that has begun it. */
#ifndef LAMINA_HEAP_H
#define LAMINA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LM_HEAP_STEP (UINT64_C(1) << 16)     /* `more` is asked for so many bytes at least: once for many allocations */

typedef struct lm_heap_watch {
    /* Whether `bytes` more may be held, which counts as taken then. false: the allocation fails. NULL: any number. */
    bool     (*more)(void *arg, uint64_t bytes);
    void      *arg;
    uint64_t   granted;              /* by `more` so far */
    int64_t    held;                 /* bytes taken since the beginning, less those given back; negative: more were given back */
    uint64_t   wanted;               /* of the first allocation that was refused; 0: none was */
    uint64_t   reserved[4];          /* zero */
} lm_heap_watch;

/* One at a time for each thread: another ends the one before. `w` stays where it is until lm_heap_end. */
void     lm_heap_begin(lm_heap_watch *w);
/* Bytes held, 0 where more were given back than taken. */
uint64_t lm_heap_end(lm_heap_watch *w);

/* malloc and free that are counted, for what the program itself or another library allocates. Memory of lm_heap_take may be given to free,
 * which is not counted. */
void    *lm_heap_take(size_t bytes);
void     lm_heap_give(void *p);

#ifdef __cplusplus
}
#endif
#endif
