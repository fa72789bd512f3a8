/* predict_memory.h - predict the memory of training. */
#ifndef LM_TRAIN_PREDICT_MEMORY_H
#define LM_TRAIN_PREDICT_MEMORY_H

#include "train/learner.h"

typedef struct lm_train_sizes {
    uint32_t        rank;                /* of an adapter on every linear layer except the head; 0: full
                                            training */
    uint32_t        tokens;              /* tokens per step, in one text */
    bool            checkpointed;        /* checkpoint every layer */
    const lm_dtype *types;               /* [n_weights]; NULL: as stored */
    lm_compute      compute;
    const char     *cpu;
    uint32_t        threads;
} lm_train_sizes;

/* Compute what lm_train would allocate according to its plan; `numbers`: trained parameters. LM_UNSUPPORTED
 * if lm_train would return it. */
lm_status lm_train_predict_memory(const lm_model *m, const lm_train_sizes *f, lm_learner_memory *out,
                                  uint64_t *numbers, lm_error *e);

#endif
