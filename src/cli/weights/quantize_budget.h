/* quantize_budget.h - choose the types of tensors for a given size by their measured error on a text. */
#ifndef LM_CLI_QUANTIZE_BUDGET_H
#define LM_CLI_QUANTIZE_BUDGET_H

#include <jansson.h>

#include "cli/base/output.h"
#include "lamina/allot.h"
#include "lamina/quantize.h"

typedef struct lm_budget_flags {
    double      budget, minutes;
    uint64_t    size;
    uint32_t    chunk, chunks;
    const char *text, *state, *curve;
} lm_budget_flags;

bool lm_budget_requested(const lm_budget_flags *o);

/* Choose the types for the model at `path`, and write the file of --curve. Free *out with lm_allot_free. */
lm_status lm_budget_search(lm_cli *cli, const lm_budget_flags *o, const lm_quantize_options *q,
                           const char *path, lm_allotment *out, lm_error *e);

#endif
