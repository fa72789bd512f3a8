/* fidelity.h - the deviation of a model's arithmetic from float32, on the data of tests/golden/smollm2
 * (tools/oracle/smollm2.py). The quality test checks it and bench_schemes tabulates it. */
#ifndef TESTS_INVARIANTS_FIDELITY_H
#define TESTS_INVARIANTS_FIDELITY_H

#include "lamina/lamina.h"

typedef struct fidelity {
    uint64_t positions;          /* positions whose divergence was computed */
    double   mean_kl, max_kl;    /* nats, of softmax(logits) from the reference's best tokens and one outcome
                                    for the others */
    uint64_t tokens;             /* predicted tokens */
    double   perplexity, reference;
    char     level[32];          /* instruction set */
} fidelity;

/* Measure the deviation. `folder` contains kl.safetensors and text.safetensors; `compute` as in
 * lm_engine_options. */
lm_status fidelity_of(const lm_model *m, const char *folder, const lm_engine_options *compute, fidelity *out,
                      lm_error *e);

/* Return a result of llama.cpp on the same data from peer.json: "mean_kl_top", "perplexity_ratio". Returns 0
 * if there is none. */
double fidelity_peer(const char *folder, const char *field);

#endif
