/* checked.h - arithmetic on sizes that came from outside. Each returns false on overflow and leaves *out alone. */
#ifndef LM_BASE_CHECKED_H
#define LM_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What sums and products of sizes that are bounded themselves are kept in when 64 bits may not hold them. */
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

/* The smallest multiple of `to` (a power of two) that is >= n. */
static inline bool lm_align_u64(uint64_t n, uint64_t to, uint64_t *out)
{
    uint64_t r;
    if (!lm_add_u64(n, to - 1, &r))
        return false;
    *out = r & ~(to - 1);
    return true;
}

#endif
