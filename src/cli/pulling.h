/* pulling.h - how far a pull is: a bar with its rate and the time that is left; without a terminal a line now and then. */
#ifndef LM_CLI_PULLING_H
#define LM_CLI_PULLING_H

#include "cli/output.h"
#include "hub/pull.h"

typedef struct lm_pulling {
    lm_progress bar;
    double      printed;             /* when the last line was */
} lm_pulling;

lm_pulling lm_pulling_start(void);
void       lm_pulling_show(void *pulling, const hub_progress *now);      /* an lm_pulling */

#endif
