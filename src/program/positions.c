/* positions.c - position information that is neither learned nor rotary: ALiBi slopes, sinusoids. */
#include <math.h>

#include "program/program.h"
#include "tensor/dtype.h"

void lm_alibi_slopes(const lm_attention_spec *s, float *out)
{
    uint32_t whole = 1, all = s->all_heads ? s->all_heads : s->n_heads;

    while (whole * 2 <= all)
        whole *= 2;
    for (uint32_t i = 0; i < s->n_heads; i++) {
        uint32_t h = s->first_head + i;
        double slope = h < whole ? pow(2, -(double)s->alibi * (h + 1) / whole)
                                 : pow(2, -(double)s->alibi * (2 * (h - whole) + 1) / (2.0 * whole));
        out[i]       = s->alibi_half ? lm_rounded_to_bf16((float)slope) : (float)slope;
    }
}

void lm_sinusoid_row(lm_sinusoid_layout layout, uint32_t position, uint32_t width, float *out)
{
    uint32_t half = width / 2;

    for (uint32_t i = 0; i < half; i++) {
        double inv = layout == LM_SINUSOID_SPREAD ? exp(-log(10000) * i / (half > 1 ? half - 1.0 : 1.0))
                                                  : pow(10000, -2.0 * i / width);
        float  angle = (float)position * (float)inv;
        out[layout == LM_SINUSOID_PAIRS ? 2 * i : i]            = sinf(angle);
        out[layout == LM_SINUSOID_PAIRS ? 2 * i + 1 : half + i] = cosf(angle);
    }
}
