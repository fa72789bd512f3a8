/* panels_avx512.h - tiles as a matrix uses them: two strips and each number of rows of x, on strips and on panels of bytes.
 *
 * A matrix may end in one strip that has no neighbour: it is then both strips of its tile, and one of the results is not used. A tile for
 * one strip would be half of the code of this level.
 *
 * A panel of bytes is what all types are when they are unpacked: numbers as float32, codes as bytes that lack a sign by one offset.
 * So its tiles know only whether there is a minimum and whether numbers are for 16 or 32 columns. */
#ifndef LM_KERNELS_PANELS_AVX512_H
#define LM_KERNELS_PANELS_AVX512_H

#include "kernels/x86/avx512/tile_avx512.h"

typedef void tile_fn(const operands *o, __m512 acc[2][TOKENS]);
typedef void high_fn(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS]);

typedef struct tiles {
    tile_fn *of[TOKENS];             /* [rows - 1]; NULL where no matrix is cut so */
    high_fn *high;
} tiles;

#define TILE(word, tokens, ...)                                                                                   \
    static void tile_##word##_##tokens(const operands *o, __m512 acc[2][TOKENS])                                  \
    {                                                                                                             \
        tile(__VA_ARGS__, o, tokens, acc);                                                                        \
    }
#define HIGH(word, ...)                                                                                           \
    static void high_##word(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS])                            \
    {                                                                                                             \
        high_bytes(__VA_ARGS__, o, tokens, acc);                                                                  \
    }

/* The tiles of panels, of three rows and more. */
#define PANEL_TILES(word, ...)                                                                                    \
    TILE(word, 3, __VA_ARGS__) TILE(word, 4, __VA_ARGS__) TILE(word, 5, __VA_ARGS__) TILE(word, 6, __VA_ARGS__)   \
    TILE(word, 7, __VA_ARGS__) TILE(word, 8, __VA_ARGS__) HIGH(word, __VA_ARGS__)
#define PANEL_TILES_OF(word)                                                                                      \
    { .of = { [2] = tile_##word##_3, tile_##word##_4, tile_##word##_5, tile_##word##_6, tile_##word##_7, tile_##word##_8 }, \
      .high = high_##word }

/* Strips as they are unpacked for many rows. */
typedef struct panel {
    const tiles *tiles;              /* NULL: none pays */
    void   (*unpack)(const uint8_t *strip, uint64_t cols, uint8_t *to);
    uint32_t unit;                   /* bytes */
} panel;

/* A type: tiles on its strips, a panel of bytes, and the one that pays where unpacking has ports of its own, for tiles of so many
 * rows of x at most. */
typedef struct form {
    tiles    strips;
    panel    bytes, own;
    uint64_t own_rows;
} form;

/* Offsets of the codes: what no type exceeds, for which an integer sum starts as x has it. None where there is a minimum. */
#define LM_PANEL_OFFSET(sign, halves) ((sign) != NO_MINIMUM ? 0 : (halves) == 2 ? 32 : 128)

/* By minimum or none and halves less one. */
extern const tiles lm_byte_panels[2][2];

#endif
