/* ensembling.h - several models of one vocabulary that choose each token together: each in an engine of its own, their distributions
 * mixed. */
#ifndef LM_CLI_ENSEMBLING_H
#define LM_CLI_ENSEMBLING_H

#include <jansson.h>

#include "cli/options.h"

typedef struct lm_ensemble_flags {
    const char *members;                 /* "NAME=A:0.6,B:0.4", NAME and weights optional; NULL: one model */
    int         rule;                    /* lm_mixture_rule */
} lm_ensemble_flags;

extern const lm_flag lm_ensemble_flag_table[];
extern const char *const lm_ensemble_rules[];    /* words of lm_mixture_rule, NULL-ended */

/* "[NAME=]A:W,B:W", read: paths as they were written. */
typedef struct lm_ensemble {
    const char *name;                    /* NULL: none was given */
    const char *paths[LM_MIXTURE_MODELS];
    lm_mixture  mixture;                 /* prepared */
} lm_ensemble;

/* What *out points to lives as long as the command. LM_USAGE: fewer than two, a weight that is none, more models than the rule is for. */
lm_status lm_ensemble_read(lm_cli *cli, const char *text, int rule, lm_ensemble *out, lm_error *e);

typedef struct lm_ensembling lm_ensembling;

/* Read the members; *out NULL where none are given. The first one's path, which the command opens itself, is `*first`. Errors are
 * those of lm_ensemble_read. */
lm_status lm_ensembling_read(lm_cli *cli, const lm_ensemble_flags *f, lm_ensembling **out, const char **first, lm_error *e);

/* Open the others. `m` is the first one; contexts hold `least` positions. LM_USAGE names one with another vocabulary. */
lm_status lm_ensembling_open(lm_ensembling *x, lm_cli *cli, const lm_run_flags *run, const lm_model *m, uint64_t least, lm_error *e);

/* Into the options of a text that begins, before what is there of hooks: a constraint sees the mixture. */
void      lm_ensembling_sequence(lm_ensembling *x, lm_sequence_options *o);

/* What was chosen, and how probable each model found it: {name, rule, models, tokens}. The caller's. */
json_t   *lm_ensembling_json(lm_ensembling *x, const lm_tokens *generated);
void      lm_ensembling_close(lm_ensembling *x);

#endif
