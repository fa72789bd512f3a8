/* drafting.h - guesses of what comes next, as commands that generate offer them. */
#ifndef LM_CLI_DRAFTING_H
#define LM_CLI_DRAFTING_H

#include "cli/options.h"

typedef struct lm_draft_flags {
    uint32_t    ngram, most;             /* 0: not given */
    const char *model;
} lm_draft_flags;

extern const lm_flag lm_draft_flag_table[];

/* The model that guesses; zeros: none. */
typedef struct lm_drafting {
    lm_model  *model;
    lm_engine *engine;
} lm_drafting;

/* Let an engine with options `o` check guesses. LM_USAGE when there is a limit and nothing that guesses. */
lm_status lm_drafting_engine(const lm_draft_flags *f, lm_engine_options *o, lm_error *e);

/* Open what guesses for `m`, whose engine has options `o`. */
lm_status lm_drafting_open(lm_cli *cli, const lm_draft_flags *f, const lm_model *m, const lm_engine_options *o, lm_drafting *out,
                           lm_error *e);
void      lm_drafting_close(lm_drafting *d);

void lm_drafting_sequence(const lm_draft_flags *f, const lm_drafting *d, lm_sequence_options *o);

#endif
