/* numeral.c - read digits in groups of any kind, exponents, prefixes and units. */
#include "base/numeral.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"

/* ---- digits ---- */

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

static size_t run_of_digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* Return the size of a thousands separator at s that exactly three digits follow: "," "'", spaces, also thin
 * ones, and TeX's; 0: none. */
static size_t group_mark(const char *s)
{
    static const char *const marks[] = { ",",   "'",  " ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89",
                                         "{,}", "\\," };

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = strlen(marks[i]);
        if (strncmp(s, marks[i], n) == 0 && run_of_digits(s + n) == 3)
            return n;
    }
    return 0;
}

/* Return whether digits are grouped by points, as in 124.439.808: at least two points, each followed by three
 * digits. */
static bool grouped_by_points(const char *s)
{
    int points = 0;

    for (s += run_of_digits(s); *s == '.' && run_of_digits(s + 1) == 3; s += 4)
        points++;
    return points >= 2;
}

typedef struct digits { char text[64]; size_t n; int decimals; bool point; } digits;

/* Return the size of a group separator at s, after a digit and before any decimals; 0: none. */
static size_t separator(const char *s, const digits *d, bool by_points)
{
    size_t mark = d->n && !d->point && is_digit(d->text[d->n - 1]) ? group_mark(s) : 0;

    return mark ? mark : by_points && *s == '.' && run_of_digits(s + 1) == 3;
}

/* Return whether decimals follow: a point before a digit, or a comma before digits that are not a group of
 * three. */
static bool decimal_mark(const char *s, const digits *d)
{
    size_t run = *s && !d->point ? run_of_digits(s + 1) : 0;

    return run && (*s == '.' || (*s == ',' && d->n && run != 3));
}

static const char *read_digits(const char *s, digits *d)
{
    bool   by_points = grouped_by_points(s);
    size_t mark;

    *d = (digits){ 0 };
    if ((*s == '-' || *s == '+') && is_digit(s[1]))
        d->text[d->n++] = *s++;
    while (d->n + 1 < sizeof d->text) {
        if (is_digit(*s)) {
            d->decimals += d->point;
            d->text[d->n++] = *s++;
        } else if ((mark = separator(s, d, by_points))) {
            s += mark;
        } else if (decimal_mark(s, d)) {
            d->point        = true;
            d->text[d->n++] = '.';
            s++;
        } else {
            break;
        }
    }
    d->text[d->n] = '\0';
    return s;
}

/* Return whether it is the base of a power such as 10^9 or 2^20. */
static bool ten_or_two(const digits *d)
{
    return strcmp(d->text, "10") == 0 || strcmp(d->text, "2") == 0;
}

/* Read an exponent in superscript digits: ⁻⁶. */
static const char *small_digits(const char *s, int *out)
{
    static const char *const small[] = { "⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹" };
    bool                     minus   = strncmp(s, "⁻", strlen("⁻")) == 0, found = false;
    const char              *p       = minus ? s + strlen("⁻") : s;

    *out = 0;
    for (int i = 0; i < 10; i++)
        if (*out < 1000 && strncmp(p, small[i], strlen(small[i])) == 0) {
            *out  = *out * 10 + i;
            p += strlen(small[i]);
            found = true;
            i     = -1;
        }
    *out = minus ? -*out : *out;
    return found ? p : s;
}

size_t lm_times_sign(const char *s)
{
    const char *p = s + strspn(s, " "), *sign = p;

    if (*p == 'x' || *p == '*')
        p++;
    else if (strncmp(p, "×", strlen("×")) == 0 || strncmp(p, "·", strlen("·")) == 0)
        p += strlen("×");
    else if (strncmp(p, "\\times", strlen("\\times")) == 0)
        p += strlen("\\times");
    return p == sign ? 0 : (size_t)(p - s) + strspn(p, " ");
}

