/* constraining.h - flags that constrain the generated text. */
#ifndef LM_CLI_CONSTRAINING_H
#define LM_CLI_CONSTRAINING_H

#include "cli/base/options.h"
#include "lamina/answer.h"

typedef struct lm_constraint_flags {
    const char  *grammar, *grammar_file, *schema, *regex;
    lm_flag_list choices;
    int64_t      reasoning;          /* maximum number of reasoning tokens; < 0: no limit */
} lm_constraint_flags;

extern const lm_flag lm_constraint_flag_table[];

void lm_constraint_defaults(lm_constraint_flags *f);

/* The compiled constraint of a command. */
typedef struct lm_constraining {
    lm_grammar    *grammar;
    lm_vocabulary *vocabulary;
    lm_constraint *constraint;       /* in its initial state; each sequence gets a copy */
    const lm_model *model;
    lm_answer_style style;
    int64_t         reasoning;
    bool            ignore_eos;
} lm_constraining;

/* Compile the constraint given by the flags for the model's tokens. Without such a flag there is none.
 * `ignore_eos`: end tokens are excluded where another token is allowed. LM_USAGE names the flag, and the JSON
 * pointer of a keyword that cannot be enforced, also if the library returns LM_UNSUPPORTED. */
lm_status lm_constraining_open(const lm_constraint_flags *f, bool ignore_eos, const lm_model *m,
                               lm_constraining *out, lm_error *e);

/* Add the constraint to the options of a sequence that starts after `prompt`. Use the options for one
 * sequence only. */
lm_status lm_constraining_sequence(const lm_constraining *c, const lm_tokens *prompt, lm_sequence_options *o,
                                   lm_error *e);

void lm_constraining_close(lm_constraining *c);

#endif
