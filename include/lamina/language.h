/* language.h - languages of pages, reports and explanations.
 *
 * Pages, reports and explanations are written in the language of their options; zero is English. Numbers,
 * names of modules and fields, JSON keys and error messages are the same in every language. The catalogues
 * are part of the library: no locale needs to be installed, and none is used. */
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

const char *lm_language_tag(lm_language l);      /* BCP 47: "en" "zh-Hant" "zh-Hans" "my"; "" for none of
                                                    them */
const char *lm_language_name(lm_language l);     /* its own: "English" "繁體中文" "简体中文" "မြန်မာ" */

/* Find a language by its tag or the name of a locale, in any case: "zh-Hant", "zh_TW.UTF-8", "my-MM".
 * LM_USAGE lists the languages. */
lm_status lm_language_find(const char *name, lm_language *out, lm_error *e);

/* Return the language of the environment: LAMINA_LANG, else the first non-empty one of LC_ALL, LC_MESSAGES
 * and LANG, as in setlocale(3). Any of them may be NULL. English for an unknown language. */
lm_language lm_language_negotiate(const char *lamina_lang, const char *lc_all, const char *lc_messages,
                                  const char *lang);

/* Translate an English string of the library ("the data flow with its skip edges"); returns any other string
 * unchanged. */
const char *lm_language_text(lm_language l, const char *english);

#ifdef __cplusplus
}
#endif
#endif
