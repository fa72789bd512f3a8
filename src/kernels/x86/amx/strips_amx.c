/* strips_amx.c - prompt processing with AMX tiles: strips of quantised weights times sixteen rows of
 * q8_rows.h at once, by tdpbssd.
 *
 * The results are bit-identical to those of strips_avx512.c. A tile product gives the integer sums of a unit
 * for sixteen outputs and sixteen rows, which are exact in any order; the float32 operations on them are the
 * same in the same order, with a row of a tile in a vector. So small numbers of rows use those kernels, and a
 * prompt may be split anywhere.
 *
 * A group of strips is unpacked into a panel: numbers as float32, codes as signed bytes. Four tiles of x at a
 * time stay in registers while all strips of the group are multiplied; the sums of each strip go to memory,
 * and vectors read them one strip later. These stores are the bottleneck: sixteen vectors for sixteen
 * products of a vector each. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strip_kernel.h"
#include "kernels/x86/amx/levels_amx.h"
#include "kernels/x86/amx/tiles_amx.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/epilogue_avx512.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "kernels/x86/avx512/strip_types_avx512.h"

enum { LEAST_ROWS = 32, GROUP_BYTES = 512 << 10 };
enum { AT_ONCE = 4 };                /* tiles of x in registers */
enum { SUMS = R * TILE_ROWS };       /* sums of a tile of x and a strip */

/* A tile of rows of x, multiplied with the strips of a group one after the other. */
typedef struct pass {
    const uint8_t *panel;
    uint64_t strip;                  /* bytes of a strip in the panel */
    uint64_t strips, cols, tokens;
    const uint8_t *x[TILE_ROWS];     /* first blocks of the rows; beyond `tokens`, the last row is repeated */
    uint64_t x_stride;
    int32_t *sums;                   /* [AT_ONCE][SUMS] */
    float   *acc;                    /* [strips][SUMS] */
} pass;

INLINE const lm_q8_block *block_of(const pass *p, int row, uint64_t b)
{
    return (const void *)(p->x[row] + 64 * b);
}

/* The start of a few tiles of a strip. */
typedef struct place {
    const uint8_t *unit;             /* of `block` */
    uint64_t block;
    float   *acc;
} place;

INLINE place place_of(const traits t, const pass *p, uint64_t s, uint64_t b)
{
    return (place){ p->panel + s * p->strip + b * t.unit, b, p->acc + s * SUMS };
}

/* Add the sums of tile i to the rows of v. */
INLINE void join(const traits t, const pass *p, const place *at, const int i, __m512 v[TILE_ROWS])
{
    const int half = i % t.halves;
    const lm_unit_at numbers = { .unit = at->unit + (unsigned)(i / t.halves) * t.unit };
    __m512 d = t.d(numbers, half), m = t.m(numbers, half);

#pragma GCC unroll 16
    for (int j = 0; j < TILE_ROWS; j++) {
        const lm_q8_block *x = block_of(p, j, at->block + (unsigned)(i / t.halves));
        v[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(p->sums + i * SUMS + R * j)), d, v[j]);
        if (t.sign == PLUS)
            v[j] = _mm512_fmadd_ps(m, _mm512_set1_ps(t.halves == 2 ? x->half_sum[half] : x->sum), v[j]);
    }
}

/* Interleave the products of `count` tiles at one place with the joins of the previous place; either may be
 * NULL. Tile instructions take so long that vector instructions must run in parallel with each. A tile's sums
 * are read just before the next ones overwrite them. */
INLINE void step(const traits t, const pass *p, const place *at, const place *before, const int count)
{
    __m512 v[TILE_ROWS];

#pragma GCC unroll 16
    for (int j = 0; j < TILE_ROWS; j++)
        v[j] = before && before->block ? _mm512_load_ps(before->acc + R * j) : _mm512_setzero_ps();
    if (before && before->block % LM_Q8_GROUP == 0) {
#pragma GCC unroll 16
        for (int j = 0; j < TILE_ROWS; j++)
            v[j] = _mm512_mul_ps(v[j], _mm512_set1_ps(block_of(p, j, before->block)->ratio));
    }
#define MULTIPLY(i, c, with)                                                                                 \
    if ((i) < count && at) {                                                                                 \
        _tile_zero(c);                                                                                       \
        _tile_loadd(with, at->unit + (unsigned)((i) / t.halves) * t.unit + t.numbers + (i) % t.halves * 256, \
                    64);                                                                                     \
        _tile_dpbssd(c, i, with);                                                                            \
    }
#define KEEP(i, c)         \
    if ((i) < count && at) \
        _tile_stored(c, p->sums + (i) * SUMS, 64);
#define JOIN(i)                \
    if ((i) < count && before) \
        join(t, p, before, i, v);
    MULTIPLY(0, 4, 6)
    JOIN(0)
    MULTIPLY(1, 5, 7)
    KEEP(0, 4)
    JOIN(1)
    MULTIPLY(2, 4, 6)
    KEEP(1, 5)
    JOIN(2)
    MULTIPLY(3, 5, 7)
    KEEP(2, 4)
    JOIN(3)
    KEEP(3, 5)
#undef JOIN
#undef KEEP
#undef MULTIPLY
    if (before) {
#pragma GCC unroll 16
        for (int j = 0; j < TILE_ROWS; j++)
            _mm512_store_ps(before->acc + R * j, v[j]);
    }
}

