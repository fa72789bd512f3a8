/* jinja_format.c - "%s" % value, "{}".format(value) and format specifications. */
#include "text/jinja.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FIELD = 4096, MAX_DIGITS = 512 };

typedef struct spec {
    const jstr *fill;
    char    align;                       /* < > ^ = or 0 */
    char    sign;                        /* + - or space */
    bool    alternate, zero;
    char    group;                       /* , _ or 0 */
    int64_t width, precision;            /* -1: none */
    char    type;                        /* 0: none */
} spec;

/* ---- numbers as digits ---- */

static size_t int_digits(int64_t v, int base, bool upper, char *out)
{
    char reversed[72];
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t n = 0;

    do {
        reversed[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % (unsigned)base];
        u /= (unsigned)base;
    } while (u);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    return n;
}

static int base_of(char type)
{
    return type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
}

/* `sign prefix digits`, padded: zeros go between prefix and digits when `zero`. */
static void put_padded(jinja *m, jbuild *b, const char *prefix, const char *digits, size_t n, const spec *f)
{
    size_t n_prefix = strlen(prefix), length = n + n_prefix;
    size_t gap = f->width > (int64_t)length ? (size_t)f->width - length : 0;
    char align = f->align ? f->align : f->zero ? '=' : '>';
    size_t left = align == '<' || align == '=' ? 0 : align == '^' ? gap / 2 : gap;
    size_t inner = align == '=' ? gap : 0, right = gap - left - inner;

    while (left--)
        lm_jb_str(m, b, f->fill);
    lm_jb_add(m, b, prefix, n_prefix, false);
    while (inner--)
        f->zero ? lm_jb_puts(m, b, "0") : lm_jb_str(m, b, f->fill);
    lm_jb_add(m, b, digits, n, false);
    while (right--)
        lm_jb_str(m, b, f->fill);
}

/* Separators between groups of digits of the whole part. */
static size_t grouped(const char *digits, size_t n, char separator, size_t every, char *out)
{
    size_t whole = 0, o = 0;
    while (whole < n && ((digits[whole] >= '0' && digits[whole] <= '9') || every == 4))
        whole++;
    for (size_t i = 0; i < n; i++) {
        if (i && i < whole && (whole - i) % every == 0)
            out[o++] = separator;
        out[o++] = digits[i];
    }
    return o;
}

static void sign_prefix(bool negative, char sign, const char *base, char out[8])
{
    size_t n = 0;
    if (negative)
        out[n++] = '-';
    else if (sign == '+' || sign == ' ')
        out[n++] = sign;
    snprintf(out + n, 8 - n, "%s", base);
}

static bool put_int(jinja *m, jbuild *b, int64_t v, const spec *f)
{
    char digits[80], text[120], prefix[8];
    char type = f->type ? f->type : 'd';
    size_t n = int_digits(v, base_of(type), type == 'X', digits);

    if (f->group) {
        n = grouped(digits, n, f->group, type == 'd' ? 3 : 4, text);
    } else {
        memcpy(text, digits, n);
    }
    sign_prefix(v < 0, f->sign, !f->alternate ? "" : type == 'x' ? "0x" : type == 'X' ? "0X" : type == 'o' ? "0o" :
                type == 'b' ? "0b" : "", prefix);
    put_padded(m, b, prefix, text, n, f);
    return m->status == LM_OK;
}

static bool put_float(jinja *m, jbuild *b, double v, const spec *f)
{
    char digits[MAX_DIGITS + 400], text[2 * sizeof digits], prefix[8];
    char type = f->type == 'n' || f->type == '%' ? (f->type == 'n' ? 'g' : 'f') : f->type;
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    double size = fabs(f->type == '%' ? v * 100 : v);
    size_t n;

    if (precision > MAX_DIGITS)
        return lm_jinja_fail(m, LM_LIMIT, "a precision of more than %d digits", MAX_DIGITS);
    if (!type && f->precision < 0) {
        n = lm_float_text(size, digits);
    } else {
        n = lm_float_format(size, type ? type : 'g', precision, digits, sizeof digits);
        if (!type && !memchr(digits, '.', n) && !memchr(digits, 'e', n) && isfinite(size))
            n += (size_t)snprintf(digits + n, 4, ".0");
    }
    if (f->type == '%')
        digits[n++] = '%';
    if (f->group)
        n = grouped(digits, n, f->group, 3, text);
    else
        memcpy(text, digits, n);
    sign_prefix(signbit(v) && !isnan(v), f->sign, "", prefix);
    put_padded(m, b, prefix, text, n, f);
    return m->status == LM_OK;
}

