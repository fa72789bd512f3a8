/* floats_avx512.c - float_strips.h with vectors of 512 bits. */
#include <immintrin.h>

#include "kernels/x86/avx512/bf16_strips.h"
#include "kernels/x86/avx512/levels_avx512.h"
#include "kernels/x86/avx512/vec_avx512.h"

#define LEVEL "avx512"
#define V     __m512
enum { LANES = 16, FEW = 8, STRIPS = 2, TOKENS = 8, STEP_f32 = 1, STEP_f16 = 1, STEP_bf16 = 2 };

static inline V load_f32(const uint8_t *p, const int odd)
{
    (void)odd;
    return _mm512_loadu_ps(p);
}

static inline V load_f16(const uint8_t *p, const int odd)
{
    (void)odd;
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline V load_bf16(const uint8_t *p, const int odd)
{
    __m512i pair = _mm512_loadu_si512(p);

    return _mm512_castsi512_ps(odd ? _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000u))
                                   : _mm512_slli_epi32(pair, 16));
}

static inline V broadcast(const float *x)
{
    return _mm512_set1_ps(*x);
}

static inline V zero(void)
{
    return _mm512_setzero_ps();
}

static inline V add(V a, V b)
{
    return _mm512_add_ps(a, b);
}

/* In assembly because the compiler would fold the broadcast into every product. */
static inline void fma_into(V *sum, V w, V x)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(w), "v"(x));
}

static inline void store(const lm_matmul_args *a, uint64_t t, uint64_t o, V v)
{
    __mmask16 lanes = vec512_lanes(a->last - o);

    if (a->bias)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, a->bias + o));
    v = _mm512_mul_ps(v, _mm512_set1_ps(a->scale));
    if (a->add)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(lanes, a->add + t * a->add_stride + o));
    _mm512_mask_storeu_ps(a->y + t * a->y_stride + o, lanes, v);
}

#include "kernels/x86/float_strips.h"

#define ROW(word, size, strips)                                                                       \
    TILE(word, size, strips, 1) TILE(word, size, strips, 2) TILE(word, size, strips, 3)               \
    TILE(word, size, strips, 4) TILE(word, size, strips, 5) TILE(word, size, strips, 6)               \
    TILE(word, size, strips, 7) TILE(word, size, strips, 8)
#define OF(word, s)                                                                                   \
    { tile_##word##_##s##_1, tile_##word##_##s##_2, tile_##word##_##s##_3, tile_##word##_##s##_4,     \
      tile_##word##_##s##_5, tile_##word##_##s##_6, tile_##word##_##s##_7, tile_##word##_##s##_8 }
#define TILES(word, size)                                                                             \
    ROW(word, size, 1) ROW(word, size, 2)                                                             \
    static tile_fn *const tiles_##word[2][TOKENS] = { OF(word, 1), OF(word, 2) };

#define bytes_bf16 lm_bf16_packed_bytes
#define pack_bf16  lm_bf16_pack
#define row_bf16   lm_bf16_row
#define strip_bf16 lm_bf16_strip

COLUMNS_LAYOUT(LM_F32, f32, 4)
COLUMNS_LAYOUT(LM_F16, f16, 2)
#define KERNEL(word, size) TILES(word, size) RECORD(strips, word, false, NULL) RECORD(ahead, word, true, NULL)
KERNEL(f32, 4)
KERNEL(f16, 2)
KERNEL(bf16, 2)

void lm_floats_init_avx512(lm_kernels *k)
{
    const bool ahead = k->cpu & LM_CPU_INTEL;

    k->exact[LM_F32]  = k->fast[LM_F32]  = ahead ? &ahead_f32 : &strips_f32;
    k->exact[LM_F16]  = k->fast[LM_F16]  = ahead ? &ahead_f16 : &strips_f16;
    k->exact[LM_BF16] = k->fast[LM_BF16] = ahead ? &ahead_bf16 : &strips_bf16;
}
