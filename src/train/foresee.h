/* foresee.h - what training would take. */
#ifndef LM_TRAIN_FORESEE_H
#define LM_TRAIN_FORESEE_H

#include "train/learner.h"

typedef struct lm_foresight {
    uint32_t        rank;                /* of an adapter on every linear layer but the head; 0: every weight is trained */
    uint32_t        tokens;              /* of a step: one text */
    bool            checkpointed;        /* every layer */
    const lm_dtype *types;               /* [n_weights]; NULL: as stored */
    lm_compute      compute;
    const char     *cpu;
    uint32_t        threads;
} lm_foresight;

/* What lm_train would allocate, by its plan; `numbers` are trained. LM_UNSUPPORTED where it would refuse to. */
lm_status lm_train_foresee(const lm_model *m, const lm_foresight *f, lm_learner_memory *out, uint64_t *numbers, lm_error *e);

#endif
