/* jinja_str_methods.c - methods of str that test or change its characters: upper, isdigit, join, center … */
#include "text/jinja/jinja.h"

static bool change_case(jinja *m, const jargs *a, jcase how, jval *out)
{
    const jstr *s;
    if (!lm_jstr_case(m, a->v[0].s, how, &s))
        return false;
    *out = lm_jv_of_str(s);
    return true;
}

static bool str_upper(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_UPPER, out); }
static bool str_lower(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_LOWER, out); }
static bool str_title(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_TITLE, out); }
static bool str_capitalize(jinja *m, const jargs *a, jval *out)
{
    return change_case(m, a, J_CAPITALIZE, out);
}
static bool str_swapcase(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_SWAPCASE, out); }
static bool str_casefold(jinja *m, const jargs *a, jval *out) { return change_case(m, a, J_CASEFOLD, out); }

/* Return whether all characters satisfy `is`; an empty string does so only with `empty`. */
static bool all(jinja *m, const jargs *a, bool (*is)(int32_t), bool empty, jval *out)
{
    const jstr *s = a->v[0].s;
    bool yes = s->n ? true : empty;
    size_t n;

    for (size_t i = 0; yes && i < s->n; i += n)
        yes = is(lm_cp_at(s->data, i, &n));
    *out = lm_jv_bool(yes);
    return lm_jinja_spend(m, s->n / 256);
}

static bool is_alnum(int32_t c) { return lm_cp_is_alpha(c) || lm_cp_is_numeric(c); }
static bool is_ascii(int32_t c) { return c < 0x80; }

static bool str_isalpha(jinja *m, const jargs *a, jval *out) { return all(m, a, lm_cp_is_alpha, false, out); }
static bool str_isalnum(jinja *m, const jargs *a, jval *out) { return all(m, a, is_alnum, false, out); }
static bool str_isdigit(jinja *m, const jargs *a, jval *out) { return all(m, a, lm_cp_is_digit, false, out); }
static bool str_isdecimal(jinja *m, const jargs *a, jval *out)
{
    return all(m, a, lm_cp_is_decimal, false, out);
}
static bool str_isnumeric(jinja *m, const jargs *a, jval *out)
{
    return all(m, a, lm_cp_is_numeric, false, out);
}
static bool str_isspace(jinja *m, const jargs *a, jval *out) { return all(m, a, lm_cp_is_space, false, out); }
static bool str_isprintable(jinja *m, const jargs *a, jval *out)
{
    return all(m, a, lm_cp_is_printable, true, out);
}
static bool str_isascii(jinja *m, const jargs *a, jval *out) { return all(m, a, is_ascii, true, out); }

static bool str_islower(jinja *m, const jargs *a, jval *out)
{
    *out = lm_jv_bool(lm_jstr_is_lower(a->v[0].s));
    return lm_jinja_spend(m, a->v[0].s->n / 64);
}

static bool str_isupper(jinja *m, const jargs *a, jval *out)
{
    *out = lm_jv_bool(lm_jstr_is_upper(a->v[0].s));
    return lm_jinja_spend(m, a->v[0].s->n / 64);
}

static bool str_join(jinja *m, const jargs *a, jval *out)
{
    const jstr *sep = a->v[0].s;
    jvec items = { 0 };
    jbuild b = { 0 };

    if (!lm_jv_collect(m, a->v[1], &items))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        const jstr *piece;
        if (items.items[i].type != J_STR && !sep->safe)
            return lm_jinja_fail(m, LM_FAILED, "sequence item %zu: expected str instance, %s found", i,
                                 lm_jv_type_name(items.items[i]));
        if (!lm_jv_str(m, items.items[i], &piece) || (sep->safe && !lm_jstr_escape(m, piece, &piece)))
            return false;
        if (i)
            lm_jb_str(m, &b, sep);
        lm_jb_str(m, &b, piece);
    }
    return lm_jb_done(m, &b, sep->safe, out);
}

