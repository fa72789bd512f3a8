/* quantize_lanes.h - searches over several blocks at once, one per lane. Compiled for each instruction
 * set. */
#ifndef LM_KERNELS_QUANTIZE_LANES_H
#define LM_KERNELS_QUANTIZE_LANES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* As many as a register holds: gcc splits longer vectors into scalars. */
#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { MAX = 32 };                   /* elements of the longest block */

typedef float   vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));

/* A block whose magnitudes are all below this is zero. */
#define TINY 1e-15f

static inline vf select(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

static inline vf magnitude(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

static inline vf spread(float x)
{
    return (vf){ 0 } + x;
}

/* Round to nearest, ties to even, for |x| < 2^22, and clamp to [lo, hi]. */
static inline vf nearest(vf x, int lo, int hi)
{
    vi i = ((vi)(x + 12582912.0f) & 0x7fffff) - 0x400000;

    i = ((i < lo) & lo) | (~(i < lo) & i);
    i = ((i > hi) & hi) | (~(i > hi) & i);
    return __builtin_convertvector(i, vf);
}

/* The same for one number, clamped to [0, hi]. */
static inline int nearest_lane(float x, int hi)
{
    float   shifted = x + 12582912.0f;
    int32_t i;

    memcpy(&i, &shifted, sizeof i);
    i = (i & 0x7fffff) - 0x400000;
    return i < 0 ? 0 : i > hi ? hi : i;
}

static inline vf roots(vf x)
{
    vf r;

    for (int l = 0; l < LANES; l++)
        r[l] = sqrtf(x[l]);
    return r;
}

static inline int any(vi mask)
{
    int32_t found = 0;

    for (int l = 0; l < LANES; l++)
        found |= mask[l];
    return found;
}

/* ---- a scale: x ~ scale * (q - top), q from 0 to 2 top - 1 ---- */

/* Try the scale that maps the extreme to -top and eighteen scales around it; refine each by least squares. */
static vf fit_scale(int n, int top, const vf *x, const vf *w, vf *q)
{
    vf max = { 0 }, extreme = { 0 }, sums = { 0 }, squares = { 0 };

    for (int i = 0; i < n; i++) {
        vi larger = magnitude(x[i]) > max;
        max = select(larger, magnitude(x[i]), max);
        extreme = select(larger, x[i], extreme);
    }
    vi zero = max < TINY;
    vf inverse = spread(-(float)top) / extreme;
    for (int i = 0; i < n; i++) {
        vf l = nearest(inverse * x[i], -top, top - 1);
        q[i] = l + (float)top;
        sums += w[i] * x[i] * l;
        squares += w[i] * l * l;
    }
    vf scale = select(squares != 0, sums / squares, (vf){ 0 }), best = scale * sums;
    for (int t = -9; t <= 9; t++) {
        if (t == 0)
            continue;
        inverse = -((float)top + spread(0.1f * (float)t)) / extreme;
        sums = squares = (vf){ 0 };
        for (int i = 0; i < n; i++) {
            vf l = nearest(inverse * x[i], -top, top - 1);
            sums += w[i] * x[i] * l;
            squares += w[i] * l * l;
        }
        vi better = (squares > 0) & (sums * sums > best * squares);
        if (!any(better))
            continue;
        for (int i = 0; i < n; i++)
            q[i] = select(better, nearest(inverse * x[i], -top, top - 1) + (float)top, q[i]);
        scale = select(better, sums / squares, scale);
        best = select(better, scale * sums, best);
    }
    for (int i = 0; i < n; i++)
        q[i] = select(zero, (vf){ 0 }, q[i]);
    return select(zero, (vf){ 0 }, scale);
}

/* The same by sweeps: one element after another moves to the code nearest under the least-squares scale of
 * the others. Weights are x^2. */
static vf fit_scale_by_sweeps(int n, int top, const vf *x, vf *q)
{
    vf max = { 0 }, extreme = { 0 }, sums = { 0 }, squares = { 0 };

    for (int i = 0; i < n; i++) {
        vi larger = magnitude(x[i]) > max;
        max = select(larger, magnitude(x[i]), max);
        extreme = select(larger, x[i], extreme);
    }
    vi zero = max < TINY, moving = ~zero;
    vf inverse = spread(-(float)top) / extreme;
    for (int i = 0; i < n; i++) {
        vf l = nearest(inverse * x[i], -top, top - 1), w = x[i] * x[i];
        q[i] = l;
        sums += w * x[i] * l;
        squares += w * l * l;
    }
    for (int sweep = 0; sweep < 5 && any(moving); sweep++) {
        vi moved = { 0 };
        for (int i = 0; i < n; i++) {
            vf w = x[i] * x[i], rest = sums - w * x[i] * q[i], others = squares - w * q[i] * q[i];
            vf l = nearest(x[i] * others / rest, -top, top - 1);
            vi other = moving & (rest > 0) & (l != q[i]);
            rest += w * x[i] * l;
            others += w * l * l;
            other &= (others > 0) & (rest * rest * squares > sums * sums * others);
            q[i] = select(other, l, q[i]);
            sums = select(other, rest, sums);
            squares = select(other, others, squares);
            moved |= other;
        }
        moving &= moved;
    }
    for (int i = 0; i < n; i++)
        q[i] = select(zero, (vf){ 0 }, q[i] + (float)top);
    return select(zero | (squares <= 0), (vf){ 0 }, sums / squares);
}

/* ---- a scale and a minimum: x ~ scale * q - min, q from 0 to top, min >= 0 ---- */

typedef struct affine_search {
    int   top;
    float first, step;               /* the span is divided into top + first + step * t parts */
    int   steps;
    bool  absolute;                  /* error: sum of magnitudes instead of squares */
} affine_search;

/* The following tries start from an accepted minimum, so they depend on each other. */
static vf fit_scale_min(const affine_search *s, int n, const vf *x, const vf *w, vf *q, vf *min_out)
{
    const float top = (float)s->top;
    vf low = x[0], high = x[0], sum_w = w[0], sum_x = sum_w * x[0], tried[MAX];

    for (int i = 1; i < n; i++) {
        low = select(x[i] < low, x[i], low);
        high = select(x[i] > high, x[i], high);
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    low = select(low > 0, (vf){ 0 }, low);
    vi flat = high == low;
    vf start = low, inverse = top / (high - low), scale = 1.0f / inverse, best = { 0 };
    for (int i = 0; i < n; i++) {
        q[i] = nearest(inverse * (x[i] - low), 0, s->top);
        vf d = scale * q[i] + low - x[i];
        best += w[i] * (s->absolute ? magnitude(d) : d * d);
    }
    for (int t = 0; t <= s->steps; t++) {
        vf sum_l = { 0 }, sum_l2 = { 0 }, sum_xl = { 0 }, error = { 0 };
        inverse = (s->first + s->step * (float)t + top) / (high - low);
        for (int i = 0; i < n; i++) {
            vf l = tried[i] = nearest(inverse * (x[i] - low), 0, s->top);
            sum_l += w[i] * l;
            sum_l2 += w[i] * l * l;
            sum_xl += w[i] * l * x[i];
        }
        vf det = sum_w * sum_l2 - sum_l * sum_l;
        vf this_scale = (sum_w * sum_xl - sum_x * sum_l) / det,
           this_min = (sum_l2 * sum_x - sum_l * sum_xl) / det;
        vi above = this_min > 0;
        this_min = select(above, (vf){ 0 }, this_min);
        this_scale = select(above, sum_xl / sum_l2, this_scale);
        for (int i = 0; i < n; i++) {
            vf d = this_scale * tried[i] + this_min - x[i];
            error += w[i] * (s->absolute ? magnitude(d) : d * d);
        }
        vi better = (det > 0) & (error < best);
        for (int i = 0; i < n; i++)
            q[i] = select(better, tried[i], q[i]);
        best = select(better, error, best);
        scale = select(better, this_scale, scale);
        low = select(better, this_min, low);
    }
    for (int i = 0; i < n; i++)
        q[i] = select(flat, (vf){ 0 }, q[i]);
    *min_out = select(flat, -start, -low);
    return select(flat, (vf){ 0 }, scale);
}

/* ---- a scale for an ascending table of sixteen values ---- */

/* Return the nearest value and its index; of two equally near, the higher. */
static inline vf nearest_value(vf x, const int8_t table[16], vf *index)
{
    vf value = spread(table[0]), at = { 0 };

    for (int k = 1; k < 16; k++) {
        vi up = ~(x - (float)table[k - 1] < (float)table[k] - x);
        value = select(up, spread(table[k]), value);
        at = select(up, spread((float)k), at);
    }
    *index = at;
    return value;
}

static vf fit_values(int n, const int8_t table[16], int tries, const vf *x, const vf *w)
{
    vf max = { 0 }, extreme = { 0 }, scale = { 0 }, best = { 0 }, index;

    for (int i = 0; i < n; i++) {
        vi larger = magnitude(x[i]) > max;
        max = select(larger, magnitude(x[i]), max);
        extreme = select(larger, x[i], extreme);
    }
    for (int t = -tries - 1; t <= tries; t++) {          /* the first maps the extreme exactly to the table's
                                                            end */
        bool first = t < -tries;
        vf inverse = first ? 1.0f / (-extreme / (float)table[0]) : ((float)t + spread(table[0])) / extreme,
           sums = { 0 }, squares = { 0 };
        for (int i = 0; i < n; i++) {
            vf v = nearest_value(inverse * x[i], table, &index);
            sums += w[i] * v * x[i];
            squares += w[i] * v * v;
        }
        vi better = first ? (vi){ 0 } - 1 : (squares > 0) & (sums * sums > best * squares);
        scale = select(better, sums / squares, scale);
        best = select(better, scale * sums, best);
    }
    return select(max < TINY, (vf){ 0 }, scale);
}

/* ---- scales of a super-block by their weights: x ~ scale * q, all positive, q from 0 to top ---- */

static float fit_positive(int n, int top, const float *x, const float *w, uint8_t *q)
{
    float max = 0, sums = 0, squares = 0, min = 0, inverse;

    for (int i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
        q[i] = 0;
    }
    if (max < TINY)
        return 0;
    inverse = (float)top / max;
    for (int t = -5; t <= 4; t++) {                      /* -5: the scale that just reaches the largest */
        float tried = t < -4 ? inverse : (0.1f * (float)t + (float)top) / max, scale = 1 / tried, error = 0;
        if (t == 0)
            continue;
        for (int i = 0; i < n; i++) {
            int   l = nearest_lane(tried * x[i], top);
            float d = x[i] - scale * (float)l;
            error += w[i] * d * d;
        }
        if (t < -4 || error < min) {
            min = error;
            inverse = tried;
        }
    }
    for (int i = 0; i < n; i++) {
        int l = nearest_lane(inverse * x[i], top);
        q[i] = (uint8_t)l;
        sums += w[i] * x[i] * (float)l;
        squares += w[i] * (float)l * (float)l;
    }
    for (int sweep = 0, moved = 1; sweep < 5 && moved; sweep++) {
        moved = 0;
        for (int i = 0; i < n; i++) {
            float rest = sums - w[i] * x[i] * (float)q[i],
                  others = squares - w[i] * (float)q[i] * (float)q[i];
            if (!(rest > 0 && others > 0))
                continue;
            int l = nearest_lane(x[i] * others / rest, top);
            if (l == q[i])
                continue;
            rest += w[i] * x[i] * (float)l;
            others += w[i] * (float)l * (float)l;
            if (rest * rest * squares > sums * sums * others) {
                q[i] = (uint8_t)l;
                sums = rest;
                squares = others;
                moved = 1;
            }
        }
    }
    return squares > 0 ? sums / squares : 0;
}

#endif
