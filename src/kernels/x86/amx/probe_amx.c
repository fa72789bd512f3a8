/* probe_amx.c - the rate of AMX's tiles, measured. */
#include "kernels/probe.h"
#include "kernels/x86/amx/tiles_amx.h"

/* Four independent sums, with the operands of any product of tiles. */
#define PROBE(word, product)                                                                    \
    static void word##_amx(void *data, uint64_t rounds)                                         \
    {                                                                                           \
        tile_config c = { .palette = 1 };                                                       \
        uint8_t    *p = data;                                                                   \
                                                                                                \
        for (int i = 0; i < TILES; i++) {                                                       \
            c.rows[i]      = TILE_ROWS;                                                         \
            c.row_bytes[i] = 64;                                                                \
        }                                                                                       \
        tiles_configure(&c);                                                                    \
        _tile_zero(0);                                                                          \
        _tile_zero(1);                                                                          \
        _tile_zero(2);                                                                          \
        _tile_loadd(3, p, 64);                                                                  \
        _tile_loadd(4, p + 1024, 64);                                                           \
        _tile_loadd(5, p + 2048, 64);                                                           \
        for (uint64_t r = 0; r < rounds; r++) {                                                 \
            product(0, 4, 5);                                                                   \
            product(1, 4, 5);                                                                   \
            product(2, 4, 5);                                                                   \
            product(3, 4, 5);                                                                   \
        }                                                                                       \
        _tile_stored(3, p, 64);                                                                 \
        tiles_release();                                                                        \
    }

PROBE(int8, _tile_dpbssd)
PROBE(bf16, _tile_dpbf16ps)

void lm_probes_init_amx(lm_probes *p)
{
    p->int8 = (lm_probe_loop){ "tdpbssd", int8_amx, 4 * 16 * 16 * 64 * 2 };
    p->bf16 = (lm_probe_loop){ "tdpbf16ps", bf16_amx, 4 * 16 * 16 * 32 * 2 };
}