/* Read an exponent: e-5, or × 10^-5 after a number, or ^6 after a ten or a two. */
static const char *read_exponent(const char *s, const digits *d, int *power, double *base)
{
    char       *end;
    const char *small;
    size_t      times = lm_times_sign(s);
    bool        sign = *s && (s[1] == '-' || s[1] == '+') && is_digit(s[2]);

    *power = 0;
    *base  = 0;
    if (tolower((unsigned char)*s) == 'e' && (is_digit(s[1]) || sign)) {
        *power = (int)strtol(s + 1, &end, 10);
        *base  = 10;
        return end;
    }
    bool two = strcmp(d->text, "2") == 0;
    const char *p = s;
    if (!ten_or_two(d)) {
        if (!times || strncmp(s + times, "10", 2) != 0)
            return s;
        p = s + times + 2;
    }
    if (*p == '^' || (*p == '*' && p[1] == '*')) {
        const char *number = p + (*p == '^' ? 1 : 2);
        bool        brace = *number == '{';
        *power = (int)strtol(number + brace, &end, 10);
        if (end == number + brace)                       /* ** ends bold text */
            return s;
        *base = two ? 2 : 10;
        return end + (brace && *end == '}');
    }
    if ((small = small_digits(p, power)) == p)
        return s;
    *base = two ? 2 : 10;
    return small;
}

/* ---- prefixes and units ---- */

/* Return the length of the first of `words` (up to NULL) that s begins with, in any case; 0: none of them. */
static size_t one_of(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (strncasecmp(s, *words, strlen(*words)) == 0)
            return strlen(*words);
    return 0;
}

/* Return the power of a thousand of a prefix after a number: k M G T or a word (also B for a
 * billion, in counts but not in sizes); 0: none. */
static int prefix_of(const char *s, bool bytes, const char **after)
{
    static const char letters[] = "kmgt";
    static const char *const words[][2] = { { "thousand" }, { "million" }, { "billion" }, { "trillion" } };
    size_t n;

    *after = s;
    for (int i = 0; i < 4; i++)
        if ((n = one_of(s, words[i]))) {
            *after = s + n;
            return i + 1;
        }
    if (!bytes && (*s == 'B' || *s == 'b') && !isalpha((unsigned char)s[1])) {
        *after = s + 1;
        return 3;
    }
    const char *at = *s ? strchr(letters, tolower((unsigned char)*s)) : NULL;
    if (!at)
        return 0;
    *after = s + 1;
    return (int)(at - letters) + 1;
}

/* Return the length of B, iB or i after a prefix, or of B, byte or bytes without one; 0: not bytes. */
static size_t byte_unit(const char *s, bool prefixed, bool *kibi)
{
    static const char *const words[] = { "bytes", "byte", NULL };

    *kibi    = prefixed && *s == 'i';
    size_t n = *kibi ? 1 : 0;
    n += s[n] == 'B' || (prefixed && s[n] == 'b');
    if (n && !isalpha((unsigned char)s[n]))
        return n;
    *kibi = false;
    return prefixed ? 0 : one_of(s, words);
}

/* Return the length of a unit of arithmetic, including a space before it; 0: none. */
static size_t operations_unit(const char *s)
{
    static const char *const words[] = { "flops", "flop", "macs", "mac", NULL };
    size_t space = *s == ' ', n = one_of(s + space, words);

    return n ? space + n : 0;
}

/* Return the unit after a number at s, or after its prefix, which ends at `after`; `*end`: where it ends.
 * `*fits`: the prefix is one, and not the first letter of a word. */
