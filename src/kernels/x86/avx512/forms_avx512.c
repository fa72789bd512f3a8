/* forms_avx512.c - the tiles and panels of each type that has strips, for strips_avx512.c; compiled once per
 * group of types, TYPES. */
#include "kernels/x86/avx512/panels_avx512.h"
#include "kernels/x86/avx512/strip_types_avx512.h"

/* Bytes of the codes of a row in a unit. */
#define CODES_OF(word) ((LM_UNIT_##word - LM_NUMBERS_##word) / R)

/* Panels with unpacked numbers and packed codes. */
#define NUMBERS(word, codes, d, m, sign, offset, halves)                                    \
    PANEL_TILES(word##_panel, LM_PANEL(codes, sign, offset, halves, CODES_OF(word)))        \
    static const tiles panel_##word = PANEL_TILES_OF(word##_panel);                         \
    static void number_##word(const uint8_t *strip, uint64_t cols, uint8_t *to)             \
    {                                                                                       \
        unpack(TRAITS(word, codes, d, m, sign, offset, halves), strip, cols, to, false, 0); \
    }
#define BYTES(word, ...)
#define STRIPS_ONLY(word, ...)
#define NUMBERS_OF(word, sign, offset, halves) \
    .own = { &panel_##word, number_##word, LM_PANEL_UNIT(sign, halves, CODES_OF(word)) }, .own_rows = 6,
#define BYTES_OF(word, sign, offset, halves) \
    .own = BYTE_PANEL(word, sign, halves), .own_rows = OWN_ROWS(offset, halves),
#define STRIPS_ONLY_OF(word, ...)
#define BYTE_PANEL(word, sign, halves) \
    { &lm_byte_panels[(sign) != NO_MINIMUM][(halves) - 1], bytes_of_##word, LM_PANEL_UNIT(sign, halves, 32) }
/* On Zen 4, tiles of six rows of Q6_K were slower than tiles of four, when the starts had to be shifted for
 * each half. */
#define OWN_ROWS(offset, halves) ((halves) == 2 && (offset) == 32 ? 4 : 6)

#define STRIP_TILES(word, ...)                                                       \
    TILE(word, 1, __VA_ARGS__) TILE(word, 2, __VA_ARGS__) TILE(word, 3, __VA_ARGS__) \
    TILE(word, 4, __VA_ARGS__)                                                       \
    TILE(word, 5, __VA_ARGS__) TILE(word, 6, __VA_ARGS__) TILE(word, 7, __VA_ARGS__) \
    TILE(word, 8, __VA_ARGS__)                                                       \
    HIGH(word, __VA_ARGS__)
#define STRIP_TILES_OF(word)                                                                       \
    { .of = { tile_##word##_1, tile_##word##_2, tile_##word##_3, tile_##word##_4, tile_##word##_5, \
              tile_##word##_6,                                                                     \
              tile_##word##_7, tile_##word##_8 },                                                  \
      .high = high_##word }

#define X(id, word, kind, codes, d, m, sign, offset, halves)                           \
    STRIP_TILES(word, TRAITS(word, codes, d, m, sign, offset, halves))                 \
    kind(word, codes, d, m, sign, offset, halves)                                      \
    static void bytes_of_##word(const uint8_t *strip, uint64_t cols, uint8_t *to)      \
    {                                                                                  \
        unpack(TRAITS(word, codes, d, m, sign, offset, halves), strip, cols, to, true, \
               LM_PANEL_OFFSET(sign, halves));                                         \
    }                                                                                  \
    extern const form lm_form_##word;                                                  \
    const form lm_form_##word = {                                                      \
        .strips = STRIP_TILES_OF(word),                                                \
        .bytes = BYTE_PANEL(word, sign, halves),                                       \
        kind##_OF(word, sign, offset, halves)                                          \
    };
TYPES(X)
#undef X
