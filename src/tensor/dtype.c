/* dtype.c - the table of data types, and look-up of a type by id or name. */
#include "tensor/dtype.h"

#include <strings.h>

#include "base/checked.h"
#include "tensor/blocks.h"
#include "tensor/codecs.h"

/* id, name, elements and bytes per block, struct of a block, quantised, in files, unpack, pack */
#define TYPES(X)                                                                                  \
    X(LM_F32, "f32", 1, 4, float, false, true, lm_unpack_f32, lm_pack_f32)                        \
    X(LM_F16, "f16", 1, 2, uint16_t, false, true, lm_unpack_f16, lm_pack_f16)                     \
    X(LM_Q4_0, "q4_0", 32, 18, lm_q4_0, true, true, lm_unpack_q4_0, lm_pack_q4_0)                 \
    X(LM_Q4_1, "q4_1", 32, 20, lm_q4_1, true, true, lm_unpack_q4_1, lm_pack_q4_1)                 \
    X(LM_Q5_0, "q5_0", 32, 22, lm_q5_0, true, true, lm_unpack_q5_0, lm_pack_q5_0)                 \
    X(LM_Q5_1, "q5_1", 32, 24, lm_q5_1, true, true, lm_unpack_q5_1, lm_pack_q5_1)                 \
    X(LM_Q8_0, "q8_0", 32, 34, lm_q8_0, true, true, lm_unpack_q8_0, lm_pack_q8_0)                 \
    X(LM_Q8_1, "q8_1", 32, 36, lm_q8_1, true, false, lm_unpack_q8_1, lm_pack_q8_1)                \
    X(LM_Q2_K, "q2_k", 256, 84, lm_q2_k, true, true, lm_unpack_q2_k, lm_pack_q2_k)                \
    X(LM_Q3_K, "q3_k", 256, 110, lm_q3_k, true, true, lm_unpack_q3_k, lm_pack_q3_k)               \
    X(LM_Q4_K, "q4_k", 256, 144, lm_q4_k, true, true, lm_unpack_q4_k, lm_pack_q4_k)               \
    X(LM_Q5_K, "q5_k", 256, 176, lm_q5_k, true, true, lm_unpack_q5_k, lm_pack_q5_k)               \
    X(LM_Q6_K, "q6_k", 256, 210, lm_q6_k, true, true, lm_unpack_q6_k, lm_pack_q6_k)               \
    X(LM_Q8_K, "q8_k", 256, 292, lm_q8_k, true, false, lm_unpack_q8_k, lm_pack_q8_k)              \
    X(LM_IQ2_XXS, "iq2_xxs", 256, 66, lm_iq2_xxs, true, true, lm_unpack_iq2_xxs, lm_pack_iq2_xxs) \
    X(LM_IQ2_XS, "iq2_xs", 256, 74, lm_iq2_xs, true, true, lm_unpack_iq2_xs, lm_pack_iq2_xs)      \
    X(LM_IQ3_XXS, "iq3_xxs", 256, 98, lm_iq3_xxs, true, true, lm_unpack_iq3_xxs, lm_pack_iq3_xxs) \
    X(LM_IQ1_S, "iq1_s", 256, 50, lm_iq1_s, true, true, lm_unpack_iq1_s, lm_pack_iq1_s)           \
    X(LM_IQ4_NL, "iq4_nl", 32, 18, lm_iq4_nl, true, true, lm_unpack_iq4_nl, lm_pack_iq4_nl)       \
    X(LM_IQ3_S, "iq3_s", 256, 110, lm_iq3_s, true, true, lm_unpack_iq3_s, lm_pack_iq3_s)          \
    X(LM_IQ2_S, "iq2_s", 256, 82, lm_iq2_s, true, true, lm_unpack_iq2_s, lm_pack_iq2_s)           \
    X(LM_IQ4_XS, "iq4_xs", 256, 136, lm_iq4_xs, true, true, lm_unpack_iq4_xs, lm_pack_iq4_xs)     \
    X(LM_I8, "i8", 1, 1, int8_t, false, true, lm_unpack_i8, NULL)                                 \
    X(LM_I16, "i16", 1, 2, int16_t, false, true, lm_unpack_i16, NULL)                             \
    X(LM_I32, "i32", 1, 4, int32_t, false, true, lm_unpack_i32, NULL)                             \
    X(LM_I64, "i64", 1, 8, int64_t, false, true, lm_unpack_i64, NULL)                             \
    X(LM_F64, "f64", 1, 8, double, false, true, lm_unpack_f64, lm_pack_f64)                       \
    X(LM_IQ1_M, "iq1_m", 256, 56, lm_iq1_m, true, true, lm_unpack_iq1_m, lm_pack_iq1_m)           \
    X(LM_BF16, "bf16", 1, 2, uint16_t, false, true, lm_unpack_bf16, lm_pack_bf16)                 \
    X(LM_TQ1_0, "tq1_0", 256, 54, lm_tq1_0, true, true, lm_unpack_tq1_0, lm_pack_tq1_0)           \
    X(LM_TQ2_0, "tq2_0", 256, 66, lm_tq2_0, true, true, lm_unpack_tq2_0, lm_pack_tq2_0)           \
    X(LM_MXFP4, "mxfp4", 32, 17, lm_mxfp4, true, true, lm_unpack_mxfp4, lm_pack_mxfp4)            \
    X(LM_NVFP4, "nvfp4", 64, 36, lm_nvfp4, true, true, lm_unpack_nvfp4, NULL)                     \
    X(LM_Q1_0, "q1_0", 128, 18, lm_q1_0, true, true, lm_unpack_q1_0, NULL)                        \
    X(LM_Q2_0, "q2_0", 64, 18, lm_q2_0, true, true, lm_unpack_q2_0, NULL)                         \
    X(LM_BOOL, "bool", 1, 1, uint8_t, false, true, lm_unpack_bool, NULL)                          \
    X(LM_U8, "u8", 1, 1, uint8_t, false, true, lm_unpack_u8, NULL)                                \
    X(LM_U16, "u16", 1, 2, uint16_t, false, true, lm_unpack_u16, NULL)                            \
    X(LM_U32, "u32", 1, 4, uint32_t, false, true, lm_unpack_u32, NULL)                            \
    X(LM_U64, "u64", 1, 8, uint64_t, false, true, lm_unpack_u64, NULL)

