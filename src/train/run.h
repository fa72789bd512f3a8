/* run.h - one training run: what it learns, from what, and where it is kept. */
#ifndef LM_TRAIN_RUN_H
#define LM_TRAIN_RUN_H

#include "program/adapt.h"
#include "train/optimise.h"
#include "train/texts.h"

typedef struct lm_train_run {
    const lm_model         *model;
    const lm_train_options *o;
    const char             *folder;
    lm_adapt_target        *targets;     /* LoRA */
    const char            **modules;     /* [n_targets] */
    uint32_t                n_targets;
    lm_program             *adapted;     /* NULL: every weight is trained */
    const lm_program       *program;
    bool                   *wanted;
    lm_learner             *learner;
    lm_train_data           data, rest;
    lm_train_rows           rows, held;  /* of the epoch; of the validation texts */
    uint32_t                epoch;       /* of `rows`; UINT32_MAX: of none */
    uint64_t                at;          /* the next row of it */
    uint32_t                row_tokens;  /* most of any row */
    uint32_t                batch, context, steps, done, best_step, bad_steps;
    uint64_t                first_bad;           /* row with which the last steps that were skipped began */
    double                  smoothed, best;
    int32_t                *tokens, *labels;     /* of the rows that are worked on together */
    lm_train_text          *texts;
    uint8_t                 start_hash[32];      /* of the adapter that it began with */
    lm_train_result        *result;
    lm_arena                arena;
} lm_train_run;

/* What an adapter is put on, by the options. LM_USAGE: a target that matches nothing. */
lm_status lm_train_choose(lm_train_run *r, lm_error *e);
/* The program and which of its weights are trained. */
lm_status lm_train_prepare(lm_train_run *r, lm_error *e);
/* LM_UNSUPPORTED where a whole model is trained that cannot be written. */
lm_status lm_train_check_full(const lm_train_run *r, lm_error *e);
/* A as peft begins (uniform within 1/sqrt(in)), B zero. Draws depend on seed, weight and number alone. */
void      lm_train_first_values(lm_train_run *r);
/* Those of the adapter that the options name, if they do; without a learner it is only checked. */
lm_status lm_train_begin_from(lm_train_run *r, lm_error *e);
double    lm_train_scale(const lm_train_options *o);

/* An adapter, or a model, into a folder that is made; the state of the run. */
lm_status lm_train_save(const lm_train_run *r, const char *folder, lm_error *e);
lm_status lm_train_save_state(const lm_train_run *r, lm_error *e);
/* Back: LM_USAGE names what differs. */
lm_status lm_train_restore(lm_train_run *r, lm_error *e);
bool      lm_train_has_state(const char *folder);
/* Gradients, named as an adapter's tensors or a model's. */
lm_status lm_train_save_gradients(const lm_train_run *r, const char *path, lm_error *e);
/* The log up to a step; and one line more. */
lm_status lm_train_trim_log(const char *folder, uint32_t step, lm_error *e);
lm_status lm_train_log(const char *folder, const lm_train_step *s, lm_error *e);
lm_status lm_train_make_folder(const char *path, lm_error *e);
/* What a run may be resumed with: whatever changes its numbers. */
lm_status lm_train_signature(const lm_train_run *r, lm_text *out, lm_error *e);

#endif
