/* probe.h - measure the peak speed of this processor: arithmetic in registers, and reading of memory.
 *
 * A probe computes nothing useful; its speed is the upper bound for a kernel of its kind. Single-threaded;
 * the caller measures the time. */
#ifndef LM_KERNELS_PROBE_H
#define LM_KERNELS_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "base/os/cpu.h"

#define LM_PROBE_BYTES 4096          /* bytes of a loop's operands, 64-byte aligned, separate for each
                                        thread */

/* A loop of independent chains, enough of them to hide the latency of the instruction. */
typedef struct lm_probe_loop {
    const char *instruction;         /* "vpdpbusd, 512 bits"; NULL: this instruction set has no such loop */
    void      (*run)(void *data, uint64_t rounds);   /* reads its operands from data and leaves its result
                                                        there */
    uint64_t    operations;          /* per round: a multiplication and an addition are two */
} lm_probe_loop;

typedef struct lm_probes {
    lm_probe_loop int8, bf16, f32;
    /* Read `n` bytes (a multiple of 256) at each of p, p + stride, p + 2 stride, p + 3 stride, all four
     * concurrently: one stream does not reach the bandwidth of the memory. Returns a value that depends on
     * all bytes. */
    uint64_t (*read)(const uint8_t *p, size_t stride, size_t n);
} lm_probes;

/* Choose the best probes that `cpu` allows. */
void lm_probes_init(lm_probes *p, lm_cpu cpu);

/* Fill the LM_PROBE_BYTES at `data` with operands of a kind, whose magnitudes neither overflow nor become
 * denormal. */
enum lm_probe_kind { LM_PROBE_INT8, LM_PROBE_BF16, LM_PROBE_F32 };
void lm_probe_fill(void *data, enum lm_probe_kind kind, uint64_t seed);

void lm_probes_init_sse41(lm_probes *p);
void lm_probes_init_avx2(lm_probes *p);
void lm_probes_init_avx512(lm_probes *p);
void lm_probes_init_avx512vnni(lm_probes *p);
void lm_probes_init_avx512bf16(lm_probes *p);
void lm_probes_init_amx(lm_probes *p);

#endif
