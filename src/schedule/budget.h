/* budget.h - how many prompt rows a step may have, so that generating requests do not wait long for the next
 * token.
 *
 * The time of a step without prompts, by its number of rows, and the time that a prompt row adds are
 * estimated from measured steps. */
#ifndef LM_SCHEDULE_BUDGET_H
#define LM_SCHEDULE_BUDGET_H

#include <stdint.h>

enum { LM_BUDGET_SIZES = 16, LM_BUDGET_LEAST = 8 };

/* A budget with a target and a maximum, and nothing else, is ready: no cost is known. */
typedef struct lm_budget {
    double   target;                 /* seconds; 0: twice what the step takes without prompts */
    double   alone[LM_BUDGET_SIZES]; /* seconds of a step without prompts of up to 2^i rows; 0: unknown */
    double   row;                    /* seconds that a prompt row adds; 0: unknown */
    uint32_t max;                    /* rows in a step */
} lm_budget;

/* Return the number of prompt rows that fit next to `written` other rows; the whole step if there are
 * none. The first step with other rows has no prompt rows: it is measured. */
uint32_t lm_budget_rows(const lm_budget *b, uint32_t written);

/* Return the target in seconds; 0: nothing is known yet. */
double lm_budget_target(const lm_budget *b, uint32_t written);

/* Record the duration of a step with `written` rows of generating requests and `prompt` prompt rows. */
void lm_budget_ran(lm_budget *b, uint32_t written, uint32_t prompt, double seconds);

#endif
