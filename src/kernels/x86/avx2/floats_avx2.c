/* floats_avx2.c - float_strips.h with vectors of 256 bits. */

#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/vec_256.h"

#define LEVEL NAME_256
#define V     __m256
enum { LANES = 8, STRIPS = 1, STEP_f32 = 1, STEP_f16 = 1, STEP_bf16 = 1 };
#ifdef SSE41
enum { FEW = 1, TOKENS = 2 };
#define STORED(word) NULL
#else
enum { FEW = 3, TOKENS = 6 };
#define STORED(word) lm_stored_##word##_avx2
#endif

static inline V load_f32(const uint8_t *p, const int odd)
{
    (void)odd;
    return _mm256_loadu_ps((const void *)p);
}

static inline V load_f16(const uint8_t *p, const int odd)
{
    (void)odd;
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

static inline V load_bf16(const uint8_t *p, const int odd)
{
    (void)odd;
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

static inline V broadcast(const float *x)
{
    return _mm256_broadcast_ss(x);
}

static inline V zero(void)
{
    return _mm256_setzero_ps();
}

static inline V add(V a, V b)
{
    return _mm256_add_ps(a, b);
}

static inline void fma_into(V *sum, V w, V x)
{
    *sum = _mm256_fmadd_ps(w, x, *sum);
}

static inline void store(const lm_matmul_args *a, uint64_t t, uint64_t o, V v)
{
    if (o + 8 <= a->last) {
        if (a->bias)
            v = _mm256_add_ps(v, _mm256_loadu_ps(a->bias + o));
        v = _mm256_mul_ps(v, _mm256_set1_ps(a->scale));
        if (a->add)
            v = _mm256_add_ps(v, _mm256_loadu_ps(a->add + t * a->add_stride + o));
        _mm256_storeu_ps(a->y + t * a->y_stride + o, v);
        return;
    }
    float lanes[8];
    _mm256_storeu_ps(lanes, v);
    for (uint64_t i = 0; o + i < a->last; i++)
        lm_matmul_store(a, t, o + i, lanes[i]);
}

#include "kernels/x86/float_strips.h"

#ifdef SSE41
#define TILES(word, size)                                                                           \
    TILE(word, size, 1, 1)                                                                          \
    TILE(word, size, 1, 2) TILE(word, size, 2, 1) static tile_fn *const tiles_##word[2][TOKENS] = { \
        { tile_##word##_1_1, tile_##word##_1_2 }, { tile_##word##_2_1 }                             \
    };
#else
#define TILES(word, size)                                                \
    TILE(word, size, 1, 1) TILE(word, size, 1, 2) TILE(word, size, 1, 3) \
    TILE(word, size, 1, 4) TILE(word, size, 1, 5) TILE(word, size, 1, 6) \
    TILE(word, size, 2, 1) TILE(word, size, 2, 2) TILE(word, size, 2, 3) \
    static tile_fn *const tiles_##word[2][TOKENS] = {                    \
        { tile_##word##_1_1, tile_##word##_1_2, tile_##word##_1_3,       \
          tile_##word##_1_4, tile_##word##_1_5, tile_##word##_1_6 },     \
        { tile_##word##_2_1, tile_##word##_2_2, tile_##word##_2_3 },     \
    };
#endif

#define KERNEL(id, word, size)                                          \
    COLUMNS_LAYOUT(id, word, size) TILES(word, size)                    \
    RECORD(strips, word, false, STORED(word)) RECORD(ahead, word, true, STORED(word))
KERNEL(LM_F32, f32, 4)
#ifndef SSE41                        /* where conversions take long, exact_avx2.c unpacks float16 once for all
                                        rows of x */
KERNEL(LM_F16, f16, 2)
#endif
KERNEL(LM_BF16, bf16, 2)

void lm_floats_init_avx2(lm_kernels *k)
{
    const bool ahead = k->cpu & LM_CPU_INTEL;

    k->exact[LM_F32]  = k->fast[LM_F32]  = ahead ? &ahead_f32 : &strips_f32;
#ifndef SSE41
    k->exact[LM_F16]  = k->fast[LM_F16]  = ahead ? &ahead_f16 : &strips_f16;
#endif
    k->exact[LM_BF16] = k->fast[LM_BF16] = ahead ? &ahead_bf16 : &strips_bf16;
}
