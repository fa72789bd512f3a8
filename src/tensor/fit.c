/* fit.c - refine a scale from several candidates by least squares, and keep the best. */
#include "tensor/fit.h"

#include <math.h>

#include "tensor/codecs.h"

enum { FAN = 9 };                    /* candidates on each side */
#define STEP 0.1f                    /* of an integer, at the extreme element */

float lm_inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

static float extreme_of(const float *x, int n)
{
    float extreme = 0.0f;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    return extreme;
}

/* Compute the best d for the integers that result from 1/d = id. Return the part of sum x^2 that it explains:
 * (xq)^2 / qq. */
static float refine_scale(const float *x, int n, int lo, int hi, float id, float *d)
{
    float xq = 0.0f, qq = 0.0f;
    for (int i = 0; i < n; i++) {
        float q = (float)lm_nearest(x[i] * id, lo, hi);
        xq += x[i] * q;
        qq += q * q;
    }
    *d = qq > 0.0f ? xq / qq : 0.0f;
    return xq * *d;
}

float lm_fit_scale(const float *x, int n, int lo, int hi)
{
    float extreme = extreme_of(x, n), best = 0.0f, gain = -1.0f;

    if (extreme == 0.0f)
        return 0.0f;
    for (int side = 0; side < 2; side++) {          /* the extreme at either end of the range */
        float end = (float)(side ? hi : lo);
        for (int k = -FAN; k <= FAN; k++) {
            float d, g = refine_scale(x, n, lo, hi, (end + STEP * (float)k) / extreme, &d);
            if (g > gain) {
                gain = g;
                best = d;
            }
        }
    }
    return best;
}

/* Solve for d and m, given the integers q = (x[i] - from) * id. Return the error minus sum x^2. */
static float refine_scale_min(const float *x, int n, int top, float id, float from, float *d, float *m)
{
    float sx = 0.0f, sq = 0.0f, sqq = 0.0f, sxq = 0.0f, count = (float)n;
    for (int i = 0; i < n; i++) {
        float q = (float)lm_nearest((x[i] - from) * id, 0, top);
        sx += x[i];
        sq += q;
        sqq += q * q;
        sxq += x[i] * q;
    }
    float det = count * sqq - sq * sq;
    float slope = det > 0.0f ? (count * sxq - sq * sx) / det : 0.0f;
    float offset = (sx - slope * sq) / count;
    if (offset > 0.0f) {                            /* the format cannot represent it */
        offset = 0.0f;
        slope = sqq > 0.0f ? sxq / sqq : 0.0f;
    }
    if (slope < 0.0f)
        slope = 0.0f;
    *d = slope;
    *m = -offset;
    return slope * slope * sqq + count * offset * offset + 2 * slope * offset * sq - 2 * slope * sxq -
           2 * offset * sx;
}

void lm_fit_scale_min(const float *x, int n, int top, float *d, float *m)
{
    float min = x[0], max = x[0], best_error = 0.0f;

    for (int i = 1; i < n; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    min = min > 0.0f ? 0.0f : min;
    *d = 0.0f;
    *m = -min;
    if (!(max > min))
        return;
    for (int k = -FAN; k <= 2 * FAN; k++) {
        float slope, offset, id = ((float)top + STEP * (float)k) / (max - min);
        refine_scale_min(x, n, top, id, min, &slope, &offset);
        /* Repeat from the solution: the integers may change. */
        float error = refine_scale_min(x, n, top, lm_inverse(slope), -offset, &slope, &offset);
        if (k == -FAN || error < best_error) {
            best_error = error;
            *d = slope;
            *m = offset;
        }
    }
}

int lm_nearest_in_table(const int8_t table[16], float x)
{
    int low = 0, high = 15;

    if (!(x > (float)table[0]))
        return 0;
    if (x >= (float)table[15])
        return 15;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (x < (float)table[middle])
            high = middle;
        else
            low = middle;
    }
    return x - (float)table[low] <= (float)table[high] - x ? low : high;
}

float lm_fit_table(const float *x, int n, const int8_t table[16])
{
    float extreme = extreme_of(x, n), best = 0.0f, gain = -1.0f;

    if (extreme == 0.0f)
        return 0.0f;
    for (int side = 0; side < 2; side++) {
        float end = (float)table[side ? 15 : 0];
        for (int k = -FAN; k <= FAN; k++) {
            float xq = 0.0f, qq = 0.0f, id = (end + (float)k) / extreme;
            for (int i = 0; i < n; i++) {
                float q = (float)table[lm_nearest_in_table(table, x[i] * id)];
                xq += x[i] * q;
                qq += q * q;
            }
            if (qq > 0.0f && xq * xq > gain * qq) {
                gain = xq * xq / qq;
                best = xq / qq;
            }
        }
    }
    return best;
}

float lm_error_scale(const float *x, int n, int lo, int hi, float d)
{
    float id = lm_inverse(d), sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float e = x[i] - d * (float)lm_nearest(x[i] * id, lo, hi);
        sum += e * e;
    }
    return sum;
}

float lm_error_scale_min(const float *x, int n, int top, float d, float m)
{
    float id = lm_inverse(d), sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float e = x[i] - (d * (float)lm_nearest((x[i] + m) * id, 0, top) - m);
        sum += e * e;
    }
    return sum;
}

float lm_error_table(const float *x, int n, const int8_t table[16], float d)
{
    float id = lm_inverse(d), sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float e = x[i] - d * (float)table[lm_nearest_in_table(table, x[i] * id)];
        sum += e * e;
    }
    return sum;
}
