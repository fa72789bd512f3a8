/* rows.h - the order of a projection's rows in GGUF files, where it is not that of Hugging Face checkpoints.
 *
 * Two reasons: rows of a head are stored as its rotation pairs them (lm_rope_spec.gguf_permutes); and a projection that holds queries, keys
 * and values in turns, group by group, is stored as all queries, all keys, all values. */
#ifndef LM_PROGRAM_ROWS_H
#define LM_PROGRAM_ROWS_H

#include "program/program.h"

typedef struct lm_gguf_rows {
    uint64_t head, dim;          /* rows of a head; the first `dim` are paired: 2i + j is the checkpoint's i + j dim/2; 0: as there */
    uint64_t groups, q, kv;      /* the checkpoint's groups, each q rows of queries, kv of keys, kv of values; 0: as there */
} lm_gguf_rows;

/* Of the operation `node`. `fused`: groups, q and kv of the family's fused projections; groups 0 or 1 where GGUF files have them as they
 * are. The family's, whichever container `p` was read from. */
lm_gguf_rows lm_gguf_rows_of(const lm_program *p, uint32_t node, const lm_gguf_rows *fused);

/* The checkpoint's row that GGUF's row `i` is. */
uint64_t lm_gguf_row_from(const lm_gguf_rows *o, uint64_t i);

#endif