bool lm_jstr_pad(jinja *m, const jstr *s, int64_t width, const jstr *fill, char align, jval *out)
{
    int64_t length = (int64_t)lm_jstr_length(s), pad = width - length;
    jbuild b = { 0 };

    if (pad > J_MAX_TEXT)
        return lm_jinja_fail(m, LM_LIMIT, "a text of more than %d bytes", J_MAX_TEXT);
    int64_t left = pad <= 0 || align == '<' ? 0 : align == '>' ? pad : pad / 2 + (pad & width & 1);
    if (align == '=')                                        /* format()'s '^' puts the odd fill character on
                                                                the right */
        left = pad <= 0 ? 0 : pad / 2;
    for (int64_t i = 0; i < left && m->status == LM_OK; i++)
        lm_jb_str(m, &b, fill);
    lm_jb_str(m, &b, s);
    for (int64_t i = left; i < pad && m->status == LM_OK; i++)
        lm_jb_str(m, &b, fill);
    return lm_jb_done(m, &b, s->safe, out);
}

static bool pad(jinja *m, const jargs *a, char align, jval *out)
{
    const jstr *fill = lm_jstr_new(m, " ", 1, false);
    int64_t width;

    if (!fill || !lm_jarg_int(m, a, 1, 0, "width", &width))
        return false;
    if (lm_jarg_given(a, 2) && !lm_jarg_str(m, a, 2, "fill character", &fill))
        return false;
    if (lm_jstr_length(fill) != 1)
        return lm_jinja_fail(m, LM_FAILED, "the fill character must be exactly one character long");
    return lm_jstr_pad(m, a->v[0].s, width, fill, align, out);
}

static bool str_center(jinja *m, const jargs *a, jval *out) { return pad(m, a, '^', out); }
static bool str_ljust(jinja *m, const jargs *a, jval *out) { return pad(m, a, '<', out); }
static bool str_rjust(jinja *m, const jargs *a, jval *out) { return pad(m, a, '>', out); }

static bool str_zfill(jinja *m, const jargs *a, jval *out)
{
    const jstr *s = a->v[0].s;
    int64_t width;
    jbuild b = { 0 };
    size_t sign = s->n && (s->data[0] == '+' || s->data[0] == '-') ? 1 : 0;

    if (!lm_jarg_int(m, a, 1, 0, "width", &width))
        return false;
    if (width > J_MAX_TEXT)
        return lm_jinja_fail(m, LM_LIMIT, "a text of more than %d bytes", J_MAX_TEXT);
    lm_jb_slice(m, &b, s, 0, sign);
    for (int64_t i = (int64_t)lm_jstr_length(s); i < width && m->status == LM_OK; i++)
        lm_jb_puts(m, &b, "0");
    lm_jb_slice(m, &b, s, sign, s->n);
    return lm_jb_done(m, &b, s->safe, out);
}

static bool str_format(jinja *m, const jargs *a, jval *out)
{
    return lm_jinja_format(m, a->v[0].s, &a->rest, out);
}

static bool unsupported(jinja *m, const jargs *a, jval *out)
{
    (void)a;
    (void)out;
    return lm_jinja_fail(m, LM_UNSUPPORTED,
                         "the methods encode, expandtabs, format_map, isidentifier, istitle, maketrans and "
                         "translate are not supported");
}

const jbuiltin lm_jinja_str_methods[] = {
    { "upper", "self /", str_upper },
    { "lower", "self /", str_lower },
    { "title", "self /", str_title },
    { "capitalize", "self /", str_capitalize },
    { "swapcase", "self /", str_swapcase },
    { "casefold", "self /", str_casefold },
    { "isalpha", "self /", str_isalpha },
    { "isalnum", "self /", str_isalnum },
    { "isdigit", "self /", str_isdigit },
    { "isdecimal", "self /", str_isdecimal },
    { "isnumeric", "self /", str_isnumeric },
    { "isspace", "self /", str_isspace },
    { "isprintable", "self /", str_isprintable },
    { "isascii", "self /", str_isascii },
    { "islower", "self /", str_islower },
    { "isupper", "self /", str_isupper },
    { "join", "self iterable /", str_join },
    { "center", "self width fillchar? /", str_center },
    { "ljust", "self width fillchar? /", str_ljust },
    { "rjust", "self width fillchar? /", str_rjust },
    { "zfill", "self width /", str_zfill },
    { "format", "self / *", str_format },
    { "encode", "self / *", unsupported },
    { "expandtabs", "self / *", unsupported },
    { "format_map", "self / *", unsupported },
    { "isidentifier", "self /", unsupported },
    { "istitle", "self /", unsupported },
    { "translate", "self / *", unsupported },
    { "maketrans", "self / *", unsupported },
    { NULL, NULL, NULL },
};
