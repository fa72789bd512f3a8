/* timed.h - what a forecast is put together from: products timed on this machine, and what all timings use. */
#ifndef LM_RUNTIME_TIMED_H
#define LM_RUNTIME_TIMED_H

#include "base/clock.h"
#include "plan/cost.h"
#include "runtime/engine/steps.h"

#define LM_TIMED_WINDOW 0.05         /* seconds for each figure */
#define LM_TIMED_SHAPES 64

/* A kernel on matrices of one shape, from memory. */
typedef struct lm_product_rate {
    const lm_matmul *matmul;
    lm_dtype         type;
    uint64_t         rows, cols, n;  /* n: rows of x */
    double           seconds;        /* 0: not known */
} lm_product_rate;

typedef struct lm_product_rates {
    lm_product_rate at[LM_TIMED_SHAPES];
    size_t          n;
} lm_product_rates;

/* Time every product of a forward that `r` has no figure for, with the threads that the pool uses. */
lm_status lm_time_products(lm_engine *g, lm_product_rates *r, const lm_forward *f, lm_error *e);
/* Seconds of a step's products in a forward; what was not timed counts nothing and sets *unknown. */
double lm_product_seconds(lm_engine *g, const lm_product_rates *r, const lm_step *s, const lm_forward *f, bool *unknown);
/* Bytes that kernels are timed on: as many as the model has, so that a small model finds as much of itself in the caches. */
uint64_t lm_timed_bytes(const lm_engine *g);
/* n values as activations and weights have them: bell-shaped enough, none tiny. */
void lm_timed_fill(float *x, uint64_t n, float size);


/* Up to whole lines of a cache. */
static inline uint64_t lm_timed_rounded(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

#endif
