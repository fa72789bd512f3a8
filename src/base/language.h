/* language.h - text for people, marked in the source and translated when it is printed.
 *
 * _("text") is the text in the language of the running call; N_("text") only marks it, in tables and in
 * facts, for a later _(). C_("norm", "none") distinguishes one use of a word from another. Whole sentences
 * are marked, and values are inserted with %s, so that each language has its own order (%2$s).
 * scripts/messages collects the marked texts into po/. */
#ifndef LM_BASE_LANGUAGE_H
#define LM_BASE_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "lamina/language.h"

/* Set the language that this thread writes in, and return the previous one. A public entry
 * point sets it from its options and restores it.
 *   lm_language before = lm_language_set(o->language); …; lm_language_set(before); */
lm_language lm_language_set(lm_language l);

/* Return the text in this thread's language, or the text itself. */
const char *lm_translate(const char *text) __attribute__((format_arg(1)));
const char *lm_translate_in(const char *key, const char *text) __attribute__((format_arg(2)));
const char *lm_translate_number(bool single, const char *one, const char *many)
    __attribute__((format_arg(2), format_arg(3)));

#define _(text)           lm_translate(text)
#define N_(text)          (text)
#define C_(context, text) lm_translate_in(context "\004" text, text)

/* One and many are two sentences; of the languages here only English distinguishes them. */
#define P_(n, one, many)  lm_translate_number((n) == 1, one, many)

/* The catalogues of po/ as a table (scripts/languages), sorted by strcmp. */
typedef struct lm_message { const char *key, *text[LM_LANGUAGES - 1]; } lm_message;
extern const lm_message lm_messages[];
extern const size_t     lm_n_messages;

#endif
