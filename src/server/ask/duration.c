/* duration.c - duration.h: a sum of numbers with units, as ParseDuration of Go reads it. */
#include "server/ask/duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; double seconds; } units[] = {
    { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 }, { "m", 60 }, { "h", 3600 },
};

/* Units are tried in this order, so that "ms" is not taken for "m". */
static double read_unit(const char **at)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(*at, units[i].name, n) == 0) {
            *at += n;
            return units[i].seconds;
        }
    }
    return 0;
}

bool lm_duration_read(const char *text, double *seconds)
{
    const char *at = text + (*text == '-');
    double sum = 0;

    if (!*at)
        return false;
    while (*at) {
        char *end;
        size_t digits = strspn(at, "0123456789.");
        double value = strtod(at, &end), unit;

        if (!digits || end != at + digits || !isfinite(value))
            return false;
        at = end;
        unit = *at ? read_unit(&at) : 1;
        if (unit <= 0)
            return false;
        sum += value * unit;
    }
    *seconds = *text == '-' && sum > 0 ? -1 : sum;
    return true;
}
