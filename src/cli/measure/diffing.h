/* diffing.h - output formats of a comparison of two models. */
#ifndef LM_CLI_DIFFING_H
#define LM_CLI_DIFFING_H

#include <jansson.h>

#include "cli/base/output.h"
#include "lamina/diff.h"

typedef struct lm_diffing {
    lm_cli              *cli;
    const lm_diff_result *r;
    lm_model_info        a, b;
    const char          *text;       /* name of the file that was read; NULL: none */
    bool                 all;        /* list every tensor in the tables */
} lm_diffing;

void    lm_diff_page(const lm_diffing *d, lm_text *out);
void    lm_diff_markdown(const lm_diffing *d, lm_text *out);
json_t *lm_diff_json(const lm_diffing *d);

#endif
