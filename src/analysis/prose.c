/* prose.c - breaking lines. */
#include "analysis/prose.h"

#include <string.h>

#include "analysis/page.h"

static unsigned width_of(const char *text, size_t n)
{
    char word[256];

    if (n >= sizeof word)
        return (unsigned)n;
    memcpy(word, text, n);
    word[n] = '\0';
    return lm_text_columns(word);
}

void lm_put_prose(lm_buf *out, const char *text, unsigned lead, unsigned indent, unsigned columns)
{
    unsigned at    = lead;
    bool     first = true;

    while (*text) {
        size_t   n = strcspn(text, " ");
        unsigned w = width_of(text, n);
        if (!first && at + 1 + w > columns) {
            lm_buf_printf(out, "\n%*s", (int)indent, "");
            at    = indent;
            first = true;
        }
        if (!first)
            lm_buf_add_char(out, ' ');
        lm_buf_add(out, text, n);
        at += w + !first;
        first = false;
        text += n;
        text += *text == ' ';
    }
    lm_buf_add_char(out, '\n');
}
