/* strips_run_256.c - the loops around the tiles of strips_256.h. */
#include "kernels/levels.h"
#include "kernels/x86/avx2/strips_run_256.h"

enum { R = LM_STRIP_ROWS };
enum { GROUP_BYTES = 256 << 10, AHEAD = 6144, NEAR = 2304 };
enum { PANEL_ROWS = 64 };                            /* number of rows of x from which a panel pays off */

static lm_q8_row row_of(const lm_matmul_args *a, uint64_t r)
{
    return lm_q8_row_at((const uint8_t *)a->x + r * a->x_stride, a->cols);
}

/* Store outputs o onwards of row t; the last strip may have fewer than sixteen. */
static void put(const lm_matmul_args *a, uint64_t t, uint64_t o, const __m256 v[2])
{
    for (int part = 0; part < 2; part++, o += 8) {
        if (o + 8 <= a->last) {
            __m256 y = v[part];
            if (a->bias)
                y = _mm256_add_ps(y, _mm256_loadu_ps(a->bias + o));
            y = _mm256_mul_ps(y, _mm256_set1_ps(a->scale));
            if (a->add)
                y = _mm256_add_ps(y, _mm256_loadu_ps(a->add + t * a->add_stride + o));
            _mm256_storeu_ps(a->y + t * a->y_stride + o, y);
            continue;
        }
        float lanes[8];
        _mm256_storeu_ps(lanes, v[part]);
        for (uint64_t i = 0; o + i < a->last; i++)
            lm_matmul_store(a, t, o + i, lanes[i]);
    }
}

/* Prepare rows [r, r + tokens) of x for a tile. */
static void take_rows(const lm_matmul_args *a, uint64_t r, uint64_t tokens, operands *o)
{
    for (uint64_t j = 0; j < tokens; j++)
        o->x[j] = (const uint8_t *)row_of(a, r + j).low;
}

/* Compute one tile: outputs at onwards and, if `strips` is 2, outputs other onwards. */
static void one_tile(const lm_matmul_args *a, const tiles *t, const operands *o, uint64_t r, uint64_t tokens,
                     int strips, uint64_t at, uint64_t other)
{
    sums y;

    (strips == 2 ? t->two : t->of[tokens - 1])(o, y);
    for (int s = 0; s < strips; s++)
        for (uint64_t j = 0; j < tokens; j++) {
            lm_q8_row x = row_of(a, r + j);
            if (x.head->wide)
                t->high(o->w + (s ? o->other : 0), &x, y[s][j]);
            put(a, r + j, s ? other : at, y[s][j]);
        }
}

/* One row: every strip is read once, usually from memory. Strips of the first half are paired with those of
 * the second, so that there are two sequential streams, and twice as many independent sums. Without
 * prefetches, Intel cores read at 55 to 80 % of the probe's speed. AMD cores read at 94 to 97 % if all units
 * are alike and take little work, and prefetches only cost time; otherwise at 31 to 68 %. */
static void run_one(const lm_matmul_args *a, const tiles *t, uint64_t strip, bool prefetch)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2;
    operands o = { .other = half * strip,
                   .cols = a->cols,
                   .ahead = prefetch || t->ahead ? AHEAD : 0,
                   .near = prefetch ? NEAR : 0 };

    take_rows(a, 0, 1, &o);
    for (uint64_t i = 0; i < half; i++) {
        o.w = (const uint8_t *)a->w + (a->first / R + i) * strip;
        one_tile(a, t, &o, 0, 1, half + i < n ? 2 : 1, a->first + i * R, a->first + (half + i) * R);
    }
}

/* Multiply rows of x, in tiles of nearly equal size, with the strips at w of outputs [from, to). The first
 * tile prefetches `ahead` bytes further; with `near`, each tile does so for its share of the strips, so that
 * memory is read continuously. */
static void all_rows(const lm_matmul_args *a, const tiles *t, const uint8_t *w, uint64_t strip, uint64_t from,
                     uint64_t to, uint64_t ahead, uint64_t near)
{
    uint64_t cuts = (a->n + t->together - 1) / t->together;
    operands o = { .cols = a->cols, .near = near };

    for (uint64_t i = 0; i < cuts; i++) {
        uint64_t r = a->n * i / cuts, tokens = a->n * (i + 1) / cuts - r;
        take_rows(a, r, tokens, &o);
        for (uint64_t at = from; at < to; at += R) {
            uint64_t nth = (at - from) / R;
            o.w = w + nth * strip;
            o.ahead = (near ? nth % cuts == i : i == 0) ? ahead : 0;
            one_tile(a, t, &o, r, tokens, 1, at, at);
        }
    }
}

/* Many rows: a group of strips that fits in the second-level cache is used for all rows before the next
 * group. On Intel cores, rows that fit in one tile prefetch one stream, like a single row. */
static void run_many(const lm_matmul_args *a, const tiles *t, uint64_t strip, bool prefetch)
{
    uint64_t group = R * (1 + GROUP_BYTES / (strip + 1)), near = prefetch ? NEAR : 0;
    bool     once  = prefetch && a->n <= t->together;

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group,
                 next = to + group <= a->last ? group / R * strip : 0;
        all_rows(a, t, (const uint8_t *)a->w + from / R * strip, strip, from, to, once ? AHEAD : next, near);
    }
}

static uint64_t panel_strips(uint64_t bytes)
{
    return 1 + GROUP_BYTES / (bytes + 1);
}

/* The same, but each group is unpacked first. */
static void run_panels(const lm_matmul_args *a, const tiles *t, uint64_t strip)
{
    uint64_t bytes = a->cols / 32 * t->panel_unit, group = R * panel_strips(bytes);

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        for (uint64_t at = from; at < to; at += R)
            t->unpack((const uint8_t *)a->w + at / R * strip, a->cols,
                      (uint8_t *)a->scratch + (at - from) / R * bytes);
        all_rows(a, t->panel, a->scratch, bytes, from, to, 0, 0);
    }
}

void lm_strips_run_256(const lm_matmul_args *a, const tiles *t, uint64_t strip, bool prefetch)
{
    if (a->n == 1)
        run_one(a, t, strip, prefetch);
    else if (t->unpack && a->n >= PANEL_ROWS)
        run_panels(a, t, strip);
    else
        run_many(a, t, strip, prefetch);
}

uint64_t lm_strips_scratch_256(const tiles *t, uint64_t cols)
{
    uint64_t bytes = cols / 32 * t->panel_unit;

    return t->unpack ? panel_strips(bytes) * bytes : 64;
}
