/* probe.h - how fast this processor can go: arithmetic that stays in registers, and reading.
 *
 * No probe does anything useful; each is the best that a kernel of its kind could reach. Single-threaded; the caller takes
 * the time. */
#ifndef LM_KERNELS_PROBE_H
#define LM_KERNELS_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define LM_PROBE_BYTES 4096          /* of a loop's operands, 64-byte aligned, its own for each thread */

/* A loop of independent chains, long enough to hide the latency of its instruction. */
typedef struct lm_probe_loop {
    const char *instruction;         /* "vpdpbusd, 512 bits"; NULL: this instruction set has none of the kind */
    void      (*run)(void *data, uint64_t rounds);   /* reads its operands from data and leaves its result there */
    uint64_t    operations;          /* in a round: a multiplication and an addition are two */
} lm_probe_loop;

typedef struct lm_probes {
    lm_probe_loop int8, bf16, f32;
    /* Read `n` bytes (a multiple of 256) at each of p, p + stride, p + 2 stride, p + 3 stride, all four at once: one stream
     * alone does not reach what the memory can give. Returns something that depends on all of them. */
    uint64_t (*read)(const uint8_t *p, size_t stride, size_t n);
} lm_probes;

/* The best probes that `cpu` allows. */
void lm_probes_init(lm_probes *p, lm_cpu cpu);

/* Operands: int8 and bf16 and f32 of magnitudes that neither overflow nor become denormal. */
enum lm_probe_kind { LM_PROBE_INT8, LM_PROBE_BF16, LM_PROBE_F32 };
void lm_probe_fill(void *data, enum lm_probe_kind kind, uint64_t seed);

void lm_probes_init_avx2(lm_probes *p);
void lm_probes_init_avx512(lm_probes *p);
void lm_probes_init_avx512vnni(lm_probes *p);
void lm_probes_init_avx512bf16(lm_probes *p);
void lm_probes_init_amx(lm_probes *p);

#endif
