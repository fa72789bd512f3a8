/* strips_avx512.c - integer arithmetic on strips of sixteen rows: quantised weights times the rows of q8_rows.h, by vpdpbusd.
 *
 * One output is one lane. For each unit of 32 columns, in rising order: y += w's d * (integer sum * x's d) + w's m * (sum of
 * x); what the blocks that stand out have in low bytes follows when all that is done, row by row. No order depends on how many
 * rows of x there are; integer sums are exact in any order. Codes with a sign are read with an offset that the start of the
 * integer sum takes back.
 *
 * Two strips at a time: a broadcast of four activations serves two dot products, which keeps loads from being the limit; up to
 * six rows of x, as many as there are registers for. Conversions, shifts and masks run beside dot products, multiplications do
 * not: eight dot products, one multiplication and one multiply-add a unit make four fifths of the peak the most that can be had.
 * A minimum is one more. A scale for each 16 columns is one more too, for the halves' sums are added before the scale of x is
 * applied; then four rows are as many as there are registers for. Where rows are many, a group of strips is unpacked once into
 * a panel that all tiles read: numbers as float32, and codes as bytes where those take more to unpack than fits beside the
 * products. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strip_kernel.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/codes_avx512.h"
#include "kernels/x86/avx512/levels_avx512.h"

enum { TOKENS = 6, LEAST_ROWS = 4, LOWS = 256, GROUP_BYTES = 256 << 10 };
enum { FEW = 24, AHEAD = 8192 };     /* rows that are few; bytes that the fewest prefetch ahead */
enum { PANEL_ROWS = 192 };           /* rows of x from which on a panel pays */

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef __m512i code_fn(const uint8_t *p, const int v);
typedef __m512  number_fn(const uint8_t *p, const uint8_t *head, int half);

typedef enum minimum { NO_MINIMUM, PLUS, MINUS } minimum;

/* A type, as constants that every inlined loop sees. */
typedef struct traits {
    code_fn   *codes;
    number_fn *d, *m;
    minimum    sign;                 /* of m */
    int        offset;               /* of the codes */
    int        halves;               /* 2: a scale for each 16 columns */
    uint32_t   numbers, unit, head;  /* bytes of the numbers ahead of the codes, of a unit, ahead of eight */
} traits;

/* A block that has low bytes. */
typedef struct low_at {
    uint32_t block, row;
} low_at;

/* What a tile multiplies: strips at w and w + strip, rows of x from their first block on. */
typedef struct operands {
    const uint8_t *w;
    uint64_t strip;                  /* bytes */
    const uint8_t *x[TOKENS];
    uint64_t cols;
    uint64_t ahead;                  /* prefetch what lies so many bytes further; 0: nothing */
    uint64_t turn, turns;            /* of units turn, turn + turns, … */
    uint64_t below;                  /* prefetch rows so many bytes further; 0: none */
    unsigned n_low;                  /* blocks with low bytes; more than LOWS: they are not in the list */
    low_at *low;                     /* [LOWS], row by row, rising */
} operands;

/* Where an integer sum starts: minus the offset times the sum of the activations' codes. */
INLINE __m512i start_of(const traits t, const uint8_t *block, const int half)
{
    const lm_q8_block *x = (const void *)block;

    if (!t.offset)
        return _mm512_setzero_si512();
    if (t.halves == 2)
        return _mm512_slli_epi32(_mm512_set1_epi32(x->half_start[half]), t.offset == 4 ? 0 : 3);
    if (t.offset == 12)
        return _mm512_add_epi32(_mm512_set1_epi32(x->start), _mm512_srai_epi32(_mm512_set1_epi32(x->start), 1));
    return _mm512_slli_epi32(_mm512_set1_epi32(x->start), t.offset == 8 ? 0 : t.offset == 16 ? 1 : 4);
}

INLINE __m512i four(const uint8_t *x)
{
    int32_t v;
    __builtin_memcpy(&v, x, 4);
    return _mm512_set1_epi32(v);
}

/* Integer sums of a unit, or of half of one. Written out because the compiler would fold the broadcast into every product. */
INLINE void dots(const traits t, const uint8_t *const *x, const uint8_t *const *p, uint64_t at, const int half, const int strips,
                 const int tokens, __m512i sum[2][TOKENS])
{
    const int from = t.halves == 2 ? 4 * half : 0, to = t.halves == 2 ? from + 4 : 8;

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        sum[0][j] = sum[1][j] = start_of(t, x[j] + at, half);
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        __m512i w0 = t.codes(p[0] + t.numbers, v), w1 = strips == 2 ? t.codes(p[1] + t.numbers, v) : w0;
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++) {
            __m512i columns = four(x[j] + at + 4 * v);
            __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[0][j]) : "v"(w0), "v"(columns));
            if (strips == 2)
                __asm__("vpdpbusd %2, %1, %0" : "+v"(sum[1][j]) : "v"(w1), "v"(columns));
        }
    }
}

