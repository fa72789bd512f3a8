/* jinja_spec.c - pad numbers and texts to their field. */
#include "text/jinja/jinja_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t lm_jspec_digits(int64_t v, int base, bool upper, char *out)
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

int lm_jspec_base(char type)
{
    return type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
}

/* Append prefix and digits, padded to the width; `zero`: with zeros between prefix and digits, unless an
 * alignment is given. */
void lm_jspec_padded(jinja *m, jbuild *b, const char *prefix, const char *digits, size_t n, const jspec *f)
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

/* Insert separators between groups of digits of the integer part. */
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

void lm_jspec_prefix(bool negative, char sign, const char *base, char out[8])
{
    size_t n = 0;
    if (negative)
        out[n++] = '-';
    else if (sign == '+' || sign == ' ')
        out[n++] = sign;
    snprintf(out + n, 8 - n, "%s", base);
}

bool lm_jspec_int(jinja *m, jbuild *b, int64_t v, const jspec *f)
{
    char digits[80], text[120], prefix[8];
    char type = f->type ? f->type : 'd';
    size_t n = lm_jspec_digits(v, lm_jspec_base(type), type == 'X', digits);

    if (f->group) {
        n = grouped(digits, n, f->group, type == 'd' ? 3 : 4, text);
    } else {
        memcpy(text, digits, n);
    }
    lm_jspec_prefix(v < 0, f->sign,
                    !f->alternate ? ""
                    : type == 'x' ? "0x"
                    : type == 'X' ? "0X"
                    : type == 'o' ? "0o"
                    : type == 'b' ? "0b"
                                  : "",
                    prefix);
    lm_jspec_padded(m, b, prefix, text, n, f);
    return m->status == LM_OK;
}

bool lm_jspec_float(jinja *m, jbuild *b, double v, const jspec *f)
{
    char digits[J_MAX_DIGITS + 400], text[2 * sizeof digits], prefix[8];
    char type = f->type == 'n' || f->type == '%' ? (f->type == 'n' ? 'g' : 'f') : f->type;
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    double size = fabs(f->type == '%' ? v * 100 : v);
    size_t n;

    if (precision > J_MAX_DIGITS)
        return lm_jinja_fail(m, LM_LIMIT, "a precision of more than %d digits", J_MAX_DIGITS);
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
    lm_jspec_prefix(signbit(v) && !isnan(v), f->sign, "", prefix);
    lm_jspec_padded(m, b, prefix, text, n, f);
    return m->status == LM_OK;
}

bool lm_jspec_text(jinja *m, jbuild *b, const jstr *s, const jspec *f)
{
    jval padded;

    if (f->precision >= 0)
        s = lm_jstr_slice(m, s, 0, lm_jstr_offset(s, (size_t)f->precision));
    if (!s || !lm_jstr_pad(m, s, f->width, f->fill,
                           f->align == '>'   ? '>'
                           : f->align == '^' ? '='
                                             : '<',
                           &padded))
        return false;
    lm_jb_str(m, b, padded.s);
    return m->status == LM_OK;
}

bool lm_jspec_count(const jstr *s, size_t *at, int64_t *out)
{
    if (*at >= s->n || s->data[*at] < '0' || s->data[*at] > '9')
        return false;
    for (*out = 0; *at < s->n && s->data[*at] >= '0' && s->data[*at] <= '9'; (*at)++)
        *out = *out > J_MAX_FIELD ? *out : *out * 10 + (s->data[*at] - '0');
    return true;
}
