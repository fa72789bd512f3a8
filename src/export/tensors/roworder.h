/* roworder.h - rows that GGUF files store in another order than checkpoints. */
#ifndef LM_EXPORT_ROWORDER_H
#define LM_EXPORT_ROWORDER_H

#include "arch/config.h"

/* All zero: the same order. */
typedef struct lm_row_order {
    uint32_t head;                   /* rows per head; lanes 2i and 2i+1 are lanes i and i + head/2 of the
                                        checkpoint */
    uint64_t groups, q, kv;          /* checkpoint: groups of q rows of queries, kv of keys, kv of values;
                                        GGUF: queries, keys, values */
    const lm_gguf_layout *layout;         /* of rows or columns; NULL: none */
} lm_row_order;

/* Return the row order of weight `weight` of a program whose GGUF file is read back with the configuration
 * `stored`. */
lm_row_order lm_row_order_of(const lm_program *p, uint32_t weight, const lm_config *c,
                             const lm_config *stored);

static inline bool lm_row_order_changes(const lm_row_order *o)
{
    return o->head || o->groups || (o->layout && !o->layout->columns);
}

/* Put the columns of n rows, elements of `size` bytes, in the order of GGUF, or of a checkpoint. */
lm_status lm_order_columns(const lm_row_order *o, bool to_gguf, void *rows, uint64_t n, uint64_t cols,
                           size_t size, lm_error *e);

/* Return the checkpoint's row that is GGUF's row `r`, and vice versa. */
uint64_t lm_row_of_checkpoint(const lm_row_order *o, uint64_t r);
uint64_t lm_row_of_gguf(const lm_row_order *o, uint64_t r);

#endif
