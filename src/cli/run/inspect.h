/* inspect.h - options of `lamina inspect`, and its output of facts. */
#ifndef LM_CLI_INSPECT_H
#define LM_CLI_INSPECT_H

#include "cli/base/options.h"

typedef struct lm_inspect_options {
    lm_model_flags model;
    lm_run_flags   run;
    uint32_t       batch;
    bool           tensors, metadata, program, plan, backward;
    lm_flag_list   query;
    const char    *precision, *view, *name;
    uint32_t       tokens, depth;
    int32_t        layer;
    bool           compatible;
} lm_inspect_options;

/* Show the queried values, a view, or all facts. LM_USAGE: the build has no facts. */
lm_status lm_inspect_facts(lm_cli *cli, const lm_inspect_options *o, const lm_model *m,
                           const lm_engine_options *engine, lm_error *e);

/* Print a text of the library as it is, or with --json as {key: text}. Frees `text`. */
lm_status lm_inspect_text(lm_cli *cli, lm_text *text, const char *key, lm_error *e);

#endif
