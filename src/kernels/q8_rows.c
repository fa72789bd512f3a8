/* q8_rows.c - packing activations in plain C. */
#include "kernels/q8_rows.h"

#include <string.h>

uint64_t lm_q8_bytes(uint64_t cols)
{
    return 64 + lm_q8_mask_bytes(cols) + cols / 32 * 2 * sizeof(lm_q8_block);
}

void lm_q8_choose(const lm_q8_row *r, uint64_t blocks, bool all_wide)
{
    double squares = 0;

    memset(r->head, 0, sizeof *r->head);
    memset(r->wide, 0, lm_q8_mask_bytes(32 * blocks));
    for (uint64_t b = 0; b < blocks; b++)
        squares += (double)r->high[b].d * (double)r->high[b].d;
    double   top   = LM_Q8_STANDS_OUT * sqrt(squares / (double)blocks);
    uint32_t count = 0;
    for (uint64_t from = 0; from < blocks; from += 64) {
        uint64_t mask = 0, n = blocks - from < 64 ? blocks - from : 64;
        for (uint64_t i = 0; i < n; i++) {
            lm_q8_block *high = &r->high[from + i];
            bool         wide = all_wide || (double)high->d > top;
            high->d = high->d < LM_Q8_LEAST ? 0.0f : high->d / 127.0f;
            mask |= (uint64_t)wide << i;
            count += wide;
        }
        r->wide[from / 64] = mask;
    }
    r->head->wide = count;
}

/* The largest magnitude of 32, NaN above infinity above all. */
static float largest(const float x[32])
{
    uint32_t most = 0;
    float    f;

    for (int i = 0; i < 32; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&f, &most, 4);
    return f;
}

static void pack_block(const lm_q8_row *r, uint64_t b, const float x[32])
{
    float   scale = lm_q8_inverse(r, b);
    bool    wide  = lm_q8_is_wide(r, b);
    int32_t high[2] = { 0, 0 }, low[2] = { 0, 0 };

    scale = wide ? scale * 128.0f : scale;
    for (int i = 0; i < 32; i++) {
        float v = x[i] * scale;
        int code = v == v ? (int)lrintf(v) : 0, top = wide ? (code + 64) >> 7 : code, rest = wide ? code - 128 * top : 0;
        r->high[b].q[i] = (int8_t)top;
        r->low[b].q[i]  = (int8_t)rest;
        high[i / 16] += top;
        low[i / 16] += rest;
    }
    lm_q8_put_sums(r, b, high, low);
}

void lm_q8_pack(void *dst, const float *x, uint64_t cols, bool all_wide)
{
    lm_q8_row r = lm_q8_row_at(dst, cols);

    for (uint64_t b = 0; b < cols / 32; b++)
        r.high[b].d = largest(x + 32 * b);
    lm_q8_choose(&r, cols / 32, all_wide);
    for (uint64_t b = 0; b < cols / 32; b++)
        pack_block(&r, b, x + 32 * b);
}
