/* claim.c - reading numbers: prefixes, groups of digits in every manner, powers of ten, bounds. */
#include "analysis/facts/claim.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"

/* ---- words before a number ---- */

static const struct { const char *word; int bound; bool about; } leads[] = {
    { "at least", 1, false },     { "more than", 1, false },  { "over", 1, false },          { "above", 1, false },
    { ">=", 1, false },           { "≥", 1, false },          { ">", 1, false },             { "at most", -1, false },
    { "less than", -1, false },   { "fewer than", -1, false }, { "up to", -1, false },        { "under", -1, false },
    { "below", -1, false },       { "<=", -1, false },        { "≤", -1, false },            { "<", -1, false },
    { "approximately", 0, true }, { "approx.", 0, true },     { "around", 0, true },         { "about", 0, true },
    { "roughly", 0, true },       { "nearly", 0, true },      { "almost", 0, true },         { "circa", 0, true },
    { "ca.", 0, true },           { "≈", 0, true },           { "~", 0, true },              { "∼", 0, true },
    { "top-", 0, false },         { "=", 0, false },          { " ", 0, false },
};

static const char *skip_leads(const char *s, lm_claimed *out)
{
    for (size_t i = 0; i < sizeof leads / sizeof *leads;) {
        size_t n    = strlen(leads[i].word);
        bool   word = isalpha((unsigned char)*leads[i].word) && leads[i].word[n - 1] != '-' && leads[i].word[n - 1] != '.';
        if (strncasecmp(s, leads[i].word, n) != 0 || (word && isalpha((unsigned char)s[n]))) {
            i++;
            continue;
        }
        out->bound = leads[i].bound ? leads[i].bound : out->bound;
        out->about |= leads[i].about;
        s += n;
        i = 0;
    }
    return s;
}

/* ---- digits ---- */

static size_t run_of_digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* The bytes of a separator of thousands at s when three digits and no fourth follow: "," "'" and spaces, thin ones too. */
static size_t group_mark(const char *s)
{
    static const char *const marks[] = { ",", "'", " ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89" };

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
        if (strncmp(p, small[i], strlen(small[i])) == 0) {
            *out  = *out * 10 + i;
            p += strlen(small[i]);
            found = true;
            i     = -1;
        }
    *out = minus ? -*out : *out;
    return found ? p : s;
}

static const char *skip_times(const char *s)
{
    while (*s == ' ')
        s++;
    if (*s == 'x' || *s == '*')
        s++;
    else if (strncmp(s, "×", strlen("×")) == 0 || strncmp(s, "·", strlen("·")) == 0)
        s += strlen("×");
    while (*s == ' ')
        s++;
    return s;
}

/* e-5, or × 10^-5 behind a number, or ^6 behind a ten. */
static const char *read_exponent(const char *s, digits *d, int *power, bool *found)
{
    char       *end;
    const char *times = skip_times(s), *small;

    *found = false;
    *power = 0;
    bool signed_power = (s[0] && (s[1] == '-' || s[1] == '+')) && isdigit((unsigned char)s[2]);
    if (tolower((unsigned char)*s) == 'e' && (isdigit((unsigned char)s[1]) || signed_power)) {
        *power = (int)strtol(s + 1, &end, 10);
        *found = true;
        return end;
    }
    bool ten = strcmp(d->text, "10") == 0;
    if (!ten && times != s && strncmp(times, "10", 2) == 0)
        s = times + 2;
    else if (!ten)
        return s;
    if (*s == '^' || (*s == '*' && s[1] == '*')) {
        const char *number = s + (*s == '^' ? 1 : 2);
        *power = (int)strtol(number, &end, 10);
        *found = end != number;                          /* or ** is the end of something bold */
        s      = *found ? end : s;
    } else if ((small = small_digits(s, power)) != s) {
        *found = true;
        s      = small;
    }
    if (*found && ten)
        memcpy(d->text, "1", 2);
    return s;
}

/* ---- what stands behind ---- */

static bool word_is(const char *s, const char *word)
{
    size_t n = strlen(word);
    return strncasecmp(s, word, n) == 0;
}