/* Multiply all strips with the columns of `count` tiles from block b on. The last strip is joined during the
 * next call, or by last_strip. fresh: no earlier strip remains to be joined. */
INLINE void columns(const traits t, const pass *p, uint64_t b, const int count, const bool fresh)
{
    const uint64_t blocks = (unsigned)(count / t.halves),
                   next = b + blocks < p->cols / 32 ? 64 * (b + blocks) : p->tokens * p->x_stride;
    const uint8_t *x = p->x[0] + 64 * b;
    place at = place_of(t, p, 0, b);

    _tile_loadd(0, x, p->x_stride);
    if (count > 1)
        _tile_loadd(1, x + 1 % t.halves * 16 + 1 / t.halves * 64, p->x_stride);
    if (count > 2)
        _tile_loadd(2, x + 2 / t.halves * 64, p->x_stride);
    if (count > 3)
        _tile_loadd(3, x + 3 % t.halves * 16 + 3 / t.halves * 64, p->x_stride);
    if (fresh) {
        step(t, p, &at, NULL, count);
    } else {
        const place last = place_of(t, p, p->strips - 1, b - blocks);
        step(t, p, &at, &last, count);
    }
    for (uint64_t s = 1; s < p->strips; s++) {
        const place before = at;
        at = place_of(t, p, s, b);
        /* the next columns of x, or the next tile's first */
        for (uint64_t j = s - 1; j < TILE_ROWS; j += p->strips - 1)
            for (uint64_t i = 0; i < blocks; i++)
                _mm_prefetch((const char *)p->x[j] + next + 64 * i, _MM_HINT_T0);
        step(t, p, &at, &before, count);
    }
}

INLINE void last_strip(const traits t, const pass *p, uint64_t b, const int count)
{
    const place last = place_of(t, p, p->strips - 1, b);

    step(t, p, NULL, &last, count);
}

/* Multiply by d of the last group and add the products of the high bytes, for one or two strips of row j. */
INLINE void end_row(const traits t, const pass *p, uint64_t j, uint64_t s, const int strips)
{
    const operands o = { .w = p->panel + s * p->strip, .strip = strips == 2 ? p->strip : 0, .cols = p->cols };
    const lm_q8_row x = lm_q8_row_of_low(p->x[j], p->cols);
    __m512 d = _mm512_set1_ps(x.low[p->cols / 32 - 1].d), v[2];
    float *acc[2] = { p->acc + s * SUMS + R * j, p->acc + (s + (unsigned)strips - 1) * SUMS + R * j };

    v[0] = _mm512_mul_ps(_mm512_load_ps(acc[0]), d);
    v[1] = _mm512_mul_ps(_mm512_load_ps(acc[1]), d);
    for (uint32_t i = 0; i < x.head->wide; i++)
        high_block(t, &o, p->x[j], x.listed[i], v);
    _mm512_store_ps(acc[0], v[0]);
    if (strips == 2)
        _mm512_store_ps(acc[1], v[1]);
}

/* Multiply all columns of all rows of a tile. */
INLINE void rows(const traits t, const pass *p)
{
    const uint64_t blocks = p->cols / 32, at_once = AT_ONCE / (unsigned)t.halves;
    uint64_t b = 0, s = 0;

    if (blocks >= at_once) {
        columns(t, p, 0, AT_ONCE, true);
        for (b = at_once; b + at_once <= blocks; b += at_once)
            columns(t, p, b, AT_ONCE, false);
        last_strip(t, p, b - at_once, AT_ONCE);
    }
    if (t.halves == 1 && b + 2 <= blocks) {
        columns(t, p, b, 2, true);
        last_strip(t, p, b, 2);
        b += 2;
    }
    if (b < blocks) {
        columns(t, p, b, t.halves, true);
        last_strip(t, p, b, t.halves);
    }
    for (; s + 2 <= p->strips; s += 2)
        for (uint64_t j = 0; j < p->tokens; j++)
            end_row(t, p, j, s, 2);
    for (uint64_t j = 0; j < p->tokens && s < p->strips; j++)
        end_row(t, p, j, s, 1);
}

/* ---- a matrix
 * ---------------------------------------------------------------------------------------------------- */

/* The properties of a type that remain in a panel. */
typedef struct form {
    void   (*unpack)(const uint8_t *strip, uint64_t cols, uint8_t *panel);
    void   (*rows)(const pass *p);
    uint32_t unit;                   /* bytes */
    uint8_t  halves;
} form;

