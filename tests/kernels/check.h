/* check.h - what the kernel tests share: guarded memory, random numbers from a printed seed, levels,
 * failures, timing. */
#ifndef LM_TEST_KERNELS_CHECK_H
#define LM_TEST_KERNELS_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

/* One instruction set under test. */
typedef struct level {
    const char *name;
    lm_cpu      cpu;
    lm_kernels  k;
} level;

/* Allocate memory that ends at an inaccessible page, with canaries in front. `misaligned` bytes, which are
 * canaries too, stay between its end and that page, for odd addresses. */
void *guarded(size_t bytes, size_t misaligned);
/* Free guarded memory; a changed canary is reported as a failure. */
void  guarded_free(void *p);

/* The random generator; `--seed` sets its seed, which every run prints. */
uint32_t rnd(void);
uint32_t rnd_below(uint32_t n);
float    rnd_normal(void);
void     rnd_floats(float *x, size_t n, float scale);

/* Fill rows * cols elements with random blocks of a type whose values are finite and plausible. */
void     rnd_matrix(lm_dtype type, void *dst, uint64_t rows, uint64_t cols);

/* Count a check; report the first few failures of a case. The message says where, e.g. "q4_1 avx2 33x288 n=3
 * output 7". */
void     check(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* |got - want| <= bound, or both NaN, or the same infinity. */
void     check_close(double got, double want, double bound, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool     same_bits(float a, float b);       /* or both NaN */

/* Return the seconds of one call, the minimum of several; `--bench` only. */
double   best_seconds(void (*call)(void *), void *arg);

/* Check every kernel of a level that no previous level had. */
void check_rows(const level *l);
void check_matmul(const level *l);
void check_attention(const level *l);
void check_batches(const level *l);
void bench_rows(const level *l);
void bench_matmul(const level *l);
void bench_attention(const level *l);

#endif
