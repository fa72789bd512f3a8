/* strips_run_256.h - multiply with a matrix of strips, using vectors of 256 bits: the operands of its tiles,
 * and the loops around them.
 *
 * A level (strips_avx2.c, strips_avxvnni.c) defines the tiles of each type; the loops are the same for
 * all. */
#ifndef LM_KERNELS_STRIPS_RUN_256_H
#define LM_KERNELS_STRIPS_RUN_256_H

#include "kernels/byte_strips.h"
#include "kernels/q8_rows.h"
#include "kernels/strips.h"
#include "kernels/x86/vec_256.h"

enum { LM_256_ROWS = 6 };                            /* maximum rows of x in a tile */

/* The operands of a tile: strips at w and w + other, rows of x from their first block on. */
typedef struct operands {
    const uint8_t *w;
    uint64_t other;                  /* bytes */
    const uint8_t *x[LM_256_ROWS];
    uint64_t cols;
    uint64_t ahead, near;            /* prefetch distances in bytes, to the second and the first-level cache;
                                        0: no prefetch */
} operands;

typedef __m256 sums[2][LM_256_ROWS][2];         /* [strip][row of x][rows 0-7, rows 8-15 of the strip] */

typedef void tile_fn(const operands *o, sums y);
typedef void high_fn(const uint8_t *w, const lm_q8_row *x, __m256 acc[2]);

typedef struct tiles {
    uint64_t together;               /* rows of x that share a loaded weight */
    tile_fn *of[LM_256_ROWS];        /* [rows - 1] */
    tile_fn *two;                    /* two strips, one row */
    high_fn *high;
    void   (*unpack)(const uint8_t *strip, uint64_t cols, uint8_t *panel);   /* NULL: panels do not pay off */
    uint64_t panel_unit;             /* bytes */
    bool     ahead;                  /* one row prefetches on AMD too: heads (strips.h), or much work between
                                        the loads of a unit */
    const struct tiles *panel;       /* tiles of one panel strip and `together` rows, or one fewer */
} tiles;

/* Compute y of a matrix whose strips have `strip` bytes. `prefetch`: for Intel cores (see run_one). */
void lm_strips_run_256(const lm_matmul_args *a, const tiles *t, uint64_t strip, bool prefetch);

/* Return the scratch in bytes that lm_strips_run_256 needs. */
uint64_t lm_strips_scratch_256(const tiles *t, uint64_t cols);

#endif
