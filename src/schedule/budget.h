/* budget.h - how many prompt rows a step may have, so that generating requests do not wait long for the next token.
 *
 * The time of a step without prompts is known by the number of its rows, from a forecast and then from steps; what a row of
 * a prompt adds, likewise. */
#ifndef LM_SCHEDULE_BUDGET_H
#define LM_SCHEDULE_BUDGET_H

#include "lamina/engine.h"

enum { LM_BUDGET_SIZES = 16, LM_BUDGET_LEAST = 8 };

typedef struct lm_budget {
    double   target;                 /* seconds; 0: twice what the step takes without prompts */
    double   alone[LM_BUDGET_SIZES]; /* seconds of a step that writes 2^i rows, or fewer; 0: not known */
    double   row;                    /* seconds that a row of a prompt adds; 0: not known */
    uint32_t most;                   /* rows in a step */
} lm_budget;

/* Without a forecast where it cannot be made. */
void lm_budget_open(lm_budget *b, lm_engine *g, double target, bool forecast);

/* Rows of prompts that fit beside `written` others; all of a step when there are none. */
uint32_t lm_budget_rows(const lm_budget *b, uint32_t written);

/* The target that it keeps to, seconds; 0: nothing is known yet. */
double lm_budget_target(const lm_budget *b, uint32_t written);

/* A step of so many rows took so long. */
void lm_budget_ran(lm_budget *b, uint32_t written, uint32_t prompt, double seconds);

#endif
