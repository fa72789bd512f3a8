/* dtype.h - the data types of stored tensors: a single table, and the reference implementation of their
 * formats.
 *
 * The ids are those of GGUF (ggml_type). A row of n elements is n / block consecutive blocks of `bytes`
 * bytes. */
#ifndef LM_TENSOR_DTYPE_H
#define LM_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum lm_dtype {
    LM_F32 = 0,      LM_F16 = 1,      LM_Q4_0 = 2,     LM_Q4_1 = 3,     LM_Q5_0 = 6,     LM_Q5_1 = 7,
    LM_Q8_0 = 8,     LM_Q8_1 = 9,     LM_Q2_K = 10,    LM_Q3_K = 11,    LM_Q4_K = 12,    LM_Q5_K = 13,
    LM_Q6_K = 14,    LM_Q8_K = 15,    LM_IQ2_XXS = 16, LM_IQ2_XS = 17,  LM_IQ3_XXS = 18, LM_IQ1_S = 19,
    LM_IQ4_NL = 20,  LM_IQ3_S = 21,   LM_IQ2_S = 22,   LM_IQ4_XS = 23,  LM_I8 = 24,      LM_I16 = 25,
    LM_I32 = 26,     LM_I64 = 27,     LM_F64 = 28,     LM_IQ1_M = 29,   LM_BF16 = 30,    LM_TQ1_0 = 34,
    LM_TQ2_0 = 35,   LM_MXFP4 = 39,   LM_NVFP4 = 40,   LM_Q1_0 = 41,    LM_Q2_0 = 42,
    /* only in safetensors; ids of lamina, not of GGUF */
    LM_BOOL = 200,   LM_U8 = 201,     LM_U16 = 202,    LM_U32 = 203,    LM_U64 = 204,
} lm_dtype;

typedef struct lm_dtype_info {
    lm_dtype    type;
    const char *name;        /* lower case, as users write it: "q4_k" */
    uint32_t    block;       /* elements in a block */
    uint32_t    bytes;       /* bytes of a block */
    bool        quantized;
    bool        in_files;    /* false: an activation format (Q8_1, Q8_K), rejected in files */
    /* n elements, a multiple of `block`; `src` and `dst` need no alignment. NULL: not supported. */
    void (*unpack)(float *dst, const void *src, size_t n);
    void (*pack)(void *dst, const float *src, size_t n);
} lm_dtype_info;

/* Return the type with this id; NULL if there is none. */
const lm_dtype_info *lm_dtype_find(uint32_t type);

/* The same for a type that is known to exist. */
const lm_dtype_info *lm_dtype_of(lm_dtype type);

/* Pack like the type's `pack`, but take scales from the extreme elements instead of searching for them: many
 * times faster for types with a search (K, IQ4), with a larger error; the same bits for other types. For
 * weights whose values do not matter. */
void lm_pack_quickly(lm_dtype type, void *dst, const float *src, size_t n);

/* Return the type with this name, in any case ("Q4_K", "bf16"); NULL if unknown. */
const lm_dtype_info *lm_dtype_named(const char *name);

/* Convert a type id of a GGUF file. The message of LM_UNSUPPORTED names the type (including removed ones and
 * those of ik_llama.cpp) and gives a hint. `tensor` is used in the message. */
lm_status lm_dtype_from_gguf(uint32_t id, const char *tensor, lm_dtype *out, lm_error *e);

/* Convert a dtype name of a safetensors header ("BF16"). LM_UNSUPPORTED if it is unknown. */
lm_status lm_dtype_from_safetensors(const char *name, const char *tensor, lm_dtype *out, lm_error *e);

/* Compute the bytes of n elements in one row; return false if n is not whole blocks or the product
 * overflows. */
bool lm_dtype_row_bytes(lm_dtype type, uint64_t n, uint64_t *bytes);

/* Exact scalar conversions (round to nearest even; denormals, infinities and NaN are preserved). */
float    lm_f16_to_f32(uint16_t h);
uint16_t lm_f32_to_f16(float f);
float    lm_bf16_to_f32(uint16_t h);
uint16_t lm_f32_to_bf16(float f);
float    lm_rounded_to_bf16(float f);

#endif
