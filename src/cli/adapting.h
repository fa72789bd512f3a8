/* adapting.h - low-rank adapters, as commands that run a model offer them. */
#ifndef LM_CLI_ADAPTING_H
#define LM_CLI_ADAPTING_H

#include "cli/options.h"

typedef struct lm_lora_flags {
    lm_flag_list files;                  /* "FILE", "FILE:SCALE" */
} lm_lora_flags;

extern const lm_flag lm_lora_flag_table[];

/* Those that are open; zeros: none. They outlive the engine and are closed before the model. */
typedef struct lm_loras {
    lm_adapter **adapters;               /* NULL-ended, in the order of the command line */
    const char **paths;                  /* as long as the command, as are the scales */
    float       *scales;
    size_t       n;
} lm_loras;

/* Open them for `m`, each at its scale. Warnings go to stderr. On failure nothing is open. */
lm_status lm_loras_open(lm_cli *cli, const lm_lora_flags *f, const lm_model *m, lm_loras *out, lm_error *e);
void      lm_loras_close(lm_loras *l);

/* Into the options of an engine of that model. */
void lm_loras_engine(const lm_loras *l, lm_engine_options *o);

#endif