/* acc += w's d * x's d * integer sum + m * (sum of x). Where halves have a d each, their products with it are added first. */
INLINE void finish(const traits t, const operands *o, const uint8_t *const *p, const uint8_t *const *head, uint64_t b,
                   const int half, const int strips, const int tokens, __m512i sum[2][TOKENS], __m512 first[2][TOKENS],
                   __m512 acc[2][TOKENS])
{
    __m512 d[2], m[2];

#pragma GCC unroll 2
    for (int s = 0; s < strips; s++) {
        d[s] = t.d(p[s], head[s], half);
        m[s] = t.m(p[s], head[s], half);
    }
#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++) {
        const lm_q8_block *x = (const void *)(o->x[j] + 64 * b);
        __m512 total = _mm512_set1_ps(t.halves == 2 ? x->half_sum[half] : x->sum);
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++) {
            __m512 v = _mm512_cvtepi32_ps(sum[s][j]);
            if (t.halves == 1)
                acc[s][j] = _mm512_fmadd_ps(_mm512_mul_ps(v, _mm512_set1_ps(x->d)), d[s], acc[s][j]);
            else if (half == 0)
                first[s][j] = _mm512_mul_ps(v, d[s]);
            else
                acc[s][j] = _mm512_fmadd_ps(_mm512_fmadd_ps(v, d[s], first[s][j]), _mm512_set1_ps(x->d), acc[s][j]);
            if (t.sign == PLUS)
                acc[s][j] = _mm512_fmadd_ps(m[s], total, acc[s][j]);
            if (t.sign == MINUS)
                acc[s][j] = _mm512_fnmadd_ps(m[s], total, acc[s][j]);
        }
    }
}

INLINE void prefetch_unit(const traits t, const uint8_t *p, uint64_t ahead)
{
    for (uint32_t i = 0; i < t.unit; i += 64)
        _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T1);
}

INLINE void copy_sums(__m512 to[2][TOKENS], __m512 from[2][TOKENS], const int strips, const int tokens)
{
#pragma GCC unroll 2
    for (int s = 0; s < strips; s++)
#pragma GCC unroll 6
        for (int j = 0; j < tokens; j++)
            to[s][j] = from[s][j];
}

/* One or two strips against `tokens` rows of x. */
INLINE void tile(const traits t, const operands *given, const int strips, const int tokens, __m512 out[2][TOKENS])
{
    const operands copy = *given, *o = &copy;        /* what nobody else can see stays in registers */
    const uint8_t *p[2] = { o->w, o->w + o->strip }, *head[2] = { p[0], p[1] };
    uint64_t next = o->ahead ? o->turn : UINT64_MAX;
    __m512 acc[2][TOKENS];

#pragma GCC unroll 6
    for (int j = 0; j < tokens; j++)
        acc[0][j] = acc[1][j] = _mm512_setzero_ps();
    for (uint64_t b = 0; b < o->cols / 32; b++) {
        if (t.head && b % 8 == 0) {
            head[0] = p[0];
            head[1] = p[1];
            p[0] += t.head;
            p[1] += t.head;
        }
        if (b == next) {
            prefetch_unit(t, p[0], o->ahead);
            if (strips == 2)
                prefetch_unit(t, p[1], o->ahead);
            next += o->turns;
        }
        if (o->below) {
#pragma GCC unroll 6
            for (int j = 0; j < tokens; j++)
                _mm_prefetch((const char *)o->x[j] + 64 * b + o->below, _MM_HINT_T1);
        }
        __m512 first[2][TOKENS];
#pragma GCC unroll 2
        for (int half = 0; half < t.halves; half++) {
            __m512i sum[2][TOKENS];
            dots(t, o->x, p, 64 * b, half, strips, tokens, sum);
            finish(t, o, p, head, b, half, strips, tokens, sum, first, acc);
        }
        p[0] += t.unit;
        p[1] += t.unit;
    }
    copy_sums(out, acc, strips, tokens);
}

