/* jinja_percent.c - "%d" % value. */
#include "text/jinja/jinja_spec.h"

#include <math.h>
#include <string.h>

typedef struct percent {
    const jstr *s;
    size_t      at;
    jval        args;
    size_t      next;                    /* index in a tuple, or whether the single value was used */
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
        lm_jspec_count(p->s, &p->at, out);
    }
    if (*out > J_MAX_FIELD || *out < -J_MAX_FIELD)
        return lm_jinja_fail(m, LM_LIMIT, "a field of more than %d characters", J_MAX_FIELD);
    return true;
}

static bool put_percent_int(jinja *m, jbuild *b, jval v, jspec *f)
{
    char digits[80], padded[J_MAX_DIGITS + 80], prefix[8];
    int64_t i = lm_jv_is_int(v) ? lm_jv_int_of(v) : 0;

    if (v.type == J_FLOAT && f->type == 'd') {
        if (!(fabs(v.f) < 9e18))
            return lm_jinja_fail(m, LM_LIMIT, "an integer beyond 64 bits");
        i = (int64_t)v.f;
    } else if (v.type == J_BIG) {
        return lm_jinja_fail(m, LM_LIMIT, "an integer beyond 64 bits");
    } else if (!lm_jv_is_int(v)) {
        return lm_jinja_type_error(m, "%d and %x formats want a number, not", v);
    }
    size_t n = lm_jspec_digits(i, lm_jspec_base(f->type), f->type == 'X', digits), zeros = 0;
    if (f->precision > J_MAX_DIGITS)
        return lm_jinja_fail(m, LM_LIMIT, "a precision of more than %d digits", J_MAX_DIGITS);
    while ((int64_t)(n + zeros) < f->precision)
        padded[zeros++] = '0';
    memcpy(padded + zeros, digits, n);
    const char *base = f->type == 'x' ? "0x" : f->type == 'X' ? "0X" : f->type == 'o' ? "0o" : "";
    lm_jspec_prefix(i < 0, f->sign, f->alternate ? base : "", prefix);
    lm_jspec_padded(m, b, prefix, padded, n + zeros, f);
    return m->status == LM_OK;
}

static bool put_percent(jinja *m, jbuild *b, jval v, jspec *f, bool safe)
{
    const jstr *text;
    jval number = v;

    switch (f->type) {
    case 'd': case 'x': case 'X': case 'o':
        return put_percent_int(m, b, v, f);
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        if (!lm_jv_is_number(number))
            return lm_jinja_type_error(m, "must be real number, not", v);
        return lm_jspec_float(m, b, v.type == J_FLOAT ? v.f : (double)lm_jv_int_of(v), f);
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
    return lm_jspec_text(m, b, text, f);
}

/* Look up the argument of "(key)" in a mapping. */
static bool mapped_argument(jinja *m, percent *p, jval *out)
{
    const jstr *s = p->s;
    size_t from = ++p->at;
    bool found;

    for (int open = 1; p->at < s->n; p->at++) {
        open += s->data[p->at] == '(' ? 1 : s->data[p->at] == ')' ? -1 : 0;
        if (!open)
            break;
    }
    if (p->at == s->n || p->args.type != J_DICT)
        return lm_jinja_fail(m, LM_FAILED,
                             p->at == s->n ? "incomplete format key" : "format requires a mapping");
    const jstr *key = lm_jstr_slice(m, s, from, p->at++);
    if (!key || !lm_jdict_get(m, p->args.d, lm_jv_of_str(key), out, &found))
        return false;
    return found ||
           lm_jinja_fail(m, LM_FAILED, "format: no key '%.*s'", (int)(key->n < 64 ? key->n : 64), key->data);
}

static void read_flags(percent *p, jspec *f)
{
    for (; p->at < p->s->n && strchr("-+ #0", p->s->data[p->at]); p->at++) {
        char c = p->s->data[p->at];
        f->align = c == '-' ? '<' : f->align;
        f->sign = c == '+' || (c == ' ' && f->sign != '+') ? c : f->sign;
        f->alternate |= c == '#';
        f->zero |= c == '0';
    }
}

static bool read_width(jinja *m, percent *p, jspec *f)
{
    if (!star_or_count(m, p, &f->width))
        return false;
    if (f->width < -1) {
        f->width = -f->width;
        f->align = '<';
    }
    if (p->at < p->s->n && p->s->data[p->at] == '.') {
        p->at++;
        f->precision = 0;
        return star_or_count(m, p, &f->precision);
    }
    return true;
}

/* Format one directive, after its '%'. */
static bool directive(jinja *m, percent *p, jbuild *b)
{
    const jstr *s = p->s;
    jspec f = { .width = -1, .precision = -1, .sign = '-', .fill = lm_jstr_new(m, " ", 1, false) };
    jval v = { 0 };
    bool keyed = p->at < s->n && s->data[p->at] == '(';

    if (!f.fill || (keyed && !mapped_argument(m, p, &v)))
        return false;
    read_flags(p, &f);
    if (!read_width(m, p, &f))
        return false;
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
    bool mapping = args.type == J_DICT || args.type == J_LIST || args.type == J_UNDEFINED ||
                   args.type == J_RANGE;
    if (args.type == J_TUPLE ? p.next < args.l->n : !p.next && !mapping)
        return lm_jinja_fail(m, LM_FAILED, "not all arguments converted during string formatting");
    return lm_jb_done(m, &b, format->safe, out);
}