static bool put_text(jinja *m, jbuild *b, const jstr *s, const spec *f)
{
    jval padded;

    if (f->precision >= 0)
        s = lm_jstr_slice(m, s, 0, lm_jstr_offset(s, (size_t)f->precision));
    if (!s || !lm_jstr_pad(m, s, f->width, f->fill, f->align == '>' ? '>' : f->align == '^' ? '=' : '<', &padded))
        return false;
    lm_jb_str(m, b, padded.s);
    return m->status == LM_OK;
}

/* ---- format(value, "spec") ---- */

static bool read_count(const jstr *s, size_t *at, int64_t *out)
{
    if (*at >= s->n || s->data[*at] < '0' || s->data[*at] > '9')
        return false;
    for (*out = 0; *at < s->n && s->data[*at] >= '0' && s->data[*at] <= '9'; (*at)++)
        *out = *out > MAX_FIELD ? *out : *out * 10 + (s->data[*at] - '0');
    return true;
}

static bool read_spec(jinja *m, const jstr *s, spec *f)
{
    size_t at = 0, n = 0;
    bool filled = false;

    *f = (spec){ .width = -1, .precision = -1, .sign = '-', .fill = lm_jstr_new(m, " ", 1, false) };
    if (s->n)
        lm_cp_at(s->data, 0, &n);
    if (n && n < s->n && strchr("<>^=", s->data[n]) && s->data[n]) {
        f->fill = lm_jstr_slice(m, s, 0, n);
        f->align = s->data[n];
        filled = true;
        at = n + 1;
    } else if (s->n && strchr("<>^=", s->data[0])) {
        f->align = s->data[at++];
    }
    if (at < s->n && strchr("+- ", s->data[at]))
        f->sign = s->data[at++];
    if (at < s->n && s->data[at] == '#')
        f->alternate = s->data[at++] == '#';
    if (at < s->n && s->data[at] == '0') {
        at++;
        f->fill = filled ? f->fill : lm_jstr_new(m, "0", 1, false);
        f->align = f->align ? f->align : '=';
    }
    read_count(s, &at, &f->width);
    if (at < s->n && (s->data[at] == ',' || s->data[at] == '_'))
        f->group = s->data[at++];
    if (at < s->n && s->data[at] == '.') {
        at++;
        if (!read_count(s, &at, &f->precision))
            return lm_jinja_fail(m, LM_FAILED, "format specifier missing precision");
    }
    if (at < s->n)
        f->type = s->data[at++];
    if (at < s->n || (f->type && !strchr("bcdeEfFgGnosxX%", f->type)))
        return lm_jinja_fail(m, LM_FAILED, "invalid format specifier '%.*s'", (int)(s->n < 40 ? s->n : 40), s->data);
    if (f->width > MAX_FIELD)
        return lm_jinja_fail(m, LM_LIMIT, "a field of more than %d characters", MAX_FIELD);
    return f->fill != NULL;
}

bool lm_jinja_format_value(jinja *m, jval v, const jstr *text, jbuild *out)
{
    spec f;

    if (!text->n) {
        lm_jb_value(m, out, v);
        return m->status == LM_OK;
    }
    if (!read_spec(m, text, &f))
        return false;
    bool is_real = f.type && strchr("eEfFgG%", f.type);
    if (v.type == J_STR && (!f.type || f.type == 's'))
        return put_text(m, out, v.s, &f);
    if (lm_jv_is_int(v) && (!f.type || strchr("bdoxXn", f.type))) {
        f.type = f.type == 'n' ? 'd' : f.type;
        return f.precision < 0 ? put_int(m, out, lm_jv_int_of(v), &f)
                               : lm_jinja_fail(m, LM_FAILED, "precision not allowed in integer format specifier");
    }
    if (lm_jv_is_int(v) && f.type == 'c') {
        jbuild one = { 0 };
        jval c;
        lm_jb_char(m, &one, (int32_t)(lm_jv_int_of(v) & 0x1FFFFF), false);
        return lm_jb_done(m, &one, false, &c) && put_text(m, out, c.s, &f);
    }
    if ((lm_jv_is_int(v) && is_real) || (v.type == J_FLOAT && (!f.type || is_real || f.type == 'n')))
        return put_float(m, out, v.type == J_FLOAT ? v.f : (double)lm_jv_int_of(v), &f);
    if (f.type && (v.type == J_STR || lm_jv_is_number(v)))
        return lm_jinja_fail(m, LM_FAILED, "unknown format code '%c' for object of type '%s'", f.type, lm_jv_type_name(v));
    return lm_jinja_fail(m, LM_FAILED, "unsupported format string passed to %s.__format__", lm_jv_type_name(v));
}

