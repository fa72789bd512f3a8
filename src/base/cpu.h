/* cpu.h - what this processor can do, and what it may use.
 *
 * Levels are cumulative: avx512 means everything below it too. The mask (from --cpu, LAMINA_CPU, tests) only takes away. */
#ifndef LM_BASE_CPU_H
#define LM_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef uint32_t lm_cpu;             /* a set of the flags below; 0 is plain C */

enum {
    LM_CPU_AVX2        = 1u << 0,    /* AVX2, FMA, F16C, BMI2 */
    LM_CPU_AVXVNNI     = 1u << 1,    /* 256-bit vpdpbusd, in either encoding */
    LM_CPU_AVX512      = 1u << 2,    /* F BW DQ VL CD */
    LM_CPU_AVX512_VNNI = 1u << 3,
    LM_CPU_AVX512_BF16 = 1u << 4,
    LM_CPU_AVXVNNI_VEX = 1u << 5,    /* and in that of AVX-VNNI; else in that of AVX512-VNNI */
    LM_CPU_AMX         = 1u << 6,    /* tiles of int8 and bfloat16, which the system lets this process use */
    /* No instructions but how they run: a product with one row reads memory faster if it asks ahead, all that vectors of 512 bits do
     * shares two ports, and vdpbf16ps takes both. */
    LM_CPU_INTEL       = 1u << 7,
    LM_CPU_NEON        = 1u << 8,
    LM_CPU_DOTPROD     = 1u << 9,
    LM_CPU_I8MM        = 1u << 10,
};

/* Everything the hardware and the operating system allow. Detected once; thread-safe. */
lm_cpu lm_cpu_detected(void);

/* detected & mask. The mask is set by lm_cpu_limit, else by LAMINA_CPU, else it is that of "auto". */
lm_cpu lm_cpu_usable(void);

/* LM_USAGE when LAMINA_CPU names no level; lm_cpu_usable takes it for "auto". */
lm_status lm_cpu_environment(lm_error *e);

/* The names of all levels of this architecture, rising; NULL past the last. */
const char *lm_cpu_level_name(size_t i);

/* A level's name -> the mask of that level and all below it; "auto" -> everything that makes this processor faster. LM_USAGE names an
 * unknown level and lists the known ones. */
lm_status lm_cpu_level(const char *name, lm_cpu *mask, lm_error *e);

/* What a level by name may use here; NULL: lm_cpu_usable. LM_UNSUPPORTED where this processor does not have the level itself. */
lm_status lm_cpu_choose(const char *level, lm_cpu *out, lm_error *e);
void      lm_cpu_limit(lm_cpu mask);

/* The name of the highest level in the set, "ref" when empty. */
const char *lm_cpu_name(lm_cpu set);

/* "AMD EPYC 9R14" or the like; "unknown" when it cannot be read. */
const char *lm_cpu_brand(void);

/* Physical cores this process may keep busy: those of its affinity mask, as many as the quota of its control groups pays for (rounded
 * to the nearest), at least 1. Read once for each mask. */
unsigned lm_cpu_cores(void);

#endif
