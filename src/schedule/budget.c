/* budget.c - costs of rows, from measured steps. */
#include "schedule/budget.h"

#define MARGIN 0.9                   /* share of the remaining time to use: step times vary */

static unsigned size_of(uint32_t rows)
{
    unsigned i = 0;

    while (i + 1 < LM_BUDGET_SIZES && UINT32_C(1) << i < rows)
        i++;
    return i;
}

/* Return the seconds of a step without prompt rows, from the nearest known size: what a smaller one lacks
 * counts as prompt rows. 0: none is known. */
static double alone(const lm_budget *b, uint32_t written)
{
    unsigned i = size_of(written);

    for (unsigned d = 0; d < LM_BUDGET_SIZES; d++) {
        if (i >= d && b->alone[i - d] > 0)
            return b->alone[i - d] + (d ? b->row * (written - (UINT32_C(1) << (i - d))) : 0);
        if (i + d < LM_BUDGET_SIZES && b->alone[i + d] > 0)
            return b->alone[i + d];
    }
    return 0;
}

double lm_budget_target(const lm_budget *b, uint32_t written)
{
    return b->target > 0 ? b->target : 2 * alone(b, written);
}

uint32_t lm_budget_rows(const lm_budget *b, uint32_t written)
{
    uint32_t room = b->max > written ? b->max - written : 0;
    double   left = lm_budget_target(b, written) - alone(b, written), rows;

    if (written == 0 || room <= LM_BUDGET_LEAST)
        return room;
    if (alone(b, written) == 0)
        return 0;                                        /* one step without prompts shows what it costs */
    rows = b->row > 0 ? MARGIN * left / b->row : 0;
    if (rows < LM_BUDGET_LEAST)
        return LM_BUDGET_LEAST;
    return rows < room ? (uint32_t)rows : room;
}

static void nearer(double *known, double seen)
{
    if (*known > 0 && seen > 2 * *known)                 /* the processor ran other processes: not a cost of
                                                            this step */
        seen = 2 * *known;
    if (*known > 0 && seen > *known / 2)
        *known += (seen - *known) / 8;
    else
        *known = seen;                                   /* the first step, or the first one that did not have
                                                            to read the weights from disk */
}

void lm_budget_ran(lm_budget *b, uint32_t written, uint32_t prompt, double seconds)
{
    double before = written ? alone(b, written) : 0;

    if (prompt == 0)
        nearer(&b->alone[size_of(written)], seconds);
    else if (seconds > before && (written == 0 || before > 0))
        nearer(&b->row, (seconds - before) / prompt);
}
