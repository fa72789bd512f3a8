/* iquants_pack.c - pack the codebook types: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S.
 *
 * A block of 256 has one scale d and 8 or 16 sub-scales: x ~ d unit (2 l + 1) g. The error of a group of 8
 * elements under a scale s is sum w x^2 - s (2 a - s b), a and b depending on its entry only. So:
 *   1. over a fan of scales, each group's best entries are collected; each sub-block gets its least-squares
 *      scale;
 *   2. for a fan of d, every sub-block takes the best of the representable scales near its own, over the
 *      collected entries;
 *   3. with the best d, entries are searched once more at the scales as they will be read, and d is fitted to
 *      them. */
#include <math.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/codecs.h"
#include "tensor/dtype.h"
#include "tensor/grids.h"
#include "tensor/iquants_pack.h"

enum { GROUPS = 32, FAN = 9 };

/* A type. Elements are magnitudes with stored signs, or (`shifts`) signed values plus or minus 1/8. */
typedef struct kind {
    lm_grid_name grid;
    const float *values;             /* the alphabet; shifts: that of the positive shift, then that of the
                                        negative one */
    int          per_scale;          /* groups of 8 per sub-scale */
    int          per_shift;          /* groups per shift; 0: no shifts */
    int          n_scales;           /* sub-scales are 0..n_scales - 1 */
    float        unit;
    bool         even;               /* the number of negative elements of a group is even */
    bool         alone;              /* is packed without importance */
} kind;

static const float of_iq2[] = { 8, 25, 43 }, of_iq3_xxs[] = { 4, 12, 20, 28, 36, 44, 52, 62 },
                   of_iq3_s[] = { 1, 3, 5, 7, 9, 11, 13, 15 };
static const float of_iq1[] = { -0.875f, 0.125f, 1.125f, -1.125f, -0.125f, 0.875f };

static const kind iq1_s   = { LM_GRID_IQ1, of_iq1, 4, 4, 8, 1, false, false };
static const kind iq1_m   = { LM_GRID_IQ1, of_iq1, 2, 1, 8, 1, false, false };
static const kind iq2_xxs = { LM_GRID_IQ2_XXS, of_iq2, 4, 0, 16, 0.125f, true, false };
static const kind iq2_xs  = { LM_GRID_IQ2_XS, of_iq2, 2, 0, 16, 0.125f, true, false };
static const kind iq2_s   = { LM_GRID_IQ2_S, of_iq2, 2, 0, 16, 0.125f, false, false };
static const kind iq3_xxs = { LM_GRID_IQ3_XXS, of_iq3_xxs, 4, 0, 16, 0.25f, true, false };
static const kind iq3_s   = { LM_GRID_IQ3_S, of_iq3_s, 4, 0, 16, 1, false, true };

/* An entry (IQ3: two) for a group. `turned`: 1 or 2, the piece with one sign turned. */
typedef struct choice { float a, b; uint16_t cell[2]; uint8_t turned; } choice;

typedef struct search {
    const kind    *k;
    const lm_code_grid *grid;
    int            fan, again;       /* scales tried for a sub-block; the last of them are the best so far */
    int            tries;            /* scales tried for the block */
    int            pieces;           /* of a group */
    float          x[LM_K_BLOCK], w[LM_K_BLOCK];         /* magnitudes if signs are stored */
    uint8_t        signs[GROUPS];
    lm_grid_table  piece[2][8];      /* of the current sub-block, by shift */
    choice         found[2][GROUPS][FAN];
    float          fit[16];          /* least-squares scales */
} search;

/* The decisions for a block. */
typedef struct codes {
    uint16_t d;
    uint8_t  scale[16], signs[GROUPS];       /* IQ1: 1: the shift is negative */
    uint16_t index[2 * GROUPS];
} codes;

static float gain_of(float a, float b, float s)
{
    return s * (2.0f * a - s * b);
}

static int n_shifts(const kind *k)
{
    return k->per_shift ? 2 : 1;
}

static void tabulate(search *f, int block)
{
    const kind *k = f->k;

    for (int v = 0; v < n_shifts(k); v++) {
        for (int i = 0; i < k->per_scale * f->pieces; i++) {
            int at = block * k->per_scale * 8 + i * f->grid->width;
            lm_grid_table_fill(&f->piece[v][i], f->grid, f->x + at, f->w + at, k->values + 3 * v, k->even);
        }
    }
}

