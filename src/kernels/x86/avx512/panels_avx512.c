#include "kernels/x86/avx512/panels_avx512.h"

#define TRAITS(sign, halves)                                                                                                 \
    ((traits){ c_panel, d_panel, m_panel_##halves, sign, LM_PANEL_OFFSET(sign, halves), halves, panel_numbers(sign, halves), \
               panel_numbers(sign, halves) + 32 * R, 0, 0, 0 })

PANEL_TILES(plain, TRAITS(NO_MINIMUM, 1))
PANEL_TILES(plain_halves, TRAITS(NO_MINIMUM, 2))
PANEL_TILES(minimum, TRAITS(PLUS, 1))
PANEL_TILES(minimum_halves, TRAITS(PLUS, 2))

const tiles lm_byte_panels[2][2] = {
    { PANEL_TILES_OF(plain), PANEL_TILES_OF(plain_halves) },
    { PANEL_TILES_OF(minimum), PANEL_TILES_OF(minimum_halves) },
};
