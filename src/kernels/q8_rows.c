/* q8_rows.c - pack activations in plain C. */
#include "kernels/q8_rows.h"

#include <string.h>

uint64_t lm_q8_bytes(uint64_t cols)
{
    return sizeof(lm_q8_head) + lm_q8_list_bytes(cols) + lm_q8_mask_bytes(cols) +
           cols / 32 * 2 * sizeof(lm_q8_block);
}

/* Return the largest magnitude of 32 or 4 numbers; NaN compares above infinity. */
static float largest(const float *x, int n)
{
    uint32_t max = 0;
    float    f;

    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffff;
        max = bits > max ? bits : max;
    }
    memcpy(&f, &max, 4);
    return f;
}

float lm_q8_largest_below(const float x[32], float top)
{
    float max = 0.0f;

    for (int i = 0; i < 32; i += 4) {
        float four = largest(x + i, 4);
        max = four <= top && four > max ? four : max;
    }
    return max;
}

/* NaN is propagated. */
static float larger(float a, float b)
{
    return b > a || b != b ? b : a;
}

/* Return the largest finite magnitude of a row, and in *top the magnitude above which a block gets high
 * bytes. */
static float survey(const lm_q8_row *r, uint64_t blocks, float *top)
{
    float lanes[16] = { 0 }, max = 0.0f;

    for (uint64_t b = 0; b < blocks; b++) {
        lanes[b % 16] += r->max[b];
        max = r->max[b] > max && r->max[b] < INFINITY ? r->max[b] : max;
    }
    *top = lm_q8_top(lanes, blocks);
    return max;
}

void lm_q8_choose(const lm_q8_row *r, const float *x, uint64_t blocks, bool all_wide)
{
    float    top, of_row = survey(r, blocks, &top), before = 0.0f;
    uint32_t count = 0;

    memset(r->wide, 0, lm_q8_mask_bytes(32 * blocks));
    for (uint64_t from = 0; from < blocks; from += LM_Q8_GROUP) {
        uint64_t to = blocks - from < LM_Q8_GROUP ? blocks : from + LM_Q8_GROUP;
        float    eight = 0.0f, fifteen = 0.0f;           /* largest magnitudes that must fit in eight and in
                                                            fifteen bits */
        uint32_t listed[LM_Q8_GROUP], n = 0;
        for (uint64_t b = from; b < to; b++) {
            bool wide = all_wide || r->max[b] > top;
            eight = larger(eight, all_wide ? 0.0f : wide ? lm_q8_largest_below(x + 32 * b, top) : r->max[b]);
            fifteen = larger(fifteen, r->max[b]);
            r->wide[b / 64] |= (uint64_t)wide << b % 64;
            listed[n] = (uint32_t)b;
            n += wide;
        }
        memcpy(r->listed + count, listed, n * sizeof *listed);
        count += n;
        float d = larger(larger(eight / 127.0f, fifteen / 16256.0f), of_row * LM_Q8_RANGE);
        d = !(d < INFINITY) ? NAN : of_row < LM_Q8_LEAST ? 0.0f : d;
        for (uint64_t b = from; b < to; b++) {
            r->low[b].d = d;
            r->low[b].ratio = b > from || from == 0 || d == before ? 1.0f : before / d;
        }
        before = d;
    }
    memset(r->head, 0, sizeof *r->head);
    r->head->wide = count;
}

static void pack_block(const lm_q8_row *r, uint64_t b, const float x[32])
{
    float    scale = lm_q8_inverse(r, b);
    bool     wide  = lm_q8_is_wide(r, b);
    int32_t  low[2] = { 0, 0 }, high[2] = { 0, 0 };
    uint32_t fours = 0;

    for (int i = 0; i < 32; i++) {
        float v = x[i] * scale;
        int code = v == v ? (int)lrintf(v) : 0,
            above = wide && (code > 127 || code < -127) ? (code + 64) >> 7 : 0;
        r->low[b].q[i] = (int8_t)(code - 128 * above);
        if (wide)
            r->high[b].q[i] = (int8_t)above;
        low[i / 16] += code - 128 * above;
        high[i / 16] += above;
        fours |= (uint32_t)(above != 0) << i / 4;
    }
    lm_q8_put_sums(r, b, low, high);
    if (wide)
        r->high[b].fours = fours;
}

void lm_q8_pack(void *dst, const float *x, uint64_t cols, bool all_wide)
{
    lm_q8_row r = lm_q8_row_at(dst, cols);

    for (uint64_t b = 0; b < cols / 32; b++)
        r.max[b] = largest(x + 32 * b, 32);
    lm_q8_choose(&r, x, cols / 32, all_wide);
    for (uint64_t b = 0; b < cols / 32; b++)
        pack_block(&r, b, x + 32 * b);
}

/* ---- rows that are rounded already ---- */

#define NEAREST 0x1.8p23f                /* adding it rounds a small number to an integer, half to even */

static void pack_rounded(lm_q8_block *low, const float x[32], float scale)
{
    int32_t sums[2] = { 0, 0 };

    for (int i = 0; i < 32; i++)
        low->q[i] = (int8_t)(int32_t)(x[i] * scale + NEAREST - NEAREST);
    for (int i = 0; i < 32; i++)
        sums[i / 16] += low->q[i];
    for (int i = 0; i < 2; i++) {
        low->half_start[i] = -32 * sums[i];
        low->half_sum[i]   = (float)sums[i];
    }
    low->start = -128 * (sums[0] + sums[1]);
    low->sum   = low->half_sum[0] + low->half_sum[1];
    low->ratio = 1;
}

void lm_q8_pack_rounded(void *dst, const float *x, uint64_t cols)
{
    lm_q8_row r   = lm_q8_row_at(dst, cols);
    float     max = largest(x, (int)cols), d = !(max < INFINITY) ? NAN : max < LM_Q8_LEAST ? 0.0f : max / 127;

    memset(r.head, 0, sizeof *r.head);
    memset(r.wide, 0, lm_q8_mask_bytes(cols));
    for (uint64_t b = 0; b < cols / 32; b++) {
        r.low[b].d = d;
        if (d > 0)
            pack_rounded(&r.low[b], x + 32 * b, 1 / d);
        else
            memset(&r.low[b], 0, offsetof(lm_q8_block, d));
    }
}
