/* strips_avx512.c - integer arithmetic on strips of sixteen rows: quantised weights times the rows of
 * q8_rows.h, by vpdpbusd.
 *
 * One output is one lane. For each unit of 32 columns, in ascending order: y += w's d * integer sum + w's m *
 * (sum of x), in units of d of a group of x's blocks. The sum is multiplied by `ratio` between groups and by
 * d at the end; then the products of the high bytes are added. No order depends on the number of rows of x;
 * integer sums are exact in any order. Signed codes are read with an offset, which the start of the integer
 * sum compensates for.
 *
 * Two strips are processed at a time: a broadcast of four activations serves two dot products, so that loads
 * are not the bottleneck; up to six rows of x, as many as there are registers for. On AMD cores, conversions,
 * shifts and masks run in parallel with dot products, but multiplications do not: eight dot products and one
 * multiply-add per unit and one multiplication per group limit the speed to 87 % of the peak. A minimum, or a
 * scale per 16 columns, costs one more multiply-add per unit. (For Intel, see `two_ports` below.) With many
 * rows, a group of strips is unpacked once into a panel that all tiles read: numbers as float32, and codes as
 * bytes if their unpacking does not fit in parallel with the products. */
#include <immintrin.h>

#include "kernels/q8_rows.h"
#include "kernels/strip_kernel.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx512/epilogue_avx512.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "kernels/x86/avx512/panels_avx512.h"
#include "kernels/x86/avx512/strip_types_avx512.h"

enum { AHEAD = 8192 };               /* bytes that a single tile prefetches ahead */
enum { MAX_CUTS = 6 };               /* maximum number of tiles in run_few */

/* ---- tiles of a matrix
 * -------------------------------------------------------------------------------------------- */

/* Parameters tuned for a processor. */
typedef struct tuning {
    uint64_t ahead, near;            /* prefetch distances in bytes: of one row to the second-level cache, of
                                        few to the first-level one */
    uint64_t rows;                   /* maximum rows of x in a tile on strips */
    uint64_t few;                    /* up to so many rows of x, at most MAX_CUTS tiles, read each strip
                                        once */
    uint64_t panel_rows;             /* number of rows from which a panel pays off */
    uint64_t group_bytes;            /* bytes of the strips that all tiles share in the second-level cache */
    bool     bytes;                  /* panels of bytes for every type */
} tuning;

/* Masks, shifts and conversions have separate ports (Zen 4, Zen 5). */
static const tuning many_ports = { .rows = 6, .few = 24, .panel_rows = 192, .group_bytes = 256 << 10 };
/* The same with prefetches for one row: Zen 5, which then reads types with heads 20 to 60 % faster. Zen 4
 * became up to 30 % slower. */
static const tuning many_ports_ahead = {
    .ahead = 3072, .rows = 6, .few = 24, .panel_rows = 192, .group_bytes = 256 << 10
};
/* They share two ports with products (Intel): so codes are unpacked once for as many rows as possible, and
 * four more accumulators hide the latency of products. Without prefetches, one row reads at 70 % of the
 * probe's speed; near ones make up to 47 rows 1 to 5 % faster. */
static const tuning two_ports = {
    .ahead = 6144, .near = 2304, .rows = 8, .few = 47, .panel_rows = 48, .group_bytes = 512 << 10,
    .bytes = true,
};

static lm_q8_row row_of(const lm_matmul_args *a, uint64_t r)
{
    return lm_q8_row_at((const uint8_t *)a->x + r * a->x_stride, a->cols);
}

/* Prepare rows [r, r + tokens) of x for a tile. */
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

/* Compute one tile: outputs at onwards and, if `strips` is 2, outputs other onwards. */
static void one_tile(const lm_matmul_args *a, const tiles *t, operands *o, uint64_t r, uint64_t tokens,
                     int strips, uint64_t at, uint64_t other)
{
    const uint64_t strip = o->strip;
    __m512 y[2][TOKENS];

    lm_prefetch_rows(a, r, tokens, at);
    if (strips == 2)
        lm_prefetch_rows(a, r, tokens, other);
    else
        o->strip = 0;
    t->of[tokens - 1](o, y);
    if (o->n_high)
        t->high(o, tokens, y);
    o->strip = strip;
    lm_put_rows(a, r, tokens, at, y[0]);
    if (strips == 2)
        lm_put_rows(a, r, tokens, other, y[1]);
}

/* Few rows: every strip is read once, usually from memory. Strips of the first half are paired with those of
 * the second, so that there are two sequential streams. All tiles of rows read a pair before the next pair,
 * and each prefetches its part of the next one, so memory is read continuously. */
static void run_few(const lm_matmul_args *a, const tiles *t, uint64_t strip, const tuning *by)
{
    uint64_t n = (a->last - a->first + R - 1) / R, half = (n + 1) / 2,
             cuts = (a->n + by->rows - 1) / by->rows;
    operands o[MAX_CUTS];
    high_at high[MAX_CUTS][HIGHS];

    for (uint64_t c = 0; c < cuts; c++) {
        uint64_t r = a->n * c / cuts;
        o[c] = (operands){ .strip = half * strip, .cols = a->cols, .turn = c, .turns = cuts,
                           .ahead = a->n == 1 ? by->ahead : cuts == 1 ? AHEAD : strip,
                           .near = by->near, .high = high[c] };
        take_rows(a, r, a->n * (c + 1) / cuts - r, &o[c]);
    }
    for (uint64_t i = 0; i < half; i++) {
        for (uint64_t c = 0; c < cuts; c++) {
            uint64_t r = a->n * c / cuts;
            o[c].w = (const uint8_t *)a->w + (a->first / R + i) * strip;
            one_tile(a, t, &o[c], r, a->n * (c + 1) / cuts - r, half + i < n ? 2 : 1, a->first + i * R,
                     a->first + (half + i) * R);
        }
    }
}

