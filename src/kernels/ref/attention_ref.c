/* attention_ref.c - attention over a paged cache in plain C.
 *
 * A layer's part of a page holds, for each key/value head in order, 64 keys and then 64 values, each a row of
 * its type as stored by lm_dtype. */
#include "kernels/attention_parts.h"
#include "kernels/levels.h"
#include "tensor/dtype.h"

static uint64_t row_bytes(lm_dtype type, uint32_t dim)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    return (uint64_t)dim / t->block * t->bytes;
}

/* Return the bytes of one key/value head of a page: keys, then values. */
static uint64_t head_bytes(const lm_kv_shape *kv)
{
    uint64_t row = row_bytes(kv->k_type, kv->k_dim) + (kv->v_in_k ? 0 : row_bytes(kv->v_type, kv->v_dim));
    return LM_PAGE * row;
}

static uint64_t page_bytes(const lm_kv_shape *kv)
{
    return (kv->n_kv_heads * head_bytes(kv) + 63) & ~UINT64_C(63);
}

static void store(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, uint32_t rows, const float *k,
                  uint64_t k_stride, const float *v, uint64_t v_stride)
{
    uint32_t of_keys = lm_hadamard_of_keys(kv), of_values = lm_hadamard_of_values(kv);
    uint64_t k_bytes = row_bytes(kv->k_type, kv->k_dim), v_bytes = row_bytes(kv->v_type, kv->v_dim);

    for (uint32_t h = 0; h < kv->n_kv_heads; h++) {
        uint8_t *keys = page + h * head_bytes(kv), *values = keys + LM_PAGE * k_bytes;
        for (uint32_t r = 0; r < rows; r++) {
            pack_row(kv->k_type, of_keys, keys + (slot + r) * k_bytes,
                     k + r * k_stride + (uint64_t)h * kv->k_dim, kv->k_dim);
            if (!kv->v_in_k)
                pack_row(kv->v_type, of_values, values + (slot + r) * v_bytes,
                         v + r * v_stride + (uint64_t)h * kv->v_dim, kv->v_dim);
        }
    }
}

/* Copy the rows of `bytes` bytes whose bits are set. */
static void copy_rows(uint8_t *to, const uint8_t *from, uint64_t bytes, uint64_t slots)
{
    for (uint32_t i = 0; i < LM_PAGE; i++)
        if (slots >> i & 1) {
            memcpy(to, from + i * bytes, bytes);
            to += bytes;
        }
}

static void copy(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, const uint8_t *from, uint64_t slots)
{
    uint64_t k_bytes = row_bytes(kv->k_type, kv->k_dim),
             v_bytes = kv->v_in_k ? 0 : row_bytes(kv->v_type, kv->v_dim), values = LM_PAGE * k_bytes;

    for (uint32_t h = 0; h < kv->n_kv_heads; h++, page += head_bytes(kv), from += head_bytes(kv)) {
        copy_rows(page + slot * k_bytes, from, k_bytes, slots);
        copy_rows(page + values + slot * v_bytes, from + values, v_bytes, slots);
    }
}

static void index_keys(const lm_kv_shape *kv, const uint8_t *page, const float *q, const float *w,
                       uint32_t n_heads, float *scratch, float *out, uint64_t stride)
{
    for (uint32_t j = 0; j < LM_PAGE; j++, page += row_bytes(kv->k_type, kv->k_dim)) {
        lm_dtype_of(kv->k_type)->unpack(scratch, page, kv->k_dim);
        if (w)
            out[j] = 0;
        for (uint32_t h = 0; h < n_heads; h++) {
            float sum = 0;
            for (uint32_t i = 0; i < kv->k_dim; i++)
                sum += q[(uint64_t)h * kv->k_dim + i] * scratch[i];
            if (w)
                out[j] += w[h] * (sum > 0 ? sum : 0);
            else
                out[h * stride + j] = sum;
        }
    }
}

/* Scratch: 64 scores, one key, one value, the output of a range, one query. */
static uint64_t scratch_bytes(const lm_kv_shape *kv, uint32_t group)
{
    (void)group;
    return ((LM_PAGE + 2 * (uint64_t)kv->k_dim + 2 * (uint64_t)kv->v_dim) * sizeof(float) + 63) &
           ~UINT64_C(63);
}

static float score(const lm_attention_args *a, const float *q, const float *key, uint32_t g, uint32_t j,
                   uint32_t distance)
{
    float s = 0.0f;

    for (uint32_t i = 0; i < a->kv->k_dim; i++)
        s += q[i] * key[i];
    if (a->slopes && a->slopes_half)
        s += lm_rounded_to_bf16(a->slopes[g] * lm_rounded_to_bf16((float)j));
    s *= a->scale;
    if (a->softcap > 0.0f)
        s = a->softcap * tanhf(s / a->softcap);
    if (a->slopes && !a->slopes_half)
        s -= a->slopes[g] * (float)distance;
    return s;
}

/* Rescale the running sum and output to a larger maximum. */
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