/* ---- "{0.name[key]!r:spec}".format(…) ---- */

typedef struct formatter {
    const jstr  *s;
    const jcall *args;
    int64_t      next;                   /* of {}; -1 once a number was given */
    bool         automatic;
} formatter;

static bool field_start(jinja *m, formatter *f, const jstr *name, jval *out)
{
    int64_t index;
    size_t at = 0;

    if (!name->n) {
        if (f->next < 0)
            return lm_jinja_fail(m, LM_FAILED, "cannot switch from manual field specification to automatic field numbering");
        index = f->next++;
        f->automatic = true;
    } else if (read_count(name, &at, &index) && at == name->n) {
        if (f->automatic)
            return lm_jinja_fail(m, LM_FAILED, "cannot switch from automatic field numbering to manual field specification");
        f->next = -1;
    } else {
        for (size_t i = 0; i < f->args->n_kw; i++) {
            if (lm_jstr_equal(f->args->kw[i].key, name)) {
                *out = f->args->kw[i].value;
                return true;
            }
        }
        return lm_jinja_fail(m, LM_FAILED, "format: no argument '%.*s'", (int)(name->n < 64 ? name->n : 64), name->data);
    }
    if ((size_t)index >= f->args->n_pos)
        return lm_jinja_fail(m, LM_FAILED, "replacement index %" PRId64 " out of range for positional args tuple", index);
    *out = f->args->pos[index];
    return true;
}

static bool field_value(jinja *m, formatter *f, const jstr *field, jval *out)
{
    size_t end = 0;

    while (end < field->n && field->data[end] != '.' && field->data[end] != '[')
        end++;
    const jstr *name = lm_jstr_slice(m, field, 0, end);
    if (!name || !field_start(m, f, name, out))
        return false;
    while (end < field->n) {
        bool item = field->data[end++] == '[';
        size_t from = end, at = 0;
        int64_t index;
        while (end < field->n && (item ? field->data[end] != ']' : field->data[end] != '.' && field->data[end] != '['))
            end++;
        name = lm_jstr_slice(m, field, from, end);
        if (!name || !name->n || (item && end == field->n))
            return lm_jinja_fail(m, LM_FAILED, "empty attribute in format string");
        end += item;
        jval key = lm_jv_of_str(name);
        if (item && read_count(name, &at, &index) && at == name->n)
            key = lm_jv_int(index);
        if (item ? !lm_jinja_item(m, *out, key, out) : !lm_jinja_attr(m, *out, name, out))
            return false;
    }
    return true;
}

static bool vformat(jinja *m, formatter *f, size_t from, size_t to, int depth, jbuild *b);

/* The field between braces at [from, to). */
static bool put_field(jinja *m, formatter *f, size_t from, size_t to, int depth, jbuild *b)
{
    const jstr *s = f->s, *text;
    size_t end = from;
    char conversion = 0;
    jbuild spec_text = { 0 }, field = { 0 };
    jval v, spec_value;

    while (end < to && s->data[end] != '!' && s->data[end] != ':')
        end += s->data[end] == '[' ? strcspn(s->data + end, "]") : 1;
    end = end > to ? to : end;
    const jstr *name = lm_jstr_slice(m, s, from, end);
    if (!name || !field_value(m, f, name, &v))
        return false;
    if (end < to && s->data[end] == '!') {
        conversion = end + 1 < to ? s->data[end + 1] : 0;
        end += 2;
        if (!conversion || !strchr("rsa", conversion) || (end < to && s->data[end] != ':'))
            return lm_jinja_fail(m, LM_FAILED, "unknown conversion specifier in format string");
    }
    if (end < to && !vformat(m, f, end + 1, to, depth + 1, &spec_text))
        return false;
    if (conversion) {
        if (conversion == 's' ? !lm_jv_str(m, v, &text) : !lm_jv_repr(m, v, &text))
            return false;
        v = lm_jv_of_str(text);
    }
    if (!lm_jb_done(m, &spec_text, false, &spec_value) || !lm_jinja_format_value(m, v, spec_value.s, &field) ||
        !lm_jb_done(m, &field, v.type == J_STR && v.s->safe, &v) || (s->safe && !lm_jstr_escape(m, v.s, &v.s)))
        return false;
    lm_jb_str(m, b, v.s);
    return m->status == LM_OK;
}

