/* optimise.h - update weights from gradients: clipping, learning rate, AdamW. */
#ifndef LM_TRAIN_OPTIMISE_H
#define LM_TRAIN_OPTIMISE_H

#include "lamina/train.h"
#include "train/learner.h"

typedef struct lm_adamw {
    double beta1, beta2, epsilon, weight_decay;
} lm_adamw;

/* Return the norm of all gradients: the norm of the vector of per-tensor norms. Squares are summed in double,
 * in fixed blocks. */
double lm_gradient_norm(const lm_learner *l);

/* Multiply gradients by min(1, clip / (norm + 1e-6)), like torch.nn.utils.clip_grad_norm_; clip 0: no
 * change. */
void lm_clip_gradients(lm_learner *l, double norm, double clip);

/* Do step `step` (from 1) with learning rate `rate`, like torch.optim.AdamW, tensor by tensor in float32:
 * weight decay first, the mean with a lerp, epsilon added to the square root after bias correction. */
void lm_adamw_step(lm_learner *l, const lm_adamw *a, uint64_t step, double rate);

/* Return the factor of the learning rate when `done` of `steps` steps are complete. */
double lm_rate_factor(lm_train_schedule schedule, uint32_t done, uint32_t steps, uint32_t warmup,
                      double floor);

#endif
