/* probe_chains.h - a loop of independent chains: each step feeds the next step of its chain, so nothing can
 * be hoisted out of the loop. */
#ifndef LM_KERNELS_X86_PROBE_CHAINS_H
#define LM_KERNELS_X86_PROBE_CHAINS_H

#include "kernels/probe.h"
#include "kernels/x86/vec_256.h"

enum { SIX = 6, TWELVE = 12, SIXTEEN = 16 };

#define CHAINS_SIX(X)     X(0) X(1) X(2) X(3) X(4) X(5)
#define CHAINS_TWELVE(X)  CHAINS_SIX(X) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAINS_SIXTEEN(X) CHAINS_TWELVE(X) X(12) X(13) X(14) X(15)

#define CHAIN_LOAD(i)  __typeof__(*p) v##i = p[i];
#define CHAIN_STEP(i)  v##i = STEP(v##i);
#define CHAIN_STORE(i) p[i] = v##i;

/* The vectors p[0] … are the chains; STEP(v) is one step. */
#define RUN_CHAINS(n)  RUN_CHAINS_(n)
#define RUN_CHAINS_(n)                      \
    CHAINS_##n(CHAIN_LOAD)                  \
    for (uint64_t r = 0; r < rounds; r++) { \
        CHAINS_##n(CHAIN_STEP)              \
    }                                       \
    CHAINS_##n(CHAIN_STORE)

#endif
