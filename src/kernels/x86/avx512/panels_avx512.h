/* panels_avx512.h - the tiles of a matrix: two strips and each number of rows of x, on strips and on panels
 * of bytes.
 *
 * A matrix may end in a single strip without a neighbour: it is then both strips of its tile, and one of the
 * results is not used. Tiles for one strip would double the code of this level.
 *
 * A panel of bytes has the same form for all types: numbers as float32, codes as bytes made unsigned by one
 * offset. So its tiles depend only on whether there is a minimum and whether numbers are per 16 or 32
 * columns. */
#ifndef LM_KERNELS_PANELS_AVX512_H
#define LM_KERNELS_PANELS_AVX512_H

#include "kernels/x86/avx512/tile_avx512.h"

typedef void tile_fn(const operands *o, __m512 acc[2][TOKENS]);
typedef void high_fn(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS]);

typedef struct tiles {
    tile_fn *of[TOKENS];             /* [rows - 1]; NULL: such tiles do not occur */
    high_fn *high;
} tiles;

#define TILE(word, tokens, ...)                                                  \
    static void tile_##word##_##tokens(const operands *o, __m512 acc[2][TOKENS]) \
    {                                                                            \
        tile(__VA_ARGS__, o, tokens, acc);                                       \
    }
#define HIGH(word, ...)                                                                \
    static void high_##word(const operands *o, uint64_t tokens, __m512 acc[2][TOKENS]) \
    {                                                                                  \
        high_bytes(__VA_ARGS__, o, tokens, acc);                                       \
    }

/* The tiles of panels, with three or more rows. */
#define PANEL_TILES(word, ...)                                                       \
    TILE(word, 3, __VA_ARGS__) TILE(word, 4, __VA_ARGS__) TILE(word, 5, __VA_ARGS__) \
    TILE(word, 6, __VA_ARGS__)                                                       \
    TILE(word, 7, __VA_ARGS__) TILE(word, 8, __VA_ARGS__) HIGH(word, __VA_ARGS__)
#define PANEL_TILES_OF(word)                                           \
    { .of = { [2] = tile_##word##_3, tile_##word##_4, tile_##word##_5, \
              tile_##word##_6, tile_##word##_7, tile_##word##_8 },     \
      .high = high_##word }

/* The unpacked form of strips for many rows. */
typedef struct panel {
    const tiles *tiles;              /* NULL: no panel pays off */
    void   (*unpack)(const uint8_t *strip, uint64_t cols, uint8_t *to);
    uint32_t unit;                   /* bytes */
} panel;

/* A type: tiles on its strips, a panel of bytes, and the panel that pays off on processors with separate
 * ports for unpacking, with tiles of at most own_rows rows of x. */
typedef struct form {
    tiles    strips;
    panel    bytes, own;
    uint64_t own_rows;
} form;

/* The offset of the codes in panels: no type exceeds it, and x stores the start of an integer sum for it. 0
 * with a minimum. */
#define LM_PANEL_OFFSET(sign, halves) ((sign) != NO_MINIMUM ? 0 : (halves) == 2 ? 32 : 128)

/* Indexed by whether there is a minimum, and by halves - 1. */
extern const tiles lm_byte_panels[2][2];

#endif
