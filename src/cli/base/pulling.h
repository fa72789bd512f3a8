/* pulling.h - progress of a pull: a bar with the rate and the time left; without a terminal a line every 30
 * seconds. */
#ifndef LM_CLI_PULLING_H
#define LM_CLI_PULLING_H

#include "cli/base/output.h"
#include "hub/pull.h"

typedef struct lm_pulling {
    lm_progress bar;
    double      printed;             /* time of the last line */
} lm_pulling;

lm_pulling lm_pulling_start(void);
void       lm_pulling_show(void *pulling, const hub_progress *now);      /* `pulling`: an lm_pulling */

#endif