/* Multiply rows of x, in tiles of nearly equal size up to `max`, with the strips at w of outputs [from, to);
 * the first tile prefetches. */
static void all_rows(const lm_matmul_args *a, const tiles *t, uint64_t max, const uint8_t *w, uint64_t strip,
                     uint64_t from, uint64_t to, uint64_t ahead)
{
    uint64_t cuts = (a->n + max - 1) / max;
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

/* Many rows: a group of strips that fits in the second-level cache is used for all rows before the next
 * group. */
static void run_many(const lm_matmul_args *a, const tiles *t, uint64_t strip, const tuning *by)
{
    uint64_t group = 2 * R * (1 + by->group_bytes / (2 * strip + 1));

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        all_rows(a, t, by->rows, (const uint8_t *)a->w + from / R * strip, strip, from, to,
                 to + group <= a->last ? group / R * strip : 0);
    }
}

/* Return the number of strips in a panel whose units have `unit` bytes. */
static uint64_t panel_strips(uint64_t cols, uint64_t unit, const tuning *by)
{
    return 2 * (1 + by->group_bytes / (2 * (cols / 32 * unit) + 1));
}

/* Return the bytes of a panel that suffice for every type. */
static uint64_t panel_bytes(uint64_t cols, const tuning *by)
{
    return 2 * cols / 32 * LM_PANEL_UNIT(MINUS, 2, 32) + by->group_bytes;
}

static uint64_t scratch_many_ports(uint64_t cols)
{
    return panel_bytes(cols, &many_ports);
}

static uint64_t scratch_two_ports(uint64_t cols)
{
    return panel_bytes(cols, &two_ports);
}

/* The same, but each group is unpacked first. Its tiles prefetch the strips of the next group. */
static void run_panels(const lm_matmul_args *a, const panel *p, uint64_t max, uint64_t strip,
                       const tuning *by)
{
    uint64_t strips = panel_strips(a->cols, p->unit, by), group = R * strips, bytes = a->cols / 32 * p->unit;
    uint8_t *unpacked = a->scratch;

    for (uint64_t from = a->first; from < a->last; from += group) {
        uint64_t to = a->last - from < group ? a->last : from + group;
        const uint8_t *w = (const uint8_t *)a->w + from / R * strip;
        for (uint64_t at = from; at < to; at += R)
            p->unpack(w + (at - from) / R * strip, a->cols, unpacked + (at - from) / R * bytes);
        all_rows(a, p->tiles, max, unpacked, bytes, from, to,
                 to < a->last ? (uintptr_t)(w + strips * strip) - (uintptr_t)unpacked : 0);
    }
}

static void run(const lm_matmul_args *a, const form *f, uint64_t strip, const tuning *by)
{
    if (a->n <= by->few)
        run_few(a, &f->strips, strip, by);
    else if (a->n >= by->panel_rows && by->bytes)
        run_panels(a, &f->bytes, by->rows, strip, by);
    else if (a->n >= by->panel_rows && f->own.tiles)
        run_panels(a, &f->own, f->own_rows, strip, by);
    else
        run_many(a, &f->strips, strip, by);
}

/* ---- kernel table
 * ------------------------------------------------------------------------------------------------ */

#define BYTES_SCRATCH scratch_many_ports
#define NUMBERS_SCRATCH scratch_many_ports
#define STRIPS_ONLY_SCRATCH NULL

#define X(id, word, kind, ...)                                                                              \
    extern const form lm_form_##word;                                                                       \
    static void run_##word(const lm_matmul_args *a)                                                         \
    {                                                                                                       \
        run(a, &lm_form_##word, lm_strip_bytes(lm_strip_of(id), a->cols), &many_ports);                     \
    }                                                                                                       \
    static void run_ahead_##word(const lm_matmul_args *a)                                                   \
    {                                                                                                       \
        run(a, &lm_form_##word, lm_strip_bytes(lm_strip_of(id), a->cols), &many_ports_ahead);               \
    }                                                                                                       \
    static void run_two_ports_##word(const lm_matmul_args *a)                                               \
    {                                                                                                       \
        run(a, &lm_form_##word, lm_strip_bytes(lm_strip_of(id), a->cols), &two_ports);                      \
    }                                                                                                       \
    LM_STRIP_FUNCTIONS(id, word, lm_strip_pack_avx2)                                                        \
    LM_STRIP_RECORD(strips, word, "avx512vnni", &lm_activation_q8_avx512, 2 * R, kind##_SCRATCH, run, NULL) \
    LM_STRIP_RECORD(ahead, word, "avx512vnni", &lm_activation_q8_avx512, 2 * R, kind##_SCRATCH, run_ahead,  \
                    NULL)                                                                                   \
    LM_STRIP_RECORD(two_ports, word, "avx512vnni", &lm_activation_q8_avx512, 2 * R, scratch_two_ports,      \
                    run_two_ports, NULL)
STRIPS(X)
#undef X

const lm_matmul *lm_strips_two_ports(lm_dtype type)
{
    switch ((int)type) {
#define X(id, word, ...) \
    case id: return &two_ports_##word;
        STRIPS(X)
#undef X
    default: return NULL;
    }
}

void lm_strips_init_avx512vnni(lm_kernels *k)
{
    const bool ahead = k->cpu & LM_CPU_AVXVNNI_VEX;                /* of AMD's processors, Zen 5 and later */
#define X(id, word, ...) k->fast[id] = k->cpu & LM_CPU_INTEL ? &two_ports_##word : ahead ? &ahead_##word \
    : &strips_##word;
    STRIPS(X)
#undef X
}
