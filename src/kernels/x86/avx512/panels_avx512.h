/* panels_avx512.h - tiles as a matrix uses them: one for each number of strips and rows of x, on strips and on panels of bytes.
 *
 * A panel of bytes is what all types are when they are unpacked: numbers as float32, codes as bytes that lack a sign by one offset.
 * So its tiles know only whether there is a minimum and whether numbers are for 16 or 32 columns. */
#ifndef LM_KERNELS_PANELS_AVX512_H
#define LM_KERNELS_PANELS_AVX512_H

#include "kernels/x86/avx512/tile_avx512.h"

typedef void tile_fn(const operands *o, __m512 acc[2][TOKENS]);
typedef void high_fn(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS]);

typedef struct tiles {
    tile_fn *of[2][TOKENS];          /* by strips and rows, both less one; NULL where no matrix is cut so */
    high_fn *high[2];
} tiles;

#define TILE(word, strips, tokens, ...)                                                                           \
    static void tile_##word##_##strips##_##tokens(const operands *o, __m512 acc[2][TOKENS])                       \
    {                                                                                                             \
        tile(__VA_ARGS__, o, strips, tokens, acc);                                                                \
    }
#define HIGH(word, strips, ...)                                                                                   \
    static void high_##word##_##strips(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS])                 \
    {                                                                                                             \
        high_bytes(__VA_ARGS__, o, tokens, strips, acc);                                                          \
    }

/* The tiles of panels, of three rows and more. */
#define PANEL_TILES(word, ...)                                                                                    \
    TILE(word, 1, 3, __VA_ARGS__) TILE(word, 1, 4, __VA_ARGS__) TILE(word, 1, 5, __VA_ARGS__)                     \
    TILE(word, 1, 6, __VA_ARGS__) TILE(word, 1, 7, __VA_ARGS__) TILE(word, 1, 8, __VA_ARGS__)                     \
    TILE(word, 2, 3, __VA_ARGS__) TILE(word, 2, 4, __VA_ARGS__) TILE(word, 2, 5, __VA_ARGS__)                     \
    TILE(word, 2, 6, __VA_ARGS__) TILE(word, 2, 7, __VA_ARGS__) TILE(word, 2, 8, __VA_ARGS__)                     \
    HIGH(word, 1, __VA_ARGS__) HIGH(word, 2, __VA_ARGS__)
#define PANEL_TILES_OF(word)                                                                                             \
    {                                                                                                                    \
        .of = { { [2] = tile_##word##_1_3, tile_##word##_1_4, tile_##word##_1_5, tile_##word##_1_6, tile_##word##_1_7,   \
                  tile_##word##_1_8 },                                                                                   \
                { [2] = tile_##word##_2_3, tile_##word##_2_4, tile_##word##_2_5, tile_##word##_2_6, tile_##word##_2_7,   \
                  tile_##word##_2_8 } },                                                                                 \
        .high = { high_##word##_1, high_##word##_2 },                                                                    \
    }

/* Offsets of the codes: what no type exceeds, for which an integer sum starts as x has it. None where there is a minimum. */
#define LM_PANEL_OFFSET(sign, halves) ((sign) != NO_MINIMUM ? 0 : (halves) == 2 ? 32 : 128)

/* By minimum or none and halves less one. */
extern const tiles lm_byte_panels[2][2];

#endif
