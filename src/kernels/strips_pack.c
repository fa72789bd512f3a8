/* strips_pack.c - pack the blocks of a file into strips in plain C, row by row. */
#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#define INLINE static                /* one copy for all types: thirteen instrumented ones compile for a
                                        minute and a half */
#else
#define INLINE static inline __attribute__((always_inline))
#endif

enum { LANES = 1 };

typedef uint32_t words;

#include "kernels/strips_pack_lanes.h"

INLINE void four_words(const stored_rows r, uint64_t at, words out[4])
{
    memcpy(out, r.p + at, 16);
}

INLINE void put_words(uint8_t *to, words w)
{
    memcpy(to, &w, 4);
}

INLINE void put_bytes(uint8_t *to, uint64_t step, words w)
{
    for (int j = 0; j < 4; j++)
        to[(uint64_t)j * step] = (uint8_t)(w >> 8 * j);
}

INLINE void ahead(const uint8_t *p)
{
    (void)p;
}

#define ROW(id, word, ...) { id, __VA_ARGS__ },
static const lm_strip_layout layouts[] = { LM_STRIP_LAYOUTS(ROW) };

const lm_strip_layout *lm_strip_of(lm_dtype type)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

uint64_t lm_strip_packed_bytes(const lm_strip_layout *l, uint64_t rows, uint64_t cols)
{
    return ((rows + R - 1) / R * lm_strip_bytes(l, cols) + 63) & ~UINT64_C(63);
}

void lm_strip_pack(const lm_strip_layout *l, void *dst, const void *stored, uint64_t rows, uint64_t cols,
                   uint64_t first, uint64_t last)
{
    (void)rows;
    pack_type(l, dst, stored, cols, first, last);
}