/* Choose the entry of a group of the current sub-block at scale s. */
static choice choose(const search *f, int v, int in_block, bool odd, float s)
{
    const lm_grid_table *p = &f->piece[v][in_block * f->pieces];
    lm_grid_choice  turned[2], one = lm_grid_table_choose(&p[0], f->grid, s, odd ? &turned[0] : NULL), two;
    uint8_t         which = 0;

    if (f->pieces == 1) {
        one = odd ? turned[0] : one;
        return (choice){ one.a, one.b, { one.cell, 0 }, odd };
    }
    two = lm_grid_table_choose(&p[1], f->grid, s, odd ? &turned[1] : NULL);
    if (odd) {
        float loss = gain_of(one.a, one.b, s) - gain_of(turned[0].a, turned[0].b, s);
        which = loss <= gain_of(two.a, two.b, s) - gain_of(turned[1].a, turned[1].b, s) ? 1 : 2;
        *(which == 1 ? &one : &two) = turned[which - 1];
    }
    return (choice){ one.a + two.a, one.b + two.b, { one.cell, two.cell }, which };
}

static bool is_odd(const search *f, int group)
{
    return f->k->even && __builtin_parity(f->signs[group]);
}

static float largest(const float *x, int n)
{
    float max = 0.0f;

    for (int i = 0; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    return max;
}

/* Collect the entries of a sub-block over the fan of scales, and find its least-squares scale. */
static void collect(search *f, int block)
{
    const kind *k     = f->k;
    int         n     = 8 * k->per_scale, first = block * k->per_scale;
    float       max  = largest(f->x + block * n, n), best = 0.0f;
    float       reach = k->per_shift ? 1.0f : k->values[f->grid->width == 8 ? 2 : 7];
    float       scale = 1.3f * max / reach, step = f->fan == FAN ? 0.853f : f->fan > 1 ? 0.8f : 0.75f;

    f->fit[block] = 0.0f;
    tabulate(f, block);
    for (int j = 0; j < f->fan; j++) {
        scale = j >= f->fan - f->again && f->fit[block] > 0.0f ? f->fit[block] : scale * step;
        float a[2] = { 0 }, b[2] = { 0 }, both_a = 0, both_b = 0;
        for (int g = 0; g < k->per_scale; g++) {
            for (int v = 0; v < n_shifts(k); v++) {
                choice *c = &f->found[v][first + g][j];
                *c = choose(f, v, g, is_odd(f, first + g), scale);
                a[v] += c->a;
                b[v] += c->b;
            }
            const choice *one = &f->found[0][first + g][j], *two = &f->found[n_shifts(k) - 1][first + g][j];
            bool second = gain_of(two->a, two->b, scale) > gain_of(one->a, one->b, scale);
            both_a += second ? two->a : one->a;
            both_b += second ? two->b : one->b;
        }
        if (k->per_shift == 1) {
            a[0] = both_a;
            b[0] = both_b;
        }
        for (int v = 0; v < (k->per_shift == 1 ? 1 : n_shifts(k)); v++) {
            if (b[v] > 0.0f && a[v] > 0.0f && a[v] * a[v] > best * b[v]) {
                best          = a[v] * a[v] / b[v];
                f->fit[block] = a[v] / b[v];
            }
        }
    }
}

static const choice *best_found(const search *f, int v, int group, float s)
{
    const choice *best = f->found[v][group];
    float         max = -INFINITY;

    for (int j = 0; j < f->fan; j++) {
        const choice *c = &f->found[v][group][j];
        float gain = 2.0f * c->a - s * c->b;
        if (gain > max) {
            max = gain;
            best = c;
        }
    }
    return best;
}

/* Return the gain of a sub-block at scale s, and the sums of its best entries. */
static float evaluate(const search *f, int block, float s, float *a, float *b)
{
    const kind *k = f->k;
    int         first = block * k->per_scale;
    float       sum_a[2] = { 0 }, sum_b[2] = { 0 };

    for (int g = first; g < first + k->per_scale; g++) {
        const choice *one = best_found(f, 0, g, s);
        if (k->per_shift == 1) {
            const choice *two = best_found(f, 1, g, s);
            one = gain_of(two->a, two->b, s) > gain_of(one->a, one->b, s) ? two : one;
        }
        sum_a[0] += one->a;
        sum_b[0] += one->b;
        if (k->per_shift > 1) {
            one = best_found(f, 1, g, s);
            sum_a[1] += one->a;
            sum_b[1] += one->b;
        }
    }
    int v = k->per_shift > 1 && gain_of(sum_a[1], sum_b[1], s) > gain_of(sum_a[0], sum_b[0], s);
    *a = sum_a[v];
    *b = sum_b[v];
    return gain_of(*a, *b, s);
}

/* Choose every sub-scale for this d (with the unit) among three near the fitted ones. Return the total gain
 * with the best d for them. */
static float choose_scales(const search *f, float d, uint8_t *scale, float *fitted)
{
    int   blocks = GROUPS / f->k->per_scale;
    float all_a = 0, all_b = 0;

    for (int i = 0; i < blocks; i++) {
        float near = (f->fit[i] / d - 1.0f) * 0.5f, max = -INFINITY, best_a = 0, best_b = 0, a, b;
        int   l = lm_nearest(near, 0, f->k->n_scales - 1);
        for (int t = l > 0 ? l - 1 : 0; t <= l + 1 && t < f->k->n_scales; t++) {
            float odd = (float)(2 * t + 1), gain = evaluate(f, i, odd * d, &a, &b);
            if (gain > max) {
                max     = gain;
                scale[i] = (uint8_t)t;
                best_a   = odd * a;
                best_b   = odd * odd * b;
            }
        }
        all_a += best_a;
        all_b += best_b;
    }
    *fitted = all_b > 0.0f ? all_a / all_b : 0.0f;
    return all_b > 0.0f ? all_a * all_a / all_b : 0.0f;
}

/* Return the best d, with the unit. */
static float search_d(search *f, uint8_t *scale)
{
    float   top = 0, best = 0, max = 0, fitted;
    uint8_t tried[16];

    top = largest(f->fit, GROUPS / f->k->per_scale) / (float)(2 * f->k->n_scales - 1);
    if (!(top > 0.0f))
        return 0.0f;
    for (int t = 0; t < f->tries; t++) {
        float gain = choose_scales(f, top * (1.07f - 0.06f * (float)t), tried, &fitted);
        if (gain > max) {
            max = gain;
            best = fitted;
            memcpy(scale, tried, sizeof tried);
        }
    }
    return best;
}

static void put(const search *f, int v, int group, int in_block, const choice *c, codes *out)
{
    const lm_grid_table *p = &f->piece[v][in_block * f->pieces];
    int             at = 8 * group;

    for (int i = 0; i < f->pieces; i++)
        out->index[group * f->pieces + i] = f->grid->index[c->cell[i]];
    out->signs[group] = f->k->per_shift ? (uint8_t)v : f->signs[group];
    if (c->turned) {
        int i = c->turned - 1,
            element = lm_grid_table_turn(&p[i], f->grid, f->w + at + i * f->grid->width, c->cell[i]);
        out->signs[group] ^= (uint8_t)(1u << (i * f->grid->width + element));
    }
}

/* Search the entries of a sub-block at its scale as it is read. Add their sums to a and b. */
static void settle(search *f, int block, float s, float odd, codes *out, float *a, float *b)
{
    const kind *k = f->k;
    choice      best[2][4];
    float       gain[2] = { 0 };
    int         first = block * k->per_scale, v = 0;

    if (!k->per_shift)
        tabulate(f, block);
    for (int u = 0; u < n_shifts(k); u++) {
        for (int g = 0; g < k->per_scale; g++) {
            best[u][g] = *best_found(f, u, first + g, s);
            choice new = k->per_shift ? best[u][g] : choose(f, u, g, is_odd(f, first + g), s);
            if (gain_of(new.a, new.b, s) > gain_of(best[u][g].a, best[u][g].b, s))
                best[u][g] = new;
            gain[u] += gain_of(best[u][g].a, best[u][g].b, s);
        }
    }
    v = k->per_shift > 1 && gain[1] > gain[0];
    for (int g = 0; g < k->per_scale; g++) {
        if (k->per_shift == 1)
            v = gain_of(best[1][g].a, best[1][g].b, s) > gain_of(best[0][g].a, best[0][g].b, s);
        put(f, v, first + g, g, &best[v][g], out);
        *a += odd * best[v][g].a;
        *b += odd * odd * best[v][g].b;
    }
}

static float stored(float d, float unit, uint16_t *bits)
{
    d /= unit;
    if (!(fabsf(d) <= 65504.0f))
        d = isnan(d) ? 0.0f : copysignf(65504.0f, d);
    *bits = lm_f32_to_f16(d);
    return lm_f16_to_f32(*bits) * unit;
}

/* Set the weights: importance times sqrt(2 mean square + x^2). Inputs without importance still count a
 * little, so that a block of them is not arbitrary. Without any importance every input counts the same; in a
 * type that is used without, large numbers count more. */
static void weigh(search *f, const float *x, const float *importance)
{
    float squares = 0, sum = 0;

    for (int i = 0; i < LM_K_BLOCK; i++) {
        squares += x[i] * x[i];
        sum += importance ? importance[i] : 0.0f;
    }
    float mean = squares / LM_K_BLOCK, min = sum * (1e-6f / LM_K_BLOCK);
    for (int i = 0; i < LM_K_BLOCK; i++) {
        float square = x[i] * x[i];
        if (sum > 0.0f || !f->k->alone)
            f->w[i] = (sum > 0.0f ? importance[i] + min : 1.0f) * sqrtf(2.0f * mean + square);
        else
            f->w[i] = 0.35f * mean + square;
    }
}

static void split_signs(search *f, const float *x)
{
    for (int g = 0; g < GROUPS; g++) {
        f->signs[g] = 0;
        for (int i = 0; i < 8; i++) {
            f->signs[g] |= (uint8_t)((x[8 * g + i] < 0.0f) << i);
            f->x[8 * g + i] = fabsf(x[8 * g + i]);
        }
    }
}

static void find(const kind *k, const float *x, const float *importance, bool quick, codes *out)
{
    search f;
    float  a = 0, b = 0;

    f.k      = k;
    f.grid   = lm_grid_of(k->grid);
    f.fan    = quick ? 1 : k->per_shift ? 5 : FAN;
    f.again  = quick ? 0 : k->per_shift ? 1 : 2;
    f.tries  = quick ? 1 : k->per_shift ? 4 : 8;
    f.pieces = 8 / f.grid->width;
    memset(out, 0, sizeof *out);
    weigh(&f, x, importance);
    if (k->per_shift)
        memcpy(f.x, x, sizeof f.x);
    else
        split_signs(&f, x);
    for (int i = 0; i < GROUPS / k->per_scale; i++)
        collect(&f, i);
    float d = stored(search_d(&f, out->scale), k->unit, &out->d);
    if (!(d > 0.0f)) {
        memset(out, 0, sizeof *out);
        return;
    }
    for (int i = 0; i < GROUPS / k->per_scale; i++) {
        float odd = (float)(2 * out->scale[i] + 1);
        settle(&f, i, odd * d, odd, out, &a, &b);
    }
    if (b > 0.0f && a > 0.0f)
        stored(a / b, k->unit, &out->d);
}

/* ---- layouts ---- */

static void store_iq2_xxs(lm_iq2_xxs *b, const codes *c)
{
    b->d = c->d;
    for (int s = 0; s < 8; s++) {
        b->sub[s].word = (uint32_t)c->scale[s] << 28;
        for (int l = 0; l < 4; l++) {
            b->sub[s].index[l] = (uint8_t)c->index[4 * s + l];
            b->sub[s].word |= (uint32_t)(c->signs[4 * s + l] & 127) << 7 * l;
        }
    }
}

static void store_halves(uint8_t scales[8], const uint8_t scale[16])
{
    for (int s = 0; s < 8; s++)
        scales[s] = (uint8_t)(scale[2 * s] | scale[2 * s + 1] << 4);
}

static void store_iq2_xs(lm_iq2_xs *b, const codes *c)
{
    b->d = c->d;
    store_halves(b->scales, c->scale);
    for (int i = 0; i < GROUPS; i++)
        b->qs[i] = (uint16_t)(c->index[i] | (c->signs[i] & 127) << 9);
}

static void store_iq2_s(lm_iq2_s *b, const codes *c)
{
    b->d = c->d;
    store_halves(b->scales, c->scale);
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < GROUPS; i++) {
        b->qs[i]    = (uint8_t)c->index[i];
        b->signs[i] = c->signs[i];
        b->qh[i / 4] |= (uint8_t)(c->index[i] >> 8 << 2 * (i % 4));
    }
}

