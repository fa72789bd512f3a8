/* kquants_pack.c - pack super-blocks of 256: Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K.
 *
 * A scale (and minimum) is fitted to every sub-block; the largest of each determines the super-block's f16
 * scale; then every sub-block takes the best of the representable scales around its own, and the integers are
 * computed from the stored scales. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/codecs.h"
#include "tensor/codes.h"
#include "tensor/dtype.h"
#include "tensor/fit.h"

/* Round a scale to f16, in *bits, limited to finite values. Return it as it will be read. */
static float stored(float d, uint16_t *bits)
{
    if (!(fabsf(d) <= 65504.0f))
        d = isnan(d) ? 0.0f : copysignf(65504.0f, d);
    *bits = lm_f32_to_f16(d);
    return lm_f16_to_f32(*bits);
}

/* ---- types with a minimum: Q2_K, Q4_K, Q5_K ---- */

typedef struct affine {
    int     n_sub, width;            /* sub-blocks and their elements */
    int     top, top_scale;          /* largest element and largest sub-block scale */
    bool    quick;                   /* no search */
    lm_affine_codes c;
} affine;

/* Choose the stored scale and minimum of one sub-block: the best of the nine pairs around the fitted one. */
static void choose_pair(affine *a, int s, const float *x, float d, float dmin, float scale, float min)
{
    int ls = lm_nearest(scale * lm_inverse(d), 0, a->top_scale),
        lm = lm_nearest(min * lm_inverse(dmin), 0, a->top_scale);
    float best_error = INFINITY;

    a->c.scale[s] = (uint8_t)ls;
    a->c.min[s] = (uint8_t)lm;
    if (a->quick)
        return;
    for (int i = ls > 0 ? ls - 1 : 0; i <= ls + 1 && i <= a->top_scale; i++) {
        for (int j = lm > 0 ? lm - 1 : 0; j <= lm + 1 && j <= a->top_scale; j++) {
            float error = lm_error_scale_min(x, a->width, a->top, d * (float)i, dmin * (float)j);
            if (error < best_error) {
                best_error = error;
                a->c.scale[s] = (uint8_t)i;
                a->c.min[s] = (uint8_t)j;
            }
        }
    }
}

/* Compute the scale and minimum whose range just covers every element. */
static void span(const float *x, int n, int top, float *scale, float *min)
{
    float low = 0.0f, high = x[0];

    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *scale = high > low ? (high - low) / (float)top : 0.0f;
    *min = -low;
}

static void fit_affine(affine *a, const float *x)
{
    float scale[16], min[16], max_scale = 0.0f, max_min = 0.0f;

    for (int s = 0; s < a->n_sub; s++) {
        (a->quick ? span : lm_fit_scale_min)(x + s * a->width, a->width, a->top, &scale[s], &min[s]);
        max_scale = fmaxf(max_scale, scale[s]);
        max_min = fmaxf(max_min, min[s]);
    }
    float d = stored(max_scale / (float)a->top_scale, &a->c.d),
          dmin = stored(max_min / (float)a->top_scale, &a->c.dmin);
    for (int s = 0; s < a->n_sub; s++) {
        const float *y = x + s * a->width;
        choose_pair(a, s, y, d, dmin, scale[s], min[s]);
        float id = lm_inverse(d * (float)a->c.scale[s]), m = dmin * (float)a->c.min[s];
        for (int i = 0; i < a->width; i++)
            a->c.q[s * a->width + i] = (uint8_t)lm_nearest((y[i] + m) * id, 0, a->top);
    }
}

/* ---- layout of Q2_K, Q4_K, Q5_K ---- */

void lm_store_q2_k(lm_q2_k *b, const lm_affine_codes *c)
{
    b->d = c->d;
    b->dmin = c->dmin;
    memset(b->qs, 0, sizeof b->qs);
    for (int s = 0; s < 16; s++)
        b->scales[s] = (uint8_t)(c->scale[s] | c->min[s] << 4);
    for (int i = 0; i < LM_K_BLOCK; i++)
        b->qs[32 * (i / 128) + i % 32] |= (uint8_t)(c->q[i] << 2 * (i % 128 / 32));
}

