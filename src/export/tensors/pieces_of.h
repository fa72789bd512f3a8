/* pieces_of.h - weights that a folder stores in one matrix and GGUF in several. */
#ifndef LM_EXPORT_PIECES_OF_H
#define LM_EXPORT_PIECES_OF_H

#include "arch/config.h"

enum { LM_MAX_PIECES = 4 };

typedef struct lm_piece_of {
    const char *gguf;                /* in the arena */
    uint64_t    first, rows;
} lm_piece_of;

/* Find the pieces of a product: those of its layout, of which the rows are counted in the order of GGUF; or
 * column ranges, if it is only used by these and each has a name in the family's table. Return the number of
 * pieces, 0 if it is not such a product. */
uint32_t lm_pieces_of(const lm_program *p, const lm_family *f, uint32_t weight, lm_arena *arena,
                      lm_piece_of out[LM_MAX_PIECES]);

#endif
