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

/* Reset *m. If there were any: add a line to `notes` with `clamp`, else LM_UNSUPPORTED, which names the
 * tensor, the number of values and the largest. */
lm_status lm_overflows_end(lm_overflows *m, const char *tensor, lm_dtype to, bool clamp, lm_text *notes,
                         lm_error *e);

#endif
