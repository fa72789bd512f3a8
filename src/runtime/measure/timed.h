/* timed.h - the parts of a forecast: products timed on this machine, and what all timings share. */
#ifndef LM_RUNTIME_TIMED_H
#define LM_RUNTIME_TIMED_H

#include "base/os/clock.h"
#include "plan/cost.h"
#include "runtime/engine/steps.h"

#define LM_TIMED_WINDOW 0.05         /* seconds per measurement */
#define LM_TIMED_SHAPES 64

/* The speed of a kernel on matrices of one shape that are read from memory. */
typedef struct lm_product_rate {
    const lm_matmul *matmul;
    lm_dtype         type;
    uint64_t         rows, cols, n;  /* n: rows of x */
    double           seconds;        /* 0: unknown */
} lm_product_rate;

typedef struct lm_product_rates {
    lm_product_rate at[LM_TIMED_SHAPES];
    size_t          n;
} lm_product_rates;

/* Time every product of a forward pass that `r` does not contain, with the threads that the pool uses. */
lm_status lm_time_products(lm_engine *g, lm_product_rates *r, const lm_forward *f, lm_error *e);
/* Return the seconds of a step's products in a forward pass; products that were not timed count as 0 and set
 * *unknown. */
double lm_product_seconds(lm_engine *g, const lm_product_rates *r, const lm_step *s, const lm_forward *f,
                          bool *unknown);
/* Return how many bytes kernels are timed on: as many as the model has, so that caches hold as large a part
 * of a small model. */
uint64_t lm_timed_bytes(const lm_engine *g);
/* Fill n values like those of activations and weights: bell-shaped enough, none tiny. */
void lm_timed_fill(float *x, uint64_t n, float size);


/* Round up to whole cache lines. */
static inline uint64_t lm_timed_rounded(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

#endif
