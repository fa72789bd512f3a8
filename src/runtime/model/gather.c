/* gather.c - rows of a weight that a folder stores interleaved with others. */
#include "runtime/model/gather.h"

#include <string.h>

#include "tensor/blocks.h"

/* Reorder the codes of a block: a folder's block holds codes 2i and 2i + 1 in byte i, GGUF's (and ours) codes
 * i and i + 16. */
static void take_block(lm_mxfp4 *b, const uint8_t *codes, uint8_t exponent)
{
    b->e = exponent;
    for (unsigned i = 0; i < 16; i++) {
        unsigned shift = 4 * (i & 1), low = codes[i / 2] >> shift & 15, high = codes[i / 2 + 8] >> shift & 15;
        b->qs[i]       = (uint8_t)(low | high << 4);
    }
}

static void gather_blocks(const lm_model *m, uint32_t weight, uint64_t expert, lm_mxfp4 *dst)
{
    const lm_weight *w      = &m->program->weights[weight];
    const uint8_t   *codes  = lm_container_data(m->container, m->tensors[weight]);
    const uint8_t   *scales = lm_container_data(m->container, m->exponents[weight]);
    uint64_t         n      = w->dims[2] / 32;

    for (uint64_t i = 0; i < w->dims[1]; i++) {
        uint64_t from = (expert * w->interleaved.of + w->interleaved.first + i * w->interleaved.step) * n;
        for (uint64_t k = 0; k < n; k++)
            take_block(&dst[i * n + k], codes + (from + k) * 16, scales[from + k]);
    }
}

void lm_gather_expert(const lm_model *m, uint32_t weight, uint64_t expert, uint8_t *dst)
{
    const lm_weight *w = &m->program->weights[weight];
    uint64_t outs = w->dims[1], in = w->dims[2], of = w->interleaved.of,
             size = lm_dtype_of(m->types[weight])->bytes;

    if (m->exponents[weight]) {
        gather_blocks(m, weight, expert, (lm_mxfp4 *)(void *)dst);
        return;
    }
    const uint8_t *src = (const uint8_t *)lm_container_data(m->container, m->tensors[weight]) +
                         expert * of * in * size;
    for (uint64_t i = 0; i < outs; i++) {
        uint64_t row = w->interleaved.first + i * w->interleaved.step;
        if (!w->interleaved.transposed)
            memcpy(dst + i * in * size, src + row * in * size, in * size);
        for (uint64_t k = 0; w->interleaved.transposed && k < in; k++)
            memcpy(dst + (i * in + k) * size, src + (k * of + row) * size, size);
    }
}

void lm_gather_floats(const lm_model *m, uint32_t weight, float *dst)
{
    const lm_weight *w = &m->program->weights[weight];

    for (uint64_t e = 0; e < w->dims[0]; e++)
        for (uint64_t i = 0; i < w->dims[1]; i++)
            lm_container_unpack(m->container, m->tensors[weight],
                                e * w->interleaved.of + w->interleaved.first + i * w->interleaved.step, 1,
                                dst + e * w->dims[1] + i);
}
