/* nearest.c - the nearest word by edit distance, if it is near enough to be a typing error. */
#include "base/nearest.h"

#include <string.h>

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
