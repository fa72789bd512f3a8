/* pace.h - how many tokens to draft (speculative decoding).
 *
 * A draft token saves a step if it is accepted, and makes a step longer in any case. The duration of steps is
 * measured per number of draft tokens, acceptance is counted per kind of token, and the number of draft
 * tokens is chosen for the most tokens per second. A balance holds the seconds gained: drafting may overdraw
 * it by a fiftieth of the time spent so far, so a sequence whose drafts are all rejected takes 1.02 times as
 * long, whatever the machine. Chosen tokens never depend on any of this. */
#ifndef LM_RUNTIME_PACE_H
#define LM_RUNTIME_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define LM_PACE_LOOKUPS 8            /* kinds below this come from look-up, the others from a model */
#define LM_PACE_KINDS   16
#define LM_PACE_MAX     64           /* maximum draft tokens in a round */

typedef struct lm_pace {
    double   step[LM_PACE_MAX + 1];  /* seconds of a step that verifies that many draft tokens; 0: never
                                        run */
    double   draft;                  /* seconds that a draft model takes per token; 0: unknown */
    double   balance, spent;         /* seconds */
    bool     always;
    uint32_t in_a_row;               /* rounds with a draft since the last round without */
    struct { double accepted, of; } kinds[LM_PACE_KINDS];
} lm_pace;

/* Start measuring. `always`: every draft is assumed to pay, whatever is measured. */
void lm_pace_start(lm_pace *p, bool always);

/* Return how many of `n` draft tokens of these kinds to verify: each counts only if those before it are
 * accepted. */
uint32_t lm_pace_best(const lm_pace *p, const uint8_t *kinds, uint32_t n);

/* Return whether draft token `n` of a model, the last of `kinds`, pays after those before it. */
bool lm_pace_pays(const lm_pace *p, const uint8_t *kinds, uint32_t n);

/* Record a round of `n` draft tokens of these kinds, the first `accepted` of which were accepted; seconds of
 * drafting, and of the step. */
void lm_pace_round(lm_pace *p, const uint8_t *kinds, uint32_t n, uint32_t accepted, double drafting,
                   double step);

#endif
