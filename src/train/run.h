/* run.h - a training run: what is trained, on which data, and where results are stored. */
#ifndef LM_TRAIN_RUN_H
#define LM_TRAIN_RUN_H

#include "program/adapt.h"
#include "train/optimise.h"
#include "train/texts.h"

/* The maximum bytes of the path of a run: the names of its files follow in buffers of 4096 bytes, where
 * "%.3900s" therefore never cuts. */
enum { LM_TRAIN_FOLDER = 3800 };

typedef struct lm_train_run {
    const lm_model         *model;
    const lm_train_options *o;
    const char             *folder;
    lm_adapt_target        *targets;     /* LoRA */
    const char            **modules;     /* [n_targets] */
    uint32_t                n_targets;
    lm_program             *adapted;     /* NULL: full training */
    const lm_program       *program;
    bool                   *wanted;
    lm_learner             *learner;
    lm_train_data           data, rest;
    lm_train_rows           rows, held;  /* of the current epoch; of the validation texts */
    uint32_t                epoch;       /* of `rows`; UINT32_MAX: none */
    uint64_t                at;          /* the next row */
    uint32_t                row_tokens;  /* maximum of any row */
    uint32_t                batch, context, steps, done, best_step, bad_steps;
    uint64_t                first_bad;           /* first row of the current series of skipped steps */
    double                  smoothed, best;
    int32_t                *tokens, *labels;     /* of the rows processed together */
    lm_train_text          *texts;
    uint8_t                 start_hash[32];      /* of the adapter that it started from */
    lm_train_result        *result;
    int                     lock;        /* descriptor of the folder; -1: none */
    lm_arena                arena;
} lm_train_run;

/* ---- train_options.c ---- */

/* Return literal options: defaults (NULL: all of them) are filled in, also those that depend on others. */
lm_train_options lm_train_resolve(const lm_train_options *o);
/* Check literal options. LM_USAGE: the error names the first impossible one. */
lm_status lm_train_check(const lm_train_options *o, const char *data, const char *folder, lm_error *e);

/* Choose the modules that get an adapter, according to the options. LM_USAGE: a target that matches
 * nothing. */
lm_status lm_train_choose(lm_train_run *r, lm_error *e);
/* Create the program and select the weights that are trained. */
lm_status lm_train_prepare(lm_train_run *r, lm_error *e);
/* Return LM_UNSUPPORTED for full training of a model that cannot be written. */
lm_status lm_train_check_full(const lm_train_run *r, lm_error *e);
/* Initialise A like peft (uniform within 1/sqrt(in)) and B with zeros. Draws depend only on seed, weight and
 * index. */
void      lm_train_first_values(lm_train_run *r);
/* Load the values of the adapter in the options, if any; without a learner, only check it. */
lm_status lm_train_begin_from(lm_train_run *r, lm_error *e);
double    lm_train_scale(const lm_train_options *o);

/* Write an adapter or a model to a new folder; and the state of the run. */
lm_status lm_train_save(const lm_train_run *r, const char *folder, lm_error *e);
lm_status lm_train_save_state(const lm_train_run *r, lm_error *e);
/* Restore the state. LM_USAGE names what differs. LM_BAD_MODEL: the state is damaged. */
lm_status lm_train_restore(lm_train_run *r, lm_error *e);
bool      lm_train_has_state(const char *folder);
/* Whether a run began in the folder, saved or not. */
bool      lm_train_has_run(const char *folder);
/* Lock the folder until `lock` is closed. LM_USAGE: another process trains in it. */
lm_status lm_train_lock(lm_train_run *r, lm_error *e);
/* Write gradients, with the names of an adapter's tensors or a model's. */
lm_status lm_train_save_gradients(const lm_train_run *r, const char *path, lm_error *e);
/* Truncate the log after a step; and append a line. */
lm_status lm_train_trim_log(const char *folder, uint32_t step, lm_error *e);
lm_status lm_train_log(const char *folder, const lm_train_step *s, lm_error *e);
lm_status lm_train_make_folder(const char *path, lm_error *e);
/* Write the settings that must match to resume a run: everything that changes its results. */
lm_status lm_train_signature(const lm_train_run *r, lm_text *out, lm_error *e);

#endif
