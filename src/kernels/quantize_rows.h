/* quantize_rows.h - the body of lm_quantize_row for one instruction set: include after `#define QUANTIZE_ROW
 * name`. */
#include "kernels/quantize.h"
#include "kernels/quantize_lanes.h"
#include "tensor/codes.h"
#include "tensor/iquants_pack.h"

/* Number of blocks searched at once: those of one or two super-blocks. */
enum { GROUP = 16, PARTS = GROUP / LANES };

/* Up to sixteen consecutive blocks of `n` elements, one per lane; lanes without a block are zero. */
typedef struct lane_group {
    int   n, blocks;
    vf    x[PARTS][MAX], w[PARTS][MAX], q[PARTS][MAX];
    float scale[GROUP], min[GROUP];  /* results of a search */
} lane_group;

static void load(lane_group *g, int n, int blocks, const float *x)
{
    g->n = n;
    g->blocks = blocks;
    for (int i = 0; i < n; i++) {
        float lanes[GROUP] = { 0 };
        for (int l = 0; l < blocks; l++)
            lanes[l] = x[l * n + i];
        for (int p = 0; p < PARTS; p++)
            memcpy(&g->x[p][i], lanes + p * LANES, sizeof g->x[p][i]);
    }
}

static vf lanes_of(const float *values, int part)
{
    vf v;

    memcpy(&v, values + part * LANES, sizeof v);
    return v;
}

/* Set the weights to importance times sqrt(sigma2 + x^2), with a `sigma2` per block; NULL: to the importance
 * itself. */
static void weigh(lane_group *g, const float *importance, const float *sigma2)
{
    for (int i = 0; i < g->n; i++) {
        float lanes[GROUP] = { 0 };
        for (int l = 0; l < g->blocks; l++)
            lanes[l] = importance[l * g->n + i];
        for (int p = 0; p < PARTS; p++) {
            vf w = lanes_of(lanes, p), x = g->x[p][i];
            g->w[p][i] = sigma2 ? w * roots(lanes_of(sigma2, p) + x * x) : w;
        }
    }
}

static void weigh_by_squares(lane_group *g)
{
    for (int p = 0; p < PARTS; p++)
        for (int i = 0; i < g->n; i++)
            g->w[p][i] = g->x[p][i] * g->x[p][i];
}

static void weight_sums(const lane_group *g, float *out)
{
    for (int p = 0; p < PARTS; p++) {
        vf sum = { 0 };
        for (int i = 0; i < g->n; i++)
            sum += g->w[p][i];
        memcpy(out + p * LANES, &sum, sizeof sum);
    }
}

static void store_codes(const lane_group *g, uint8_t *out)
{
    for (int i = 0; i < g->n; i++)
        for (int l = 0; l < g->blocks; l++)
            out[l * g->n + i] = (uint8_t)g->q[l / LANES][i][l % LANES];
}

static void search_scale(lane_group *g, int top)
{
    for (int p = 0; p < PARTS; p++) {
        vf scale = fit_scale(g->n, top, g->x[p], g->w[p], g->q[p]);
        memcpy(g->scale + p * LANES, &scale, sizeof scale);
    }
}

static void search_scale_min(lane_group *g, const affine_search *s)
{
    for (int p = 0; p < PARTS; p++) {
        vf min, scale = fit_scale_min(s, g->n, g->x[p], g->w[p], g->q[p], &min);
        memcpy(g->scale + p * LANES, &scale, sizeof scale);
        memcpy(g->min + p * LANES, &min, sizeof min);
    }
}

