/* chosen.c - choose keys, or blocks of keys, by their scores. */
#include "runtime/ops/chosen.h"

#include "runtime/ops/best.h"

static uint32_t keys_each(const lm_attention_spec *s)
{
    return s->block ? s->block : 1;
}

static void take_all(const lm_attention_spec *s, uint32_t keys, float *out)
{
    for (uint32_t i = 0; i < lm_choice_width(s); i++)
        out[i] = i * keys_each(s) < keys ? (float)i : -1;
}

/* Replace the scores of keys by the highest of each block; NaN is the highest. */
static void pool(const lm_attention_spec *s, float *scores, uint32_t keys)
{
    for (uint32_t b = 0, j = 0; j < keys; b++) {
        float max = scores[j++];
        for (; j < keys && j % s->block; j++)
            max = max >= scores[j] || max != max ? max : scores[j];
        scores[b] = max;
    }
}

void lm_choose_keys(const lm_attention_spec *s, float *scores, uint32_t keys, float *out)
{
    uint32_t n = (keys + keys_each(s) - 1) / keys_each(s), k = lm_choice_width(s), local = s->local;

    if (keys <= s->top_k) {
        take_all(s, keys, out);
        return;
    }
    if (s->block)
        pool(s, scores, keys);
    if (k > local)
        lm_best(scores, n - local, k - local, out);
    for (uint32_t i = 0; i < local; i++)
        out[k - local + i] = (float)(n - local + i);
}

uint32_t lm_chosen_keys(const lm_attention_spec *s, const float *chosen, uint32_t position, uint32_t *keys)
{
    uint32_t n = 0, each = keys_each(s);

    for (uint32_t i = 0; i < lm_choice_width(s) && chosen[i] >= 0; i++)
        for (uint32_t j = (uint32_t)chosen[i] * each, end = j + each; j < end && j <= position; j++)
            keys[n++] = j;
    return n;
}
