/* grids.c - nearest entries of a codebook, from lists made once. */
#include "tensor/grids.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "tensor/codebooks.h"

/* The lists of the six grids: cells of 8 elements have 3 digits each, cells of 4 have 8. */
static uint16_t near_of_eight[4][LM_GRID_CELLS][LM_GRID_NEAR], near_of_four[2][4096][LM_GRID_NEAR];
static uint16_t index_of_eight[4][LM_GRID_CELLS], index_of_four[2][4096];

static bool     exact_cells[6][LM_GRID_CELLS];

static lm_code_grid grids[6] = {
    [LM_GRID_IQ2_XXS] = { lm_grid_iq2_xxs, 256, 8, 7, 12, near_of_eight[0], index_of_eight[0],
                          exact_cells[0] },
    [LM_GRID_IQ2_XS] = { lm_grid_iq2_xs, 512, 8, 7, 12, near_of_eight[1], index_of_eight[1], exact_cells[1] },
    [LM_GRID_IQ2_S] = { lm_grid_iq2_s, 1024, 8, 7, 12, near_of_eight[2], index_of_eight[2], exact_cells[2] },
    [LM_GRID_IQ1] = { lm_grid_iq1, 2048, 8, 7, 6, near_of_eight[3], index_of_eight[3], exact_cells[3] },
    [LM_GRID_IQ3_XXS] = { lm_grid_iq3_xxs, 256, 4, 6, LM_GRID_NEAR, near_of_four[0], index_of_four[0],
                          exact_cells[4] },
    [LM_GRID_IQ3_S] = { lm_grid_iq3_s, 512, 4, 6, 12, near_of_four[1], index_of_four[1], exact_cells[5] },
};

static pthread_once_t made[6] = { PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                  PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT };

/* The number of half an entry is the sum of digit × place: pairs of digits of IQ3, two pairs in steps of 9
 * and 12 of the others. */
static const uint8_t places_of_eight[4] = { 1, 3, 12, 36 }, places_of_four[2] = { 1, 8 };

/* Return the cell with these digits. */
static uint16_t cell_of(const lm_code_grid *g, const uint8_t *digits)
{
    const uint8_t *place = g->width == 8 ? places_of_eight : places_of_four;
    int            half = g->width / 2, low = 0, high = 0;

    for (int i = 0; i < half; i++) {
        low += place[i] * digits[i];
        high += place[i] * digits[half + i];
    }
    return (uint16_t)(low | high << g->shift);
}

static void digits_of_entry(const lm_code_grid *g, int entry, uint8_t *digits)
{
    int bits = g->width == 8 ? 2 : 4;

    for (int i = 0; i < g->width; i++)
        digits[i] = (uint8_t)(g->entries[entry] >> bits * i & ((1 << bits) - 1));
}

static void digits_of_cell(const lm_code_grid *g, unsigned cell, uint8_t *digits)
{
    unsigned half[2] = { cell & ((1u << g->shift) - 1), cell >> g->shift };

    for (int h = 0; h < 2; h++) {
        uint8_t *d = digits + h * g->width / 2;
        if (g->width == 8) {
            d[0] = (uint8_t)(half[h] % 12 % 3);
            d[1] = (uint8_t)(half[h] % 12 / 3);
            d[2] = (uint8_t)(half[h] / 12 % 3);
            d[3] = (uint8_t)(half[h] / 36);
        } else {
            d[0] = (uint8_t)(half[h] % 8);
            d[1] = (uint8_t)(half[h] / 8);
        }
    }
}

/* List the entries nearest to a cell, by the squared distance of the digits; of equally near ones, the lower
 * entry first. */
static void list(lm_code_grid *g, unsigned cell, const uint8_t (*digits)[8], const uint16_t *cells)
{
    uint8_t at[8];
    int     distance[LM_GRID_NEAR], n = 0;

    digits_of_cell(g, cell, at);
    for (int e = 0; e < g->n; e++) {
        int d = 0;
        for (int i = 0; i < g->width; i++)
            d += (digits[e][i] - at[i]) * (digits[e][i] - at[i]);
        if (n == LM_GRID_NEAR && d >= distance[n - 1])
            continue;
        int k = n < LM_GRID_NEAR ? n++ : n - 1;
        for (; k && distance[k - 1] > d; k--) {
            distance[k]      = distance[k - 1];
            g->near[cell][k] = g->near[cell][k - 1];
        }
        distance[k]      = d;
        g->near[cell][k] = cells[e];
    }
    g->exact[cell] = distance[0] == 0;
}

