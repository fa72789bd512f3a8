/* translate.h - text for people, marked where it stands and translated where it is printed, by the library's catalogues.
 *
 * _("text") is the text in the language of the command that runs; N_("text") only marks it, in tables, for _() to look up later.
 * C_("norm", "none") tells one use of a word from another. Whole sentences are marked, figures go in with %s, so that each language
 * has its own order (%2$s). scripts/messages collects what is marked into po/. */
#ifndef LM_CLI_TRANSLATE_H
#define LM_CLI_TRANSLATE_H

#include <stdbool.h>

#include "lamina/language.h"

/* The language that the program writes in from now on. */
void lm_speak(lm_language l);

const char *lm_spoken(const char *text) __attribute__((format_arg(1)));
const char *lm_spoken_in(const char *key, const char *text) __attribute__((format_arg(2)));
const char *lm_spoken_number(bool single, const char *one, const char *many) __attribute__((format_arg(2), format_arg(3)));

#define _(text)           lm_spoken(text)
#define N_(text)          (text)
#define C_(context, text) lm_spoken_in(context "\004" text, text)

/* One and many are two sentences; only English tells them apart among the languages here. */
#define P_(n, one, many)  lm_spoken_number((n) == 1, one, many)

#endif
