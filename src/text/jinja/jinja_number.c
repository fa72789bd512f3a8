/* jinja_number.c - numbers as Python reads and writes them, in any locale. */
#include "text/jinja/jinja.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

size_t lm_float_format(double f, char type, int precision, char *out, size_t size)
{
    char format[8] = { '%', '.', '*', type, 0 };

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = lm_print(out, size, format, precision, f);
#pragma GCC diagnostic pop
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* Use the fewest digits that read back to the same value, in Python's layout: plain for exponents in [-4,
 * 16). */
size_t lm_float_text(double f, char out[LM_FLOAT_TEXT])
{
    char text[40], digits[24];
    size_t n = 0, n_digits = 0;

    if (isnan(f))
        return (size_t)snprintf(out, LM_FLOAT_TEXT, "nan");
    if (isinf(f))
        return (size_t)snprintf(out, LM_FLOAT_TEXT, f < 0 ? "-inf" : "inf");
    for (int precision = 0; precision < 17; precision++) {
        lm_float_format(f, 'e', precision, text, sizeof text);
        if (lm_read_double(text, NULL) == f)
            break;
    }
    const char *e = strchr(text, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n_digits++] = *p;
    if (text[0] == '-')
        out[n++] = '-';
    if (exponent >= 16 || exponent < -4) {
        out[n++] = digits[0];
        if (n_digits > 1)
            out[n++] = '.';
        memcpy(out + n, digits + 1, n_digits - 1);
        n += n_digits - 1;
        return n + (size_t)snprintf(out + n, LM_FLOAT_TEXT - n, "e%c%02d", exponent < 0 ? '-' : '+',
                                    abs(exponent));
    }
    if (exponent < 0) {
        n += (size_t)snprintf(out + n, LM_FLOAT_TEXT - n, "0.%.*s", -exponent - 1, "000");
        memcpy(out + n, digits, n_digits);
        n += n_digits;
    } else {
        for (int i = 0; i <= exponent || (size_t)i < n_digits; i++) {
            if (i == exponent + 1)
                out[n++] = '.';
            out[n++] = (size_t)i < n_digits ? digits[i] : '0';
        }
        if ((size_t)exponent + 1 >= n_digits) {
            out[n++] = '.';
            out[n++] = '0';
        }
    }
    out[n] = 0;
    return n;
}

/* Copy a number's text without surrounding white space and underscores between digits; digits of any script
 * become ASCII. False: it contains anything else or does not fit. */
static bool plain_number(const char *data, size_t n, char *out, size_t size, size_t *length)
{
    size_t from = 0, to = n, k, o = 0;
    bool after_digit = false;

    while (from < to && lm_cp_is_space(lm_cp_at(data, from, &k)))
        from += k;
    while (to > from && lm_cp_is_space(lm_cp_before(data, to, &k)))
        to -= k;
    for (size_t i = from; i < to; i += k) {
        int32_t c = lm_cp_at(data, i, &k);
        int digit = lm_cp_digit(c);
        if (o + 1 >= size)
            return false;
        if (c == '_') {
            if (!after_digit || i + 1 >= to || data[i + 1] == '_')
                return false;
            after_digit = false;
            continue;
        }
        if (digit < 0 && c >= 0x80)
            return false;
        out[o++] = digit >= 0 ? (char)('0' + digit) : (char)c;
        after_digit = digit >= 0 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    }
    out[o] = 0;
    *length = o;
    return o > 0;
}

bool lm_float_read(const char *data, size_t n, double *out)
{
    char text[400], *end;
    size_t length, i = 0;

    if (!plain_number(data, n, text, sizeof text, &length))
        return false;
    if (text[i] == '+' || text[i] == '-')
        i++;
    bool number = (text[i] >= '0' && text[i] <= '9') ||
                  (text[i] == '.' && text[i + 1] >= '0' && text[i + 1] <= '9');
    bool word = strcasecmp(text + i, "inf") == 0 || strcasecmp(text + i, "infinity") == 0 ||
                strcasecmp(text + i, "nan") == 0;
    if ((!number && !word) || (number && strpbrk(text, "xXpP")))
        return false;
    double f = lm_read_double(text, &end);
    if (end != text + length)
        return false;
    *out = f;
    return true;
}

/* Return the base of the prefix 0x, 0o or 0b; 0: none. */
static int prefix_base(const char *text)
{
    char c = text[0] == '0' ? text[1] | 0x20 : 0;

    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

static int digit_of(char c)
{
    char lower = c | 0x20;

    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

bool lm_int_read(const char *data, size_t n, int base, int64_t *out, bool *overflow)
{
    char text[128];
    size_t length, i = 0;
    bool negative = false;
    uint64_t value = 0;

    *overflow = false;
    if (!plain_number(data, n, text, sizeof text, &length))
        return false;
    if (text[i] == '+' || text[i] == '-')
        negative = text[i++] == '-';
    int prefix = prefix_base(text + i);
    if (prefix && (base == prefix || base == 0)) {
        base = prefix;
        i += 2;
    }
    if (base == 0)
        base = 10;
    if (!text[i])
        return false;
    for (; text[i]; i++) {
        int digit = digit_of(text[i]);
        if (digit >= base)
            return false;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            *overflow = true;
    }
    if (value > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        *overflow = true;
    if (*overflow)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}
