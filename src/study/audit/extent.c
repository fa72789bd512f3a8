/* extent.c - compare and trim pieces of a document's text, which they point into. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/audit_document.h"

lm_extent lm_trim(lm_extent s)
{
    while (s.n && isspace((unsigned char)*s.s))
        s.s++, s.n--;
    while (s.n && isspace((unsigned char)s.s[s.n - 1]))
        s.n--;
    return s;
}

lm_extent lm_strip_markup(lm_extent s)
{
    for (s = lm_trim(s); s.n && strchr("*`\"' ", *s.s);)
        s.s++, s.n--;
    while (s.n && strchr("*`\"',. ", s.s[s.n - 1]))
        s.n--;
    return s;
}

bool lm_extent_is(lm_extent s, const char *text)
{
    return s.n == strlen(text) && strncasecmp(s.s, text, s.n) == 0;
}

bool lm_extent_begins(lm_extent s, const char *text)
{
    size_t n = strlen(text);

    return s.n >= n && memcmp(s.s, text, n) == 0;
}

bool lm_extent_ends(lm_extent s, const char *text)
{
    size_t n = strlen(text);

    return s.n >= n && memcmp(s.s + s.n - n, text, n) == 0;
}

bool lm_has_digit(lm_extent s)
{
    for (size_t i = 0; i < s.n; i++)
        if (isdigit((unsigned char)s.s[i]))
            return true;
    return false;
}