/* Process one page, which begins at position `start`, for one query; its keys [from, to) are visible. */
static void page_step(const lm_attention_args *a, const uint8_t *page, uint32_t start, uint32_t from,
                      uint32_t to, uint32_t g, uint32_t distance, const float *q, running *s, float *out)
{
    const lm_kv_shape *kv = a->kv;
    const lm_dtype_info *of_keys = lm_dtype_of(kv->k_type), *of_values = lm_dtype_of(kv->v_type);
    const uint8_t *keys = page + a->head * head_bytes(kv),
                  *values = keys + LM_PAGE * row_bytes(kv->k_type, kv->k_dim);
    float *scores = a->scratch, *key = scores + LM_PAGE, *value = key + kv->k_dim, max = -INFINITY;

    for (uint32_t j = from; j < to; j++) {
        of_keys->unpack(key, keys + j * row_bytes(kv->k_type, kv->k_dim), kv->k_dim);
        scores[j] = score(a, q, key, g, start + j, distance - j);
        max = fmaxf(max, scores[j]);
    }
    raise_max(s, max, out, kv->v_dim);
    for (uint32_t j = from; j < to; j++) {
        float p = expf(scores[j] - s->max);
        if (kv->v_in_k) {
            of_keys->unpack(key, keys + j * row_bytes(kv->k_type, kv->k_dim), kv->k_dim);
            memcpy(value, key, kv->v_dim * sizeof *value);
        } else {
            of_values->unpack(value, values + j * row_bytes(kv->v_type, kv->v_dim), kv->v_dim);
        }
        s->sum += p;
        for (uint32_t i = 0; i < kv->v_dim; i++)
            out[i] += p * value[i];
    }
}

/* Compute the partial result of a query over one range. */
static running one_range(const lm_attention_args *a, uint32_t position, uint32_t g, const float *q,
                         uint32_t range, float *out)
{
    uint32_t first = lm_first_seen(a->window, a->chunked, position), begin = range * LM_RANGE,
             end = begin + LM_RANGE;
    running s = NOTHING_SEEN;

    memset(out, 0, a->kv->v_dim * sizeof *out);
    for (uint32_t start = (first > begin ? first : begin) / LM_PAGE * LM_PAGE;
         start < end && start <= position; start += LM_PAGE) {
        uint32_t from = first > start ? first - start : 0,
                 to = position - start < LM_PAGE ? position - start + 1 : LM_PAGE;
        page_step(a, a->base + a->pages[start / LM_PAGE] * a->page_stride, start, from, to, g,
                  position - start, q, &s, out);
    }
    return s;
}

/* Merge the partial result over one more range into *s and out. */
static void join(running *s, float *out, const running *partial, const float *values, uint32_t width)
{
    float max = s->max > partial->max ? s->max : partial->max, shrink = expf(s->max - max),
          shrink_partial = expf(partial->max - max);

    s->max = max;
    s->sum = s->sum * shrink + partial->sum * shrink_partial;
    for (uint32_t i = 0; i < width; i++)
        out[i] = out[i] * shrink + values[i] * shrink_partial;
}

static void finish(const lm_attention_args *a, running *s, uint32_t g, float *out)
{
    if (a->sinks) {
        raise_max(s, a->sinks[g], out, a->kv->v_dim);
        s->sum += expf(a->sinks[g] - s->max);
    }
    for (uint32_t i = 0; i < a->kv->v_dim; i++)
        out[i] /= s->sum;
}

static const float *query_of(const lm_attention_args *a, uint32_t r, uint32_t g)
{
    const float *q = a->q + r * a->q_stride + (uint64_t)g * a->kv->k_dim;
    float *copy = (float *)a->scratch + LM_PAGE + a->kv->k_dim + 2 * (uint64_t)a->kv->v_dim;
    uint32_t lanes = lm_hadamard_of_keys(a->kv);

    if (!lanes)
        return q;
    memcpy(copy, q, a->kv->k_dim * sizeof *copy);
    hadamard(copy, a->kv->k_dim, lanes);
    return copy;
}

static void run(const lm_attention_args *a)
{
    float *values = (float *)a->scratch + LM_PAGE + a->kv->k_dim + a->kv->v_dim;

    for (uint32_t r = 0; r < a->rows; r++) {
        for (uint32_t g = 0; g < a->group; g++) {
            uint32_t position = a->position + r,
                     range    = lm_first_seen(a->window, a->chunked, position) / LM_RANGE;
            float *out = out_of(a, r, g);
            const float *q = query_of(a, r, g);
            running s = one_range(a, position, g, q, range, out);
            while (range++ < position / LM_RANGE) {
                running partial = one_range(a, position, g, q, range, values);
                join_partial(&s, out, &partial, values, a->kv->v_dim, join);
            }
            end_query(a, &s, g, out, finish);
        }
    }
}

static void run_range(const lm_attention_args *a, uint32_t range, void *partial)
{
    float *values = partial;
    running *states = states_of(a, partial);

    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->group; g++, values += a->kv->v_dim)
            *states++ = one_range(a, a->position + r, g, query_of(a, r, g), range, values);
}

static void merge(const lm_attention_args *a, const void *partials, uint32_t n)
{
    merge_partials(a, partials, n, join, finish);
}

void lm_attention_kernels_init_ref(lm_attention_kernels *k)
{
    *k = (lm_attention_kernels){
        .page_bytes = page_bytes,
        .scratch_bytes = scratch_bytes,
        .store = store,
        .copy = copy,
        .index = index_keys,
        .run = run,
        .run_range = run_range,
        .merge = merge,
    };
}