/* acc += what the low bytes of a row give in block b: few have them, and the strips have just been read. */
INLINE void low_block(const traits t, const operands *o, const uint8_t *x, uint64_t b, const int strips, __m512 acc[2])
{
    const uint8_t *unit = o->w + b * t.unit + (b / 8 + 1) * t.head, *eight = unit - b % 8 * t.unit - t.head;
    const uint8_t *p[2] = { unit, unit + o->strip }, *head[2] = { eight, eight + o->strip }, *low = x + 2 * o->cols + 64 * b;
    __m512 d = _mm512_set1_ps(((const lm_q8_block *)(const void *)(x + 64 * b))->d * 0.0078125f);

#pragma GCC unroll 2
    for (int half = 0; half < t.halves; half++) {
        __m512i sum[2][TOKENS];
        dots(t, &low, p, 0, half, strips, 1, sum);
#pragma GCC unroll 2
        for (int s = 0; s < strips; s++)
            acc[s] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum[s][0]), d), t.d(p[s], head[s], half), acc[s]);
    }
}

/* The same in all blocks that have any, rising in each row. A list of them keeps the processor from guessing where rows end. */
INLINE void low_bytes(const traits t, const operands *given, uint64_t tokens, const int strips, __m512 acc[2][TOKENS])
{
    const operands copy = *given, *o = &copy;
    const uint64_t masks = lm_q8_mask_bytes(o->cols);

    for (unsigned i = 0; i < o->n_low && o->n_low <= LOWS; i++) {
        const low_at at = o->low[i];
        __m512 both[2] = { acc[0][at.row], acc[strips - 1][at.row] };
        low_block(t, o, o->x[at.row], at.block, strips, both);
        acc[0][at.row] = both[0];
        acc[strips - 1][at.row] = both[strips - 1];
    }
    for (uint64_t j = 0; j < tokens && o->n_low > LOWS; j++) {
        const uint64_t *wide = (const void *)(o->x[j] - masks);
        __m512 both[2] = { acc[0][j], acc[strips - 1][j] };
        for (uint64_t word = 0; word < masks / 8; word++)
            for (uint64_t left = wide[word]; left; left &= left - 1)
                low_block(t, o, o->x[j], 64 * word + (unsigned)__builtin_ctzll(left), strips, both);
        acc[0][j] = both[0];
        acc[strips - 1][j] = both[strips - 1];
    }
}

INLINE uint32_t panel_numbers(minimum sign, int halves)
{
    return 4u * R * (unsigned)halves * (sign == NO_MINIMUM ? 1 : 2);
}

/* A strip as all tiles read it: for each unit d of both halves and m of both, as float32, then the codes, as bytes or as they are. */
INLINE void unpack(const traits t, const uint8_t *p, uint64_t cols, uint8_t *panel, const bool bytes)
{
    const uint8_t *head = p;

    for (uint64_t b = 0; b < cols / 32; b++, p += t.unit) {
        if (t.head && b % 8 == 0) {
            head = p;
            p += t.head;
        }
#pragma GCC unroll 2
        for (int half = 0; half < t.halves; half++) {
            _mm512_store_ps(panel + 64 * half, t.d(p, head, half));
            if (t.sign != NO_MINIMUM)
                _mm512_store_ps(panel + 64 * (t.halves + half), t.m(p, head, half));
        }
        panel += panel_numbers(t.sign, t.halves);
#pragma GCC unroll 8
        for (int v = 0; v < 8 && bytes; v++, panel += 64)
            _mm512_store_si512(panel, t.codes(p + t.numbers, v));
        for (uint32_t at = t.numbers; at < t.unit && !bytes; at += 64, panel += 64)
            _mm512_store_si512(panel, plane(p + at, 0));
    }
}

/* What the epilogue will touch, asked for when the tile begins: rows of y and `add` are far apart and seldom in a cache. */
INLINE void prefetch_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, uint64_t o)
{
    for (uint64_t j = 0; j < tokens; j++) {
        __asm__ volatile("prefetchw %0" : : "m"(a->y[(r + j) * a->y_stride + o]));
        if (a->add && a->add != a->y)
            _mm_prefetch((const char *)(a->add + (r + j) * a->add_stride + o), _MM_HINT_T1);
    }
}

/* Outputs o.. of rows [r, r + tokens); the last strip may have fewer than sixteen. */
INLINE void put(const lm_matmul_args *a, uint64_t r, uint64_t tokens, uint64_t o, const __m512 *rows)
{
    const __mmask16 lanes = (__mmask16)(a->last - o < R ? (1u << (a->last - o)) - 1 : 0xffffu);
    const __m512 scale = _mm512_set1_ps(a->scale), bias = a->bias ? _mm512_maskz_loadu_ps(lanes, a->bias + o) : _mm512_setzero_ps();
    const float *add = a->add ? a->add + r * a->add_stride + o : NULL;
    float *y = a->y + r * a->y_stride + o;

    for (uint64_t j = 0; j < tokens; j++, y += a->y_stride) {
        __m512 v = a->bias ? _mm512_add_ps(rows[j], bias) : rows[j];
        v = _mm512_mul_ps(v, scale);
        if (add)
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, add + j * a->add_stride));
        _mm512_mask_storeu_ps(y, lanes, v);
    }
}

