/* optimise.h - from gradients to weights: clipping, the rate of a step, AdamW. */
#ifndef LM_TRAIN_OPTIMISE_H
#define LM_TRAIN_OPTIMISE_H

#include "lamina/train.h"
#include "train/learner.h"

typedef struct lm_adamw {
    double beta1, beta2, epsilon, weight_decay;
} lm_adamw;

/* The norm of all gradients: of the vector of each tensor's norm, squares summed in double in fixed blocks. */
double lm_gradient_norm(const lm_learner *l);

/* Gradients times min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does; clip 0: as they are. */
void lm_clip_gradients(lm_learner *l, double norm, double clip);

/* Step `step` (from 1) at `rate`, as torch.optim.AdamW does it for one tensor after another in float32: decay first, the mean by a lerp,
 * epsilon added to the root after the bias is taken out. */
void lm_adamw_step(lm_learner *l, const lm_adamw *a, uint64_t step, double rate);

/* What the rate is multiplied by when `done` of `steps` steps are done. */
double lm_rate_factor(lm_train_schedule schedule, uint32_t done, uint32_t steps, uint32_t warmup, double floor);

#endif
