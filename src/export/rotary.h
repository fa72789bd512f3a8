/* rotary.h - the tensors that GGUF keeps of a rotary scaling. */
#ifndef LM_EXPORT_ROTARY_H
#define LM_EXPORT_ROTARY_H

#include "arch/config.h"

typedef struct lm_rotary_tensors {
    const char  *names[2];
    const float *values[2];
    uint32_t     n, size;            /* tensors, elements of each */
} lm_rotary_tensors;

/* llama3: the divisors of each frequency; longrope: its two lists; others have none. In the arena, or the configuration's. */
lm_status lm_rotary_tensors_of(const lm_config *c, const lm_program *p, lm_arena *arena, lm_rotary_tensors *out, lm_error *e);

#endif