static float sum_of_squares(const float *x, uint64_t n)
{
    float sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Compute `factor` times the mean square of each super-block, repeated for each of its blocks. */
static void super_sigma2(const float *x, int supers, int blocks_of_one, float factor, float *out)
{
    memset(out, 0, GROUP * sizeof *out);
    for (int s = 0; s < supers; s++) {
        float v = factor * sum_of_squares(x + s * LM_K_BLOCK, LM_K_BLOCK) / LM_K_BLOCK;
        for (int l = 0; l < blocks_of_one; l++)
            out[s * blocks_of_one + l] = v;
    }
}

static uint16_t half(float x, float *stored)
{
    uint16_t bits = lm_f32_to_f16(x);

    *stored = lm_f16_to_f32(bits);
    return bits;
}

/* ---- Q2_K, Q4_K, Q5_K ---- */

typedef struct affine_type {
    int           n_sub, width, top_scale;
    float         sigma_factor;
    affine_search plain, weighted;
} affine_type;

static const affine_type q2_k = {
    16, 16, 15, 1, { 3, -0.5f, 0.1f, 15, true }, { 3, -0.9f, 0.05f, 36, false }
};
static const affine_type q4_k = {
    8, 32, 63, 2, { 15, -1.0f, 0.1f, 20, false }, { 15, -0.9f, 0.05f, 36, false }
};
static const affine_type q5_k = {
    8, 32, 63, 2, { 31, -0.5f, 0.1f, 15, false }, { 31, -0.9f, 0.05f, 36, false }
};

/* Set the weights without importance: for Q2_K (`alone`) to the magnitude, else to the magnitude plus the
 * block's root mean square. */
static void weigh_by_magnitude(lane_group *g, bool alone)
{
    for (int p = 0; p < PARTS; p++) {
        vf squares = { 0 }, mean = { 0 };
        for (int i = 0; i < g->n; i++)
            squares += g->x[p][i] * g->x[p][i];
        if (!alone)
            mean = roots(squares / (float)g->n);
        for (int i = 0; i < g->n; i++)
            g->w[p][i] = alone ? magnitude(g->x[p][i]) : mean + magnitude(g->x[p][i]);
    }
}

/* Quantise a super-block's scales (or minima) and return their scale: by the largest, or with importance by
 * least squares. */
static float block_scales(const affine_type *t, const float *values, const float *sums, uint8_t *q)
{
    float max = 0, top = (float)t->top_scale;

    if (sums)
        return fit_positive(t->n_sub, t->top_scale, values, sums, q);
    for (int s = 0; s < t->n_sub; s++)
        max = values[s] > max ? values[s] : max;
    float inverse = max > 0 ? top / max : 0;
    for (int s = 0; s < t->n_sub; s++)
        q[s] = (uint8_t)nearest_lane(inverse * values[s], t->top_scale);
    return max / top;
}

/* Quantise `supers` super-blocks, at most sixteen blocks in total. */
static void affine(const affine_type *t, int supers, const float *x, const float *importance,
                   lm_affine_codes *out)
{
    lane_group g;
    uint8_t    codes[GROUP * MAX];
    float      sums[GROUP], sigma2[GROUP], d[GROUP] = { 0 }, m[GROUP] = { 0 };

    load(&g, t->width, supers * t->n_sub, x);
    if (importance) {
        super_sigma2(x, supers, t->n_sub, t->sigma_factor, sigma2);
        weigh(&g, importance, sigma2);
        weight_sums(&g, sums);
    } else {
        weigh_by_magnitude(&g, t->width == 16);
    }
    search_scale_min(&g, importance ? &t->weighted : &t->plain);
    for (int s = 0; s < supers; s++) {
        lm_affine_codes *c = &out[s];
        int              first = s * t->n_sub;
        float            stored, stored_min;
        c->d = half(block_scales(t, g.scale + first, importance ? sums + first : NULL, c->scale), &stored);
        c->dmin = half(block_scales(t, g.min + first, importance ? sums + first : NULL, c->min), &stored_min);
        for (int k = 0; k < t->n_sub; k++) {
            d[first + k] = stored * (float)c->scale[k];
            m[first + k] = stored_min * (float)c->min[k];
        }
    }
    for (int p = 0; p < PARTS; p++) {                    /* codes for the stored scales; if a scale is 0, keep
                                                            those of the search */
        vf scale = lanes_of(d, p), min = lanes_of(m, p);
        for (int i = 0; i < t->width; i++)
            g.q[p][i] = select(scale != 0, nearest((g.x[p][i] + min) / scale, 0, t->plain.top), g.q[p][i]);
    }
    store_codes(&g, codes);
    for (int s = 0; s < supers; s++)
        memcpy(out[s].q, codes + s * LM_K_BLOCK, LM_K_BLOCK);
}

static void affine_row(lm_dtype type, void *dst, const float *x, uint64_t cols, const float *importance)
{
    const affine_type *t = type == LM_Q2_K ? &q2_k : type == LM_Q4_K ? &q4_k : &q5_k;
    lm_affine_codes    c[2];
    uint64_t           n = cols / LM_K_BLOCK;

    for (uint64_t b = 0; b < n;) {
        int supers = n - b < (uint64_t)(GROUP / t->n_sub) ? (int)(n - b) : GROUP / t->n_sub;
        affine(t, supers, x + b * LM_K_BLOCK, importance ? importance + b * LM_K_BLOCK : NULL, c);
        for (int s = 0; s < supers; s++, b++) {
            if (type == LM_Q2_K)
                lm_store_q2_k((lm_q2_k *)dst + b, &c[s]);
            else if (type == LM_Q4_K)
                lm_store_q4_k((lm_q4_k *)dst + b, &c[s]);
            else
                lm_store_q5_k((lm_q5_k *)dst + b, &c[s]);
        }
    }
}

/* ---- Q3_K, Q6_K ---- */

/* Quantise Q3_K's scales with importance: search as for elements, weighted by the sums of weights. */
static float searched_scales(const lane_group *g, int8_t *out)
{
    vf    x[GROUP], w[GROUP], q[GROUP];
    float sums[GROUP];

    weight_sums(g, sums);
    for (int s = 0; s < GROUP; s++) {
        x[s] = spread(g->scale[s]);
        w[s] = spread(sums[s]);
    }
    float d = fit_scale(GROUP, 32, x, w, q)[0];
    for (int s = 0; s < GROUP; s++)
        out[s] = (int8_t)((int)q[s][0] - 32);
    return d;
}

/* Quantise the scales so that the largest becomes `low`. */
static float reached_scales(const lane_group *g, int low, int8_t *out)
{
    float extreme = 0;

    for (int s = 0; s < GROUP; s++)
        extreme = fabsf(g->scale[s]) > fabsf(extreme) ? g->scale[s] : extreme;
    if (extreme == 0) {
        memset(out, low, GROUP);                         /* all bits of the scales are 0 */
        return 0;
    }
    float inverse = (float)low / extreme;
    for (int s = 0; s < GROUP; s++)
        out[s] = (int8_t)nearest(spread(inverse * g->scale[s]), low, -low - 1)[0];
    return 1 / inverse;
}

/* Q3_K: elements from -4, scales from -32. Q6_K (`six`): elements from -32, scales from -128; a super-block
 * with tiny scales is zero. */
static void symmetric(bool six, const float *x, const float *importance, lm_symmetric_codes *out)
{
    const int  top = six ? 32 : 4;
    lane_group g;
    float      stored, sigma2[GROUP], d[GROUP], largest = 0;

    load(&g, 16, GROUP, x);
    super_sigma2(x, 1, GROUP, 2, sigma2);
    if (importance)
        weigh(&g, importance, six ? NULL : sigma2);
    else
        weigh_by_squares(&g);
    if (importance || six)
        search_scale(&g, top);
    for (int p = 0; p < PARTS && !importance && !six; p++) {
        vf scale = fit_scale_by_sweeps(16, top, g.x[p], g.q[p]);
        memcpy(g.scale + p * LANES, &scale, sizeof scale);
    }
    for (int s = 0; s < GROUP; s++)
        largest = fabsf(g.scale[s]) > largest ? fabsf(g.scale[s]) : largest;
    memset(out, 0, sizeof *out);
    if (six && largest < TINY)
        return;
    out->d = half(importance && !six ? searched_scales(&g, out->scale)
                                     : reached_scales(&g, six ? -128 : -32, out->scale),
                  &stored);
    for (int s = 0; s < GROUP; s++)
        d[s] = stored * (float)out->scale[s];
    for (int p = 0; p < PARTS; p++) {
        vf scale = lanes_of(d, p);
        for (int i = 0; i < 16; i++)
            g.q[p][i] = select(scale != 0, nearest(g.x[p][i] / scale, -top, top - 1) + (float)top, g.q[p][i]);
    }
    store_codes(&g, out->q);
}

static void symmetric_row(lm_dtype type, void *dst, const float *x, uint64_t cols, const float *importance)
{
    lm_symmetric_codes c;

    for (uint64_t b = 0; b < cols / LM_K_BLOCK; b++) {
        const float *q = importance ? importance + b * LM_K_BLOCK : NULL;
        if (type == LM_Q3_K) {
            symmetric(false, x + b * LM_K_BLOCK, q, &c);
            lm_store_q3_k((lm_q3_k *)dst + b, &c);
        } else {
            symmetric(true, x + b * LM_K_BLOCK, q, &c);
            lm_store_q6_k((lm_q6_k *)dst + b, &c);
        }
    }
}

/* ---- Q4_0, Q4_1, Q5_0, Q5_1 with importance ---- */

static void store_legacy(lm_dtype type, void *dst, uint64_t b, float scale, float min, const uint8_t q[32])
{
    if (type == LM_Q4_0) {
        lm_q4_0 *o = (lm_q4_0 *)dst + b;
        o->d = lm_f32_to_f16(scale);
        lm_store_halves(o->qs, q);
    } else if (type == LM_Q4_1) {
        lm_q4_1 *o = (lm_q4_1 *)dst + b;
        o->d = lm_f32_to_f16(scale);
        o->m = lm_f32_to_f16(-min);
        lm_store_halves(o->qs, q);
    } else if (type == LM_Q5_0) {
        lm_q5_0 *o = (lm_q5_0 *)dst + b;
        o->d = lm_f32_to_f16(scale);
        o->qh = lm_fifth_bits(q);
        lm_store_halves(o->qs, q);
    } else {
        lm_q5_1 *o = (lm_q5_1 *)dst + b;
        o->d = lm_f32_to_f16(scale);
        o->m = lm_f32_to_f16(-min);
        o->qh = lm_fifth_bits(q);
        lm_store_halves(o->qs, q);
    }
}

static void legacy_row(lm_dtype type, void *dst, const float *x, uint64_t cols, const float *importance)
{
    const affine_search four = { 15, -0.9f, 0.05f, 36, false }, five = { 31, -0.9f, 0.05f, 36, false };
    const uint64_t      n = cols / 32;
    const float         mean = sum_of_squares(x, cols) / (float)cols;
    uint8_t             codes[GROUP * MAX];
    float               sigma2[GROUP];
    lane_group          g;

    for (int l = 0; l < GROUP; l++)
        sigma2[l] = mean;
    for (uint64_t b = 0; b < n; b += GROUP) {
        load(&g, 32, n - b < GROUP ? (int)(n - b) : GROUP, x + 32 * b);
        weigh(&g, importance + 32 * b, sigma2);
        if (type == LM_Q4_0 || type == LM_Q5_0)
            search_scale(&g, type == LM_Q4_0 ? 8 : 16);
        else
            search_scale_min(&g, type == LM_Q4_1 ? &four : &five);
        store_codes(&g, codes);
        for (int l = 0; l < g.blocks; l++)
            store_legacy(type, dst, b + (uint64_t)l, g.scale[l], g.min[l], codes + 32 * l);
    }
}

/* ---- IQ4_NL, IQ4_XS ---- */

/* Here sigma2 is twice the mean square. */
static void search_values(lane_group *g, const float *x, int super, const float *importance)
{
    float sigma2[GROUP] = { 0 };

    for (int l = 0; importance && l < g->blocks; l++)
        sigma2[l] = sum_of_squares(x + l * 32 / super * super, (uint64_t)super) * (2.0f / (float)super);
    if (importance)
        weigh(g, importance, sigma2);
    else
        weigh_by_squares(g);
    for (int p = 0; p < PARTS; p++) {
        vf scale = fit_values(32, lm_iq4_values, 7, g->x[p], g->w[p]);
        memcpy(g->scale + p * LANES, &scale, sizeof scale);
    }
}

static void store_values(lane_group *g, const float *inverse, uint8_t *codes)
{
    for (int p = 0; p < PARTS; p++)
        for (int i = 0; i < 32; i++)
            nearest_value(lanes_of(inverse, p) * g->x[p][i], lm_iq4_values, &g->q[p][i]);
    store_codes(g, codes);
}

static void iq4_nl_row(lm_iq4_nl *dst, const float *x, uint64_t cols, const float *importance)
{
    const uint64_t n = cols / 32;
    uint8_t        codes[GROUP * MAX];
    float          inverse[GROUP];
    lane_group     g;

    for (uint64_t b = 0; b < n; b += GROUP) {
        load(&g, 32, n - b < GROUP ? (int)(n - b) : GROUP, x + 32 * b);
        search_values(&g, x + 32 * b, 32, importance ? importance + 32 * b : NULL);
        for (int l = 0; l < GROUP; l++)
            inverse[l] = g.scale[l] != 0 ? 1 / g.scale[l] : 0;
        store_values(&g, inverse, codes);
        for (int l = 0; l < g.blocks; l++) {
            dst[b + (uint64_t)l].d = lm_f32_to_f16(g.scale[l]);
            lm_store_halves(dst[b + (uint64_t)l].qs, codes + 32 * l);
        }
    }
}

/* Codes are chosen with the scale before it is rounded to f16. */
static void iq4_xs_block(lm_iq4_xs *o, const float *scale, float *inverse)
{
    float    extreme = 0;
    unsigned high = 0;

    for (int s = 0; s < 8; s++)
        extreme = fabsf(scale[s]) > fabsf(extreme) ? scale[s] : extreme;
    float d = -extreme / 32, id = d != 0 ? 1 / d : 0;
    o->d = lm_f32_to_f16(d);
    memset(o->scales_l, 0, sizeof o->scales_l);
    for (int s = 0; s < 8; s++) {
        int   l = (int)nearest(spread(id * scale[s]), -32, 31)[0];
        float dl = d * (float)l;
        inverse[s] = dl != 0 ? 1 / dl : 0;
        o->scales_l[s / 2] |= (uint8_t)(((l + 32) & 15) << 4 * (s % 2));
        high |= (unsigned)(l + 32) >> 4 << 2 * s;
    }
    o->scales_h = (uint16_t)high;
}

static void iq4_xs_row(lm_iq4_xs *dst, const float *x, uint64_t cols, const float *importance)
{
    const uint64_t n = cols / LM_K_BLOCK;
    uint8_t        codes[GROUP * MAX];
    lane_group     g;

    for (uint64_t b = 0; b < n; b += 2) {
        int   supers = n - b < 2 ? 1 : 2;
        float inverse[GROUP] = { 0 };
        load(&g, 32, 8 * supers, x + b * LM_K_BLOCK);
        search_values(&g, x + b * LM_K_BLOCK, LM_K_BLOCK, importance ? importance + b * LM_K_BLOCK : NULL);
        for (int s = 0; s < supers; s++)
            iq4_xs_block(&dst[b + (uint64_t)s], g.scale + 8 * s, inverse + 8 * s);
        store_values(&g, inverse, codes);
        for (int k = 0; k < 8 * supers; k++)
            lm_store_halves(dst[b + (uint64_t)k / 8].qs + 16 * (k % 8), codes + 32 * k);
    }
}

void QUANTIZE_ROW(lm_dtype type, void *dst, const float *x, uint64_t cols, const float *importance)
{
    if (type == LM_Q2_K || type == LM_Q4_K || type == LM_Q5_K)
        affine_row(type, dst, x, cols, importance);
    else if (type == LM_Q3_K || type == LM_Q6_K)
        symmetric_row(type, dst, x, cols, importance);
    else if (type == LM_IQ4_NL)
        iq4_nl_row(dst, x, cols, importance);
    else if (type == LM_IQ4_XS)
        iq4_xs_row(dst, x, cols, importance);
    else if (importance && (type == LM_Q4_0 || type == LM_Q4_1 || type == LM_Q5_0 || type == LM_Q5_1))
        legacy_row(type, dst, x, cols, importance);
    else if (!lm_pack_codebook(type, dst, x, cols, importance))
        lm_dtype_of(type)->pack(dst, x, cols);
}
