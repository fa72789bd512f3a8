/* predict.h - the minimum time of a forward pass: a graded roofline (Williams, Waterman, Patterson, doi
 * 10.1145/1498765.1498785).
 *
 * Each step of the plan takes as long as the slower of its reading and its arithmetic; a forward pass is
 * their sum. The weights and the cache that are read and the matrix products are counted; activations are
 * assumed to stay in processor caches. A lower bound, not a forecast. */
#ifndef LM_ANALYSIS_PREDICT_H
#define LM_ANALYSIS_PREDICT_H

#include "base/checked.h"
#include "lamina/study/device.h"
#include "lamina/machine.h"
#include "plan/cost.h"
#include "plan/plan.h"

/* Operations and bytes per second; a multiply-add counts as two. 0: unknown; the next wider type is used. */
typedef struct lm_peaks {
    double int8, f16, bf16, f32;
    double memory;
    bool   by_type;              /* arithmetic by the weights' type: int8 if quantised, else the stored type;
                                    false: that of the plan's
                                  * kernels */
} lm_peaks;

lm_peaks lm_peaks_published(const lm_device *d);
lm_peaks lm_peaks_measured(const lm_limits *l);

typedef struct lm_prediction {
    double      seconds;
    double      reading, computing;      /* seconds, if only one of the two counted */
    double      tokens_per_second;
    lm_wide     bytes, operations;       /* of all forward passes */
    bool        known;                   /* whether the time is known. If some arithmetic has no peak, only
                                            reading is counted: enough
                                          * for tokens that are limited by reading anyway, but not for
                                          * prompts */
    const char *limited_by;              /* "memory", or the arithmetic that takes longest: "int8" "f16"
                                            "bf16" "f32" */
} lm_prediction;

/* Predict the time of a prompt of `tokens` into an empty cache, in forward passes of the plan's rows, with
 * logits of the last token; tokens >= 1. */
void lm_predict_prompt(const lm_plan *p, const lm_peaks *peaks, uint64_t tokens, lm_prediction *out);

/* Predict the time of one more token for each of `sequences`, which then hold `context` positions; windows
 * apply. The rate is that of all sequences together. */
void lm_predict_token(const lm_plan *p, const lm_peaks *peaks, uint64_t context, uint64_t sequences,
                      lm_prediction *out);

/* Return the seconds of a single step within a forward pass, as above; if its arithmetic has no peak, of its
 * reading alone. */
double lm_predict_step(const lm_plan *p, const lm_peaks *peaks, const lm_step *s, const lm_forward *f);

typedef struct lm_facts lm_facts;

/* Return the peaks of the device that the facts are about, or else of this machine; false if neither is known
 * (facts_speed.c). */
bool lm_peaks_of(const lm_facts *f, lm_peaks *out);

#endif