static lm_numeral_unit unit_of(const char *s, const char *after, bool prefixed, bool *fits, bool *kibi,
                               const char **end)
{
    static const char *const percent[] = { "%", "percent", "per cent", NULL };
    static const char *const counted[] = { "param", "token", NULL };
    size_t n;

    *fits = true;
    *kibi = false;
    if ((n = one_of(s, percent))) {
        *end = s + n;
        return LM_NUMERAL_PERCENT;
    }
    if ((n = byte_unit(after, prefixed, kibi))) {
        *end = after + n;
        return LM_NUMERAL_BYTES;
    }
    n    = operations_unit(after);
    *end = after + n;
    if (n)
        return LM_NUMERAL_OPERATIONS;
    *fits = !prefixed || !isalpha((unsigned char)*after) || one_of(after, counted);
    return LM_NUMERAL_PLAIN;
}

/* ---- a numeral ---- */

/* The positions of the parts of a numeral: digits, exponent, spaces, prefix, unit. */
typedef struct parts {
    digits      d;
    const char *exponent_at;         /* after the digits */
    const char *number_end;          /* after the exponent */
    const char *unit;                /* after the spaces: the prefix, or the unit if there is none */
    const char *prefix_end;
    const char *end;
    double      base;                /* of the exponent; 0: there is none */
    int         exponent;
    int         power;               /* of a thousand: the prefix */
} parts;

/* Read the prefix and the unit after a number; without both, the x of "3x". */
static void read_unit(parts *p, bool bytes, lm_numeral *out)
{
    bool fits;

    p->unit       = p->number_end + strspn(p->number_end, " ");
    p->prefix_end = p->unit;
    p->power      = p->base != 0 ? 0 : prefix_of(p->unit, bytes, &p->prefix_end);
    out->unit     = unit_of(p->unit, p->prefix_end, p->power, &fits, &out->kibi, &p->end);
    if (!fits)                       /* a word, not a unit */
        p->power = 0;
    if (p->power || out->unit != LM_NUMERAL_PLAIN)
        return;
    p->end = p->number_end;
    if (*p->number_end == 'x' || *p->number_end == 'X')
        p->end = p->number_end + 1;
    else if (strncmp(p->unit, "×", strlen("×")) == 0)
        p->end = p->unit + strlen("×");
    if (p->end != p->number_end)
        out->unit = LM_NUMERAL_TIMES;
}

static void compute(const parts *p, lm_numeral *out)
{
    const digits *d = &p->d;
    double scale = p->base != 0 ? pow(p->base, p->exponent) : 1,
           prefix = pow(out->kibi ? 1024 : 1000, p->power);
    char   sign = *p->exponent_at;
    /* 10^9 */
    bool   power_alone = p->base != 0 && ten_or_two(d) && (sign == '^' || sign == '*' || (sign & 0x80));
    double x = power_alone ? scale : lm_read_double(d->text, NULL) * scale;

    out->power  = p->power;
    out->value  = x * prefix;
    out->binary = x * pow(1024, p->power);
    out->whole  = p->power == 0 && !d->point && p->base == 0;
    out->half   = 0.5 * scale * pow(10, -d->decimals) * prefix;
    for (size_t i = d->n; !d->point && i-- > 1 && d->text[i] == '0';)
        out->zeros++;
    if (out->whole || (p->base != 0 && !d->point))
        out->half = p->base != 0 ? fabs(x) * 1e-9 : 0;      /* written in full: 32, 1e-5 */
}

size_t lm_read_numeral(const char *s, bool bytes, lm_numeral *out, size_t *tail)
{
    parts p;

    *out          = (lm_numeral){ 0 };
    p.exponent_at = read_digits(s, &p.d);
    if (!strpbrk(p.d.text, "0123456789"))
        return 0;
    p.number_end = read_exponent(p.exponent_at, &p.d, &p.exponent, &p.base);
    read_unit(&p, bytes, out);
    compute(&p, out);
    bool apart = out->unit == LM_NUMERAL_PERCENT || (!p.power && out->unit != LM_NUMERAL_PLAIN);
    if (tail)
        *tail = (size_t)((apart ? p.unit : p.power ? p.prefix_end : p.number_end) - s);
    return (size_t)(p.end - s);
}