/* k M G T (also B for a billion, where it counts and does not measure) after a number. */
static int prefix_of(const char *s, bool bytes, const char **after)
{
    static const char letters[] = "kmgt";

    *after = s;
    if (word_is(s, "thousand") || word_is(s, "million") || word_is(s, "billion") || word_is(s, "trillion")) {
        *after = s + strcspn(s, " ,;)");
        return word_is(s, "thousand") ? 1 : word_is(s, "million") ? 2 : word_is(s, "billion") ? 3 : 4;
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

static lm_claim_unit unit_of(const char *s, const char *after, int power, bool *fits)
{
    *fits = true;
    if (*s == '%' || word_is(s, "percent") || word_is(s, "per cent"))
        return LM_CLAIM_PERCENT;
    if (power && (strncmp(after, "iB", 2) == 0 || ((*after == 'B' || *after == 'b') && !isalpha((unsigned char)after[1]))))
        return LM_CLAIM_BYTES;
    if (!power && (word_is(s, "byte") || (*s == 'B' && !isalpha((unsigned char)s[1]))))
        return LM_CLAIM_BYTES;
    if (word_is(after, "flop") || word_is(after, "mac"))
        return LM_CLAIM_OPERATIONS;
    *fits = !power || !isalpha((unsigned char)*after) || word_is(after, "param") || word_is(after, "token");
    return LM_CLAIM_PLAIN;
}

/* "4 × hidden", "124 to 125M", "32,768 - 131,072", "2/3": more than one number or symbol. */
static bool says_more(const char *s)
{
    const char *p = s + strspn(s, " ");

    if (*p == '/' || *p == '^')
        return isdigit((unsigned char)p[1]) || p[1] == ' ';
    if (*p == '-' || strncmp(p, "–", strlen("–")) == 0 || strncmp(p, "…", strlen("…")) == 0 || word_is(p, "to ") || word_is(p, "or "))
        return isdigit((unsigned char)p[strcspn(p, "0123456789")]) && strcspn(p, "0123456789") <= 4;
    p = skip_times(s);
    return p != s + strspn(s, " ") && (isdigit((unsigned char)*p) || (p[-1] == ' ' && isalpha((unsigned char)*p)));
}

static bool number_word(const char *s, lm_claimed *out)
{
    static const char *const words[] = { "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
                                         "twelve" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word_is(s, words[i]) && !isalpha((unsigned char)s[strlen(words[i])]) && s[strlen(words[i])] != '-') {
            out->value = out->binary = (double)i;
            out->whole = true;
            return true;
        }
    return false;
}

bool lm_read_claim(const char *text, bool bytes, lm_claimed *out)
{
    digits      d;
    const char *after, *s;
    int         exponent;
    bool        powered, fits;

    *out = (lm_claimed){ 0 };
    s    = skip_leads(text, out);
    if (number_word(s, out))
        return true;
    s = read_digits(s, &d);
    if (!strpbrk(d.text, "0123456789"))
        return false;
    s = read_exponent(s, &d, &exponent, &powered);
    out->other |= says_more(s);
    const char *unit = s + strspn(s, " ");
    int         power = powered ? 0 : prefix_of(unit, bytes, &after);
    if (powered || !power)
        after = unit;
    out->unit = unit_of(unit, after, power, &fits);
    if (!fits)
        power = 0;                   /* a word, not a unit */
    const char *end = power ? after : unit;
    out->other |= power && says_more(end);
    if (!power && (*s == 'x' || *s == 'X' || strncmp(unit, "×", strlen("×")) == 0))
        out->unit = LM_CLAIM_TIMES;
    if (*end == '+' && !isdigit((unsigned char)end[1]))
        out->bound = 1;
    double x    = lm_read_double(d.text, NULL) * pow(10, exponent);
    out->power  = power;
    out->value  = x * pow(1000, power);
    out->binary = x * pow(1024, power);
    out->whole  = power == 0 && !d.point && !powered;
    out->half   = 0.5 * pow(10, exponent - d.decimals) * pow(1000, power);
    if (out->whole || (powered && !d.point))
        out->half = powered ? fabs(x) * 1e-9 : 0;    /* written out: 32, 1e-5 */
    return true;
}
