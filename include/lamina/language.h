/* language.h - languages of pages, reports and explanations.
 *
 * Pages, reports and explanations are written in the language that their options name; zero is English. Figures, names of
 * modules and fields, JSON keys and error messages are the same in every language. The catalogues are part of the library: no
 * locale need be installed, and none is looked at. */
#ifndef LAMINA_LANGUAGE_H
#define LAMINA_LANGUAGE_H

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_language {
    LM_ENGLISH,
    LM_TRADITIONAL_CHINESE,
    LM_SIMPLIFIED_CHINESE,
    LM_BURMESE,
    LM_LANGUAGES
} lm_language;

const char *lm_language_tag(lm_language l);      /* BCP 47: "en" "zh-Hant" "zh-Hans" "my"; "" for none of them */
const char *lm_language_name(lm_language l);     /* its own: "English" "繁體中文" "简体中文" "မြန်မာ" */

/* By tag or by the name of a locale, in any case: "zh-Hant", "zh_TW.UTF-8", "my-MM". LM_USAGE lists those that there are. */
lm_status lm_language_find(const char *name, lm_language *out, lm_error *e);

/* What the environment asks for: LAMINA_LANG, else the first of LC_ALL, LC_MESSAGES and LANG that is not empty, as setlocale(3)
 * chooses. Any of them may be NULL; a language that there is not is English. */
lm_language lm_language_negotiate(const char *lamina_lang, const char *lc_all, const char *lc_messages, const char *lang);

/* What the library says for an English text of its own ("the data flow with its skip edges"); the text itself when it is none. */
const char *lm_language_text(lm_language l, const char *english);

#ifdef __cplusplus
}
#endif
#endif
