/* size.c - parse a number of bytes with a decimal or binary unit. */
#include "cli/base/size.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 1000000 };

static lm_status no_size(const char *flag, const char *text, lm_error *e)
{
    lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "\"%s\" is not a size", text);
    return lm_fail_hint(e, "use for example 16G (decimal), 24GiB (binary) or 512M");
}

/* Return the bytes of a unit; 0: unknown unit. An empty unit is one byte. */
static double unit_of(const char *unit)
{
    static const char letters[] = "kmgt";
    const char       *letter = NULL;
    double            bytes  = 1;

    for (const char *l = letters; *unit && *l && !letter; l++)
        if ((*unit | 0x20) == *l)
            letter = l;
    if (letter) {
        bool binary = unit[1] == 'i';
        for (const char *l = letters; l <= letter; l++)
            bytes *= binary ? 1024 : 1000;
        unit += binary ? 2 : 1;
    }
    unit += (*unit | 0x20) == 'b';
    return *unit ? 0 : bytes;
}

lm_status lm_read_size(const char *flag, const char *text, uint64_t *out, lm_error *e)
{
    size_t digits = strspn(text, "0123456789.");
    char  *end;
    double x = strtod(text, &end), unit;

    if (digits == 0 || end != text + digits)             /* strtod also accepts "inf" and "0x10" */
        return no_size(flag, text, e);
    end += *end == ' ';
    unit = unit_of(end);
    if (unit == 0 || !(x > 0) || x * unit < 1 || x * unit > 1e18)
        return no_size(flag, text, e);
    if (!*end && x < LEAST) {
        lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "\"%s\" has no unit, and as bytes is too little", text);
        return lm_fail_hint(e, "add a unit: %sG (decimal) or %sGiB (binary)", text, text);
    }
    *out = (uint64_t)(x * unit);
    return LM_OK;
}
