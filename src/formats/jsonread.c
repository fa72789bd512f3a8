/* jsonread.c - the strict JSON reader. */
#include "formats/jsonread.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

lm_status lm_json_wrong(const lm_json *j, lm_error *e, const char *format, ...)
{
    char    text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_status s = lm_fail(e, LM_BAD_MODEL, j->where, (int64_t)(j->base + j->at), "%s", text);
    lm_fail_in(e, j->file);
    return s;
}

/* Fail with "expected X, found Y" at the current position. */
static lm_status expected(const lm_json *j, const char *what, lm_error *e)
{
    if (j->at >= j->size)
        return lm_json_wrong(j, e, "JSON: expected %s, found the end", what);
    if (j->text[j->at] > 0x20 && j->text[j->at] < 0x7f)
        return lm_json_wrong(j, e, "JSON: expected %s, found '%c'", what, j->text[j->at]);
    return lm_json_wrong(j, e, "JSON: expected %s, found byte 0x%02x", what, (unsigned char)j->text[j->at]);
}

static void skip_space(lm_json *j)
{
    while (j->at < j->size) {
        char c = j->text[j->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return;
        j->at++;
    }
}

char lm_json_peek(lm_json *j)
{
    skip_space(j);
    return j->at < j->size ? j->text[j->at] : 0;
}

lm_status lm_json_open(lm_json *j, char bracket, bool *more, lm_error *e)
{
    if (lm_json_peek(j) != bracket || j->at >= j->size)
        return expected(j, bracket == '{' ? "'{'" : "'['", e);
    if (j->depth == j->max_depth)
        return lm_json_wrong(j, e, "JSON: nested deeper than %u levels", j->max_depth);
    j->depth++;
    j->at++;
    if (lm_json_peek(j) == (bracket == '{' ? '}' : ']')) {
        j->at++;
        j->depth--;
        *more = false;
    } else {
        *more = true;
    }
    return LM_OK;
}

lm_status lm_json_next(lm_json *j, char bracket, bool *more, lm_error *e)
{
    char c = lm_json_peek(j);

    if (c == ',') {
        j->at++;
        *more = true;
        return LM_OK;
    }
    if (c != (bracket == '{' ? '}' : ']'))
        return expected(j, bracket == '{' ? "',' or '}'" : "',' or ']'", e);
    j->at++;
    j->depth--;
    *more = false;
    return LM_OK;
}

/* Read the four digits after "\u". */
static lm_status read_unit(lm_json *j, uint32_t *out, lm_error *e)
{
    uint32_t u = 0;

    for (int i = 0; i < 4; i++) {
        int d = j->at < j->size ? lm_hex_digit(j->text[j->at]) : -1;
        if (d < 0)
            return expected(j, "a hexadecimal digit", e);
        u = u << 4 | (uint32_t)d;
        j->at++;
    }
    *out = u;
    return LM_OK;
}

/* Decode what follows a backslash into `to`: the result is never longer than the escape itself. */
static lm_status read_escape(lm_json *j, char *to, size_t *written, lm_error *e)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char              c = j->at < j->size ? j->text[j->at] : 0;
    const char       *known = c ? strchr(from, c) : NULL;
    uint32_t          u = 0, low = 0;

    if (known) {
        j->at++;
        *to      = into[known - from];
        *written = 1;
        return LM_OK;
    }
    if (c != 'u')
        return expected(j, "an escape", e);
    j->at++;
    LM_TRY(read_unit(j, &u, e));
    if (u >= 0xdc00 && u <= 0xdfff)
        return lm_json_wrong(j, e, "JSON: lone surrogate \\u%04x", u);
    if (u >= 0xd800 && u <= 0xdbff) {
        if (j->size - j->at < 2 || j->text[j->at] != '\\' || j->text[j->at + 1] != 'u')
            return lm_json_wrong(j, e, "JSON: lone surrogate \\u%04x", u);
        j->at += 2;
        LM_TRY(read_unit(j, &low, e));
        if (low < 0xdc00 || low > 0xdfff)
            return lm_json_wrong(j, e, "JSON: lone surrogate \\u%04x", u);
        u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
    }
    *written = lm_utf8_encode(u, to);
    return LM_OK;
}

lm_status lm_json_string(lm_json *j, lm_view *out, lm_error *e)
{
    char  *start, *to;
    size_t n = 0;

    if (lm_json_peek(j) != '"')
        return expected(j, "a string", e);
    j->at++;
    start = to = j->text + j->at;
    for (;;) {
        if (j->at >= j->size)
            return lm_json_wrong(j, e, "JSON: the text ends inside a string");
        unsigned char c = (unsigned char)j->text[j->at];
        if (c == '"')
            break;
        if (c < 0x20)
            return lm_json_wrong(j, e, "JSON: control character 0x%02x in a string", c);
        if (c == '\\') {
            j->at++;
            LM_TRY(read_escape(j, to, &n, e));
            to += n;
            continue;
        }
        lm_utf8 character = lm_utf8_next(j->text + j->at, j->size - j->at);
        if (character.state != LM_UTF8_GOOD)
            return lm_json_wrong(j, e, "JSON: byte 0x%02x is not UTF-8", c);
        if (to != j->text + j->at)
            memmove(to, j->text + j->at, character.size);
        to += character.size;
        j->at += character.size;
    }
    j->at++;
    *to  = 0;                      /* at the latest in place of the closing quote */
    *out = (lm_view){ start, (size_t)(to - start) };
    return LM_OK;
}

lm_status lm_json_name(lm_json *j, lm_view *out, lm_error *e)
{
    LM_TRY(lm_json_string(j, out, e));
    if (lm_json_peek(j) != ':')
        return expected(j, "':'", e);
    j->at++;
    return LM_OK;
}

