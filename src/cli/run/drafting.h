/* drafting.h - flags of speculative decoding. */
#ifndef LM_CLI_DRAFTING_H
#define LM_CLI_DRAFTING_H

#include "cli/base/options.h"

typedef struct lm_draft_flags {
    uint32_t    ngram, max;              /* 0: not given */
    const char *model;
} lm_draft_flags;

extern const lm_flag lm_draft_flag_table[];

/* The draft model; zeros: none. */
typedef struct lm_drafting {
    lm_model  *model;
    lm_engine *engine;
} lm_drafting;

/* Let an engine with options `o` verify drafts. LM_USAGE if there is a limit and no source of drafts. */
lm_status lm_drafting_engine(const lm_draft_flags *f, lm_engine_options *o, lm_error *e);

/* Open the source of drafts for `m`, whose engine has options `o`. */
lm_status lm_drafting_open(lm_cli *cli, const lm_draft_flags *f, const lm_model *m,
                           const lm_engine_options *o, lm_drafting *out, lm_error *e);
void      lm_drafting_close(lm_drafting *d);

void lm_drafting_sequence(const lm_draft_flags *f, const lm_drafting *d, lm_sequence_options *o);

#endif
