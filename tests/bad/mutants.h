/* mutants.h - what a changed description of a model must lead to: an error that names something, or a run. */
#ifndef TESTS_BAD_MUTANTS_H
#define TESTS_BAD_MUTANTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mutant_count {
    size_t refused, ran;
} mutant_count;

/* Opens the model and, if that works, steps four tokens. `what` is printed where it crashes or an error says nothing. */
void mutant_run(const char *path, const char *what, mutant_count *count);

/* All that can be told of a model from outside: how it is refused, or what it warns of, what it says of itself, what its tokenizer makes of
 * a text and its logits. */
typedef struct mutant_seen {
    int  status;                 /* lm_status */
    char where[192], message[400];       /* of the error */
    char warnings[4096];
    char model[8192];
} mutant_seen;

/* Looks at it as for running; and as for a report, which has to be refused by the same error. A model that opens has to run. */
void mutant_look(const char *path, const char *what, mutant_seen *out);

/* True the first time it is asked about a text. */
bool mutant_is_new(const char *text);

/* A fresh folder for files that are tried; removed by mutant_end with what is in it. */
const char *mutant_begin(void);
void        mutant_end(void);

#endif
