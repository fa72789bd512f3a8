/* panels_avx512.c - the tiles, and which of them a product uses. */
#include "kernels/x86/avx512/panels_avx512.h"

#define BYTES(sign, halves) LM_PANEL(c_panel, sign, LM_PANEL_OFFSET(sign, halves), halves, 32)

PANEL_TILES(plain, BYTES(NO_MINIMUM, 1))
PANEL_TILES(plain_halves, BYTES(NO_MINIMUM, 2))
PANEL_TILES(minimum, BYTES(PLUS, 1))
PANEL_TILES(minimum_halves, BYTES(PLUS, 2))

const tiles lm_byte_panels[2][2] = {
    { PANEL_TILES_OF(plain), PANEL_TILES_OF(plain_halves) },
    { PANEL_TILES_OF(minimum), PANEL_TILES_OF(minimum_halves) },
};
