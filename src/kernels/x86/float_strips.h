/* float_strips.h - float32 arithmetic on matrices of float32, float16 and bfloat16, in strips. The code is
 * shared by all vector widths. A file that includes it first defines
 *
 *   LEVEL         the name of its kernels, "avx2"
 *   LANES         floats in a vector, of type V, and its operations: load_f32, load_f16, load_bf16,
 *                 broadcast, zero, add, fma_into
 *   STEP_bf16     adjacent columns: 1, or 2, as pairs (bf16_strips.h); STEP_f32 and STEP_f16 are 1
 *   FEW, STRIPS   up to FEW rows of x use two strips at a time, more rows use STRIPS
 *   TOKENS        rows of x in a tile; STRIPS * 16 / LANES * TOKENS sums are in registers
 *   store()       stores outputs o onwards of a row
 *
 * A strip is sixteen rows of the matrix, the lanes of vectors, and one stream of columns in their stored
 * type: [cols][16], or in pairs, [cols / 2][16][2], of which one load and one shift or mask make a column.
 * The last strip is padded with rows of zeros. One output is one lane: sums over COLUMNS columns in ascending
 * order, added in ascending order, in every tile. (Several shorter sums are more accurate than a single one,
 * and cost a load and a store each.) */
#ifndef LM_KERNELS_FLOAT_STRIPS_H
#define LM_KERNELS_FLOAT_STRIPS_H

#include <string.h>

#include "kernels/x86/avx2/levels_avx2.h"

enum {
    R = LM_FLOAT_ROWS,
    PARTS = R / LANES,
    COLUMNS = LM_FLOAT_COLUMNS,
    GROUP_BYTES = 256 << 10,
    AHEAD = 8192,
    NEAR = 1024
};

#define INLINE static inline __attribute__((always_inline))

typedef V load_fn(const uint8_t *p, const int odd);      /* loads sixteen or eight rows of a column; odd: the
                                                            second of a pair */

/* Strips at w and w + other; rows of x. */
typedef struct operands {
    const uint8_t *w;
    uint64_t other, cols;
    uint64_t ahead, near;            /* prefetch distances in bytes, to the second and the first-level cache;
                                        0: no prefetch */
    const float *x[TOKENS > FEW ? TOKENS : FEW];
} operands;

typedef struct sums {
    V of[2][PARTS][TOKENS > FEW ? TOKENS : FEW];
} sums;

/* Multiply column k, which is at p, and that of the second strip at q. */
INLINE void column(const operands *o, load_fn *load, const uint32_t size, const uint8_t *p, const uint8_t *q,
                   uint64_t k, const int odd, const int strips, const int tokens, sums *s)
{
    V w[2][PARTS];

#pragma GCC unroll 2
    for (int part = 0; part < PARTS; part++) {
        w[0][part] = load(p + size * LANES * (unsigned)part, odd);
        w[1][part] = strips == 2 ? load(q + size * LANES * (unsigned)part, odd) : w[0][part];
    }
#pragma GCC unroll 8
    for (int j = 0; j < tokens; j++) {
        V x = broadcast(o->x[j] + k);
#pragma GCC unroll 2
        for (int i = 0; i < strips; i++)
#pragma GCC unroll 2
            for (int part = 0; part < PARTS; part++)
                fma_into(&s->of[i][part][j], w[i][part], x);
    }
}

/* Multiply columns [from, to) of one or two strips with `tokens` rows of x; `from` is a multiple of
 * `step`. */
INLINE void columns(const operands *o, load_fn *load, const uint32_t size, const int step, uint64_t from,
                    uint64_t to, const int strips, const int tokens, sums *total)
{
    const uint64_t bytes = (uint64_t)step * size * R;
    const uint8_t *p = o->w + from * size * R, *q = p + o->other;
    uint64_t k = from;
    sums s;

#pragma GCC unroll 2
    for (int i = 0; i < strips; i++)
#pragma GCC unroll 2
        for (int part = 0; part < PARTS; part++)
#pragma GCC unroll 8
            for (int j = 0; j < tokens; j++)
                s.of[i][part][j] = zero();
    for (; k + (unsigned)step <= to; k += (unsigned)step, p += bytes, q += bytes) {
        if (o->ahead) {
            _mm_prefetch((const char *)p + o->ahead, _MM_HINT_T1);
            if (strips == 2)
                _mm_prefetch((const char *)q + o->ahead, _MM_HINT_T1);
        }
        if (tokens <= 4 && o->near) {
            _mm_prefetch((const char *)p + o->near, _MM_HINT_T0);
            if (strips == 2)
                _mm_prefetch((const char *)q + o->near, _MM_HINT_T0);
        }
        column(o, load, size, p, q, k, 0, strips, tokens, &s);
        if (step == 2)
            column(o, load, size, p, q, k + 1, 1, strips, tokens, &s);
    }
    if (step == 2 && k < to)
        column(o, load, size, p, q, k, 0, strips, tokens, &s);
#pragma GCC unroll 2
    for (int i = 0; i < strips; i++)
#pragma GCC unroll 2
        for (int part = 0; part < PARTS; part++)
#pragma GCC unroll 8
            for (int j = 0; j < tokens; j++)
                total->of[i][part][j] = from ? add(total->of[i][part][j], s.of[i][part][j])
                                             : s.of[i][part][j];
}

