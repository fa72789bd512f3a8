/* language.c - find the language, and its texts. */
#include "base/language.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/str.h"

static _Thread_local lm_language spoken;

static const struct { const char *tag, *name; } languages[LM_LANGUAGES] = {
    [LM_ENGLISH]             = { "en", "English" },
    [LM_TRADITIONAL_CHINESE] = { "zh-Hant", "繁體中文" },
    [LM_SIMPLIFIED_CHINESE]  = { "zh-Hans", "简体中文" },
    [LM_BURMESE]             = { "my", "မြန်မာ" },
};

const char *lm_language_tag(lm_language l)
{
    return (unsigned)l < LM_LANGUAGES ? languages[l].tag : "";
}

const char *lm_language_name(lm_language l)
{
    return (unsigned)l < LM_LANGUAGES ? languages[l].name : "";
}

/* ---- names ---- */

/* Read the next part of "zh_Hant_TW.UTF-8" in lower case; "" past the last, and for a part of more than 8
 * characters. */
static void next_part(const char **at, char out[9])
{
    size_t n = 0;

    while (isalnum((unsigned char)(*at)[n]))
        n++;
    for (size_t i = 0; i < n && i < 8; i++)
        out[i] = (char)tolower((unsigned char)(*at)[i]);
    out[n <= 8 ? n : 0] = '\0';
    *at += n;
    *at += **at == '-' || **at == '_';
}

/* Return the kind of Chinese: the script, or a region where Chinese is written with traditional or simplified
 * characters, gives it. */
static lm_language chinese(const char *rest)
{
    char part[9];

    for (next_part(&rest, part); *part; next_part(&rest, part)) {
        if (strcmp(part, "hant") == 0 || strcmp(part, "tw") == 0 || strcmp(part, "hk") == 0 ||
            strcmp(part, "mo") == 0)
            return LM_TRADITIONAL_CHINESE;
        if (strcmp(part, "hans") == 0 || strcmp(part, "cn") == 0 || strcmp(part, "sg") == 0)
            return LM_SIMPLIFIED_CHINESE;
    }
    return LM_SIMPLIFIED_CHINESE;
}

/* Return the language with this name; LM_LANGUAGES: none. */
static lm_language named(const char *name)
{
    char part[9];

    next_part(&name, part);
    if (strcmp(part, "zh") == 0)
        return chinese(name);
    if (strcmp(part, "my") == 0 || strcmp(part, "mya") == 0 || strcmp(part, "bur") == 0)
        return LM_BURMESE;
    if (strcmp(part, "en") == 0 || strcmp(part, "c") == 0 || strcmp(part, "posix") == 0)
        return LM_ENGLISH;
    return LM_LANGUAGES;
}

/* Return whether the build has texts in a language: it may leave the catalogues out. */
static bool has_texts(lm_language l)
{
    return l == LM_ENGLISH || lm_n_messages > 0;
}

lm_status lm_language_find(const char *name, lm_language *out, lm_error *e)
{
    LM_REQUIRE(e, name && out);
    lm_language l = named(name);

    if (l == LM_LANGUAGES)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "unknown language; use en, zh-Hant, zh-Hans or my");
    if (!has_texts(l))
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "this build has no translations; use en");
    *out = l;
    return LM_OK;
}

lm_language lm_language_negotiate(const char *lamina_lang, const char *lc_all, const char *lc_messages,
                                  const char *lang)
{
    const char *locale = lc_all && *lc_all             ? lc_all
                         : lc_messages && *lc_messages ? lc_messages
                         : lang                        ? lang
                                                       : "";
    lm_language own    = lamina_lang && *lamina_lang ? named(lamina_lang) : LM_LANGUAGES;
    lm_language l      = own != LM_LANGUAGES ? own : named(locale);

    return l != LM_LANGUAGES && has_texts(l) ? l : LM_ENGLISH;
}

/* ---- texts ---- */

lm_language lm_language_set(lm_language l)
{
    lm_language before = spoken;

    spoken = (unsigned)l < LM_LANGUAGES ? l : LM_ENGLISH;
    return before;
}

static int compare(const void *key, const void *message)
{
    return strcmp(key, ((const lm_message *)message)->key);
}

static const char *text_of(lm_language l, const char *key)
{
    const lm_message *m = l == LM_ENGLISH
                              ? NULL
                              : bsearch(key, lm_messages, lm_n_messages, sizeof *lm_messages, compare);

    return m ? m->text[l - 1] : NULL;
}

const char *lm_translate(const char *text)
{
    const char *found = text_of(spoken, text);

    return found ? found : text;
}

const char *lm_translate_in(const char *key, const char *text)
{
    const char *found = text_of(spoken, key);

    return found ? found : text;
}

const char *lm_translate_number(bool single, const char *one, const char *many)
{
    const char *found = text_of(spoken, one);

    return found ? found : single ? one : many;
}

const char *lm_language_text(lm_language l, const char *english)
{
    if (!english)
        return NULL;
    const char *found = (unsigned)l < LM_LANGUAGES ? text_of(l, english) : NULL;

    return found ? found : english;
}
