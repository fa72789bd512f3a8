/* jinja_format.c - "{}".format(value) and format(value, "spec"). */
#include "text/jinja/jinja_spec.h"

#include <inttypes.h>
#include <string.h>

/* ---- format(value, "spec") ---- */

static bool is_one_of(const jstr *s, size_t at, const char *set)
{
    return at < s->n && s->data[at] && strchr(set, s->data[at]);
}

/* Read fill, alignment, sign, "#" and "0". Returns where the width begins. */
static size_t read_layout(jinja *m, const jstr *s, jspec *f)
{
    size_t at = 0, n = 0;
    bool filled = false;

    if (s->n)
        lm_cp_at(s->data, 0, &n);
    if (n && is_one_of(s, n, "<>^=")) {
        f->fill = lm_jstr_slice(m, s, 0, n);
        f->align = s->data[n];
        filled = true;
        at = n + 1;
    } else if (is_one_of(s, 0, "<>^=")) {
        f->align = s->data[at++];
    }
    if (is_one_of(s, at, "+- "))
        f->sign = s->data[at++];
    if (is_one_of(s, at, "#"))
        f->alternate = s->data[at++] == '#';
    if (is_one_of(s, at, "0")) {
        at++;
        f->fill = filled ? f->fill : lm_jstr_new(m, "0", 1, false);
        f->zero = !filled && !f->align;
        f->align = f->align ? f->align : '=';
    }
    return at;
}

static bool read_spec(jinja *m, const jstr *s, jspec *f)
{
    *f = (jspec){ .width = -1, .precision = -1, .fill = lm_jstr_new(m, " ", 1, false) };
    size_t at = read_layout(m, s, f);
    lm_jspec_count(s, &at, &f->width);
    if (is_one_of(s, at, ",_"))
        f->group = s->data[at++];
    if (is_one_of(s, at, ".")) {
        at++;
        if (!lm_jspec_count(s, &at, &f->precision))
            return lm_jinja_fail(m, LM_FAILED, "format specifier missing precision");
    }
    if (at < s->n)
        f->type = s->data[at++];
    if (at < s->n || (f->type && !strchr("bcdeEfFgGnosxX%", f->type)))
        return lm_jinja_fail(m, LM_FAILED, "invalid format specifier '%.*s'", (int)(s->n < 40 ? s->n : 40),
                             s->data);
    if (f->width > J_MAX_FIELD)
        return lm_jinja_fail(m, LM_LIMIT, "a field of more than %d characters", J_MAX_FIELD);
    return f->fill != NULL;
}

static bool format_str(jinja *m, const jstr *s, jspec *f, jbuild *out)
{
    if (f->sign || f->alternate || f->group || (f->align == '=' && !f->zero))
        return lm_jinja_fail(m, LM_FAILED,
                             "sign, '#', ',' and '=' are not allowed in a string's format specifier");
    return lm_jspec_text(m, out, s, f);
}

static bool format_int(jinja *m, int64_t i, jspec *f, jbuild *out)
{
    if (f->type == 'c') {
        jbuild one = { 0 };
        jval c;
        lm_jb_char(m, &one, (int32_t)(i & 0x1FFFFF), false);
        return lm_jb_done(m, &one, false, &c) && lm_jspec_text(m, out, c.s, f);
    }
    f->type = f->type == 'n' ? 'd' : f->type;
    return f->precision < 0
               ? lm_jspec_int(m, out, i, f)
               : lm_jinja_fail(m, LM_FAILED, "precision not allowed in integer format specifier");
}

bool lm_jinja_format_value(jinja *m, jval v, const jstr *text, jbuild *out)
{
    jspec f;

    if (!text->n) {
        lm_jb_value(m, out, v);
        return m->status == LM_OK;
    }
    if (!read_spec(m, text, &f))
        return false;
    bool is_int = lm_jv_is_int(v), is_real = f.type && strchr("eEfFgG%", f.type);
    if (v.type == J_STR && (!f.type || f.type == 's'))
        return format_str(m, v.s, &f, out);
    if (is_int && (!f.type || strchr("bcdoxXn", f.type)))
        return format_int(m, lm_jv_int_of(v), &f, out);
    if ((is_int && is_real) || (v.type == J_FLOAT && (!f.type || is_real || f.type == 'n')))
        return lm_jspec_float(m, out, v.type == J_FLOAT ? v.f : (double)lm_jv_int_of(v), &f);
    if (f.type && (v.type == J_STR || lm_jv_is_number(v)))
        return lm_jinja_fail(m, LM_FAILED, "unknown format code '%c' for object of type '%s'", f.type,
                             lm_jv_type_name(v));
    return lm_jinja_fail(m, LM_FAILED, "unsupported format string passed to %s.__format__",
                         lm_jv_type_name(v));
}

