/* jinja_filters_text.c - filters on text. */
#include "text/jinja/jinja.h"

#include <string.h>

static bool text_of(jinja *m, const jargs *a, const jstr **out) { return lm_jv_str(m, a->v[0], out); }

static bool give(const jstr *s, jval *out)
{
    *out = lm_jv_of_str(s);
    return s != NULL;
}

static bool change_case(jinja *m, const jargs *a, jcase how, jval *out)
{
    const jstr *s;
    return text_of(m, a, &s) && lm_jstr_case(m, s, how, &s) && give(s, out);
}

static bool filter_upper(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_UPPER, out); }
static bool filter_lower(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_LOWER, out); }
static bool filter_capitalize(jinja *m, const jargs *a, jval *out)
{
    return change_case(m, a, J_CAPITALIZE, out);
}

/* Words begin after -, white space and opening brackets but, unlike in str.title, not after apostrophes and
 * digits. */
static bool filter_title(jinja *m, const jargs *a, jval *out)
{
    const jstr *s, *part;
    jbuild b = { 0 };
    size_t n, at = 0;

    if (!text_of(m, a, &s))
        return false;
    while (at < s->n && m->status == LM_OK) {
        size_t end = at;
        int32_t c = lm_cp_at(s->data, at, &n);
        bool gap = lm_cp_is_space(c) || (c < 0x80 && strchr("-({[<", c));
        while (end < s->n) {
            c = lm_cp_at(s->data, end, &n);
            if ((lm_cp_is_space(c) || (c && c < 0x80 && strchr("-({[<", c))) != gap)
                break;
            end += n;
        }
        if (end == at)
            end = at + n;
        lm_cp_at(s->data, at, &n);
        /* item[0].upper() + item[1:].lower() */
        part = lm_jstr_slice(m, s, at, at + n);
        if (!part || !lm_jstr_case(m, part, J_UPPER, &part))
            return false;
        lm_jb_str(m, &b, part);
        part = lm_jstr_slice(m, s, at + n, end);
        if (!part || !lm_jstr_case(m, part, J_LOWER, &part))
            return false;
        lm_jb_str(m, &b, part);
        at = end;
    }
    return lm_jb_done(m, &b, false, out);
}

static bool filter_trim(jinja *m, const jargs *a, jval *out)
{
    const jstr *s, *chars = NULL;

    if (lm_jarg_given(a, 1) && a->v[1].type != J_NONE && !lm_jarg_str(m, a, 1, "strip arg", &chars))
        return false;
    return text_of(m, a, &s) && give(lm_jstr_strip(m, s, chars, true, true), out);
}

static bool filter_string(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    return text_of(m, a, &s) && give(s, out);
}

static bool filter_safe(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    jstr *safe = lm_jinja_new(m, 1, jstr);

    if (!safe || !text_of(m, a, &s))
        return false;
    *safe = *s;
    safe->safe = true;
    return give(safe, out);
}

static bool filter_escape(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    return text_of(m, a, &s) && lm_jstr_escape(m, s, &s) && give(s, out);
}

static bool filter_replace(jinja *m, const jargs *a, jval *out)
{
    const jstr *s, *old, *new;
    int64_t count = -1;

    if (a->v[3].type != J_NONE && !lm_jarg_int(m, a, 3, -1, "count", &count))
        return false;
    return text_of(m, a, &s) && (s = lm_jstr_plain(m, s)) && lm_jv_str(m, a->v[1], &old) &&
           lm_jv_str(m, a->v[2], &new) && lm_jstr_replace(m, s, old, new, count, out);
}

static bool repeat(jinja *m, const char *text, int64_t times, const jstr **out)
{
    jbuild b = { 0 };
    jval v;
    if (times > J_MAX_TEXT)
        return lm_jinja_fail(m, LM_LIMIT, "a text of more than %d bytes", J_MAX_TEXT);
    for (int64_t i = 0; i < times && m->status == LM_OK; i++)
        lm_jb_puts(m, &b, text);
    if (!lm_jb_done(m, &b, false, &v))
        return false;
    *out = v.s;
    return true;
}

static bool filter_indent(jinja *m, const jargs *a, jval *out)
{
    const jstr *indent = NULL, *s, *newline = lm_jstr_new(m, "\n", 1, false);
    bool first = lm_jarg_truth(a, 2), blank = lm_jarg_truth(a, 3);
    jvec lines = { 0 };
    jbuild b = { 0 };
    jval v;
    int64_t width;

    if (a->v[1].type == J_STR)
        indent = a->v[1].s;
    else if (!lm_jarg_int(m, a, 1, 4, "width", &width) || !repeat(m, " ", width, &indent))
        return false;
    if (!newline || !lm_jinja_arith(m, OP_ADD, a->v[0], lm_jv_of_str(newline), &v))
        return false;
    if (v.type != J_STR)
        return lm_jinja_fail(m, LM_FAILED, "indent wants a string");
    s = v.s;
    if (!lm_jstr_lines(m, s, false, &lines))
        return false;
    if (first)
        lm_jb_str(m, &b, indent);
    for (size_t i = 0; i < lines.n; i++) {
        const jstr *line = lines.items[i].s;
        if (i)
            lm_jb_puts(m, &b, "\n");
        if (i && (blank || line->n))
            lm_jb_str(m, &b, indent);
        lm_jb_str(m, &b, line);
    }
    return lm_jb_done(m, &b, s->safe, out);
}

