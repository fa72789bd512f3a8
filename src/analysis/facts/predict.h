/* predict.h - how long a step takes at least: a graded roofline (Williams, Waterman, Patterson, doi 10.1145/1498765.1498785).
 *
 * Each step of the plan lasts as long as the slower of its reading and its arithmetic; a forward is their sum. Counted are the
 * weights and the cache that are read and the products that are made; activations stay in caches. A floor, not a forecast. */
#ifndef LM_ANALYSIS_PREDICT_H
#define LM_ANALYSIS_PREDICT_H

#include "base/checked.h"
#include "lamina/device.h"
#include "lamina/machine.h"
#include "plan/cost.h"
#include "plan/plan.h"

/* Operations and bytes a second; a multiplication and an addition are two. 0: not known, the next wider type is taken. */
typedef struct lm_peaks {
    double int8, f16, bf16, f32;
    double memory;
    bool   by_type;              /* arithmetic as the weights' type suggests: quantised int8, else as stored; false: as the
                                    plan's kernels do it */
} lm_peaks;

lm_peaks lm_peaks_published(const lm_device *d);
lm_peaks lm_peaks_measured(const lm_limits *l);

typedef struct lm_prediction {
    double      seconds;
    double      reading, computing;      /* seconds, if only one of the two counted */
    double      tokens_per_second;
    lm_wide     bytes, operations;       /* of all forwards */
    bool        known;                   /* the time: where some arithmetic has no peak only reading is counted, which says enough of tokens
                                            that reading limits all the same, and nothing of prompts */
    const char *limited_by;              /* "memory", or the arithmetic that takes longest: "int8" "f16" "bf16" "f32" */
} lm_prediction;

/* A prompt of `tokens` into an empty cache, in steps of the plan's rows, logits of the last one; tokens >= 1. */
void lm_predict_prompt(const lm_plan *p, const lm_peaks *peaks, uint64_t tokens, lm_prediction *out);

/* One token more for each of `sequences`, which hold `context` positions then; windows respected. Rate: all together. */
void lm_predict_token(const lm_plan *p, const lm_peaks *peaks, uint64_t context, uint64_t sequences, lm_prediction *out);

/* Seconds of one step alone in a forward, as above; where its arithmetic has no peak its reading alone. */
double lm_predict_step(const lm_plan *p, const lm_peaks *peaks, const lm_step *s, const lm_forward *f);

typedef struct lm_facts lm_facts;

/* The peaks of the device that the facts are about, else of this machine; false when neither is known (facts_speed.c). */
bool lm_peaks_of(const lm_facts *f, lm_peaks *out);

#endif