/* The inverse of lm_k4_scale_min. */
static void store_scale_mins(uint8_t out[12], const lm_affine_codes *c)
{
    for (int s = 0; s < 4; s++) {
        out[s] = (uint8_t)(c->scale[s] | (c->scale[s + 4] >> 4) << 6);
        out[s + 4] = (uint8_t)(c->min[s] | (c->min[s + 4] >> 4) << 6);
        out[s + 8] = (uint8_t)((c->scale[s + 4] & 15) | (c->min[s + 4] & 15) << 4);
    }
}

static void store_nibbles(uint8_t qs[128], const uint8_t q[LM_K_BLOCK])
{
    for (int i = 0; i < 128; i++) {
        int at = 64 * (i / 32) + i % 32;
        qs[i] = (uint8_t)((q[at] & 15) | (q[at + 32] & 15) << 4);
    }
}

void lm_store_q4_k(lm_q4_k *b, const lm_affine_codes *c)
{
    b->d = c->d;
    b->dmin = c->dmin;
    store_scale_mins(b->scales, c);
    store_nibbles(b->qs, c->q);
}

void lm_store_q5_k(lm_q5_k *b, const lm_affine_codes *c)
{
    b->d = c->d;
    b->dmin = c->dmin;
    store_scale_mins(b->scales, c);
    store_nibbles(b->qs, c->q);
    memset(b->qh, 0, sizeof b->qh);
    for (int i = 0; i < LM_K_BLOCK; i++)
        b->qh[i % 32] |= (uint8_t)(c->q[i] >> 4 << i / 32);
}

static void write_q2_k(lm_q2_k *b, const float *x, bool quick)
{
    affine a = { .n_sub = 16, .width = 16, .top = 3, .top_scale = 15, .quick = quick };

    fit_affine(&a, x);
    lm_store_q2_k(b, &a.c);
}

static void write_q4_k(lm_q4_k *b, const float *x, bool quick)
{
    affine a = { .n_sub = 8, .width = 32, .top = 15, .top_scale = 63, .quick = quick };

    fit_affine(&a, x);
    lm_store_q4_k(b, &a.c);
}

static void write_q5_k(lm_q5_k *b, const float *x, bool quick)
{
    affine a = { .n_sub = 8, .width = 32, .top = 31, .top_scale = 63, .quick = quick };

    fit_affine(&a, x);
    lm_store_q5_k(b, &a.c);
}

/* ---- types without a minimum: Q3_K, Q6_K ---- */

typedef struct symmetric {
    int      lo, hi;                 /* elements */
    int      scale_lo, scale_hi;     /* sub-block scales; the largest one becomes scale_lo */
    bool     quick;                  /* no search */
    lm_symmetric_codes c;
} symmetric;

static int choose_scale(const symmetric *f, const float *x, float d, float scale)
{
    int near = lm_nearest(scale * lm_inverse(d), f->scale_lo, f->scale_hi), best = near;
    float best_error = INFINITY;

    for (int i = near - 1; i <= near + 1 && !f->quick; i++) {
        if (i < f->scale_lo || i > f->scale_hi)
            continue;
        float error = lm_error_scale(x, 16, f->lo, f->hi, d * (float)i);
        if (error < best_error) {
            best_error = error;
            best = i;
        }
    }
    return best;
}

/* Return the scale that maps the element of largest magnitude to `lo`. */
static float reach(const float *x, int n, int lo)
{
    float extreme = 0.0f;

    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    return extreme / (float)lo;
}

