/* bf16_amx.c - matrices of bfloat16 times rows rounded to bfloat16, by tdpbf16ps: products exact, sums in
 * float32.
 *
 * Strips are those of bf16_strips.h, sixteen pairs of columns per tile. An output's sum over a tile, separate
 * for even and odd columns, is added to the earlier sums in ascending order. The instruction computes each
 * row of x independently, so one row and many rows give the same bits. Two tiles of x are multiplied with two
 * strips: four products for four loads. */
#include <immintrin.h>

#include "kernels/x86/amx/levels_amx.h"
#include "kernels/x86/amx/tiles_amx.h"
#include "kernels/x86/avx512/bf16_strips.h"
#include "kernels/x86/avx512/epilogue_avx512.h"

enum { R = LM_STRIP_ROWS, TOKENS = 2 * TILE_ROWS, GROUP_BYTES = 512 << 10, AHEAD = 4096 };

#define INLINE static inline __attribute__((always_inline))

typedef struct operands {
    const uint8_t *w, *other;        /* strips */
    const uint8_t *x, *below;        /* first rows of tiles */
    uint64_t x_stride, lines;        /* of 32 columns */
    uint64_t ahead;                  /* prefetch distance in bytes; 0: no prefetch */
    float   *y;                      /* [4][TILE_ROWS * R]: both strips of the first tile, then of the
                                        second */
} operands;

INLINE void tile(const operands *given, const int strips, const int tiles)
{
    const operands o = *given;

    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint64_t k = 0; k < o.lines; k++) {
        for (uint64_t i = 0; o.ahead && i < 1024; i += 64) {
            _mm_prefetch((const char *)o.w + 1024 * k + o.ahead + i, _MM_HINT_T1);
            if (strips == 2)
                _mm_prefetch((const char *)o.other + 1024 * k + o.ahead + i, _MM_HINT_T1);
        }
        _tile_loadd(6, o.w + 1024 * k, 64);
        _tile_loadd(4, o.x + 64 * k, o.x_stride);
        _tile_dpbf16ps(0, 4, 6);
        if (strips == 2) {
            _tile_loadd(7, o.other + 1024 * k, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (tiles == 2) {
            _tile_loadd(5, o.below + 64 * k, o.x_stride);
            _tile_dpbf16ps(2, 5, 6);
            if (strips == 2)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, o.y, 64);
    _tile_stored(1, o.y + TILE_ROWS * R, 64);
    _tile_stored(2, o.y + 2 * TILE_ROWS * R, 64);
    _tile_stored(3, o.y + 3 * TILE_ROWS * R, 64);
}

/* Configure the tiles for two tiles of x with `first` and `second` rows; `second` may be 0. */
static void configure(uint64_t first, uint64_t second)
{
    tile_config c = { .palette = 1 };

    for (int i = 0; i < TILES; i++) {
        bool below = i == 2 || i == 3 || i == 5;
        c.row_bytes[i] = 64;
        c.rows[i]      = (uint8_t)(i >= 6 ? TILE_ROWS : !below ? first : second ? second : 1);
    }
    tiles_configure(&c);
}

/* Multiply rows [r, r + tokens) with the strip of outputs at onwards and, if `strips` is 2, that of outputs
 * other onwards. */
static void one_tile(const lm_matmul_args *a, operands *o, uint64_t r, uint64_t tokens, int strips,
                     uint64_t at, uint64_t other)
{
    uint64_t strip = lm_bf16_strip(a->cols), first = (tokens + 1) / 2;

    if (tokens <= TILE_ROWS)
        first = tokens;
    o->w     = (const uint8_t *)a->w + at / R * strip;
    o->other = (const uint8_t *)a->w + other / R * strip;
    o->x     = (const uint8_t *)a->x + r * a->x_stride;
    o->below = o->x + first * a->x_stride;
    if (strips == 2 && first < tokens)
        tile(o, 2, 2);
    else if (strips == 2)
        tile(o, 2, 1);
    else if (first < tokens)
        tile(o, 1, 2);
    else
        tile(o, 1, 1);
    for (int s = 0; s < strips; s++) {
        const float *y = o->y + s * TILE_ROWS * R;
        lm_put_rows(a, r, first, s ? other : at, (const __m512 *)(const void *)y);
        if (first < tokens)
            lm_put_rows(a, r + first, tokens - first, s ? other : at,
                        (const __m512 *)(const void *)(y + 2 * TILE_ROWS * R));
    }
}

/* As in strips_avx512.c: few rows read two sequential streams, many rows share a group of strips in the
 * second-level cache. */
static void run(const lm_matmul_args *a)
{
    _Alignas(64) float y[4 * TILE_ROWS * R];
    uint64_t strip = lm_bf16_strip(a->cols), n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2;
    uint64_t cuts = (a->n + TOKENS - 1) / TOKENS,
             group = cuts > 1 ? 2 * R * (1 + GROUP_BYTES / (2 * strip + 1)) : R * n, configured = 0;
    operands o = { .x_stride = a->x_stride, .lines = lm_bf16_pairs(a->cols) / 16, .y = y };

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t c = 0; c < cuts; c++) {
            uint64_t r = a->n * c / cuts, tokens = a->n * (c + 1) / cuts - r;
            if (tokens != configured)
                configure(tokens <= TILE_ROWS ? tokens : (tokens + 1) / 2,
                          tokens <= TILE_ROWS ? 0 : tokens / 2);
            configured = tokens;
            for (uint64_t i = 0; cuts == 1 && i < half; i++) {
                o.ahead = AHEAD;
                one_tile(a, &o, r, tokens, half + i < n ? 2 : 1, from + i * R, from + (half + i) * R);
            }
            for (uint64_t at = from; cuts > 1 && at < to; at += 2 * R) {
                o.ahead = c == 0 && at + group + 2 * R <= a->last ? group / R * strip : 0;
                one_tile(a, &o, r, tokens, to - at > R ? 2 : 1, at, at + R);
            }
        }
    }
    tiles_release();
}

static const lm_matmul strips_bf16 = {
    .name = "bf16 strips amx",
    .x = &lm_activation_bf16,
    .arithmetic = LM_ARITHMETIC_BF16,
    .row_group = 2 * R,
    .packed_bytes = lm_bf16_packed_bytes,
    .pack = lm_bf16_pack,
    .run = run,
    .row = lm_bf16_row,
};

void lm_bf16_init_amx(lm_kernels *k)
{
    k->fast[LM_BF16] = &strips_bf16;
}
