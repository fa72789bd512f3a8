/* fidelity.h - how far a model's arithmetic is from float32, on the data of tests/golden/smollm2 (tools/oracle/smollm2.py). What
 * the quality test judges and bench_schemes tabulates. */
#ifndef TESTS_INVARIANTS_FIDELITY_H
#define TESTS_INVARIANTS_FIDELITY_H

#include "lamina/lamina.h"

typedef struct fidelity {
    uint64_t positions;          /* whose divergence was taken */
    double   mean_kl, max_kl;    /* nats, of softmax(logits) from the reference's best tokens and one outcome for the others */
    uint64_t tokens;             /* that were predicted */
    double   perplexity, reference;
    char     level[32];          /* instruction set */
} fidelity;

/* `folder` holds kl.safetensors and text.safetensors; `compute` as in lm_engine_options. */
lm_status fidelity_of(const lm_model *m, const char *folder, const lm_engine_options *compute, fidelity *out, lm_error *e);

/* One number of llama.cpp's on the same data, from peer.json: "mean_kl_top", "perplexity_ratio". 0 where there is none. */
double fidelity_peer(const char *folder, const char *field);

#endif
