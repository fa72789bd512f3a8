/* nearest.h - the word that was probably meant. Not exported: the program includes it too
 * (tests/lint/rules_modules.py). Thread-safe. */
#ifndef LM_BASE_NEAREST_H
#define LM_BASE_NEAREST_H

#include <stddef.h>

#include "lamina/error.h"

/* Return the word of a NULL-ended list that is nearest to `given`, for a hint; NULL if none is near. */
const char *lm_nearest_word(const char *given, const char *const *words);

/* The names that a pattern could have matched: short ones, each once, the first LM_MAX_NAMES. */
enum { LM_MAX_NAMES = 64, LM_NAME_SIZE = 64 };
typedef struct lm_near_names {
    char        text[LM_MAX_NAMES][LM_NAME_SIZE];
    const char *words[LM_MAX_NAMES + 1];
    size_t      n;
} lm_near_names;

/* Add a name of `size` bytes, unless it is there. `names` begins as zeros. */
void      lm_near_names_add(lm_near_names *names, const char *name, size_t size);
/* Give an error of a pattern that matches nothing a hint: the nearest name, and all. Return its code. */
lm_status lm_near_names_hint(const lm_near_names *names, const char *pattern, lm_error *e);

#endif
