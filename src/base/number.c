/* number.c - convert numbers to and from text, in the C locale. */
#include "base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t       c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double lm_read_double(const char *text, char **end)
{
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

float lm_read_float(const char *text, char **end)
{
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale ? strtof_l(text, end, c_locale) : strtof(text, end);
}

int lm_vprint(char *out, size_t size, const char *format, va_list args)
{
    pthread_once(&c_locale_once, make_c_locale);
    locale_t before = c_locale ? uselocale(c_locale) : (locale_t)0;      /* for this thread only */
    int      n      = vsnprintf(out, size, format, args);
    if (before)
        uselocale(before);
    return n;
}

int lm_print(char *out, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = lm_vprint(out, size, format, args);
    va_end(args);
    return n;
}

double lm_decimal(float x)
{
    char text[32];

    for (int digits = 6; digits < 10; digits++) {
        lm_print(text, sizeof text, "%.*g", digits, (double)x);
        if (lm_read_float(text, NULL) == x)
            break;
    }
    return lm_read_double(text, NULL);
}

const char *lm_number_text(char out[32], double x)
{
    for (int digits = 6; digits < 18; digits++) {
        lm_print(out, 32, "%.*g", digits, x);
        if (lm_read_double(out, NULL) == x)
            break;
    }
    return out;
}

char *lm_size_text(char out[LM_SIZE_TEXT], uint64_t bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    double x    = (double)bytes;
    size_t unit = 0;

    for (; x >= 999.5 && unit < 6; unit++)
        x /= 1000;
    lm_print(out, LM_SIZE_TEXT,
             unit == 0 || x >= 99.95 ? "%.0f %s"
             : x < 9.995             ? "%.2f %s"
                                     : "%.1f %s",
             x, units[unit]);
    return out;
}
