/* levels.h - shared by the kernels of all instruction sets: the stored types that can be a matrix (each has
 * an exact kernel on every level), and how a product is written to the output. */
#ifndef LM_KERNELS_LEVELS_H
#define LM_KERNELS_LEVELS_H

#include "kernels/kernels.h"

/* id, suffix of function names */
#define LM_MATRIX_TYPES(X)                                                                    \
    X(LM_F32, f32)         X(LM_F16, f16)         X(LM_BF16, bf16)       X(LM_F64, f64)       \
    X(LM_Q4_0, q4_0)       X(LM_Q4_1, q4_1)       X(LM_Q5_0, q5_0)       X(LM_Q5_1, q5_1)     \
    X(LM_Q8_0, q8_0)                                                                          \
    X(LM_Q2_K, q2_k)       X(LM_Q3_K, q3_k)       X(LM_Q4_K, q4_k)       X(LM_Q5_K, q5_k)     \
    X(LM_Q6_K, q6_k)                                                                          \
    X(LM_IQ1_S, iq1_s)     X(LM_IQ1_M, iq1_m)     X(LM_IQ2_XXS, iq2_xxs) X(LM_IQ2_XS, iq2_xs) \
    X(LM_IQ2_S, iq2_s)                                                                        \
    X(LM_IQ3_XXS, iq3_xxs) X(LM_IQ3_S, iq3_s)     X(LM_IQ4_NL, iq4_nl)   X(LM_IQ4_XS, iq4_xs) \
    X(LM_TQ1_0, tq1_0)     X(LM_TQ2_0, tq2_0)     X(LM_MXFP4, mxfp4)     X(LM_NVFP4, nvfp4)   \
    X(LM_Q1_0, q1_0)       X(LM_Q2_0, q2_0)

/* Row `row` of a matrix of [..][cols] as stored. */
static inline const void *lm_stored_row(const void *w, const lm_dtype_info *t, uint64_t cols, uint64_t row)
{
    return (const uint8_t *)w + row * (cols / t->block * t->bytes);
}

/* Bytes of a row of float32 in scratch: whole cache lines. */
static inline uint64_t lm_f32_row_bytes(uint64_t cols)
{
    return (cols * sizeof(float) + 63) & ~UINT64_C(63);
}

/* Define `exact_WORD`, the kernel that multiplies a type in float32 with `call` and looks up rows with
 * `unpack`. */
#define LM_EXACT_KERNEL(id, word, level, group, scratch, call, unpack)                            \
    static void run_##word(const lm_matmul_args *a)                                               \
    {                                                                                             \
        call;                                                                                     \
    }                                                                                             \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row) \
    {                                                                                             \
        (void)rows;                                                                               \
        (unpack)(dst, lm_stored_row(w, lm_dtype_of(id), cols, row), cols);                        \
    }                                                                                             \
    static const lm_matmul exact_##word = {                                                       \
        .name = #word " " level,                                                                  \
        .x = &lm_activation_f32,                                                                  \
        .row_group = group,                                                                       \
        .scratch_bytes = scratch,                                                                 \
        .run = run_##word,                                                                        \
        .row = row_##word,                                                                        \
    };

/* The groups of kernels that lm_kernels_init_ref sets besides matmul. */
void lm_row_kernels_init_ref(lm_row_kernels *k);
void lm_attention_kernels_init_ref(lm_attention_kernels *k);

/* Unpacked activations: rows of float32. */
extern const lm_activation lm_activation_f32;

/* Write the product v of output o with row t of x to y, with bias, scale and `add` applied. */
static inline void lm_matmul_store(const lm_matmul_args *a, uint64_t t, uint64_t o, float v)
{
    if (a->bias)
        v += a->bias[o];
    v *= a->scale;
    if (a->add)
        v += a->add[t * a->add_stride + o];
    a->y[t * a->y_stride + o] = v;
}

#endif
