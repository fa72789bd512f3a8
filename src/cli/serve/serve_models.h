/* serve_models.h - the models that `lamina serve` serves: those given by name, and those in a folder. */
#ifndef LM_CLI_SERVE_MODELS_H
#define LM_CLI_SERVE_MODELS_H

#include "cli/base/options.h"

typedef struct lm_served_model {
    const char *path;
    const char *name;                    /* from --alias; NULL: the file's name */
    const char *aliases;                 /* further names, separated by commas; NULL: none */
    bool        found;                   /* found in a folder: skipped if it cannot be opened */
} lm_served_model;

/* List the models: -m or the arguments, then the .gguf files (of a split one the first part) and the folders
 * with a config.json in `folder` (NULL: none), sorted by name. Without any of these it is the demo model, or
 * none if there are `others` to serve. Aliases belong to the models in their order. *out is valid as long as
 * the command runs. */
lm_status lm_served_models(lm_cli *cli, const lm_model_flags *f, const char *folder, bool others,
                           const lm_flag_list *aliases, lm_served_model **out, size_t *n, lm_error *e);

/* Describe a model with copies of its strings, which are valid as long as the command runs. */
lm_status lm_keep_card(lm_cli *cli, const lm_model *m, lm_model_info *out, lm_error *e);

#endif
