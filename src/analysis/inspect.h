/* inspect.h - the account of a model as one JSON document (keys: docs of `lamina inspect --json`). */
#ifndef LM_ANALYSIS_INSPECT_H
#define LM_ANALYSIS_INSPECT_H

#include <jansson.h>

#include "analysis/counts.h"
#include "formats/meta.h"
#include "plan/plan.h"

typedef struct lm_inspection {
    const char       *name, *source, *container;
    const lm_program *program;
    const lm_meta    *meta;                  /* config.json or GGUF keys */
    const lm_dtype   *types;                 /* [n_weights]; NULL: there are no weights */
    const uint64_t   *bytes;                 /* [n_weights], as stored; NULL with types */
    const lm_plan    *plan;                  /* for memory; NULL: left out */
    uint64_t          context, batch;
    lm_dtype          kv_type;
    const char *const *warnings;             /* NULL-ended */
} lm_inspection;

/* A new reference; NULL when out of memory. */
json_t *lm_inspect(const lm_inspection *x);

/* One metadata value; arrays past `most` elements become {"length", "first"}. */
json_t *lm_meta_json(const lm_meta_value *v, uint64_t most);

#endif