#define X(id, name, block, bytes, layout, quantized, in_files, unpack, pack) \
    _Static_assert(sizeof(layout) == (bytes), name " block has " #bytes " bytes");
TYPES(X)
#undef X

/* Indexed by id: the row of an id that is not a type has no name. */
static const lm_dtype_info types[] = {
#define X(id, name, block, bytes, layout, quantized, in_files, unpack, pack) \
    [id] = { id, name, block, bytes, quantized, in_files, unpack, pack },
    TYPES(X)
#undef X
};

enum { N_TYPES = sizeof types / sizeof types[0] };

const lm_dtype_info *lm_dtype_find(uint32_t type)
{
    return type < N_TYPES && types[type].name ? &types[type] : NULL;
}

const lm_dtype_info *lm_dtype_of(lm_dtype type)
{
    return &types[type];
}

void lm_pack_quickly(lm_dtype type, void *dst, const float *src, size_t n)
{
    static lm_pack_fn *const quick[N_TYPES] = {
        [LM_Q2_K] = lm_quick_q2_k,       [LM_Q3_K] = lm_quick_q3_k,     [LM_Q4_K] = lm_quick_q4_k,
        [LM_Q5_K] = lm_quick_q5_k,       [LM_Q6_K] = lm_quick_q6_k,     [LM_IQ4_NL] = lm_quick_iq4_nl,
        [LM_IQ4_XS] = lm_quick_iq4_xs,   [LM_IQ1_S] = lm_quick_iq1_s,   [LM_IQ1_M] = lm_quick_iq1_m,
        [LM_IQ2_XXS] = lm_quick_iq2_xxs, [LM_IQ2_XS] = lm_quick_iq2_xs, [LM_IQ2_S] = lm_quick_iq2_s,
        [LM_IQ3_XXS] = lm_quick_iq3_xxs, [LM_IQ3_S] = lm_quick_iq3_s,
    };

    (quick[type] ? quick[type] : types[type].pack)(dst, src, n);
}

const lm_dtype_info *lm_dtype_named(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].name && !strcasecmp(types[i].name, name))
            return &types[i];
    return NULL;
}

bool lm_dtype_row_bytes(lm_dtype type, uint64_t n, uint64_t *bytes)
{
    const lm_dtype_info *t = lm_dtype_find(type);

    return t && n % t->block == 0 && lm_mul_u64(n / t->block, t->bytes, bytes);
}
