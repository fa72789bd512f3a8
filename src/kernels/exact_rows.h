/* exact_rows.h - float32 arithmetic for every stored type: a few rows of the matrix are unpacked to float32,
 * then multiplied with all rows of x. The code is shared by all levels; a file that includes it first defines
 *
 *   LEVEL         the name of its kernels, "avx2"
 *   UNPACK(id)    the function that unpacks a type
 *   ROWS, TOKENS  the size of a tile; GROUP: rows of the matrix unpacked at a time
 *   tile_rows()   y[i][j] = w[i] . x[j] of a tile; the order of each sum does not depend on the rest of the
 *                 tile */
#ifndef LM_KERNELS_EXACT_ROWS_H
#define LM_KERNELS_EXACT_ROWS_H

#include "kernels/levels.h"

static uint64_t scratch_bytes(uint64_t cols)
{
    return GROUP * lm_f32_row_bytes(cols);
}

/* Multiply up to ROWS rows of the matrix, outputs o onwards, with up to TOKENS rows of x, t onwards. */
static void block(const lm_matmul_args *a, uint64_t o, int rows, const float *const *w, uint64_t t,
                  int tokens, const float *const *x)
{
    float y[ROWS][TOKENS];

    if (rows == ROWS)
        tile_rows(w, x, a->cols, ROWS, tokens, y);
    else
        for (int i = 0; i < rows; i++)
            tile_rows(w + i, x, a->cols, 1, tokens, y + i);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < tokens; j++)
            lm_matmul_store(a, t + (uint64_t)j, o + (uint64_t)i, y[i][j]);
}

/* Multiply rows [o, o + rows) of the matrix with every row of x; a few rows of x at a time stay in the
 * first-level cache. */
static void group(const lm_matmul_args *a, uint64_t o, int rows, const float *const *w)
{
    uint64_t tiles = (a->n + TOKENS - 1) / TOKENS;

    for (uint64_t i = 0; i < tiles; i++) {
        uint64_t t = a->n * i / tiles;
        int tokens = (int)(a->n * (i + 1) / tiles - t);
        const float *x[TOKENS];
        for (int j = 0; j < tokens; j++)
            x[j] = (const void *)((const uint8_t *)a->x + (t + (uint64_t)j) * a->x_stride);
        for (int at = 0; at < rows; at += ROWS)
            block(a, o + (uint64_t)at, rows - at < ROWS ? rows - at : ROWS, w + at, t, tokens, x);
    }
}

static void run(const lm_matmul_args *a, lm_dtype type, void (*unpack)(float *, const void *, size_t))
{
    const lm_dtype_info *t = lm_dtype_of(type);

    for (uint64_t o = a->first; o < a->last; o += GROUP) {
        int rows = a->last - o < GROUP ? (int)(a->last - o) : GROUP;
        const float *w[GROUP];
        for (int i = 0; i < rows; i++) {
            const void *stored = lm_stored_row(a->w, t, a->cols, o + (uint64_t)i);
            float *scratch = (float *)a->scratch + (uint64_t)i * (lm_f32_row_bytes(a->cols) / sizeof(float));
            w[i] = stored;
            if (type != LM_F32) {
                unpack(scratch, stored, a->cols);
                w[i] = scratch;
            }
        }
        group(a, o, rows, w);
    }
}

#define X(id, word) LM_EXACT_KERNEL(id, word, LEVEL, ROWS, scratch_bytes, run(a, id, UNPACK(id)), UNPACK(id))
LM_MATRIX_TYPES(X)
#undef X

#endif