/* ---- "{0.name[key]!r:spec}".format(…) ---- */

typedef struct formatter {
    const jstr  *s;
    const jcall *args;
    int64_t      next;                   /* index of the next {}; -1 after an explicit number */
    bool         automatic;
} formatter;

static bool field_start(jinja *m, formatter *f, const jstr *name, jval *out)
{
    int64_t index;
    size_t at = 0;

    if (!name->n) {
        if (f->next < 0)
            return lm_jinja_fail(
                m, LM_FAILED, "cannot switch from manual field specification to automatic field numbering");
        index = f->next++;
        f->automatic = true;
    } else if (lm_jspec_count(name, &at, &index) && at == name->n) {
        if (f->automatic)
            return lm_jinja_fail(
                m, LM_FAILED, "cannot switch from automatic field numbering to manual field specification");
        f->next = -1;
    } else {
        for (size_t i = 0; i < f->args->n_kw; i++) {
            if (lm_jstr_equal(f->args->kw[i].key, name)) {
                *out = f->args->kw[i].value;
                return true;
            }
        }
        return lm_jinja_fail(m, LM_FAILED, "format: no argument '%.*s'", (int)(name->n < 64 ? name->n : 64),
                             name->data);
    }
    if ((size_t)index >= f->args->n_pos)
        return lm_jinja_fail(m, LM_FAILED,
                             "replacement index %" PRId64 " out of range for positional args tuple", index);
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
        while (end < field->n &&
               (item ? field->data[end] != ']' : field->data[end] != '.' && field->data[end] != '['))
            end++;
        name = lm_jstr_slice(m, field, from, end);
        if (!name || !name->n || (item && end == field->n))
            return lm_jinja_fail(m, LM_FAILED, "empty attribute in format string");
        end += item;
        jval key = lm_jv_of_str(name);
        if (item && lm_jspec_count(name, &at, &index) && at == name->n)
            key = lm_jv_int(index);
        if (item ? !lm_jinja_item(m, *out, key, out) : !lm_jinja_attr(m, *out, name, out))
            return false;
    }
    return true;
}

static bool vformat(jinja *m, formatter *f, size_t from, size_t to, int depth, jbuild *b);

/* Apply "!r" and the like at *end, and move *end past it. */
static bool convert(jinja *m, const jstr *s, size_t *end, size_t to, jval *v)
{
    const jstr *text;

    if (*end >= to || s->data[*end] != '!')
        return true;
    char conversion = *end + 1 < to ? s->data[*end + 1] : 0;
    *end += 2;
    if (!conversion || !strchr("rsa", conversion) || (*end < to && s->data[*end] != ':'))
        return lm_jinja_fail(m, LM_FAILED, "unknown conversion specifier in format string");
    if (conversion == 's' ? !lm_jv_str(m, *v, &text) : !lm_jv_repr(m, *v, &text))
        return false;
    *v = lm_jv_of_str(text);
    return true;
}

/* Append the field between braces at [from, to). */
static bool put_field(jinja *m, formatter *f, size_t from, size_t to, int depth, jbuild *b)
{
    const jstr *s = f->s;
    size_t end = from;
    jbuild spec_text = { 0 }, field = { 0 };
    jval v, spec_value;

    while (end < to && s->data[end] != '!' && s->data[end] != ':')
        end += s->data[end] == '[' ? strcspn(s->data + end, "]") : 1;
    end = end > to ? to : end;
    const jstr *name = lm_jstr_slice(m, s, from, end);
    if (!name || !field_value(m, f, name, &v) || !convert(m, s, &end, to, &v))
        return false;
    if (end < to && !vformat(m, f, end + 1, to, depth + 1, &spec_text))
        return false;
    if (!lm_jb_done(m, &spec_text, false, &spec_value) ||
        !lm_jinja_format_value(m, v, spec_value.s, &field) ||
        !lm_jb_done(m, &field, v.type == J_STR && v.s->safe, &v) ||
        (s->safe && !lm_jstr_escape(m, v.s, &v.s)))
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
    /* field names are scanned with strcspn, which needs a terminating NUL */
    const jstr *end = lm_jstr_new(m, "", 1, false), *s = end ? lm_jstr_concat(m, format, end) : NULL;
    jbuild b = { 0 };

    if (!s)
        return false;
    formatter f = { .s = s, .args = args };
    return vformat(m, &f, 0, format->n, 0, &b) && lm_jb_done(m, &b, format->safe, out);
}