static void fit_symmetric(symmetric *f, const float *x)
{
    float scale[16], largest = 0.0f;

    for (int s = 0; s < 16; s++) {
        scale[s] = f->quick ? reach(x + 16 * s, 16, f->lo) : lm_fit_scale(x + 16 * s, 16, f->lo, f->hi);
        if (fabsf(scale[s]) > fabsf(largest))
            largest = scale[s];
    }
    float d = stored(largest / (float)f->scale_lo, &f->c.d);
    for (int s = 0; s < 16; s++) {
        f->c.scale[s] = (int8_t)choose_scale(f, x + 16 * s, d, scale[s]);
        float id = lm_inverse(d * (float)f->c.scale[s]);
        for (int i = 16 * s; i < 16 * s + 16; i++)
            f->c.q[i] = (uint8_t)(lm_nearest(x[i] * id, f->lo, f->hi) - f->lo);
    }
}

void lm_store_q3_k(lm_q3_k *b, const lm_symmetric_codes *c)
{
    memset(b, 0, sizeof *b);
    b->d = c->d;
    for (int s = 0; s < 16; s++) {               /* the inverse of lm_k3_scale */
        int v = c->scale[s] + 32;
        b->scales[s % 8] |= (uint8_t)(s < 8 ? v & 15 : (v & 15) << 4);
        b->scales[8 + s % 4] |= (uint8_t)(v >> 4 << 2 * (s / 4));
    }
    for (int i = 0; i < LM_K_BLOCK; i++) {
        b->qs[32 * (i / 128) + i % 32] |= (uint8_t)((c->q[i] & 3) << 2 * (i % 128 / 32));
        b->hmask[i % 32] |= (uint8_t)(c->q[i] >> 2 << i / 32);
    }
}

void lm_store_q6_k(lm_q6_k *b, const lm_symmetric_codes *c)
{
    memset(b, 0, sizeof *b);
    b->d = c->d;
    memcpy(b->scales, c->scale, sizeof b->scales);
    for (int i = 0; i < LM_K_BLOCK; i++) {
        int n = i / 128, j = i % 128 / 32, l = i % 32;
        b->ql[64 * n + l + 32 * (j & 1)] |= (uint8_t)((c->q[i] & 15) << (j < 2 ? 0 : 4));
        b->qh[32 * n + l] |= (uint8_t)(c->q[i] >> 4 << 2 * j);
    }
}

static void write_q3_k(lm_q3_k *b, const float *x, bool quick)
{
    symmetric f = { .lo = -4, .hi = 3, .scale_lo = -32, .scale_hi = 31, .quick = quick };

    fit_symmetric(&f, x);
    lm_store_q3_k(b, &f.c);
}

static void write_q6_k(lm_q6_k *b, const float *x, bool quick)
{
    symmetric f = { .lo = -32, .hi = 31, .scale_lo = -128, .scale_hi = 127, .quick = quick };

    fit_symmetric(&f, x);
    lm_store_q6_k(b, &f.c);
}

/* The extreme element maps to -127, so its sign is in d. */
static void pack_q8_k(lm_q8_k *b, const float *x)
{
    float extreme = 0.0f;

    for (int i = 0; i < LM_K_BLOCK; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    float id = extreme != 0.0f ? -127.0f / extreme : 0.0f;
    b->d = lm_inverse(id);
    for (int k = 0; k < 16; k++) {
        int sum = 0;
        for (int i = 16 * k; i < 16 * k + 16; i++) {
            b->qs[i] = (int8_t)lm_nearest(x[i] * id, -127, 127);
            sum += b->qs[i];
        }
        b->bsums[k] = (int16_t)sum;
    }
}

LM_WRITE_ROWS(q2_k, LM_K_BLOCK)
LM_WRITE_ROWS(q3_k, LM_K_BLOCK)
LM_WRITE_ROWS(q4_k, LM_K_BLOCK)
LM_WRITE_ROWS(q5_k, LM_K_BLOCK)
LM_WRITE_ROWS(q6_k, LM_K_BLOCK)
LM_PACK_ROWS(q8_k, LM_K_BLOCK)
