/* mutants.h - a changed description of a model must lead to an error that names its place, or to a run. */
#ifndef TESTS_BAD_MUTANTS_H
#define TESTS_BAD_MUTANTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mutant_count {
    size_t refused, ran;
} mutant_count;

/* Open the model and, if that works, run four tokens. `what` is printed if it crashes or if an error has no
 * message. */
void mutant_run(const char *path, const char *what, mutant_count *count);

/* Everything that can be observed of a model: its error, or its warnings, its description, the tokens that
 * its tokenizer makes of a text, and its logits. */
typedef struct mutant_seen {
    int  status;                 /* lm_status */
    char where[192], message[400];       /* of the error */
    char warnings[4096];
    char model[8192];
} mutant_seen;

/* Open the model as for a run and as for a report, which must fail with the same error. A model that opens
 * must run. */
void mutant_look(const char *path, const char *what, mutant_seen *out);

/* Return true the first time that it is called with a text. */
bool mutant_is_new(const char *text);

/* Create a folder for test files; mutant_end removes it with its contents. */
const char *mutant_begin(void);
void        mutant_end(void);

#endif
