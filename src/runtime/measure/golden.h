/* golden.h - reference results of another program, in a safetensors file.
 *
 * Every shape, id and value is checked when the file is opened; the getters never fail after that. */
#ifndef LM_RUNTIME_GOLDEN_H
#define LM_RUNTIME_GOLDEN_H

#include "formats/container.h"
#include "lamina/text.h"

typedef struct lm_golden_tap {
    const char           *path;          /* "model.layers.1.mlp" */
    const lm_tensor_info *tensor;        /* [B, T, width] */
} lm_golden_tap;

typedef struct lm_golden {
    lm_container         *container;
    const lm_tensor_info *ids, *logits, *positions, *greedy;     /* the last two may be NULL */
    uint64_t              batch, length;                         /* B, T */
    /* logits rows of one batch element: T, or P */
    uint64_t              n_rows;
    uint64_t              width;                                 /* V of the reference, <= the model's */
    uint64_t              n_greedy;
    lm_golden_tap        *taps;                                  /* owned */
    uint32_t              n_taps;
    char                  source[256];
} lm_golden;

lm_status lm_golden_open(const char *path, uint32_t n_vocab, lm_golden *out, lm_error *e);
void      lm_golden_close(lm_golden *g);

lm_token  lm_golden_id(const lm_golden *g, uint64_t b, uint64_t t);
/* position of row `row` of the logits */
uint64_t  lm_golden_position(const lm_golden *g, uint64_t row);
lm_token  lm_golden_greedy(const lm_golden *g, uint64_t b, uint64_t k);
/* Copy a row: the file's data has no alignment. */
void      lm_golden_logits(const lm_golden *g, uint64_t b, uint64_t row, float *out);           /* [width] */
void      lm_golden_tap_row(const lm_golden *g, const lm_golden_tap *tap, uint64_t b, uint64_t t, float *out);

#endif
