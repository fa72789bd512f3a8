/* adapting.h - low-rank adapters: the flags and set-up shared by the commands that run a model. */
#ifndef LM_CLI_ADAPTING_H
#define LM_CLI_ADAPTING_H

#include "cli/base/options.h"

typedef struct lm_lora_flags {
    lm_flag_list files;                  /* "FILE", "FILE:SCALE" */
} lm_lora_flags;

extern const lm_flag lm_lora_flag_table[];

/* The open adapters; zeroed: none. Close them after the engine and before the model. */
typedef struct lm_loras {
    lm_adapter **adapters;               /* NULL-ended, in the order of the command line */
    const char **paths;                  /* valid as long as the command runs, like the scales */
    float       *scales;
    size_t       n;
} lm_loras;

/* Open the adapters for `m` and read their scales. Warnings go to stderr. On failure none stays open. */
lm_status lm_loras_open(lm_cli *cli, const lm_lora_flags *f, const lm_model *m, lm_loras *out, lm_error *e);
void      lm_loras_close(lm_loras *l);

/* Add the adapters to the options of an engine of that model. */
void lm_loras_engine(const lm_loras *l, lm_engine_options *o);

#endif