static bool filter_format(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    jval args;

    if (a->rest.n_pos && a->rest.n_kw)
        return lm_jinja_fail(m, LM_FAILED, "can't handle positional and keyword arguments at the same time");
    if (!text_of(m, a, &s))
        return false;
    if (a->rest.n_kw) {
        jdict *d = lm_jinja_new(m, 1, jdict);
        for (size_t i = 0; d && i < a->rest.n_kw; i++)
            if (!lm_jdict_set(m, d, lm_jv_of_str(a->rest.kw[i].key), a->rest.kw[i].value))
                return false;
        args = lm_jv_of_dict(d);
    } else {
        jvec pos = { .items = a->rest.pos, .n = a->rest.n_pos };
        if (!lm_jvec_done(m, &pos, J_TUPLE, &args))
            return false;
    }
    return m->status == LM_OK && lm_jinja_percent(m, s, args, out);
}

static bool separator(jinja *m, jval v, const jstr **out)
{
    if (v.type != J_STR)
        return lm_jinja_fail(m, LM_FAILED, "separators must be str, not %s", lm_jv_type_name(v));
    *out = v.s;
    return true;
}

static bool filter_tojson(jinja *m, const jargs *a, jval *out)
{
    jdumps how = { .ensure_ascii = lm_jarg_truth(a, 1), .sort_keys = lm_jarg_truth(a, 4) };
    jval indent = a->v[2], separators = a->v[3];
    jvec pair = { 0 };

    if (lm_jv_is_int(indent)) {
        if (lm_jv_int_of(indent) > 1000)
            return lm_jinja_fail(m, LM_LIMIT, "an indent of more than 1000");
        if (!repeat(m, " ", lm_jv_int_of(indent), &how.indent))
            return false;
    } else if (indent.type == J_STR) {
        how.indent = indent.s;
    } else if (indent.type != J_MISSING && indent.type != J_NONE) {
        return lm_jinja_type_error(m, "indent must be an integer or a string, not", indent);
    }
    if (separators.type != J_MISSING && separators.type != J_NONE) {
        if (!lm_jv_collect(m, separators, &pair))
            return false;
        if (pair.n != 2)
            return lm_jinja_fail(m, LM_FAILED, "separators must be two");
        if (!separator(m, pair.items[0], &how.item) || !separator(m, pair.items[1], &how.key))
            return false;
    } else {
        how.item = how.indent ? lm_jstr_new(m, ",", 1, false) : lm_jstr_new(m, ", ", 2, false);
        how.key = lm_jstr_new(m, ": ", 2, false);
    }
    return how.item && how.key && lm_jinja_dumps(m, a->v[0], &how, out);
}

static bool unsupported(jinja *m, const jargs *a, jval *out)
{
    (void)a;
    (void)out;
    return lm_jinja_fail(m, LM_UNSUPPORTED,
                         "the filters center, filesizeformat, forceescape, pprint, random, striptags, "
                         "truncate, urlencode, urlize, wordcount, wordwrap and xmlattr are not supported");
}

const jbuiltin lm_jinja_text_filters[] = {
    { "upper", "s", filter_upper },
    { "lower", "s", filter_lower },
    { "capitalize", "s", filter_capitalize },
    { "title", "s", filter_title },
    { "trim", "value chars?", filter_trim },
    { "string", "object", filter_string },
    { "safe", "value", filter_safe },
    { "escape", "s", filter_escape },
    { "e", "s", filter_escape },
    { "replace", "s old new count?", filter_replace },
    { "indent", "s width? first? blank?", filter_indent },
    { "format", "value / *", filter_format },
    { "tojson", "x ensure_ascii? indent? separators? sort_keys?", filter_tojson },
    { "center", "value *", unsupported },
    { "filesizeformat", "value *", unsupported },
    { "forceescape", "value", unsupported },
    { "pprint", "value", unsupported },
    { "random", "seq", unsupported },
    { "striptags", "value", unsupported },
    { "truncate", "s *", unsupported },
    { "urlencode", "value", unsupported },
    { "urlize", "value *", unsupported },
    { "wordcount", "s", unsupported },
    { "wordwrap", "s *", unsupported },
    { "xmlattr", "d *", unsupported },
    { NULL, NULL, NULL },
};
