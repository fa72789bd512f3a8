/* strips_avx512.c - integer arithmetic on strips of sixteen rows: quantised weights times the rows of q8_rows.h, by vpdpbusd.
 *
 * One output is one lane. For each unit of 32 columns, in rising order: y += w's d * integer sum + w's m * (sum of x), in units of
 * the d of a group of x's blocks, from one group to the next times its ratio and at the end times d; what the blocks that stand out
 * have in high bytes follows when all that is done. No order depends on how many rows of x there are; integer sums are exact in any
 * order. Codes with a sign are read with an offset that the start of the integer sum takes back.
 *
 * Two strips at a time: a broadcast of four activations serves two dot products, which keeps loads from being the limit; up to
 * six rows of x, as many as there are registers for. Conversions, shifts and masks run beside dot products, multiplications do
 * not: eight dot products and one multiply-add a unit and one multiplication a group make 87 % of the peak the most that can be had.
 * A minimum or a scale for each 16 columns is one more a unit. Where rows are many, a group of strips is unpacked once into
 * a panel that all tiles read: numbers as float32, and codes as bytes where those take more to unpack than fits beside the
 * products. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strip_kernel.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/epilogue_avx512.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "kernels/x86/avx512/strip_types_avx512.h"
#include "kernels/x86/avx512/tile_avx512.h"

enum { LEAST_ROWS = 4, GROUP_BYTES = 256 << 10 };
enum { FEW = 24, AHEAD = 8192 };     /* rows that are few; bytes that the fewest prefetch ahead */
enum { PANEL_ROWS = 192 };           /* rows of x from which on a panel pays */

/* ---- tiles of a matrix -------------------------------------------------------------------------------------------- */

typedef void tile_fn(const operands *o, __m512 acc[2][TOKENS]);
typedef void high_fn(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS]);

/* A tile for each number of strips and rows. */
typedef struct tiles {
    uint64_t rows;                   /* of the largest */
    tile_fn *of[2][TOKENS];
    high_fn *high[2];
    void   (*unpack)(const uint8_t *strip, uint64_t cols, uint8_t *panel);   /* NULL: panels do not pay */
    uint32_t unit;                   /* bytes, of a panel */
    const struct tiles *panel;       /* tiles of five and six rows on those */
} tiles;

static lm_q8_row row_of(const lm_matmul_args *a, uint64_t r)
{
    return lm_q8_row_at((const uint8_t *)a->x + r * a->x_stride, a->cols);
}

/* Rows [r, r + tokens) of x as a tile reads them. */
static void take_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, operands *o)
{
    unsigned n = 0;

    for (uint64_t j = 0; j < tokens; j++) {
        lm_q8_row x = row_of(a, r + j);
        o->x[j] = (const uint8_t *)x.low;
        uint32_t wide = n + x.head->wide <= HIGHS ? x.head->wide : 0;
        for (uint32_t i = 0; i < wide; i++) {
            _mm_prefetch((const char *)&x.high[x.listed[i]], _MM_HINT_T1);
            o->high[n + i] = (high_at){ x.listed[i], (uint32_t)j };
        }
        n = wide == x.head->wide ? n + wide : HIGHS + 1;
    }
    o->n_high = n;
}

/* One tile: outputs at.. and, where there are two strips, other... */
static void one_tile(const lm_matmul_args *a, const tiles *t, const operands *o, uint64_t r, uint64_t tokens, int strips, uint64_t at,
                     uint64_t other)
{
    __m512 y[2][TOKENS];

    lm_prefetch_rows(a, r, tokens, at);
    if (strips == 2)
        lm_prefetch_rows(a, r, tokens, other);
    t->of[strips - 1][tokens - 1](o, y);
    if (o->n_high)
        t->high[strips - 1](o, tokens, y);
    lm_put_rows(a, r, tokens, at, y[0]);
    if (strips == 2)
        lm_put_rows(a, r, tokens, other, y[1]);
}

/* A few rows: every strip is read once, from memory as a rule. Strips of the first half go with those of the second, so that
 * there are two streams without a jump in them. All tiles of rows read a pair before the next, and each prefetches its part of
 * that: memory is read all the time. One row prefetches `ahead` bytes. */
static void run_few(const lm_matmul_args *a, const tiles *t, uint64_t strip, uint64_t ahead)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2, cuts = (a->n + t->rows - 1) / t->rows;
    operands o[FEW / LEAST_ROWS];
    high_at high[FEW / LEAST_ROWS][HIGHS];

    for (uint64_t c = 0; c < cuts; c++) {
        uint64_t r = a->n * c / cuts;
        o[c] = (operands){ .strip = half * strip, .cols = a->cols, .turn = c, .turns = cuts,
                           .ahead = a->n == 1 ? ahead : cuts == 1 ? AHEAD : strip, .high = high[c] };
        take_rows(a, r, a->n * (c + 1) / cuts - r, &o[c]);
    }
    for (uint64_t i = 0; i < half; i++) {
        for (uint64_t c = 0; c < cuts; c++) {
            uint64_t r = a->n * c / cuts;
            o[c].w = (const uint8_t *)a->w + (a->first / R + i) * strip;
            one_tile(a, t, &o[c], r, a->n * (c + 1) / cuts - r, half + i < n ? 2 : 1, a->first + i * R, a->first + (half + i) * R);
        }
    }
}

