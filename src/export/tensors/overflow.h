/* overflow.h - pack rows into types that cannot hold every value: F16, and blocks whose scales are F16. */
#ifndef LM_EXPORT_OVERFLOW_H
#define LM_EXPORT_OVERFLOW_H

#include "base/str.h"
#include "kernels/quantize.h"

/* The values of a tensor that do not fit: threads add to it. */
typedef struct lm_overflows { uint64_t n; uint32_t largest; } lm_overflows;

/* Pack `cols` finite values, whole blocks, with `quantize` (`importance` may be NULL), or with the type's own
 * codec if it is NULL. Values that would be read back as infinite, or cut because the scale of their block
 * is, are counted in *m; with `clamp`, they are limited to what the type holds in every block, in `x` too. */
void lm_pack_checked(lm_quantize_fn *quantize, lm_dtype to, uint8_t *out, float *x, uint64_t cols,
                     const float *importance, bool clamp, lm_overflows *m);

/* Pack whole numbers that float32 holds exactly: i32 or i64. */
void lm_pack_whole(lm_dtype to, uint8_t *out, const float *x, uint64_t n);

/* What is done about values that do not fit. */
typedef struct lm_overflow_rule {
    bool     clamp;                      /* they are limited */
    bool     own;                        /* nobody named the type of the tensor: it gets another one, and the
                                            file is written again */
    lm_text *notes;                      /* a line for each such tensor */
} lm_overflow_rule;

/* Reset *m. If there were any: a note with `clamp`; a note and the new type in *to with `own`; else
 * LM_UNSUPPORTED, which names the tensor, the number of values and the largest. */
lm_status lm_overflows_end(lm_overflows *m, const char *tensor, lm_dtype *to, const lm_overflow_rule *rule,
                         lm_error *e);

/* Fails a writing after which a tensor got another type, so that nothing of it stays. */
lm_status lm_overflows_again(lm_error *e);

#endif