static bool is_digit(const lm_json *j)
{
    return j->at < j->size && j->text[j->at] >= '0' && j->text[j->at] <= '9';
}

/* Convert digits to a number; false: it does not fit. */
static bool read_digits(const char *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
            return false;
    *out = v;
    return true;
}

lm_status lm_json_u64(lm_json *j, const char *what, uint64_t *out, lm_error *e)
{
    size_t start;

    skip_space(j);
    start = j->at;
    while (is_digit(j))
        j->at++;
    if (j->at == start || (j->text[start] == '0' && j->at - start > 1) ||
        (j->at < j->size && strchr(".eE", j->text[j->at]) && j->text[j->at])) {
        j->at = start;
        return lm_json_wrong(j, e, "%s is not a whole number", what);
    }
    if (!read_digits(j->text + start, j->at - start, out)) {
        j->at = start;
        return lm_json_wrong(j, e, "%s does not fit 64 bits", what);
    }
    return LM_OK;
}

static lm_status skip_digits(lm_json *j, lm_error *e)
{
    if (!is_digit(j))
        return expected(j, "a digit", e);
    while (is_digit(j))
        j->at++;
    return LM_OK;
}

/* Skip a fraction and an exponent, if present. `*whole`: set to false by either. */
static lm_status skip_fraction(lm_json *j, bool *whole, lm_error *e)
{
    if (j->at < j->size && j->text[j->at] == '.') {
        *whole = false;
        j->at++;
        LM_TRY(skip_digits(j, e));
    }
    if (j->at < j->size && (j->text[j->at] == 'e' || j->text[j->at] == 'E')) {
        *whole = false;
        j->at++;
        if (j->at < j->size && (j->text[j->at] == '+' || j->text[j->at] == '-'))
            j->at++;
        LM_TRY(skip_digits(j, e));
    }
    return LM_OK;
}

static lm_status read_word(lm_json *j, const char *word, lm_meta_value v, lm_meta_value *out, lm_error *e)
{
    size_t n = strlen(word);

    if (j->size - j->at < n || memcmp(j->text + j->at, word, n))
        return expected(j, "a value", e);
    j->at += n;
    *out = v;
    return LM_OK;
}

static lm_status read_number(lm_json *j, lm_meta_value *out, lm_error *e)
{
    char     text[128];
    size_t   start = j->at, digits, n;
    bool     negative = j->text[j->at] == '-', whole = true;
    uint64_t u;

    j->at += negative;
    if (negative && j->at < j->size && j->text[j->at] == 'I')
        return read_word(j, "Infinity", (lm_meta_value){ .kind = LM_META_FLOAT, .f = -INFINITY }, out, e);
    digits = j->at;
    while (is_digit(j))
        j->at++;
    if (j->at == digits || (j->text[digits] == '0' && j->at - digits > 1))
        return lm_json_wrong(j, e, "JSON: not a number");
    n = j->at - digits;
    LM_TRY(skip_fraction(j, &whole, e));
    if (whole && read_digits(j->text + digits, n, &u) && !(negative && u > (uint64_t)INT64_MAX + 1)) {
        *out = negative && u ? (lm_meta_value){ .kind = LM_META_INT, .i = (int64_t)(0 - u) }
                             : (lm_meta_value){ .kind = LM_META_UINT, .u = u };
        return LM_OK;
    }
    n = j->at - start;
    if (n >= sizeof text)
        return lm_json_wrong(j, e, "JSON: a number of %zu characters", n);
    memcpy(text, j->text + start, n);
    text[n] = 0;
    double f = lm_read_double(text, NULL);
    if (!isfinite(f))
        return lm_json_wrong(j, e, "JSON: the number does not fit a double");
    *out = (lm_meta_value){ .kind = LM_META_FLOAT, .f = f };
    return LM_OK;
}

lm_status lm_json_scalar(lm_json *j, lm_meta_value *out, lm_error *e)
{
    lm_view s;

    switch (lm_json_peek(j)) {
    case '"':
        LM_TRY(lm_json_string(j, &s, e));
        *out = (lm_meta_value){ .kind = LM_META_STRING, .s = s };
        return LM_OK;
    case 't':
        return read_word(j, "true", (lm_meta_value){ .kind = LM_META_BOOL, .b = true }, out, e);
    case 'f':
        return read_word(j, "false", (lm_meta_value){ .kind = LM_META_BOOL, .b = false }, out, e);
    case 'n':
        return read_word(j, "null", (lm_meta_value){ .kind = LM_META_NULL }, out, e);
    case 'I':
        return read_word(j, "Infinity", (lm_meta_value){ .kind = LM_META_FLOAT, .f = INFINITY }, out, e);
    case 'N':
        return read_word(j, "NaN", (lm_meta_value){ .kind = LM_META_FLOAT, .f = NAN }, out, e);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return read_number(j, out, e);
    default:
        return expected(j, "a value", e);
    }
}

lm_status lm_json_skip(lm_json *j, lm_error *e)
{
    char          c = lm_json_peek(j);
    lm_meta_value v;
    lm_view       name;
    bool          more;

    if (c != '{' && c != '[')
        return lm_json_scalar(j, &v, e);
    LM_TRY(lm_json_open(j, c, &more, e));
    while (more) {
        if (c == '{')
            LM_TRY(lm_json_name(j, &name, e));
        LM_TRY(lm_json_skip(j, e));
        LM_TRY(lm_json_next(j, c, &more, e));
    }
    return LM_OK;
}

lm_status lm_json_end(lm_json *j, lm_error *e)
{
    lm_json_peek(j);
    return j->at < j->size ? lm_json_wrong(j, e, "JSON: text after the end of the document") : LM_OK;
}