/* Rows of x in tiles of nearly equal size against the strips at w of outputs [from, to); the first tile prefetches. */
static void all_rows(const lm_matmul_args *a, const tiles *t, const uint8_t *w, uint64_t strip, uint64_t from, uint64_t to, uint64_t ahead)
{
    uint64_t cuts = (a->n + t->rows - 1) / t->rows;
    high_at high[HIGHS];
    operands o = { .strip = strip, .cols = a->cols, .turns = 1, .high = high };

    for (uint64_t i = 0; i < cuts; i++) {
        uint64_t r = a->n * i / cuts, tokens = a->n * (i + 1) / cuts - r;
        take_rows(a, r, tokens, &o);
        o.ahead = i == 0 ? ahead : 0;
        for (uint64_t at = from; at < to; at += 2 * R) {
            o.w = w + (at - from) / R * strip;
            o.below = to - at <= 2 * R && i + 1 < cuts ? tokens * a->x_stride : 0;
            one_tile(a, t, &o, r, tokens, to - at > R ? 2 : 1, at, at + R);
        }
    }
}

/* Many: a group of strips that fits in the second-level cache is used for all of them before the next one. */
static void run_many(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t group = 2 * R * (1 + GROUP_BYTES / (2 * strip + 1));

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        all_rows(a, t, (const uint8_t *)a->w + from / R * strip, strip, from, to, to + group <= a->last ? group / R * strip : 0);
    }
}

/* Strips of a panel whose units have so many bytes. */
static uint64_t panel_strips(uint64_t cols, uint64_t unit)
{
    return 2 * (1 + GROUP_BYTES / (2 * (cols / 32 * unit) + 1));
}

/* Enough for every type. */
static uint64_t panel_bytes(uint64_t cols)
{
    uint64_t unit = panel_numbers(MINUS, 2) + 32 * R;

    return 2 * cols / 32 * unit + GROUP_BYTES;
}

/* The same, each group unpacked first. Its tiles prefetch the strips of the next. */
static void run_panels(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t strips = panel_strips(a->cols, t->panel->unit), group = R * strips, bytes = a->cols / 32 * t->panel->unit;
    uint8_t *panel = a->scratch;

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        const uint8_t *w = (const uint8_t *)a->w + from / R * strip;
        for (uint64_t at = from; at < to; at += R)
            t->unpack(w + (at - from) / R * strip, a->cols, panel + (at - from) / R * bytes);
        all_rows(a, t->panel, panel, bytes, from, to, to < a->last ? (uintptr_t)(w + strips * strip) - (uintptr_t)panel : 0);
    }
}

