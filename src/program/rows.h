/* rows.h - the order of a projection's rows in GGUF files, if it differs from that of Hugging Face
 * checkpoints.
 *
 * There are three reasons: a weight's layout (lm_gguf_layout); the rows of a head are stored in the order in
 * which its rotation pairs them (lm_rope_spec.gguf_permutes); and a projection that contains queries, keys
 * and values group by group is stored as all queries, all keys, all values. */
#ifndef LM_PROGRAM_ROWS_H
#define LM_PROGRAM_ROWS_H

#include "program/program.h"

typedef struct lm_gguf_rows {
    uint64_t head, dim;          /* rows per head; the first `dim` are paired: row 2i + j is the checkpoint's
                                    i + j dim/2; 0: same order */
    uint64_t groups, q, kv;      /* the checkpoint's groups, each with q rows of queries, kv of keys, kv of
                                    values; 0: same order */
    const lm_gguf_layout *layout;     /* of rows, or of columns: lm_gguf_column_from; NULL: none */
} lm_gguf_rows;

/* Return the order of the rows of operation `node`. `fused`: groups, q and kv of the family's fused
 * projections; groups 0 or 1: GGUF files do not reorder them. The order is that of the family, whichever
 * container `p` was read from. */
lm_gguf_rows lm_gguf_rows_of(const lm_program *p, uint32_t node, const lm_gguf_rows *fused);

/* Return the row of the checkpoint that is row `i` in GGUF. */
uint64_t lm_gguf_row_from(const lm_gguf_rows *o, uint64_t i);
uint64_t lm_gguf_column_from(const lm_gguf_rows *o, uint64_t i);

#endif
