/* eval.h - flags, state and functions shared by the kinds of `lamina eval`. */
#ifndef LM_CLI_EVAL_H
#define LM_CLI_EVAL_H

#include <jansson.h>

#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/run/adapting.h"
#include "lamina/eval.h"

typedef struct lm_eval_flags {
    lm_model_flags model;
    lm_run_flags   run;
    lm_lora_flags  lora;
    const char    *file, *base, *state, *save_logits, *csv, *markdown, *shots_file;
    uint32_t       chunks, stride, shots, limit, samples, predict;
    int            rule, form;
    bool           bare, details, parse_special, force;
    const char    *lengths, *depths;
    uint64_t       seed;
} lm_eval_flags;

typedef struct lm_evaluation {
    lm_cli        *cli;
    lm_eval_flags *o;
    const char    *kind;
    lm_model      *model, *base;
    lm_engine     *engine, *base_engine;
    lm_loras       loras;            /* of `model` */
    lm_tokens      ids;
    char           text_hash[65];    /* SHA-256 of the file that was read; "" without one */
    lm_progress    bar;
    json_t        *document;         /* for --json */
    lm_text        page, csv, markdown;
} lm_evaluation;

lm_status lm_evaluate_text(lm_evaluation *v, lm_error *e);           /* perplexity, kl */
lm_status lm_evaluate_questions(lm_evaluation *v, lm_error *e);      /* choices */
lm_status lm_evaluate_needles(lm_evaluation *v, lm_error *e);        /* needle */
lm_status lm_evaluate_speed(lm_evaluation *v, lm_error *e);          /* speed */

/* Read and tokenize --file, with the tokenizer's special tokens unless --no-add-special is given. */
lm_status lm_eval_read(lm_evaluation *v, lm_error *e);

/* Set engine options for `sequences` parallel sequences of `context` tokens. At most `logits` rows per step
 * have logits, fewer if these would exceed 256 MiB. */
lm_status lm_eval_engine(const lm_evaluation *v, const lm_model *m, uint32_t context, uint32_t sequences,
                         uint32_t logits, lm_engine_options *out, lm_error *e);

/* A progress callback whose argument is the lm_evaluation. */
bool lm_eval_progress(void *evaluation, uint64_t done, uint64_t of);

/* Append a line to the page, a row to the table for a model card, and the member `key` (NULL: none) with the
 * value `x` to the document. `format`: the value as text for the page and the table. */
void lm_eval_figure(lm_evaluation *v, const char *label, const char *key, double x, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
