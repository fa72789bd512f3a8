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

/* True the first time it is asked about a text. */
bool mutant_is_new(const char *text);

/* A fresh folder for files that are tried; removed by mutant_end with what is in it. */
const char *mutant_begin(void);
void        mutant_end(void);

#endif
