/* codebooks.h - the grids of the IQ types, one u16 an entry.
 *
 * Entries of eight: element e is digit (g >> 2e) & 3 of the alphabet {8, 25, 43}, for IQ1 of {-1, 0, 1}.
 * Entries of four: element e is digit (g >> 4e) & 15 of {4, 12, 20, 28, 36, 44, 52, 62}, for IQ3_S of {1, 3 .. 15}.
 * The lists are those of the GGUF formats (MIT), written by tools/oracle/codebooks.py. */
#ifndef LM_TENSOR_CODEBOOKS_H
#define LM_TENSOR_CODEBOOKS_H

#include <stdint.h>

extern const uint16_t lm_grid_iq2_xxs[256];
extern const uint16_t lm_grid_iq2_xs[512];
extern const uint16_t lm_grid_iq2_s[1024];
extern const uint16_t lm_grid_iq1[2048];
extern const uint16_t lm_grid_iq3_xxs[256];
extern const uint16_t lm_grid_iq3_s[512];

#endif