static void store_iq3_xxs(lm_iq3_xxs *b, const codes *c)
{
    b->d = c->d;
    for (int i = 0; i < 2 * GROUPS; i++)
        b->qs[i] = (uint8_t)c->index[i];
    for (int s = 0; s < 8; s++) {
        uint32_t word = (uint32_t)c->scale[s] << 28;
        for (int l = 0; l < 4; l++)
            word |= (uint32_t)(c->signs[4 * s + l] & 127) << 7 * l;
        b->words[s] = word;
    }
}

static void store_iq3_s(lm_iq3_s *b, const codes *c)
{
    b->d = c->d;
    memset(b->qh, 0, sizeof b->qh);
    memcpy(b->signs, c->signs, sizeof b->signs);
    for (int i = 0; i < 2 * GROUPS; i++) {
        b->qs[i] = (uint8_t)c->index[i];
        b->qh[i / 8] |= (uint8_t)(c->index[i] >> 8 << i % 8);
    }
    for (int s = 0; s < 4; s++)
        b->scales[s] = (uint8_t)(c->scale[2 * s] | c->scale[2 * s + 1] << 4);
}

static void store_iq1_s(lm_iq1_s *b, const codes *c)
{
    b->d = c->d;
    for (int s = 0; s < 8; s++) {
        unsigned qh = (unsigned)c->scale[s] << 12 | (unsigned)c->signs[4 * s] << 15;
        for (int l = 0; l < 4; l++) {
            b->qs[4 * s + l] = (uint8_t)c->index[4 * s + l];
            qh |= (unsigned)c->index[4 * s + l] >> 8 << 3 * l;
        }
        b->qh[s] = (uint16_t)qh;
    }
}