static bool vformat(jinja *m, formatter *f, size_t from, size_t to, int depth, jbuild *b)
{
    const jstr *s = f->s;

    if (depth > 2)
        return lm_jinja_fail(m, LM_FAILED, "max string recursion exceeded");
    for (size_t i = from; i < to; i++) {
        char c = s->data[i];
        if ((c == '{' || c == '}') && i + 1 < to && s->data[i + 1] == c && depth == 0) {
            lm_jb_slice(m, b, s, i, i + 1);
            i++;
        } else if (c == '}') {
            return lm_jinja_fail(m, LM_FAILED, "single '}' encountered in format string");
        } else if (c == '{') {
            size_t end = i + 1;
            int open = 1;
            for (; end < to; end++) {
                open += s->data[end] == '{' ? 1 : s->data[end] == '}' ? -1 : 0;
                if (!open)
                    break;
            }
            if (end == to)
                return lm_jinja_fail(m, LM_FAILED, "expected '}' before end of string");
            if (!put_field(m, f, i + 1, end, depth, b))
                return false;
            i = end;
        } else {
            lm_jb_slice(m, b, s, i, i + 1);
        }
    }
    return m->status == LM_OK;
}

bool lm_jinja_format(jinja *m, const jstr *format, const jcall *args, jval *out)
{
    /* field names are scanned with strcspn, which wants an end */
    const jstr *s = lm_jstr_concat(m, format, lm_jstr_new(m, "", 1, false));
    jbuild b = { 0 };

    if (!s)
        return false;
    formatter f = { .s = s, .args = args };
    return vformat(m, &f, 0, format->n, 0, &b) && lm_jb_done(m, &b, format->safe, out);
}

/* ---- "%d" % … ---- */

typedef struct percent {
    const jstr *s;
    size_t      at;
    jval        args;
    size_t      next;                    /* of a tuple, or whether the one value is used */
} percent;

static bool next_argument(jinja *m, percent *p, jval *out)
{
    size_t n = p->args.type == J_TUPLE ? p->args.l->n : 1;
    if (p->next >= n)
        return lm_jinja_fail(m, LM_FAILED, "not enough arguments for format string");
    *out = p->args.type == J_TUPLE ? p->args.l->items[p->next] : p->args;
    p->next++;
    return true;
}

static bool star_or_count(jinja *m, percent *p, int64_t *out)
{
    jval v;
    if (p->at < p->s->n && p->s->data[p->at] == '*') {
        p->at++;
        if (!next_argument(m, p, &v))
            return false;
        if (!lm_jv_is_int(v))
            return lm_jinja_fail(m, LM_FAILED, "* wants int");
        *out = lm_jv_int_of(v);
    } else {
        read_count(p->s, &p->at, out);
    }
    if (*out > MAX_FIELD || *out < -MAX_FIELD)
        return lm_jinja_fail(m, LM_LIMIT, "a field of more than %d characters", MAX_FIELD);
    return true;
}

static bool put_percent_int(jinja *m, jbuild *b, jval v, spec *f)
{
    char digits[80], padded[MAX_DIGITS + 80], prefix[8];
    int64_t i = lm_jv_is_int(v) ? lm_jv_int_of(v) : 0;

    if (v.type == J_FLOAT && f->type == 'd') {
        if (!(fabs(v.f) < 9e18))
            return lm_jinja_fail(m, LM_LIMIT, "an integer beyond 64 bits");
        i = (int64_t)v.f;
    } else if (!lm_jv_is_int(v)) {
        return lm_jinja_type_error(m, "%d and %x formats want a number, not", v);
    }
    size_t n = int_digits(i, base_of(f->type), f->type == 'X', digits), zeros = 0;
    if (f->precision > MAX_DIGITS)
        return lm_jinja_fail(m, LM_LIMIT, "a precision of more than %d digits", MAX_DIGITS);
    while ((int64_t)(n + zeros) < f->precision)
        padded[zeros++] = '0';
    memcpy(padded + zeros, digits, n);
    sign_prefix(i < 0, f->sign, !f->alternate ? "" : f->type == 'x' ? "0x" : f->type == 'X' ? "0X" : f->type == 'o' ? "0o" : "", prefix);
    put_padded(m, b, prefix, padded, n + zeros, f);
    return m->status == LM_OK;
}

