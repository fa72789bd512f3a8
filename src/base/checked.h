/* checked.h - arithmetic on untrusted sizes. Each function returns false on overflow and does not change
 * *out. */
#ifndef LM_BASE_CHECKED_H
#define LM_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For sums and products of bounded sizes that may not fit 64 bits. */
__extension__ typedef unsigned __int128 lm_wide;

static inline bool lm_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool lm_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Round n up to a multiple of `to` (a power of two). */
static inline bool lm_align_u64(uint64_t n, uint64_t to, uint64_t *out)
{
    uint64_t r;
    if (!lm_add_u64(n, to - 1, &r))
        return false;
    *out = r & ~(to - 1);
    return true;
}

#endif
