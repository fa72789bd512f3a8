/* ensembling.h - several models with the same vocabulary that choose each token together. Each has its own
 * engine; their distributions are mixed. */
#ifndef LM_CLI_ENSEMBLING_H
#define LM_CLI_ENSEMBLING_H

#include <jansson.h>

#include "cli/base/options.h"

typedef struct lm_ensemble_flags {
    const char *members;                 /* "NAME=A:0.6,B:0.4", NAME and weights optional; NULL: one model */
    int         rule;                    /* lm_mixture_rule */
} lm_ensemble_flags;

extern const lm_flag lm_ensemble_flag_table[];
extern const char *const lm_ensemble_rules[];    /* names of lm_mixture_rule, NULL-ended */

/* A parsed "[NAME=]A:W,B:W", with paths as they were written. */
typedef struct lm_ensemble {
    const char *name;                    /* NULL: none was given */
    const char *paths[LM_MIXTURE_MODELS];
    lm_mixture  mixture;                 /* prepared */
} lm_ensemble;

/* Parse an ensemble. The strings of *out are valid as long as the command runs. LM_USAGE: fewer than two
 * models or more than LM_MIXTURE_MODELS, an invalid weight, or more models than the rule supports. */
lm_status lm_ensemble_read(lm_cli *cli, const char *text, int rule, lm_ensemble *out, lm_error *e);

typedef struct lm_ensembling lm_ensembling;

/* Read the members; *out is not set if none are given. *first is the path of the first one, which the command
 * itself opens. Errors are those of lm_ensemble_read. */
lm_status lm_ensembling_read(lm_cli *cli, const lm_ensemble_flags *f, lm_ensembling **out, const char **first,
                             lm_error *e);

/* Open the other members. `m` is the first one. Contexts hold at least `min` positions. LM_USAGE names a
 * member with another vocabulary. */
lm_status lm_ensembling_open(lm_ensembling *x, lm_cli *cli, const lm_run_flags *run, const lm_model *m,
                             uint64_t min, lm_error *e);

/* Add mixing to the options of a new sequence, before an existing logits hook: a constraint sees the
 * mixture. */
void      lm_ensembling_sequence(lm_ensembling *x, lm_sequence_options *o);

/* Return the chosen tokens with their log-probability in each model: {name, rule, models, tokens}. The caller
 * owns it. */
json_t   *lm_ensembling_json(lm_ensembling *x, const lm_tokens *generated);
void      lm_ensembling_close(lm_ensembling *x);

#endif