static void make(lm_code_grid *g)
{
    uint8_t  digits[2048][8];
    uint16_t cells[2048];
    unsigned halves = g->width == 8 ? LM_GRID_HALF : 64;

    for (int e = 0; e < g->n; e++) {
        digits_of_entry(g, e, digits[e]);
        cells[e]           = cell_of(g, digits[e]);
        g->index[cells[e]] = (uint16_t)e;
    }
    for (unsigned high = 0; high < halves; high++)
        for (unsigned low = 0; low < halves; low++)
            if (halves == 64 || (high % 12 < 9 && low % 12 < 9))
                list(g, low | high << g->shift, digits, cells);
}

static void make_iq2_xxs(void) { make(&grids[LM_GRID_IQ2_XXS]); }
static void make_iq2_xs(void) { make(&grids[LM_GRID_IQ2_XS]); }
static void make_iq2_s(void) { make(&grids[LM_GRID_IQ2_S]); }
static void make_iq1(void) { make(&grids[LM_GRID_IQ1]); }
static void make_iq3_xxs(void) { make(&grids[LM_GRID_IQ3_XXS]); }
static void make_iq3_s(void) { make(&grids[LM_GRID_IQ3_S]); }

const lm_code_grid *lm_grid_of(lm_grid_name name)
{
    static void (*const makers[6])(void) = {
        [LM_GRID_IQ2_XXS] = make_iq2_xxs, [LM_GRID_IQ2_XS] = make_iq2_xs, [LM_GRID_IQ2_S] = make_iq2_s,
        [LM_GRID_IQ1] = make_iq1, [LM_GRID_IQ3_XXS] = make_iq3_xxs, [LM_GRID_IQ3_S] = make_iq3_s,
    };

    pthread_once(&made[name], makers[name]);
    return &grids[name];
}

/* ---- a piece ---- */

enum { PAIR = 12 };                  /* numbers of a pair of three digits, 9, filled up for whole vectors */

typedef struct sums { float a[PAIR], b[PAIR], min[PAIR]; } sums;

/* Tabulate two elements of three values each. */
static void tabulate_pair(const float *x, const float *w, const float *values, bool turns, sums *out)
{
    float a[2][3], b[2][3];

    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < 3; d++) {
            float wg = w[i] * values[d];
            a[i][d] = wg * x[i];
            b[i][d] = wg * values[d];
        }
    }
    for (int i = 9; i < PAIR; i++)
        out->a[i] = out->b[i] = out->min[i] = 0.0f;
    for (int e = 0; e < 3; e++) {
        for (int d = 0; d < 3; d++) {
            out->a[3 * e + d] = a[0][d] + a[1][e];
            out->b[3 * e + d] = b[0][d] + b[1][e];
            if (turns)
                out->min[3 * e + d] = a[0][d] < a[1][e] ? a[0][d] : a[1][e];
        }
    }
}

/* Tabulate half a piece of 8: four elements. */
static void tabulate_four(lm_grid_table *p, int h, const float *w, bool turns)
{
    sums low, high;

    tabulate_pair(p->x + 4 * h, w + 4 * h, p->values, turns, &low);
    tabulate_pair(p->x + 4 * h + 2, w + 4 * h + 2, p->values, turns, &high);
    for (int k = 0; k < 9; k++) {
        float a = high.a[k], b = high.b[k], min = turns ? high.min[k] : 0.0f;
        float *to_a = p->a[h] + PAIR * k, *to_b = p->b[h] + PAIR * k, *to_least = p->min[h] + PAIR * k;
        for (int i = 0; i < PAIR; i++)
            to_a[i] = low.a[i] + a;
        for (int i = 0; i < PAIR; i++)
            to_b[i] = low.b[i] + b;
        for (int i = 0; turns && i < PAIR; i++)
            to_least[i] = low.min[i] < min ? low.min[i] : min;
    }
}

