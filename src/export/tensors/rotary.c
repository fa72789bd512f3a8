/* rotary.c - rotary scalings that GGUF stores as tensors. */
#include "export/tensors/rotary.h"

#include <math.h>

/* Return the divisor whose quotient is bitwise the scaled frequency, if one of the nearest values is. */
static float divisor(float plain, float scaled)
{
    float nearest = plain / scaled, below = nearest, above = nearest;

    for (int i = 0; i < 4; i++) {
        if (plain / below == scaled)
            return below;
        if (plain / above == scaled)
            return above;
        below = nextafterf(below, 0);
        above = nextafterf(above, INFINITY);
    }
    return nearest;
}

lm_status lm_rotary_tensors_of(const lm_config *c, const lm_program *p, lm_arena *arena,
                               lm_rotary_tensors *out, lm_error *e)
{
    const lm_rope_spec *r     = &c->rope;
    lm_rope_spec        plain = *r;
    uint32_t            half  = r->dim / 2;

    *out = (lm_rotary_tensors){ .size = half };
    if (!p->n_ropes || (r->type != LM_ROPE_LONGROPE && r->type != LM_ROPE_LLAMA3 &&
                        r->type != LM_ROPE_PROPORTIONAL))
        return LM_OK;
    if (r->type == LM_ROPE_LONGROPE) {
        out->n         = 2;
        out->names[0]  = "rope_factors_long.weight";
        out->names[1]  = "rope_factors_short.weight";
        out->values[0] = r->long_factors;
        out->values[1] = r->short_factors;
        return LM_OK;
    }
    float *divisors = lm_arena_new(arena, 2 * (size_t)half, float),
          *scaled = divisors ? divisors + half : NULL;
    if (!divisors)
        return lm_fail_memory(e, "rotary factors", half);
    plain.type = LM_ROPE_DEFAULT;
    lm_rope_frequencies(&plain, 1, NULL, NULL, divisors);
    lm_rope_frequencies(r, 1, NULL, NULL, scaled);
    for (uint32_t i = 0; i < half; i++)
        divisors[i] = scaled[i] > 0 ? divisor(divisors[i], scaled[i]) : LM_ROPE_NEVER;
    out->n         = 1;
    out->names[0]  = "rope_freqs.weight";
    out->values[0] = divisors;
    return LM_OK;
}
