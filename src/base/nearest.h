/* nearest.h - the word that was probably meant. Not exported: the program includes it too
 * (tests/lint/rules_modules.py). Thread-safe. */
#ifndef LM_BASE_NEAREST_H
#define LM_BASE_NEAREST_H

/* Return the word of a NULL-ended list that is nearest to `given`, for a hint; NULL if none is near. */
const char *lm_nearest_word(const char *given, const char *const *words);

#endif
