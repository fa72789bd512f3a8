/* cluster_page.h - the result of `lamina cluster plan` as JSON and as text. */
#ifndef LM_CLI_CLUSTER_PAGE_H
#define LM_CLI_CLUSTER_PAGE_H

#include <jansson.h>

#include "cli/study/fit_page.h"
#include "lamina/study.h"

json_t *lm_cluster_plan_json(const lm_fitted *x, const lm_fit_place *at, const lm_cluster_plan *p,
                             bool simulated);
void    lm_cluster_plan_page(const lm_fitted *x, const lm_fit_place *at, const lm_cluster_plan *p,
                             bool simulated, lm_store *store, lm_text *out);

#endif