static bool put_percent(jinja *m, jbuild *b, jval v, spec *f, bool safe)
{
    const jstr *text;
    jval number = v;

    switch (f->type) {
    case 'd': case 'x': case 'X': case 'o':
        return put_percent_int(m, b, v, f);
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        if (!lm_jv_is_number(number))
            return lm_jinja_type_error(m, "must be real number, not", v);
        return put_float(m, b, v.type == J_FLOAT ? v.f : (double)lm_jv_int_of(v), f);
    case 'c':
        if (lm_jv_is_int(v)) {
            jbuild one = { 0 };
            lm_jb_char(m, &one, (int32_t)(lm_jv_int_of(v) & 0x1FFFFF), false);
            if (!lm_jb_done(m, &one, false, &v))
                return false;
        }
        if (v.type != J_STR || lm_jstr_length(v.s) != 1)
            return lm_jinja_fail(m, LM_FAILED, "%%c requires int or char");
        text = v.s;
        break;
    default:
        if (f->type == 's' ? !lm_jv_str(m, v, &text) : !lm_jv_repr(m, v, &text))
            return false;
    }
    if (safe && !lm_jstr_escape(m, text, &text))
        return false;
    f->align = f->align == '<' ? '<' : '>';
    return put_text(m, b, text, f);
}

/* One directive; the '%' is behind us. */
static bool directive(jinja *m, percent *p, jbuild *b)
{
    const jstr *s = p->s;
    spec f = { .width = -1, .precision = -1, .sign = '-', .fill = lm_jstr_new(m, " ", 1, false) };
    jval v = { 0 };
    bool found, keyed = false;

    if (p->at < s->n && s->data[p->at] == '(') {
        size_t from = ++p->at;
        for (int open = 1; p->at < s->n; p->at++) {
            open += s->data[p->at] == '(' ? 1 : s->data[p->at] == ')' ? -1 : 0;
            if (!open)
                break;
        }
        if (p->at == s->n || p->args.type != J_DICT)
            return lm_jinja_fail(m, LM_FAILED, p->at == s->n ? "incomplete format key" : "format requires a mapping");
        const jstr *key = lm_jstr_slice(m, s, from, p->at++);
        if (!key || !lm_jdict_get(m, p->args.d, lm_jv_of_str(key), &v, &found))
            return false;
        if (!found)
            return lm_jinja_fail(m, LM_FAILED, "format: no key '%.*s'", (int)(key->n < 64 ? key->n : 64), key->data);
        keyed = true;
    }
    for (; p->at < s->n && strchr("-+ #0", s->data[p->at]); p->at++) {
        char c = s->data[p->at];
        f.align = c == '-' ? '<' : f.align;
        f.sign = c == '+' || (c == ' ' && f.sign != '+') ? c : f.sign;
        f.alternate |= c == '#';
        f.zero |= c == '0';
    }
    if (!f.fill || !star_or_count(m, p, &f.width))
        return false;
    if (f.width < -1) {
        f.width = -f.width;
        f.align = '<';
    }
    if (p->at < s->n && s->data[p->at] == '.') {
        p->at++;
        f.precision = 0;
        if (!star_or_count(m, p, &f.precision))
            return false;
    }
    while (p->at < s->n && strchr("hlL", s->data[p->at]))
        p->at++;
    if (p->at == s->n)
        return lm_jinja_fail(m, LM_FAILED, "incomplete format");
    f.type = s->data[p->at++];
    if (f.type == '%') {
        lm_jb_puts(m, b, "%");
        return m->status == LM_OK;
    }
    if (!strchr("diuoxXeEfFgGcrsa", f.type))
        return lm_jinja_fail(m, LM_FAILED, "unsupported format character '%c'", f.type);
    f.type = f.type == 'i' || f.type == 'u' ? 'd' : f.type;
    if (!keyed && !next_argument(m, p, &v))
        return false;
    return put_percent(m, b, v, &f, s->safe);
}

bool lm_jinja_percent(jinja *m, const jstr *format, jval args, jval *out)
{
    percent p = { .s = format, .args = args };
    jbuild b = { 0 };

    while (p.at < format->n) {
        const char *next = memchr(format->data + p.at, '%', format->n - p.at);
        size_t end = next ? (size_t)(next - format->data) : format->n;
        lm_jb_slice(m, &b, format, p.at, end);
        p.at = end + 1;
        if (next && !directive(m, &p, &b))
            return false;
    }
    bool mapping = args.type == J_DICT || args.type == J_LIST || args.type == J_UNDEFINED || args.type == J_RANGE;
    if (args.type == J_TUPLE ? p.next < args.l->n : !p.next && !mapping)
        return lm_jinja_fail(m, LM_FAILED, "not all arguments converted during string formatting");
    return lm_jb_done(m, &b, format->safe, out);
}
