/* translate.c - texts of the program in the chosen language. */
#include "cli/base/translate.h"

static lm_language spoken;

void lm_use_language(lm_language l)
{
    spoken = l;
}

const char *lm_translate_text(const char *text)
{
    return lm_language_text(spoken, text);
}

const char *lm_translate_context(const char *key, const char *text)
{
    const char *found = lm_language_text(spoken, key);

    return found == key ? text : found;
}

const char *lm_translate_plural(bool single, const char *one, const char *many)
{
    const char *found = lm_language_text(spoken, one);

    return found == one && !single ? many : found;
}
