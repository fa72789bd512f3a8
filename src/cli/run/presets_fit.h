/* presets_fit.h - the part of lamina presets that a build without facts about models omits. */
#ifndef LM_CLI_PRESETS_FIT_H
#define LM_CLI_PRESETS_FIT_H

#include <jansson.h>

#include "cli/base/command.h"

typedef struct lm_presets_options {
    bool        fits;
    const char *device;                  /* NULL: this machine */
    uint32_t    context;                 /* 0: 8192 */
} lm_presets_options;

/* Find which presets fit the machine, and print them: as a table, or as JSON with a "fit" in each of `rows`,
 * which are objects with "name", "parameters" and "active". LM_NO_FIT if none fits. */
lm_status lm_presets_fit(lm_cli *cli, const lm_presets_options *o, json_t *rows, lm_error *e);

#endif