static void store_iq1_m(lm_iq1_m *b, const codes *c)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < GROUPS; i++) {
        b->qs[i] = (uint8_t)c->index[i];
        b->qh[i / 2] |= (uint8_t)((c->index[i] >> 8 | c->signs[i] << 3) << 4 * (i % 2));
    }
    for (int s = 0; s < 4; s++) {
        unsigned word = (unsigned)c->d >> 4 * s << 12;
        for (int l = 0; l < 4; l++)
            word |= (unsigned)c->scale[4 * s + l] << 3 * l;
        b->scales[s] = (uint16_t)word;
    }
}

/* ---- rows ---- */

#define PACKERS(X) X(IQ1_S, iq1_s) X(IQ1_M, iq1_m) X(IQ2_XXS, iq2_xxs) X(IQ2_XS, iq2_xs) X(IQ2_S, iq2_s) \
    X(IQ3_XXS, iq3_xxs) X(IQ3_S, iq3_s)

#define ROWS(id, name)                                                                                       \
    static void pack_blocks_##name(void *dst, const float *x, size_t n, const float *importance, bool quick) \
    {                                                                                                        \
        lm_##name *b = dst;                                                                                  \
        codes c;                                                                                             \
        for (size_t i = 0; i < n / LM_K_BLOCK; i++) {                                                        \
            find(&name, x + i * LM_K_BLOCK, importance ? importance + i * LM_K_BLOCK : NULL, quick, &c);     \
            store_##name(&b[i], &c);                                                                         \
        }                                                                                                    \
    }                                                                                                        \
    void lm_pack_##name(void *dst, const float *src, size_t n)                                               \
    {                                                                                                        \
        pack_blocks_##name(dst, src, n, NULL, false);                                                        \
    }                                                                                                        \
    void lm_quick_##name(void *dst, const float *src, size_t n)                                              \
    {                                                                                                        \
        pack_blocks_##name(dst, src, n, NULL, true);                                                         \
    }

PACKERS(ROWS)

bool lm_pack_codebook(lm_dtype type, void *dst, const float *x, size_t n, const float *importance)
{
    switch (type) {
#define ROW(id, name) \
    case LM_##id: pack_blocks_##name(dst, x, n, importance, false); return true;
        PACKERS(ROW)
    default: return false;
    }
}
