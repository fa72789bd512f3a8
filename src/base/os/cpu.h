/* cpu.h - what this processor supports, and what may be used.
 *
 * Levels are cumulative: avx512 includes everything below it. The mask (from --cpu, LAMINA_CPU, tests) only
 * removes features. */
#ifndef LM_BASE_CPU_H
#define LM_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef uint32_t lm_cpu;             /* a set of the flags below; 0 is plain C */

enum {
    LM_CPU_SSE41       = 1u << 11,   /* SSSE3, SSE4.1 */
    LM_CPU_AVX2        = 1u << 0,    /* AVX2, FMA, F16C, BMI2 */
    LM_CPU_AVXVNNI     = 1u << 1,    /* 256-bit vpdpbusd, in either encoding */
    LM_CPU_AVX512      = 1u << 2,    /* F BW DQ VL CD */
    LM_CPU_AVX512_VNNI = 1u << 3,
    LM_CPU_AVX512_BF16 = 1u << 4,
    LM_CPU_AVXVNNI_VEX = 1u << 5,    /* also in the encoding of AVX-VNNI; otherwise in that of AVX512-VNNI */
    LM_CPU_AMX         = 1u << 6,    /* tiles of int8 and bfloat16, which the system permits this process to
                                        use */
    /* Not instructions but how they run: a product with one row reads memory faster with prefetching,
     * everything that vectors of 512 bits do shares two ports, and vdpbf16ps takes both. */
    LM_CPU_INTEL       = 1u << 7,
    LM_CPU_NEON        = 1u << 8,
    LM_CPU_DOTPROD     = 1u << 9,
    LM_CPU_I8MM        = 1u << 10,
};

/* Return everything that the hardware and the operating system allow. Detected once; thread-safe. */
lm_cpu lm_cpu_detected(void);

/* Return detected & mask. The mask is set by lm_cpu_limit, otherwise by LAMINA_CPU, otherwise it is that of
 * "auto". */
lm_cpu lm_cpu_usable(void);

/* Return LM_USAGE if LAMINA_CPU is not a level; lm_cpu_usable treats that as "auto". */
lm_status lm_cpu_environment(lm_error *e);

/* Return the i-th level of this architecture, lowest first; NULL past the last. */
const char *lm_cpu_level_name(size_t i);

/* Set *mask to that of the named level and all below it; "auto": everything that makes this processor faster.
 * LM_USAGE names an unknown level and lists the known ones. */
lm_status lm_cpu_level(const char *name, lm_cpu *mask, lm_error *e);

/* Set *out to what a named level may use here; NULL: lm_cpu_usable. LM_UNSUPPORTED: this processor does not
 * have the level itself. */
lm_status lm_cpu_choose(const char *level, lm_cpu *out, lm_error *e);
void      lm_cpu_limit(lm_cpu mask);

/* Return the name of the highest level in the set, "ref" if it is empty. */
const char *lm_cpu_name(lm_cpu set);

/* Return the brand, such as "AMD EPYC 9R14"; "unknown" if it cannot be read. */
const char *lm_cpu_brand(void);

/* Return the number of physical cores that this process may keep busy: those of its affinity mask, at most
 * what the quota of its control groups pays for (rounded to the nearest), at least 1. Read once per mask. */
unsigned lm_cpu_cores(void);

#endif
