/* strips_level_256.c - the kernels of a 256-bit level: every type that has strips, and those that are
 * unpacked to bytes.
 *
 * Compiled once per level, LEVEL (LEVEL_NAME is its name as a string); its tiles are named by level and type
 * (TILES). */
#include "kernels/strip_kernel.h"
#include "kernels/x86/avx2/levels_avx2.h"
#include "kernels/x86/avx2/strips_run_256.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TILES(word) JOIN(JOIN(lm_tiles_, LEVEL), _##word)

#ifdef SSE41
#define STORED(word) NULL
#define ROWS_OF(id)  NULL
#else
#define STORED(word) lm_stored_##word##_avx2
#define ROWS_OF(id)  lm_byte_rows_avx2(id)
#endif

#define X(id, word, ...)                                                                                 \
    extern const tiles TILES(word);                                                                      \
    static uint64_t scratch_##word(uint64_t cols)                                                        \
    {                                                                                                    \
        return lm_strips_scratch_256(&TILES(word), cols);                                                \
    }                                                                                                    \
    static void run_##word(const lm_matmul_args *a)                                                      \
    {                                                                                                    \
        lm_strips_run_256(a, &TILES(word), lm_strip_bytes(lm_strip_of(id), a->cols), false);             \
    }                                                                                                    \
    static void run_ahead_##word(const lm_matmul_args *a)                                                \
    {                                                                                                    \
        lm_strips_run_256(a, &TILES(word), lm_strip_bytes(lm_strip_of(id), a->cols), true);              \
    }                                                                                                    \
    LM_STRIP_FUNCTIONS(id, word, lm_strip_pack_avx2)                                                     \
    LM_STRIP_RECORD(strips, word, LEVEL_NAME, &lm_activation_q8_avx2, 2 * LM_STRIP_ROWS, scratch_##word, \
                    run, STORED(word))                                                                   \
    LM_STRIP_RECORD(ahead, word, LEVEL_NAME, &lm_activation_q8_avx2, 2 * LM_STRIP_ROWS, scratch_##word,  \
                    run_ahead, STORED(word))
LM_STRIP_LAYOUTS(X)
#undef X

#define X(form)                                                                    \
    extern const tiles TILES(form);                                                \
    static void run_##form(const lm_matmul_args *a)                                \
    {                                                                              \
        lm_strips_run_256(a, &TILES(form), a->cols / 32 * LM_BYTE_UNIT, false);    \
    }
X(wide)
X(small)
#undef X

static uint64_t no_bytes(uint64_t cols)
{
    (void)cols;
    return 0;
}

static uint64_t scratch_of_bytes(uint64_t cols)
{
    return lm_byte_strips_scratch(cols, 0);
}

#define X(id, word, form, ...)                                                                             \
    LM_BYTE_KERNEL(id, word, LEVEL_NAME, &lm_activation_q8_avx2, lm_byte_unpack_avx2, ROWS_OF, run_##form, \
                   no_bytes,                                                                               \
                   scratch_of_bytes)
LM_BYTE_TYPES(X)
#undef X

void JOIN(lm_strips_init_, LEVEL)(lm_kernels *k)
{
#define X(id, word, ...) k->fast[id] = k->cpu & LM_CPU_INTEL ? &ahead_##word : &strips_##word;
    LM_STRIP_LAYOUTS(X)
#undef X
#define X(id, word, ...) k->fast[id] = &strips_##word;
    LM_BYTE_TYPES(X)
#undef X
}
