/* tiles_amx.h - the eight tile registers of AMX: sixteen rows of 64 bytes each (Intel SDM 1, chapter 18).
 *
 * A product adds A [tokens][k] times B to C [tokens][16 outputs], exactly: B's row i holds columns 4 i … 4 i
 * + 3 of sixteen outputs, like a vector of a strip. Tiles keep their shape until the next configuration and
 * belong to the thread: a function that configures them releases them. */
#ifndef LM_KERNELS_TILES_AMX_H
#define LM_KERNELS_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILES = 8 };

typedef struct tile_config {
    uint8_t  palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} tile_config;

_Static_assert(sizeof(tile_config) == 64, "what ldtilecfg reads");

/* The intrinsic of gcc 12 declares only eight of the 64 bytes as read. */
static inline void tiles_configure(const tile_config *c)
{
    __asm__ volatile("ldtilecfg %0" : : "m"(*c));
}

static inline void tiles_release(void)
{
    _tile_release();
}

#endif