static uint64_t group_strips(uint64_t cols, uint64_t unit)
{
    return 1 + GROUP_BYTES / (cols / 32 * unit + 1);
}

/* Return scratch that suffices for every type. */
static uint64_t scratch_bytes(uint64_t cols)
{
    uint64_t min = cols / 32 * (64 + 32 * R), max = cols / 32 * LM_PANEL_UNIT(MINUS, 2, 32);
    uint64_t strips = 1 + GROUP_BYTES / (min + 1);

    return 4 * SUMS * (AT_ONCE + strips) + GROUP_BYTES + max;
}

static void take_tile(const lm_matmul_args *a, uint64_t r, uint64_t tokens, const form *f, pass *p)
{
    if (p->tokens != tokens) {
        tile_config c = { .palette = 1 };
        for (int i = 0; i < TILES; i++) {
            const int b = i >= 6;
            c.rows[i] = (uint8_t)(b ? 8 / (unsigned)f->halves : tokens);
            c.row_bytes[i] = (uint16_t)(i < AT_ONCE ? 32 / f->halves : 64);
        }
        tiles_configure(&c);
        p->tokens = tokens;
    }
    for (uint64_t j = 0; j < TILE_ROWS; j++) {
        uint64_t row = r + (j < tokens ? j : tokens - 1);
        p->x[j] = (const uint8_t *)lm_q8_row_at((const uint8_t *)a->x + row * a->x_stride, a->cols).low;
    }
}

static void run(const lm_matmul_args *a, const form *f, uint64_t strip)
{
    const uint64_t group = group_strips(a->cols, f->unit), bytes = a->cols / 32 * f->unit,
                   tiles = (a->n + TILE_ROWS - 1) / TILE_ROWS;
    int32_t *sums = a->scratch;
    float *acc = (float *)(sums + AT_ONCE * SUMS);
    uint8_t *panel = (uint8_t *)(acc + group * SUMS);
    pass p = {
        .panel = panel, .strip = bytes, .cols = a->cols, .x_stride = a->x_stride, .sums = sums, .acc = acc
    };

    for (uint64_t from = a->first; from < a->last; from += group * R) {
        p.strips = (a->last - from + R - 1) / R < group ? (a->last - from + R - 1) / R : group;
        for (uint64_t s = 0; s < p.strips; s++)
            f->unpack((const uint8_t *)a->w + (from / R + s) * strip, a->cols, panel + s * bytes);
        for (uint64_t i = 0; i < tiles; i++) {
            uint64_t r = a->n * i / tiles, tokens = a->n * (i + 1) / tiles - r;
            take_tile(a, r, tokens, f, &p);
            f->rows(&p);
            for (uint64_t s = 0; s < p.strips; s++)
                lm_put_rows(a, r, tokens, from + s * R, (const __m512 *)(const void *)(acc + s * SUMS));
        }
    }
    tiles_release();
}

/* ---- kernel table
 * ------------------------------------------------------------------------------------------------ */

#define FORM(word, sign, halves)                            \
    static void rows_##word(const pass *p)                  \
    {                                                       \
        rows(LM_PANEL(c_bytes, sign, 128, halves, 32), p);  \
    }

FORM(plain, NO_MINIMUM, 1)
FORM(plain_halves, NO_MINIMUM, 2)
FORM(minimum, PLUS, 1)
FORM(minimum_halves, PLUS, 2)

typedef void rows_fn(const pass *p);

static rows_fn *const rows_of[2][2] = { { rows_plain, rows_plain_halves },
                                        { rows_minimum, rows_minimum_halves } };

/* Codes are signed bytes: their offset is 0. */
#define X(id, word, kind, codes, d, m, sign, offset, halves)                                  \
    static void unpack_##word(const uint8_t *strip, uint64_t cols, uint8_t *panel)            \
    {                                                                                         \
        unpack(TRAITS(word, codes, d, m, sign, offset, halves), strip, cols, panel, true, 0); \
    }                                                                                         \
    static void run_##word(const lm_matmul_args *a)                                           \
    {                                                                                         \
        const form f = { unpack_##word, rows_of[(sign) != NO_MINIMUM][(halves) - 1],          \
                         LM_PANEL_UNIT(sign, halves, 32), halves };                           \
        if (a->n < LEAST_ROWS)                                                                \
            lm_strips_two_ports(id)->run(a);                                                  \
        else                                                                                  \
            run(a, &f, lm_strip_bytes(lm_strip_of(id), a->cols));                             \
    }                                                                                         \
    LM_STRIP_KERNEL(id, word, "amx", &lm_activation_q8_avx512, 2 * R, scratch_bytes, lm_strip_pack_avx2)
STRIPS(X)
#undef X

void lm_strips_init_amx(lm_kernels *k)
{
#define X(id, word, ...) k->fast[id] = &strips_##word;
    STRIPS(X)
#undef X
}
