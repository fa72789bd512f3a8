/* constraining.h - flags that say what the text may be. */
#ifndef LM_CLI_CONSTRAINING_H
#define LM_CLI_CONSTRAINING_H

#include "cli/options.h"
#include "lamina/answer.h"

typedef struct lm_constraint_flags {
    const char  *grammar, *grammar_file, *schema, *regex;
    lm_flag_list choices;
    int64_t      reasoning;          /* most tokens of it; < 0: any number */
} lm_constraint_flags;

extern const lm_flag lm_constraint_flag_table[];

void lm_constraint_defaults(lm_constraint_flags *f);

/* What a command holds of it. */
typedef struct lm_constraining {
    lm_grammar    *grammar;
    lm_vocabulary *vocabulary;
    lm_constraint *constraint;       /* at its beginning: each text has a copy */
    const lm_model *model;
    lm_answer_style style;
    int64_t         reasoning;
} lm_constraining;

/* The grammar, as the flags give it, for the model's tokens; nothing where none is given. LM_USAGE names the flag, and the JSON pointer
 * of a keyword that cannot be kept: also where the library says that it is not supported. */
lm_status lm_constraining_open(const lm_constraint_flags *f, const lm_model *m, lm_constraining *out, lm_error *e);

/* Into the options of a text that begins behind `prompt`, which are for one sequence. */
lm_status lm_constraining_sequence(const lm_constraining *c, const lm_tokens *prompt, lm_sequence_options *o, lm_error *e);

void lm_constraining_close(lm_constraining *c);

#endif