static void run(const lm_matmul_args *a, const tiles *t, uint64_t strip, uint64_t ahead)
{
    if (a->n <= FEW)
        run_few(a, t, strip, ahead);
    else if (t->panel && a->n >= PANEL_ROWS)
        run_panels(a, t, strip);
    else
        run_many(a, t, strip);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Rows of the largest tile on panels: with six, starts of Q6_K, which are shifted for each half, cost more than loads of weights. */
#define PANEL_ROWS_OF(offset, halves) ((halves) == 2 && (offset) == 32 ? 4 : TOKENS)

#define TILE(word, strips, tokens, ...)                                                                           \
    static void tile_##word##_##strips##_##tokens(const operands *o, __m512 acc[2][TOKENS])                       \
    {                                                                                                             \
        tile(TRAITS(__VA_ARGS__), o, strips, tokens, acc);                                                        \
    }
#define HIGH(word, strips, ...)                                                                                    \
    static void high_##word##_##strips(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS])                  \
    {                                                                                                             \
        high_bytes(TRAITS(__VA_ARGS__), o, tokens, strips, acc);                                                   \
    }

/* Tiles of a type on its panels: of bytes; of numbers, with the codes as they are; none. */
#define PANEL_TRAITS(codes, bytes, sign, offset, halves) \
    codes, d_panel, m_panel_##halves, sign, offset, halves, panel_numbers(sign, halves) / R, panel_numbers(sign, halves) / R + (bytes), 0
#define PANEL_TILES(word, codes, bytes, sign, offset, halves)                                                     \
    TILE(word##_panel, 1, 3, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 1, 4, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 2, 3, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 2, 4, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 1, 5, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 1, 6, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 2, 5, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    TILE(word##_panel, 2, 6, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                    \
    HIGH(word##_panel, 1, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                        \
    HIGH(word##_panel, 2, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                        \
    static const tiles panel_##word = {                                                                           \
        .rows = PANEL_ROWS_OF(offset, halves),                                                                                \
        .unit = R * (4 * (halves) * ((sign) == NO_MINIMUM ? 1 : 2) + (bytes)),                                    \
        .of = { { [2] = tile_##word##_panel_1_3, tile_##word##_panel_1_4, tile_##word##_panel_1_5, tile_##word##_panel_1_6 },  \
                { [2] = tile_##word##_panel_2_3, tile_##word##_panel_2_4, tile_##word##_panel_2_5, tile_##word##_panel_2_6 } }, \
        .high = { high_##word##_panel_1, high_##word##_panel_2 },                                                    \
    };
#define UNPACK(word, bytes, ...)                                                                                  \
    static void unpack_##word(const uint8_t *strip, uint64_t cols, uint8_t *panel)                                \
    {                                                                                                             \
        unpack(TRAITS(__VA_ARGS__), strip, cols, panel, bytes);                                                   \
    }
#define BYTES(word, codes, d, m, sign, offset, halves, ...)                                                       \
    PANEL_TILES(word, c_panel, 32, sign, offset, halves)                                                          \
    UNPACK(word, true, codes, d, m, sign, offset, halves, __VA_ARGS__)
#define NUMBERS(word, codes, d, m, sign, offset, halves, numbers, unit, head)                                     \
    PANEL_TILES(word, codes, (unit) - (numbers), sign, offset, halves)                                            \
    UNPACK(word, false, codes, d, m, sign, offset, halves, numbers, unit, head)
#define STRIPS_ONLY(word, ...)
#define BYTES_OF(word) .unpack = unpack_##word, .panel = &panel_##word,
#define NUMBERS_OF(word) BYTES_OF(word)
#define STRIPS_ONLY_OF(word)
#define BYTES_SCRATCH panel_bytes
#define NUMBERS_SCRATCH panel_bytes
#define STRIPS_ONLY_SCRATCH NULL

#define X(id, word, kind, ...)                                                                                   \
    TILE(word, 1, 1, __VA_ARGS__) TILE(word, 1, 2, __VA_ARGS__) TILE(word, 1, 3, __VA_ARGS__)                    \
    TILE(word, 1, 4, __VA_ARGS__) TILE(word, 1, 5, __VA_ARGS__) TILE(word, 1, 6, __VA_ARGS__)                    \
    TILE(word, 2, 1, __VA_ARGS__) TILE(word, 2, 2, __VA_ARGS__) TILE(word, 2, 3, __VA_ARGS__)                    \
    TILE(word, 2, 4, __VA_ARGS__) TILE(word, 2, 5, __VA_ARGS__) TILE(word, 2, 6, __VA_ARGS__)                    \
    HIGH(word, 1, __VA_ARGS__) HIGH(word, 2, __VA_ARGS__) kind(word, __VA_ARGS__)                                  \
    static const tiles tiles_##word = {                                                                          \
        .rows = TOKENS,                                                                                          \
        .of = {                                                                                                  \
            { tile_##word##_1_1, tile_##word##_1_2, tile_##word##_1_3, tile_##word##_1_4, tile_##word##_1_5, tile_##word##_1_6 }, \
            { tile_##word##_2_1, tile_##word##_2_2, tile_##word##_2_3, tile_##word##_2_4, tile_##word##_2_5, tile_##word##_2_6 }, \
        },                                                                                                       \
        .high = { high_##word##_1, high_##word##_2 },                                                               \
        kind##_OF(word)                                                                                          \
    };                                                                                                           \
    static void run_ahead_##word(const lm_matmul_args *a, uint64_t ahead)                                        \
    {                                                                                                            \
        run(a, &tiles_##word, lm_strip_bytes(lm_strip_of(id), a->cols), ahead);                                  \
    }                                                                                                            \
    static void run_##word(const lm_matmul_args *a)                                                              \
    {                                                                                                            \
        run_ahead_##word(a, 0);                                                                                  \
    }                                                                                                            \
    LM_STRIP_KERNEL(id, word, "avx512vnni", &lm_activation_q8_avx512, 2 * R, kind##_SCRATCH)
STRIPS(X)
#undef X

lm_run_ahead_fn *lm_strips_ahead_avx512vnni(lm_dtype type)
{
    switch ((int)type) {
#define X(id, word, ...) \
    case id: return run_ahead_##word;
        STRIPS(X)
#undef X
    default: return NULL;
    }
}

void lm_strips_init_avx512vnni(lm_kernels *k)
{
#define X(id, word, kind, ...) k->fast[id] = &strips_##word;
    STRIPS(X)
#undef X
}
