/* pace.h - how far it pays to guess ahead.
 *
 * A guess saves a step when it is right and makes a step longer in any case. What steps of so many rows cost is measured, how
 * often guesses of a kind are right is counted, and as many are made as give most tokens a second. A balance holds the
 * seconds won: guesses may overdraw it by a fiftieth of the time spent so far, so a text in which no guess is right takes
 * 1.02 times as long, whatever the machine. What is chosen never depends on any of this. */
#ifndef LM_RUNTIME_PACE_H
#define LM_RUNTIME_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define LM_PACE_LOOKUPS 8            /* kinds below this are looked up, those from it on a model's */
#define LM_PACE_KINDS   16
#define LM_PACE_MOST    64           /* guesses in a round */

typedef struct lm_pace {
    double   step[LM_PACE_MOST + 1]; /* seconds of a step that checks so many guesses; 0: never made */
    double   guess;                  /* seconds that a model takes for one; 0: not known */
    double   balance, spent;         /* seconds */
    bool     always;
    uint32_t in_a_row;               /* rounds with guesses since the last one without */
    struct { double right, of; } kinds[LM_PACE_KINDS];
} lm_pace;

/* `always`: every guess is taken to pay, whatever is measured. */
void lm_pace_start(lm_pace *p, bool always);

/* How many of `n` guesses of these kinds to make: each is worth something only when those before it are right. */
uint32_t lm_pace_best(const lm_pace *p, const uint8_t *kinds, uint32_t n);

/* Whether guess `n` of a model, the last of `kinds`, pays after those before it. */
bool lm_pace_pays(const lm_pace *p, const uint8_t *kinds, uint32_t n);

/* A round is over: `n` guesses of these kinds, the first `right` of them right; seconds that guessing took, and the step. */
void lm_pace_round(lm_pace *p, const uint8_t *kinds, uint32_t n, uint32_t right, double guessing, double step);

#endif
