/* prose.c - break lines first-fit: a word goes on the line if it still fits. Between Chinese characters a
 * line may end anywhere, but not before a closing mark. Widths are columns of a terminal. */
#include "study/page/prose.h"

#include <string.h>

#include "base/columns.h"

static unsigned width_of(const char *text, size_t n)
{
    char word[256];

    if (n >= sizeof word)
        return (unsigned)n;
    memcpy(word, text, n);
    word[n] = '\0';
    return lm_text_columns(word);
}

/* Chinese text may be broken after any character, but not before a closing mark. */
static bool is_wide(const char *p)
{
    return ((unsigned char)p[0] & 0xF0) == 0xE0 && (unsigned char)p[0] >= 0xE3 && (unsigned char)p[0] <= 0xE9;
}

static bool closes(const char *p)
{
    static const char *const marks[] = { "，", "。", "；", "：", "、", "）", "」", "』", "！", "？", "”", "》" };

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(p, marks[i], 3) == 0)
            return true;
    return false;
}

/* Return the bytes up to the next possible line break. */
static size_t piece(const char *text)
{
    size_t n = 0;

    while (text[n] && text[n] != ' ') {
        bool wide = is_wide(text + n) || closes(text + n);
        n += wide ? 3 : 1;
        while (((unsigned char)text[n] & 0xC0) == 0x80)
            n++;
        if (text[n] && (wide || is_wide(text + n)) && !closes(text + n))
            break;
    }
    return n;
}

void lm_put_prose(lm_text *out, const char *text, unsigned lead, unsigned indent, unsigned columns)
{
    unsigned at    = lead;
    bool     first = true, space = false;

    while (*text) {
        size_t   n = piece(text);
        unsigned w = width_of(text, n);
        if (!first && at + space + w > columns) {
            lm_text_printf(out, "\n%*s", (int)indent, "");
            at    = indent;
            space = false;
        }
        if (!first && space)
            lm_text_add_char(out, ' ');
        lm_text_add(out, text, n);
        at += w + (!first && space);
        first = false;
        text += n;
        space = *text == ' ';
        text += space;
    }
    lm_text_add_char(out, '\n');
}

void lm_put_lines(lm_text *out, const char *text, unsigned indent)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (n) {
            lm_text_printf(out, "%*s", (int)indent, "");
            lm_text_add(out, text, n);
        }
        lm_text_add_char(out, '\n');
        text += n;
        text += *text == '\n';
    }
}
