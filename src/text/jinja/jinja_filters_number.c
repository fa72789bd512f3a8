/* jinja_filters_number.c - filters on single values: numbers, defaults, attributes. */
#include "text/jinja/jinja.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool filter_default(jinja *m, const jargs *a, jval *out)
{
    bool replace = a->v[0].type == J_UNDEFINED || (lm_jarg_truth(a, 2) && !lm_jv_truth(a->v[0]));
    (void)m;
    *out = a->v[0];
    if (replace && lm_jarg_given(a, 1))
        *out = a->v[1];
    else if (replace)
        return lm_jv_text(m, "", out);
    return true;
}

static bool filter_abs(jinja *m, const jargs *a, jval *out)
{
    jval v = a->v[0];

    if (v.type == J_FLOAT) {
        *out = lm_jv_float(fabs(v.f));
        return true;
    }
    if (!lm_jv_is_int(v))
        return lm_jinja_fail(m, LM_FAILED, "bad operand type for abs(): '%s'", lm_jv_type_name(v));
    if (lm_jv_int_of(v) < 0)
        return lm_jinja_negate(m, v, false, out);
    *out = lm_jv_int(lm_jv_int_of(v));
    return true;
}

static bool from_float(jinja *m, double f, jval otherwise, jval *out)
{
    *out = otherwise;
    if (!isfinite(f))
        return true;
    if (!(fabs(f) < 9223372036854775808.0))
        return lm_jinja_fail(m, LM_LIMIT, "an integer beyond 64 bits");
    *out = lm_jv_int((int64_t)f);
    return true;
}

static bool filter_int(jinja *m, const jargs *a, jval *out)
{
    jval v = a->v[0], otherwise = lm_jarg_given(a, 1) ? a->v[1] : lm_jv_int(0);
    int64_t base, i;
    bool overflow = false;
    double f;

    if (!lm_jarg_int(m, a, 2, 10, "base", &base))
        return false;
    if (v.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, v.u);
    if (v.type == J_BIG) {
        *out = v;
        return true;
    }
    if (lm_jv_is_int(v)) {
        *out = lm_jv_int(lm_jv_int_of(v));
        return true;
    }
    if (v.type == J_FLOAT) {
        if (isinf(v.f))
            *out = otherwise;
        return isinf(v.f) || from_float(m, v.f, otherwise, out);
    }
    *out = otherwise;
    if (v.type != J_STR)
        return true;
    if ((base == 0 || (base >= 2 && base <= 36)) &&
        lm_int_read(v.s->data, v.s->n, (int)base, &i, &overflow)) {
        *out = lm_jv_int(i);
        return true;
    }
    if (overflow)
        return lm_jinja_fail(m, LM_LIMIT, "an integer beyond 64 bits");
    return !lm_float_read(v.s->data, v.s->n, &f) || from_float(m, f, otherwise, out);
}

static bool filter_float(jinja *m, const jargs *a, jval *out)
{
    jval v = a->v[0];
    double f;

    *out = lm_jarg_given(a, 1) ? a->v[1] : lm_jv_float(0);
    if (v.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, v.u);
    if (lm_jv_is_int(v))
        *out = lm_jv_float((double)lm_jv_int_of(v));
    else if (v.type == J_FLOAT)
        *out = v;
    else if ((v.type == J_STR || v.type == J_BIG) && lm_float_read(v.s->data, v.s->n, &f))
        *out = lm_jv_float(f);
    return true;
}

/* Round an integer to tens, hundreds …, half to even. */
static int64_t round_int(int64_t v, int64_t digits)
{
    __int128 unit = 1;
    for (; digits < 0 && unit < ((__int128)1 << 100); digits++)
        unit *= 10;
    __int128 low = (__int128)v / unit, rest = (__int128)v % unit;
    if (rest < 0) {
        rest += unit;
        low--;
    }
    if (2 * rest > unit || (2 * rest == unit && (low & 1)))
        low++;
    return (int64_t)(low * unit);
}

/* Round half to even, as Python's round() does. */
static double round_float(double f, int64_t digits)
{
    char text[700];

    if (!isfinite(f) || digits > 323)
        return f;
    if (digits < -308)
        return copysign(0, f);
    if (digits < 0) {
        double unit = pow(10, (double)-digits);
        return nearbyint(f / unit) * unit;
    }
    /* printf rounds the exact value */
    size_t n = lm_float_format(f, 'f', (int)digits, text, sizeof text);
    lm_float_read(text, n < 390 ? n : 390, &f);
    return f;
}

/* Return whether a value needs no rounding: an integer beyond 64 bits has no decimals. */
static bool is_round(jval v, const jstr *method, int64_t digits)
{
    return v.type == J_BIG && !method && digits >= 0;
}

static bool filter_round(jinja *m, const jargs *a, jval *out)
{
    jval v = a->v[0];
    const jstr *method = NULL;
    int64_t digits;

    if (!lm_jarg_int(m, a, 1, 0, "precision", &digits) ||
        (lm_jarg_given(a, 2) && !lm_jarg_str(m, a, 2, "method", &method)))
        return false;
    bool ceiling = method && lm_jstr_is(method, "ceil"), down = method && lm_jstr_is(method, "floor");
    if (method && !ceiling && !down && !lm_jstr_is(method, "common"))
        return lm_jinja_fail(m, LM_FAILED, "method must be common, ceil or floor");
    if (is_round(v, method, digits)) {
        *out = v;
        return true;
    }
    if (!lm_jv_is_number(v))
        return lm_jinja_type_error(m, "round wants a number, not", v);
    double f = v.type == J_FLOAT ? v.f : (double)lm_jv_int_of(v);
    if (ceiling || down) {
        double unit = pow(10, (double)digits), scaled = f * unit;
        if (!isfinite(scaled))
            return lm_jinja_fail(m, LM_FAILED, "cannot convert float infinity or NaN to integer");
        *out = lm_jv_float((ceiling ? ceil(scaled) : floor(scaled)) / unit);
    } else if (v.type != J_FLOAT) {
        *out = lm_jv_int(digits >= 0 ? lm_jv_int_of(v) : round_int(lm_jv_int_of(v), digits));
    } else {
        *out = lm_jv_float(round_float(f, digits));
    }
    return true;
}

/* foo|attr("bar"): look up the attribute only, never the item. */
static bool filter_attr(jinja *m, const jargs *a, jval *out)
{
    const jstr *name;

    if (!lm_jarg_str(m, a, 1, "attribute name", &name))
        return false;
    if (a->v[0].type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, a->v[0].u);
    if (!lm_jinja_python_attr(m, a->v[0], name, out))
        return false;
    return out->type != J_MISSING || lm_jv_undefined_name(m, name, a->v[0].type, false, out);
}

static bool filter_length(jinja *m, const jargs *a, jval *out)
{
    size_t n;
    if (a->v[0].type == J_LOOP) {
        const jstr *name = lm_jstr_new(m, "length", 6, false);
        return name && lm_jinja_attr(m, a->v[0], name, out);
    }
    if (!lm_jv_length(m, a->v[0], &n))
        return false;
    *out = lm_jv_int((int64_t)n);
    return true;
}

const jbuiltin lm_jinja_number_filters[] = {
    { "default", "value default_value? boolean?", filter_default },
    { "d", "value default_value? boolean?", filter_default },
    { "abs", "x /", filter_abs },
    { "int", "value default? base?", filter_int },
    { "float", "value default?", filter_float },
    { "round", "value precision? method?", filter_round },
    { "attr", "obj name", filter_attr },
    { "length", "obj /", filter_length },
    { "count", "obj /", filter_length },
    { NULL, NULL, NULL },
};
