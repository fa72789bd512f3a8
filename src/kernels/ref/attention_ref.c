/* attention_ref.c - attention over a paged cache in plain C.
 *
 * A layer's part of a page holds, for one key/value head after the other, 64 keys and then 64 values, each a row of the
 * cache's type as lm_dtype stores it. */
#include <math.h>
#include <string.h>

#include "kernels/levels.h"

static uint64_t row_bytes(const lm_kv_shape *kv, uint32_t dim)
{
    const lm_dtype_info *t = lm_dtype_of(kv->type);
    return (uint64_t)dim / t->block * t->bytes;
}

/* Bytes of one key/value head of a page: keys, then values. */
static uint64_t head_bytes(const lm_kv_shape *kv)
{
    uint64_t row = row_bytes(kv, kv->k_dim) + (kv->v_in_k ? 0 : row_bytes(kv, kv->v_dim));
    return LM_PAGE * row;
}

static uint64_t page_bytes(const lm_kv_shape *kv)
{
    return (kv->n_kv_heads * head_bytes(kv) + 63) & ~UINT64_C(63);
}

static void store(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, const float *k, const float *v)
{
    const lm_dtype_info *t = lm_dtype_of(kv->type);

    for (uint32_t h = 0; h < kv->n_kv_heads; h++) {
        uint8_t *keys = page + h * head_bytes(kv), *values = keys + LM_PAGE * row_bytes(kv, kv->k_dim);
        t->pack(keys + slot * row_bytes(kv, kv->k_dim), k + (uint64_t)h * kv->k_dim, kv->k_dim);
        if (!kv->v_in_k)
            t->pack(values + slot * row_bytes(kv, kv->v_dim), v + (uint64_t)h * kv->v_dim, kv->v_dim);
    }
}

/* Scratch: 64 scores, one key, one value. */
static uint64_t scratch_bytes(const lm_kv_shape *kv, uint32_t group)
{
    (void)group;
    return ((LM_PAGE + (uint64_t)kv->k_dim + kv->v_dim) * sizeof(float) + 63) & ~UINT64_C(63);
}

static float rounded_to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float score(const lm_attention_args *a, const float *q, const float *key, uint32_t g, uint32_t j, uint32_t distance)
{
    float s = 0.0f;

    for (uint32_t i = 0; i < a->kv->k_dim; i++)
        s += q[i] * key[i];
    if (a->slopes && a->slopes_half)
        s += rounded_to_bf16(a->slopes[g] * rounded_to_bf16((float)j));
    s *= a->scale;
    if (a->softcap > 0.0f)
        s = a->softcap * tanhf(s / a->softcap);
    if (a->slopes && !a->slopes_half)
        s -= a->slopes[g] * (float)distance;
    return s;
}

/* The running state of one query: what it would be if the softmax ended here. */
typedef struct running {
    float max, sum;
} running;

/* Scale what is there to a larger maximum. */
static void raise_max(running *s, float max, float *out, uint32_t width)
{
    if (!(max > s->max))
        return;
    float shrink = s->max == -INFINITY ? 0.0f : expf(s->max - max);
    s->max = max;
    s->sum *= shrink;
    for (uint32_t i = 0; i < width; i++)
        out[i] *= shrink;
}

/* One page, which begins at position `start`, against one query: keys [from, to) of it are visible. */
static void page_step(const lm_attention_args *a, const uint8_t *page, uint32_t start, uint32_t from, uint32_t to, uint32_t g,
                      uint32_t distance, const float *q, running *s, float *out)
{
    const lm_kv_shape *kv = a->kv;
    const lm_dtype_info *t = lm_dtype_of(kv->type);
    const uint8_t *keys = page + a->head * head_bytes(kv), *values = keys + LM_PAGE * row_bytes(kv, kv->k_dim);
    float *scores = a->scratch, *key = scores + LM_PAGE, *value = key + kv->k_dim, max = -INFINITY;

    for (uint32_t j = from; j < to; j++) {
        t->unpack(key, keys + j * row_bytes(kv, kv->k_dim), kv->k_dim);
        scores[j] = score(a, q, key, g, start + j, distance - j);
        max = fmaxf(max, scores[j]);
    }
    raise_max(s, max, out, kv->v_dim);
    for (uint32_t j = from; j < to; j++) {
        float p = expf(scores[j] - s->max);
        if (kv->v_in_k) {
            t->unpack(key, keys + j * row_bytes(kv, kv->k_dim), kv->k_dim);
            memcpy(value, key, kv->v_dim * sizeof *value);
        } else {
            t->unpack(value, values + j * row_bytes(kv, kv->v_dim), kv->v_dim);
        }
        s->sum += p;
        for (uint32_t i = 0; i < kv->v_dim; i++)
            out[i] += p * value[i];
    }
}

static void one_query(const lm_attention_args *a, uint32_t position, uint32_t g, const float *q, float *out)
{
    uint32_t first = a->window && position >= a->window ? position - a->window + 1 : 0, width = a->kv->v_dim;
    running s = { -INFINITY, 0.0f };

    memset(out, 0, width * sizeof *out);
    for (uint32_t p = first / LM_PAGE; p <= position / LM_PAGE; p++) {
        uint32_t start = p * LM_PAGE, from = first > start ? first - start : 0;
        uint32_t to = position - start < LM_PAGE ? position - start + 1 : LM_PAGE;
        page_step(a, a->base + a->pages[p] * a->page_stride, start, from, to, g, position - start, q, &s, out);
    }
    if (a->sinks) {
        raise_max(&s, a->sinks[g], out, width);
        s.sum += expf(a->sinks[g] - s.max);
    }
    for (uint32_t i = 0; i < width; i++)
        out[i] /= s.sum;
}

static void run(const lm_attention_args *a)
{
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->group; g++)
            one_query(a, a->position + r, g, a->q + r * a->q_stride + (uint64_t)g * a->kv->k_dim,
                      a->out + r * a->out_stride + (uint64_t)g * a->kv->v_dim);
}

void lm_attention_kernels_init_ref(lm_attention_kernels *k)
{
    *k = (lm_attention_kernels){
        .page_bytes = page_bytes,
        .scratch_bytes = scratch_bytes,
        .store = store,
        .run = run,
    };
}
