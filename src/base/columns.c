/* columns.c - widths of characters. */
#include "base/columns.h"

#include <limits.h>
#include <string.h>
#include <utf8proc.h>

/* Bytes of the beginning that takes at most so many columns; how many it takes. */
static size_t measure(const char *utf8, unsigned most, unsigned *columns)
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
        if (width > most - *columns)
            break;
        *columns += width;
    }
    return (size_t)at;
}

unsigned lm_text_columns(const char *utf8)
{
    unsigned columns;

    measure(utf8, UINT_MAX, &columns);
    return columns;
}

void lm_put_cell(lm_buf *out, const char *utf8, unsigned columns)
{
    unsigned used;
    size_t   n = measure(utf8, columns, &used);

    lm_buf_printf(out, "%.*s%*s", (int)n, utf8, (int)(columns - used), "");
}

void lm_put_bar(lm_buf *out, double x, unsigned cells)
{
    static const char *const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    unsigned eighths = (unsigned)(x * cells * 8 + 0.5);

    if (!eighths && x > 0)
        eighths = 1;
    for (unsigned i = 0; i < eighths / 8; i++)
        lm_buf_add_str(out, "█");
    lm_buf_add_str(out, parts[eighths % 8]);
}