typedef void tile_fn(const operands *o, __m512 acc[2][TOKENS]);
typedef void low_fn(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS]);

/* A tile for each number of strips and rows. */
typedef struct tiles {
    uint64_t rows;                   /* of the largest */
    tile_fn *of[2][TOKENS];
    low_fn  *low[2];
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
    o->n_low = 0;
    for (uint64_t j = 0; j < tokens; j++) {
        lm_q8_row x = row_of(a, r + j);
        o->x[j] = (const uint8_t *)x.high;
        if (o->n_low + x.head->wide > LOWS) {
            o->n_low = LOWS + 1;
            continue;
        }
        for (uint64_t word = 0, left; x.head->wide && word < (a->cols / 32 + 63) / 64; word++)
            for (left = x.wide[word]; left; left &= left - 1) {
                uint32_t b = (uint32_t)(64 * word) + (unsigned)__builtin_ctzll(left);
                _mm_prefetch((const char *)&x.low[b], _MM_HINT_T1);
                o->low[o->n_low++] = (low_at){ b, (uint32_t)j };
            }
    }
}

/* One tile: outputs at.. and, where there are two strips, other... */
static void one_tile(const lm_matmul_args *a, const tiles *t, const operands *o, uint64_t r, uint64_t tokens, int strips, uint64_t at,
                     uint64_t other)
{
    __m512 y[2][TOKENS];

    prefetch_rows(a, r, tokens, at);
    if (strips == 2)
        prefetch_rows(a, r, tokens, other);
    t->of[strips - 1][tokens - 1](o, y);
    if (o->n_low)
        t->low[strips - 1](o, tokens, y);
    put(a, r, tokens, at, y[0]);
    if (strips == 2)
        put(a, r, tokens, other, y[1]);
}

/* A few rows: every strip is read once, from memory as a rule. Strips of the first half go with those of the second, so that
 * there are two streams without a jump in them. All tiles of rows read a pair before the next, and each prefetches its part of
 * that: memory is read all the time. */
