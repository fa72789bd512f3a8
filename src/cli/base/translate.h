/* translate.h - texts marked for translation in the source and translated by the library's catalogues when
 * they are printed.
 *
 * _("text") returns the text in the language of the running command; N_("text") only marks it, in tables, for
 * a later _(). C_("norm", "none") distinguishes the uses of a word. Mark whole sentences and insert numbers
 * with %s, so that each language can have its own order (%2$s). scripts/messages collects the marked texts
 * into po/. */
#ifndef LM_CLI_TRANSLATE_H
#define LM_CLI_TRANSLATE_H

#include <stdbool.h>

#include "lamina/language.h"

/* Set the language of the program. */
void lm_use_language(lm_language l);

const char *lm_translate_text(const char *text) __attribute__((format_arg(1)));
const char *lm_translate_context(const char *key, const char *text) __attribute__((format_arg(2)));
const char *lm_translate_plural(bool single, const char *one,
                             const char *many) __attribute__((format_arg(2), format_arg(3)));

#define _(text)           lm_translate_text(text)
#define N_(text)          (text)
#define C_(context, text) lm_translate_context(context "\004" text, text)

/* Singular and plural are two sentences. Of the supported languages only English distinguishes them. */
#define P_(n, one, many)  lm_translate_plural((n) == 1, one, many)

#endif
