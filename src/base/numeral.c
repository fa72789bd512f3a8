/* numeral.c - digits in groups of every manner, exponents, prefixes and units. */
#include "base/numeral.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"

/* ---- digits ---- */

static size_t run_of_digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* The bytes of a separator of thousands at s when three digits and no fourth follow: "," "'" and spaces, thin ones too, and TeX's. */
static size_t group_mark(const char *s)
{
    static const char *const marks[] = { ",", "'", " ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89", "{,}", "\\," };

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n = strlen(marks[i]);
        if (strncmp(s, marks[i], n) == 0 && run_of_digits(s + n) == 3)
            return n;
    }
    return 0;
}

/* 124.439.808: two points at least, groups of three behind each. */
static bool grouped_by_points(const char *s)
{
    int points = 0;

    for (s += run_of_digits(s); *s == '.' && run_of_digits(s + 1) == 3; s += 4)
        points++;
    return points >= 2;
}

typedef struct digits { char text[64]; size_t n; int decimals; bool point; } digits;

static const char *read_digits(const char *s, digits *d)
{
    bool by_points = grouped_by_points(s);

    *d = (digits){ 0 };
    if ((*s == '-' || *s == '+') && isdigit((unsigned char)s[1]))
        d->text[d->n++] = *s++;
    while (d->n + 1 < sizeof d->text) {
        size_t mark = d->n && !d->point && isdigit((unsigned char)d->text[d->n - 1]) ? group_mark(s) : 0;
        bool   comma = *s == ',' && d->n && !d->point && run_of_digits(s + 1) && run_of_digits(s + 1) != 3;
        if (isdigit((unsigned char)*s)) {
            d->decimals += d->point;
            d->text[d->n++] = *s++;
        } else if (mark) {
            s += mark;
        } else if (by_points && *s == '.' && run_of_digits(s + 1) == 3) {
            s++;
        } else if (!d->point && ((*s == '.' && isdigit((unsigned char)s[1])) || comma)) {
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

/* An exponent in small digits: ⁻⁶. */
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

/* e-5, or × 10^-5 behind a number, or ^6 behind a ten or a two. */
static const char *read_exponent(const char *s, const digits *d, int *power, double *base)
{
    char       *end;
    const char *small;
    size_t      times = lm_times_sign(s);
    bool        sign = *s && (s[1] == '-' || s[1] == '+') && isdigit((unsigned char)s[2]);

    *power = 0;
    *base  = 0;
    if (tolower((unsigned char)*s) == 'e' && (isdigit((unsigned char)s[1]) || sign)) {
        *power = (int)strtol(s + 1, &end, 10);
        *base  = 10;
        return end;
    }
    bool ten = strcmp(d->text, "10") == 0, two = strcmp(d->text, "2") == 0;
    const char *p = s;
    if (!ten && !two) {
        if (!times || strncmp(s + times, "10", 2) != 0)
            return s;
        p = s + times + 2;
    }
    if (*p == '^' || (*p == '*' && p[1] == '*')) {
        const char *number = p + (*p == '^' ? 1 : 2);
        bool        brace = *number == '{';
        *power = (int)strtol(number + brace, &end, 10);
        if (end == number + brace)                       /* ** is the end of something bold */
            return s;
        *base = two ? 2 : 10;
        return end + (brace && *end == '}');
    }
    if ((small = small_digits(p, power)) == p)
        return s;
    *base = two ? 2 : 10;
    return small;
}

/* ---- what stands behind ---- */

static bool word_is(const char *s, const char *word)
{
    return strncasecmp(s, word, strlen(word)) == 0;
}

/* k M G T (also B for a billion, where it counts and does not measure) after a number. */
static int prefix_of(const char *s, bool bytes, const char **after)
{
    static const char letters[] = "kmgt";
    static const char *const words[] = { "thousand", "million", "billion", "trillion" };

    *after = s;
    for (int i = 0; i < 4; i++)
        if (word_is(s, words[i])) {
            *after = s + strlen(words[i]);
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

/* The unit at s, or behind a prefix at `after`; `*end` behind it. `*fits`: the prefix is one, and not the first letter of a word. */
static lm_numeral_unit unit_of(const char *s, const char *after, int power, bool *fits, bool *kibi, const char **end)
{
    static const char *const operations[] = { "flops", "flop", "macs", "mac" };

    *fits = true;
    *kibi = false;
    *end  = after;
    if (*s == '%' || word_is(s, "percent") || word_is(s, "per cent")) {
        *end = s + (*s == '%' ? 1 : word_is(s, "percent") ? 7 : 8);
        return LM_NUMERAL_PERCENT;
    }
    if (power && *after == 'i' && !isalpha((unsigned char)after[1 + (after[1] == 'B' || after[1] == 'b')])) {
        *kibi = true;
        *end  = after + 1 + (after[1] == 'B' || after[1] == 'b');
        return LM_NUMERAL_BYTES;
    }
    if (power && (*after == 'B' || *after == 'b') && !isalpha((unsigned char)after[1])) {
        *end = after + 1;
        return LM_NUMERAL_BYTES;
    }
    if (!power && (word_is(s, "byte") || (*s == 'B' && !isalpha((unsigned char)s[1])))) {
        *end = s + (word_is(s, "bytes") ? 5 : word_is(s, "byte") ? 4 : 1);
        return LM_NUMERAL_BYTES;
    }
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (word_is(after, operations[i]) || (*after == ' ' && word_is(after + 1, operations[i]))) {
            *end = after + (*after == ' ') + strlen(operations[i]);
            return LM_NUMERAL_OPERATIONS;
        }
    *fits = !power || !isalpha((unsigned char)*after) || word_is(after, "param") || word_is(after, "token");
    return LM_NUMERAL_PLAIN;
}

size_t lm_read_numeral(const char *s, bool bytes, lm_numeral *out, size_t *tail)
{
    digits      d;
    const char *after, *end, *p = read_digits(s, &d);
    int         exponent;
    double      base;
    bool        fits;

    *out = (lm_numeral){ 0 };
    if (!strpbrk(d.text, "0123456789"))
        return 0;
    const char *number = read_exponent(p, &d, &exponent, &base);
    const char *unit = number + strspn(number, " ");
    int         power = base != 0 ? 0 : prefix_of(unit, bytes, &after);
    if (base != 0 || !power)
        after = unit;
    out->unit = unit_of(unit, after, power, &fits, &out->kibi, &end);
    if (!fits) {                     /* a word, not a unit */
        power = 0;
        end   = number;
    }
    if (!power && out->unit == LM_NUMERAL_PLAIN)
        end = number;
    if (!power && out->unit == LM_NUMERAL_PLAIN && (*number == 'x' || *number == 'X' || strncmp(unit, "×", strlen("×")) == 0)) {
        out->unit = LM_NUMERAL_TIMES;
        end       = *number == 'x' || *number == 'X' ? number + 1 : unit + strlen("×");
    }
    double x = lm_read_double(d.text, NULL), scale = base != 0 ? pow(base, exponent) : 1;
    bool   bare = base != 0 && (strcmp(d.text, "10") == 0 || strcmp(d.text, "2") == 0) && (*p == '^' || *p == '*' || (*p & 0x80));
    x           = bare ? scale : x * scale;
    out->power  = power;
    out->value  = x * pow(out->kibi ? 1024 : 1000, power);
    out->binary = x * pow(1024, power);
    out->whole  = power == 0 && !d.point && base == 0;
    out->half   = 0.5 * scale * pow(10, -d.decimals) * pow(out->kibi ? 1024 : 1000, power);
    for (size_t i = d.n; !d.point && i-- > 1 && d.text[i] == '0';)
        out->zeros++;
    if (out->whole || (base != 0 && !d.point))
        out->half = base != 0 ? fabs(x) * 1e-9 : 0;      /* written out: 32, 1e-5 */
    bool apart = out->unit == LM_NUMERAL_PERCENT || (!power && out->unit != LM_NUMERAL_PLAIN);
    if (tail)
        *tail = (size_t)((apart ? unit : power ? after : number) - s);
    return (size_t)(end - s);
}
