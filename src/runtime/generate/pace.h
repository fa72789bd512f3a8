/* pace.h - how many tokens to draft (speculative decoding).
 *
 * A draft token saves a step when it is accepted and makes a step longer in any case. What steps of so many rows cost is measured, how
 * often tokens of a kind are accepted is counted, and as many are drafted as give the most tokens per second. A balance holds the
 * seconds won: drafting may overdraw it by a fiftieth of the time spent so far, so a sequence whose drafts are all rejected takes
 * 1.02 times as long, whatever the machine. What is chosen never depends on any of this. */
#ifndef LM_RUNTIME_PACE_H
#define LM_RUNTIME_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define LM_PACE_LOOKUPS 8            /* kinds below this are looked up, those from it on a model's */
#define LM_PACE_KINDS   16
#define LM_PACE_MOST    64           /* draft tokens in a round */

typedef struct lm_pace {
    double   step[LM_PACE_MOST + 1]; /* seconds of a step that verifies so many draft tokens; 0: never run */
    double   draft;                  /* seconds that a draft model takes per token; 0: unknown */
    double   balance, spent;         /* seconds */
    bool     always;
    uint32_t in_a_row;               /* rounds with a draft since the last one without */
    struct { double accepted, of; } kinds[LM_PACE_KINDS];
} lm_pace;

/* `always`: every draft is assumed to pay, whatever is measured. */
void lm_pace_start(lm_pace *p, bool always);

/* How many of `n` draft tokens of these kinds to verify: each counts only if those before it are accepted. */
uint32_t lm_pace_best(const lm_pace *p, const uint8_t *kinds, uint32_t n);

/* Whether draft token `n` of a model, the last of `kinds`, pays after those before it. */
bool lm_pace_pays(const lm_pace *p, const uint8_t *kinds, uint32_t n);

/* A round is over: `n` draft tokens of these kinds, of which the first `accepted` were; seconds of drafting, and of the step. */
void lm_pace_round(lm_pace *p, const uint8_t *kinds, uint32_t n, uint32_t accepted, double drafting, double step);

#endif