INLINE void tile(const operands *given, load_fn *load, const uint32_t size, const int step, const int strips,
                 const int tokens, sums *total)
{
    const operands o = *given;       /* a copy that cannot alias stays in registers */

    for (uint64_t from = 0; from < o.cols; from += COLUMNS)
        columns(&o, load, size, step, from, o.cols - from < COLUMNS ? o.cols : from + COLUMNS, strips, tokens,
                total);
}

typedef void tile_fn(const operands *o, sums *total);

/* Compute one tile: outputs at onwards and, if `strips` is 2, outputs other onwards. */
INLINE void one_tile(const lm_matmul_args *a, tile_fn *f, operands *o, uint64_t r, uint64_t tokens,
                     int strips, uint64_t at, uint64_t other)
{
    sums total;

    for (uint64_t j = 0; j < tokens; j++)
        o->x[j] = (const float *)(const void *)((const uint8_t *)a->x + (r + j) * a->x_stride);
    f(o, &total);
    for (int i = 0; i < strips; i++)
        for (uint64_t j = 0; j < tokens; j++)
            for (int part = 0; part < PARTS; part++)
                store(a, r + j, (i ? other : at) + LANES * (unsigned)part, total.of[i][part][j]);
}

/* As in strips_avx512.c: few rows read two sequential streams, many rows share a group of strips in the
 * second-level cache. reads_ahead: a single row also prefetches, and up to four rows also prefetch to the
 * first-level cache. */
static void run(const lm_matmul_args *a, tile_fn *const (*tiles)[TOKENS > FEW ? TOKENS : FEW], uint64_t strip,
                bool reads_ahead)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2;
    uint64_t group = STRIPS * R * (1 + GROUP_BYTES / (STRIPS * strip + 1)),
             cuts = (a->n + TOKENS - 1) / TOKENS;
    operands o = { .cols = a->cols };

    if (a->n <= FEW) {
        o.other = half * strip;
        o.ahead = a->n > 1 ? AHEAD : reads_ahead ? AHEAD / 2 : 0;
        o.near = reads_ahead ? NEAR : 0;
        for (uint64_t i = 0; i < half; i++) {
            int strips = half + i < n ? 2 : 1;
            o.w = (const uint8_t *)a->w + (a->first / R + i) * strip;
            one_tile(a, tiles[strips - 1][a->n - 1], &o, 0, a->n, strips, a->first + i * R,
                     a->first + (half + i) * R);
        }
        return;
    }
    o.other = strip;
    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t i = 0; i < cuts; i++) {
            uint64_t r = a->n * i / cuts, tokens = a->n * (i + 1) / cuts - r;
            for (uint64_t at = from; at < to; at += STRIPS * R) {
                int strips = STRIPS == 2 && to - at > R ? 2 : 1;
                o.w = (const uint8_t *)a->w + at / R * strip;
                o.ahead = i == 0 && at + group + STRIPS * R <= a->last ? group / R * strip : 0;
                one_tile(a, tiles[strips - 1][tokens - 1], &o, r, tokens, strips, at, at + R);
            }
        }
    }
}

#define TILE(word, size, strips, tokens)                                          \
    static void tile_##word##_##strips##_##tokens(const operands *o, sums *total) \
    {                                                                             \
        tile(o, load_##word, size, STEP_##word, strips, tokens, total);           \
    }

/* The layout of single columns. */
#define COLUMNS_LAYOUT(id, word, size)                                                             \
    static uint64_t strip_##word(uint64_t cols)                                                    \
    {                                                                                              \
        return cols * (size) * R;                                                                  \
    }                                                                                              \
    static uint64_t bytes_##word(uint64_t rows, uint64_t cols)                                     \
    {                                                                                              \
        return lm_float_strips_bytes(size, rows, cols);                                            \
    }                                                                                              \
    static void pack_##word(void *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t from, \
                            uint64_t to)                                                           \
    {                                                                                              \
        (void)rows;                                                                                \
        lm_float_strips_pack(size, dst, w, cols, from, to);                                        \
    }                                                                                              \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row)  \
    {                                                                                              \
        (void)rows;                                                                                \
        lm_float_strips_row(id, dst, w, cols, row);                                                \
    }

/* Define the kernel `record`_WORD, after its layout and tiles. */
#define RECORD(record, word, ahead, stored)                  \
    static void record##_run_##word(const lm_matmul_args *a) \
    {                                                        \
        run(a, tiles_##word, strip_##word(a->cols), ahead);  \
    }                                                        \
    static const lm_matmul record##_##word = {               \
        .name = #word " strips " LEVEL,                      \
        .x = &lm_activation_f32,                             \
        .row_group = 2 * R,                                  \
        .packed_bytes = bytes_##word,                        \
        .pack = pack_##word,                                 \
        .run = record##_run_##word,                          \
        .run_stored = stored,                                \
        .row = row_##word,                                   \
    };

#endif
