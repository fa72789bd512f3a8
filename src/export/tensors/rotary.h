/* rotary.h - the tensors that GGUF stores for a rotary scaling. */
#ifndef LM_EXPORT_ROTARY_H
#define LM_EXPORT_ROTARY_H

#include "arch/config.h"

typedef struct lm_rotary_tensors {
    const char  *names[2];
    const float *values[2];
    uint32_t     n, size;            /* number of tensors, elements per tensor */
} lm_rotary_tensors;

/* Return the tensors. llama3: the divisor of each frequency; longrope: its two lists; others: none. Values
 * are in the arena or in `c`. */
lm_status lm_rotary_tensors_of(const lm_config *c, const lm_program *p, lm_arena *arena,
                               lm_rotary_tensors *out, lm_error *e);

#endif
