/* best.c - choose by radix: the k-th largest number is found byte by byte, then indices are written in one
 * pass, so that ties fall to the lowest. */
#include "runtime/ops/best.h"

#include <string.h>

/* Return bits whose order as integers is that of the numbers. 0 and -0, which are equal scores, are equal. */
static uint32_t ordered(float x)
{
    uint32_t bits;

    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* Return the k-th largest of the numbers as ordered bits, and in *above how many are larger. */
static uint32_t threshold(const float *x, uint32_t n, uint32_t k, uint32_t *above)
{
    uint32_t prefix = 0, mask = 0, left = k;

    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t count[256] = { 0 }, byte = 255;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t bits = ordered(x[i]);
            count[bits >> shift & 255] += (bits & mask) == prefix;
        }
        while (count[byte] < left)
            left -= count[byte--];
        prefix |= byte << shift;
        mask |= UINT32_C(255) << shift;
    }
    *above = k - left;
    return prefix;
}

void lm_best(const float *x, uint32_t n, uint32_t k, float *out)
{
    uint32_t above, least = threshold(x, n, k, &above), equal = k - above;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = ordered(x[i]);
        if (bits < least || (bits == least && !equal))
            continue;
        equal -= bits == least;
        *out++ = (float)i;
    }
}
