/* nearest.c - the nearest word by edit distance, if it is near enough to be a typing error. */
#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

const char *lm_nearest_word(const char *given, const char *const *words)
{
    if (!given || !words)
        return NULL;
    const char *best     = NULL;
    size_t      letters  = strlen(given + strspn(given, "-/"));
    /* a word this far away is not a typing error */
    size_t      distance = 1u + (letters > 1) + (letters > 5) + (letters > 11);

    for (; *words; words++) {
        size_t d = lm_edit_distance(given, *words);
        if (d < distance) {
            distance = d;
            best     = *words;
        }
    }
    return best;
}

void lm_near_names_add(lm_near_names *names, const char *name, size_t size)
{
    if (names->n == LM_MAX_NAMES || size >= LM_NAME_SIZE || !size)
        return;
    for (size_t i = 0; i < names->n; i++)
        if (strlen(names->text[i]) == size && memcmp(names->text[i], name, size) == 0)
            return;
    memcpy(names->text[names->n], name, size);
    names->words[names->n] = names->text[names->n];
    names->n++;
}

lm_status lm_near_names_hint(const lm_near_names *names, const char *pattern, lm_error *e)
{
    const char *near = lm_nearest_word(pattern, names->words);
    char        list[128] = "";
    size_t      at = 0;

    for (size_t i = 0; i < names->n && at + strlen(names->text[i]) + 8 < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names->text[i]);
    return near ? lm_fail_hint(e, "did you mean \"%s\"? There are: %s", near, list)
                : lm_fail_hint(e, "there are: %s", list);
}
