/* serve_models.h - which models `lamina serve` was asked for: by name, and all of a folder. */
#ifndef LM_CLI_SERVE_MODELS_H
#define LM_CLI_SERVE_MODELS_H

#include "cli/options.h"

typedef struct lm_served_model {
    const char *path;
    const char *name;                    /* of --alias; NULL: the file's */
    const char *aliases;                 /* further ones, commas between; NULL: none */
    bool        found;                   /* in a folder: one that cannot be opened is passed over */
} lm_served_model;

/* -m, else the arguments, then .gguf files (of a split one the first part) and folders with a config.json in `folder` (NULL: none), by
 * name. With neither the demo model, or none where there are `others` to serve. Aliases are for the first of them in their order. What
 * *out points to lives as long as the command. */
lm_status lm_served_models(lm_cli *cli, const lm_model_flags *f, const char *folder, bool others, const lm_flag_list *aliases,
                           lm_served_model **out, size_t *n, lm_error *e);

/* Its texts live as long as the command. */
lm_status lm_keep_card(lm_cli *cli, const lm_model *m, lm_model_info *out, lm_error *e);

#endif