/* Tabulate half a piece of 4: two elements of eight values. */
static void tabulate_two(lm_grid_table *p, int h, const float *w, bool turns)
{
    float a[2][8], b[2][8];

    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < 8; d++) {
            float wg = w[2 * h + i] * p->values[d];
            a[i][d] = wg * p->x[2 * h + i];
            b[i][d] = wg * p->values[d];
        }
    }
    for (int k = 0; k < 8; k++) {
        float *to_a = p->a[h] + 8 * k, *to_b = p->b[h] + 8 * k, *to_least = p->min[h] + 8 * k;
        for (int d = 0; d < 8; d++)
            to_a[d] = a[0][d] + a[1][k];
        for (int d = 0; d < 8; d++)
            to_b[d] = b[0][d] + b[1][k];
        for (int d = 0; turns && d < 8; d++)
            to_least[d] = a[0][d] < a[1][k] ? a[0][d] : a[1][k];
    }
}

void lm_grid_table_fill(lm_grid_table *p, const lm_code_grid *g, const float *x, const float *w,
                        const float *values, bool turns)
{
    p->x      = x;
    p->values = values;
    for (int h = 0; h < 2; h++)
        (g->width == 8 ? tabulate_four : tabulate_two)(p, h, w, turns);
}

typedef float   vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

/* Round x / s to the alphabet. */
static unsigned cell_at(const lm_grid_table *p, const lm_code_grid *g, float s)
{
    unsigned cell = 0;

    if (g->width == 8) {
        const vi places = { 1, 3, 12, 36 };
        vf lower = (vf){ 0 } + s * 0.5f * (p->values[0] + p->values[1]),
           upper = (vf){ 0 } + s * 0.5f * (p->values[1] + p->values[2]);
        vf       x[2];
        memcpy(x, p->x, sizeof x);
        vi low = ((x[0] > lower) & places) + ((x[0] > upper) & places),
           high = ((x[1] > lower) & places) + ((x[1] > upper) & places);
        vi both = low + (high << 7);
        return (unsigned)(both[0] + both[1] + both[2] + both[3]);
    }
    float step = 1.0f / (s * (p->values[1] - p->values[0])),
          first = 0.5f - p->values[0] / (p->values[1] - p->values[0]);
    for (int i = 0; i < 4; i++) {
        float digit = p->x[i] * step + first;
        cell |= (digit > 0.0f ? digit < 7.0f ? (unsigned)digit : 7 : 0) << 3 * i;
    }
    return cell;
}

/* Compare `n` entries at scale s, with their signs or with the best one of them turned. */
static inline lm_grid_choice best_of(const lm_grid_table *p, const uint16_t *near, unsigned shift, float s,
                                     int n, bool turned)
{
    const unsigned mask = (1u << shift) - 1;
    lm_grid_choice best = { 0 };
    float          max = -INFINITY;

    best.cell = near[0];
    for (int k = 0; k < n; k++) {
        unsigned low = near[k] & mask, high = near[k] >> shift;
        float    a = p->a[0][low] + p->a[1][high], b = p->b[0][low] + p->b[1][high];
        if (turned)
            a -= 2.0f * (p->min[0][low] < p->min[1][high] ? p->min[0][low] : p->min[1][high]);
        float gain   = 2.0f * a - s * b;
        bool  better = gain > max;
        max      = better ? gain : max;
        best.a    = better ? a : best.a;
        best.b    = better ? b : best.b;
        best.cell = better ? near[k] : best.cell;
    }
    return best;
}

lm_grid_choice lm_grid_table_choose(const lm_grid_table *p, const lm_code_grid *g, float s,
                                    lm_grid_choice *turned)
{
    const unsigned cell = cell_at(p, g, s);

    if (turned)
        *turned = best_of(p, g->near[cell], (unsigned)g->shift, s, g->n_near, true);
    return best_of(p, g->near[cell], (unsigned)g->shift, s, g->exact[cell] ? 1 : g->n_near, false);
}

int lm_grid_table_turn(const lm_grid_table *p, const lm_code_grid *g, const float *w, uint16_t cell)
{
    uint8_t digits[8];
    float   min = INFINITY;
    int     at = 0;

    digits_of_cell(g, cell, digits);
    for (int i = 0; i < g->width; i++) {
        float product = w[i] * p->values[digits[i]] * p->x[i];
        if (product < min) {
            min = product;
            at    = i;
        }
    }
    return at;
}