static void run_few(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2, cuts = (a->n + t->rows - 1) / t->rows;
    operands o[FEW / LEAST_ROWS];
    low_at low[FEW / LEAST_ROWS][LOWS];

    for (uint64_t c = 0; c < cuts; c++) {
        uint64_t r = a->n * c / cuts;
        o[c] = (operands){ .strip = half * strip, .cols = a->cols, .turn = c, .turns = cuts,
                           .ahead = a->n == 1 ? 0 : cuts == 1 ? AHEAD : strip, .low = low[c] };
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
    low_at low[LOWS];
    operands o = { .strip = strip, .cols = a->cols, .turns = 1, .low = low };

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

static void run(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    if (a->n <= FEW)
        run_few(a, t, strip);
    else if (t->panel && a->n >= PANEL_ROWS)
        run_panels(a, t, strip);
    else
        run_many(a, t, strip);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* id, word, panels or not, codes, d, m, its sign, offset, halves, bytes of the numbers, of a unit, of the numbers ahead of eight,
 * of a row */
#define STRIPS(X)                                                                                    \
    X(LM_Q4_0, q4_0, STRIPS_ONLY, c_nibbles, d_f16, m_none, NO_MINIMUM, 8, 1, 2, 18, 0)              \
    X(LM_Q4_1, q4_1, STRIPS_ONLY, c_nibbles, d_f16, m_f16, PLUS, 0, 1, 4, 20, 0)                     \
    X(LM_Q5_0, q5_0, BYTES, c_nibbles_bit, d_f16, m_none, NO_MINIMUM, 16, 1, 2, 22, 0)              \
    X(LM_Q5_1, q5_1, BYTES, c_nibbles_bit, d_f16, m_f16, PLUS, 0, 1, 4, 24, 0)                      \
    X(LM_Q8_0, q8_0, STRIPS_ONLY, c_bytes, d_f16, m_none, NO_MINIMUM, 128, 1, 2, 34, 0)              \
    X(LM_IQ4_NL, iq4_nl, STRIPS_ONLY, c_iq4, d_f16, m_none, NO_MINIMUM, 128, 1, 2, 18, 0)            \
    X(LM_MXFP4, mxfp4, NUMBERS, c_fp4, d_exponent, m_none, NO_MINIMUM, 12, 1, 1, 17, 0)          \
    X(LM_Q2_K, q2_k, BYTES, c_pairs, d_low, m_high, MINUS, 0, 2, 2, 10, 4)                          \
    X(LM_Q3_K, q3_k, BYTES, c_pairs_bit, d_signed, m_none, NO_MINIMUM, 4, 2, 2, 14, 2)              \
    X(LM_Q4_K, q4_k, NUMBERS, c_nibbles, d_unsigned, m_byte, MINUS, 0, 1, 2, 18, 4)                   \
    X(LM_Q5_K, q5_k, BYTES, c_nibbles_bit, d_unsigned, m_byte, MINUS, 0, 1, 2, 22, 4)               \
    X(LM_Q6_K, q6_k, BYTES, c_nibbles_pair, d_signed, m_none, NO_MINIMUM, 32, 2, 2, 26, 2)          \
    X(LM_IQ4_XS, iq4_xs, NUMBERS, c_iq4, d_signed, m_none, NO_MINIMUM, 128, 1, 1, 17, 2)

#define TRAITS(codes, d, m, sign, offset, halves, numbers, unit, head) \
    ((traits){ codes, d, m, sign, offset, halves, (numbers)*R, (unit)*R, (head)*R })

/* Rows of the largest tile: products of first halves take registers of two. */
#define MOST_ROWS(halves) ((halves) == 2 ? 4 : TOKENS)
#define MOST_ROWS_OF(codes, d, m, sign, offset, halves, ...) MOST_ROWS(halves)

#define TILE(word, strips, tokens, ...)                                                                           \
    static void tile_##word##_##strips##_##tokens(const operands *o, __m512 acc[2][TOKENS])                       \
    {                                                                                                             \
        tile(TRAITS(__VA_ARGS__), o, strips, tokens, acc);                                                        \
    }
#define LOW(word, strips, ...)                                                                                    \
    static void low_##word##_##strips(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS])                  \
    {                                                                                                             \
        low_bytes(TRAITS(__VA_ARGS__), o, tokens, strips, acc);                                                   \
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
    LOW(word##_panel, 1, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                        \
    LOW(word##_panel, 2, PANEL_TRAITS(codes, bytes, sign, offset, halves))                                        \
    static const tiles panel_##word = {                                                                           \
        .rows = MOST_ROWS(halves),                                                                                \
        .unit = R * (4 * (halves) * ((sign) == NO_MINIMUM ? 1 : 2) + (bytes)),                                    \
        .of = { { [2] = tile_##word##_panel_1_3, tile_##word##_panel_1_4, tile_##word##_panel_1_5, tile_##word##_panel_1_6 },  \
                { [2] = tile_##word##_panel_2_3, tile_##word##_panel_2_4, tile_##word##_panel_2_5, tile_##word##_panel_2_6 } }, \
        .low = { low_##word##_panel_1, low_##word##_panel_2 },                                                    \
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
    LOW(word, 1, __VA_ARGS__) LOW(word, 2, __VA_ARGS__) kind(word, __VA_ARGS__)                                  \
    static const tiles tiles_##word = {                                                                          \
        .rows = MOST_ROWS_OF(__VA_ARGS__),                                                                       \
        .of = {                                                                                                  \
            { tile_##word##_1_1, tile_##word##_1_2, tile_##word##_1_3, tile_##word##_1_4, tile_##word##_1_5, tile_##word##_1_6 }, \
            { tile_##word##_2_1, tile_##word##_2_2, tile_##word##_2_3, tile_##word##_2_4, tile_##word##_2_5, tile_##word##_2_6 }, \
        },                                                                                                       \
        .low = { low_##word##_1, low_##word##_2 },                                                               \
        kind##_OF(word)                                                                                          \
    };                                                                                                           \
    static void run_##word(const lm_matmul_args *a)                                                              \
    {                                                                                                            \
        run(a, &tiles_##word, lm_strip_bytes(lm_strip_of(id), a->cols));                                      \
    }                                                                                                            \
    LM_STRIP_KERNEL(id, word, "avx512vnni", &lm_activation_q8_avx512, 2 * R, kind##_SCRATCH)
STRIPS(X)
#undef X

void lm_strips_init_avx512vnni(lm_kernels *k)
{
#define X(id, word, kind, ...) k->fast[id] = &strips_##word;
    STRIPS(X)
#undef X
}
