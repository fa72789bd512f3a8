/* bf16_avx512.c - matrices of bfloat16 times rows rounded to bfloat16, by vdpbf16ps: products exact, sums in
 * float32.
 *
 * Strips are those of bf16_strips.h. One output is one lane, summed over pairs in ascending order in every
 * tile. Two strips are processed at a time, so that a broadcast serves two instructions, with up to six
 * rows. */
#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx512/bf16_strips.h"
#include "kernels/x86/avx512/epilogue_avx512.h"
#include "kernels/x86/avx512/levels_avx512.h"

enum { R = LM_STRIP_ROWS, TOKENS = 6, FEW = 24, GROUP_BYTES = 512 << 10, AHEAD = 8192 };

#define INLINE static inline __attribute__((always_inline))

/* ---- rows of x
 * --------------------------------------------------------------------------------------------------- */

static uint64_t row_bytes(uint64_t cols)
{
    return lm_bf16_pairs(cols) * 4;
}

static void pack_row(void *dst, const float *x, uint64_t cols)
{
    uint16_t *y = dst;

    for (uint64_t i = 0; i < 2 * lm_bf16_pairs(cols); i += 16) {
        __mmask16 lanes = (__mmask16)(i + 16 <= cols ? 0xffffu : i < cols ? (1u << (cols - i)) - 1 : 0u);
        _mm256_store_si256((void *)(y + i), (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i)));
    }
}

const lm_activation lm_activation_bf16 = { .name = "bf16", .bytes = row_bytes, .pack = pack_row };

/* ---- products
 * ---------------------------------------------------------------------------------------------------- */

typedef struct operands {
    const uint8_t *w;
    uint64_t strip, pairs;
    uint64_t ahead, turn, turns;     /* lines turn, turn + turns, … prefetch `ahead` bytes further; 0: no
                                        prefetch */
    const uint8_t *x[TOKENS];
} operands;

INLINE void tile(const operands *given, const int strips, const int tokens, __m512 out[2][TOKENS])
{
    const operands o = *given;
    const uint8_t *p = o.w, *q = o.w + o.strip;
    uint64_t next = o.ahead ? o.turn : UINT64_MAX;
    __m512 acc[2][TOKENS];

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        acc[0][j] = acc[1][j] = _mm512_setzero_ps();
    for (uint64_t k = 0; k < o.pairs; k++, p += 64, q += 64) {
        __m512i w0 = _mm512_loadu_si512(p), w1 = strips == 2 ? _mm512_loadu_si512(q) : w0;
        if (k == next) {
            _mm_prefetch((const char *)p + o.ahead, _MM_HINT_T1);
            if (strips == 2)
                _mm_prefetch((const char *)q + o.ahead, _MM_HINT_T1);
            next += o.turns;
        }
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++) {
            int32_t pair;
            memcpy(&pair, o.x[j] + 4 * k, 4);
            __m512i x = _mm512_set1_epi32(pair);
            __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc[0][j]) : "v"(w0), "v"(x));
            if (strips == 2)
                __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc[1][j]) : "v"(w1), "v"(x));
        }
    }
#pragma GCC unroll 2
    for (int s = 0; s < strips; s++)
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            out[s][j] = acc[s][j];
}

#define TILE(strips, tokens)                                                    \
    static void tile_##strips##_##tokens(const operands *o, __m512 y[2][TOKENS]) \
    {                                                                           \
        tile(o, strips, tokens, y);                                             \
    }
TILE(1, 1) TILE(1, 2) TILE(1, 3) TILE(1, 4) TILE(1, 5) TILE(1, 6)
TILE(2, 1) TILE(2, 2) TILE(2, 3) TILE(2, 4) TILE(2, 5) TILE(2, 6)

static void (*const tiles[2][TOKENS])(const operands *o, __m512 y[2][TOKENS]) = {
    { tile_1_1, tile_1_2, tile_1_3, tile_1_4, tile_1_5, tile_1_6 },
    { tile_2_1, tile_2_2, tile_2_3, tile_2_4, tile_2_5, tile_2_6 },
};

static void one_tile(const lm_matmul_args *a, operands *o, uint64_t r, uint64_t tokens, int strips,
                     uint64_t at, uint64_t other)
{
    __m512 y[2][TOKENS];

    o->w = (const uint8_t *)a->w + at / R * lm_bf16_strip(a->cols);
    for (uint64_t j = 0; j < tokens; j++)
        o->x[j] = (const uint8_t *)a->x + (r + j) * a->x_stride;
    lm_prefetch_rows(a, r, tokens, at);
    if (strips == 2)
        lm_prefetch_rows(a, r, tokens, other);
    tiles[strips - 1][tokens - 1](o, y);
    lm_put_rows(a, r, tokens, at, y[0]);
    if (strips == 2)
        lm_put_rows(a, r, tokens, other, y[1]);
}

/* As in strips_avx512.c: few rows read two sequential streams, and every tile prefetches its part of the next
 * pair; many rows share a group of strips in the second-level cache. */
static void run(const lm_matmul_args *a)
{
    uint64_t strip = lm_bf16_strip(a->cols), n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2;
    uint64_t group = 2 * R * (1 + GROUP_BYTES / (2 * strip + 1)), cuts = (a->n + TOKENS - 1) / TOKENS;
    operands o = { .pairs = lm_bf16_pairs(a->cols), .strip = strip, .turns = 1 };

    if (a->n <= FEW) {
        o.strip = half * strip;
        o.ahead = a->n == 1 ? 0 : cuts == 1 ? AHEAD : strip;
        o.turns = cuts;
        for (uint64_t i = 0; i < half; i++) {
            for (uint64_t c = 0; c < cuts; c++) {
                uint64_t r = a->n * c / cuts;
                o.turn = c;
                one_tile(a, &o, r, a->n * (c + 1) / cuts - r, half + i < n ? 2 : 1, a->first + i * R,
                         a->first + (half + i) * R);
            }
        }
        return;
    }
    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t i = 0; i < cuts; i++) {
            uint64_t r = a->n * i / cuts, tokens = a->n * (i + 1) / cuts - r;
            for (uint64_t at = from; at < to; at += 2 * R) {
                o.ahead = i == 0 && at + group + 2 * R <= a->last ? group / R * strip : 0;
                one_tile(a, &o, r, tokens, to - at > R ? 2 : 1, at, at + R);
            }
        }
    }
}

static const lm_matmul strips_bf16 = {
    .name = "bf16 strips avx512bf16",
    .x = &lm_activation_bf16,
    .arithmetic = LM_ARITHMETIC_BF16,
    .row_group = 2 * R,
    .packed_bytes = lm_bf16_packed_bytes,
    .pack = lm_bf16_pack,
    .run = run,
    .row = lm_bf16_row,
};

void lm_strips_init_avx512bf16(lm_kernels *k)
{
    k->fast[LM_BF16] = &strips_bf16;
}
