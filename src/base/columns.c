/* columns.c - widths of characters. */
#include "base/columns.h"

#include <string.h>
#include <utf8proc.h>

unsigned lm_text_columns(const char *utf8)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)utf8;
    utf8proc_ssize_t        n = (utf8proc_ssize_t)strlen(utf8), step;
    utf8proc_int32_t        c;
    int                     width = 0;

    for (; n > 0; p += step, n -= step) {
        step = utf8proc_iterate(p, n, &c);
        if (step < 1) {
            step = 1;
            continue;
        }
        width += utf8proc_category(c) == UTF8PROC_CATEGORY_MC ? 1 : utf8proc_charwidth(c);
    }
    return (unsigned)width;
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
