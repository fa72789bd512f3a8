/* matmul_ref.c - matrix times rows in plain C: each row of the matrix is unpacked and multiplied with every
 * row of x. */
#include "kernels/levels.h"

const lm_activation lm_activation_f32 = { .name = "f32", .bytes = lm_f32_row_bytes };

/* Eight partial sums over k, added as a tree. */
static float dot(const float *a, const float *b, uint64_t n)
{
    float s[8] = { 0 };
    uint64_t k = 0;

    for (; k + 8 <= n; k += 8)
        for (uint64_t i = 0; i < 8; i++)
            s[i] += a[k + i] * b[k + i];
    for (; k < n; k++)
        s[k % 8] += a[k] * b[k];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void run(const lm_matmul_args *a, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    float *w = a->scratch;

    for (uint64_t o = a->first; o < a->last; o++) {
        t->unpack(w, lm_stored_row(a->w, t, a->cols, o), a->cols);
        for (uint64_t r = 0; r < a->n; r++) {
            const float *x = (const void *)((const uint8_t *)a->x + r * a->x_stride);
            lm_matmul_store(a, r, o, dot(w, x, a->cols));
        }
    }
}

#define X(id, word) LM_EXACT_KERNEL(id, word, "ref", 1, lm_f32_row_bytes, run(a, id), lm_dtype_of(id)->unpack)
LM_MATRIX_TYPES(X)
#undef X

static void init_matmul(lm_kernels *k)
{
#define X(id, word) k->exact[id] = k->fast[id] = &exact_##word;
    LM_MATRIX_TYPES(X)
#undef X
}

void lm_kernels_init_ref(lm_kernels *k)
{
    init_matmul(k);
    lm_row_kernels_init_ref(&k->row);
    lm_attention_kernels_init_ref(&k->attention);
}
