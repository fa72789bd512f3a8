/* columns.c - widths of characters. */
#include "base/columns.h"

#include <limits.h>
#include <string.h>
#include <utf8proc.h>

/* Return the size of the longest prefix that takes at most `max` columns; *columns: how many it takes. */
static size_t measure(const char *utf8, unsigned max, unsigned *columns)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)utf8;
    utf8proc_ssize_t        n = (utf8proc_ssize_t)strlen(utf8), at = 0, step;
    utf8proc_int32_t        c;

    *columns = 0;
    for (; at < n; at += step) {
        unsigned width = 0;
        step           = utf8proc_iterate(p + at, n - at, &c);
        if (step < 1)
            step = 1;
        else
            width = utf8proc_category(c) == UTF8PROC_CATEGORY_MC ? 1 : (unsigned)utf8proc_charwidth(c);
        if (width > max - *columns)
            break;
        *columns += width;
    }
    return (size_t)at;
}

unsigned lm_text_columns(const char *utf8)
{
    if (!utf8)
        return 0;
    unsigned columns;

    measure(utf8, UINT_MAX, &columns);
    return columns;
}

void lm_text_add_cell(lm_text *out, const char *utf8, unsigned columns)
{
    if (!out || !utf8)
        return;
    unsigned used;
    size_t   n = measure(utf8, columns, &used);

    lm_text_printf(out, "%.*s%*s", (int)n, utf8, (int)(columns - used), "");
}

void lm_text_add_bar(lm_text *out, double x, unsigned cells)
{
    if (!out)
        return;
    static const char *const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    unsigned eighths = (unsigned)(x * cells * 8 + 0.5);

    if (!eighths && x > 0)
        eighths = 1;
    for (unsigned i = 0; i < eighths / 8; i++)
        lm_text_add_str(out, "█");
    lm_text_add_str(out, parts[eighths % 8]);
}

void lm_put(lm_text *out, const char *text, unsigned width)
{
    unsigned n = lm_text_columns(text);

    lm_text_printf(out, "%s%*s", text, (int)(n < width ? width - n : 0), "");
}

void lm_put_right(lm_text *out, const char *text, unsigned width)
{
    unsigned n = lm_text_columns(text);

    lm_text_printf(out, "%*s%s", (int)(n < width ? width - n : 0), "", text);
}

void lm_put_rule(lm_text *out, const char *piece, unsigned n)
{
    while (n-- > 0)
        lm_text_add_str(out, piece);
}
