/* extents.c - compare texts that are parts of a document. "Text" functions distinguish case, "word" functions do not. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/reading.h"

lm_extent lm_trim(lm_extent s)
{
    while (s.n && isspace((unsigned char)*s.s))
        s.s++, s.n--;
    while (s.n && isspace((unsigned char)s.s[s.n - 1]))
        s.n--;
    return s;
}

bool lm_has_note(lm_extent cell)
{
    size_t stars = 0;

    for (size_t i = 0; i < cell.n; i++)
        stars += cell.s[i] == '*';
    return stars % 2;
}

bool lm_has_digit(lm_extent s)
{
    for (size_t i = 0; i < s.n; i++)
        if (isdigit((unsigned char)s.s[i]))
            return true;
    return false;
}

bool lm_same_text(lm_extent a, lm_extent b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

bool lm_text_is(lm_extent s, const char *text)
{
    return lm_same_text(s, (lm_extent){ text, strlen(text) });
}

bool lm_text_begins(lm_extent s, const char *text)
{
    size_t n = strlen(text);

    return s.n >= n && memcmp(s.s, text, n) == 0;
}

bool lm_text_ends(lm_extent s, const char *text)
{
    size_t n = strlen(text);

    return s.n >= n && memcmp(s.s + s.n - n, text, n) == 0;
}

bool lm_text_among(lm_extent s, const char *const *texts)
{
    while (*texts && !lm_text_is(s, *texts))
        texts++;
    return *texts != NULL;
}

bool lm_word_begins(lm_extent s, const char *word)
{
    size_t n = strlen(word);

    return s.n >= n && strncasecmp(s.s, word, n) == 0;
}

bool lm_word_is(lm_extent s, const char *word)
{
    return s.n == strlen(word) && lm_word_begins(s, word);
}

bool lm_word_among(lm_extent s, const char *const *words)
{
    while (*words && !lm_word_is(s, *words))
        words++;
    return *words != NULL;
}

const char *lm_line_start(const lm_audit_document *d, const char *p)
{
    while (p > d->text && p[-1] != '\n')
        p--;
    return p;
}
