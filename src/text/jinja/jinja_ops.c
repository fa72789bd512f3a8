/* jinja_ops.c - Python's operators on numbers, strings and lists. */
#include "text/jinja/jinja.h"

#include <math.h>

static const char *const op_names[] = { "+",  "-",  "*", "/",  "//", "%", "** or pow()",
                                        "==", "!=", "<", "<=", ">",  ">=" };

static bool unsupported(jinja *m, jop op, jval a, jval b)
{
    return lm_jinja_fail(m, LM_FAILED, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op],
                         lm_jv_type_name(a), lm_jv_type_name(b));
}

static bool overflow(jinja *m) { return lm_jinja_fail(m, LM_LIMIT, "an integer beyond 64 bits"); }

static bool zero_division(jinja *m) { return lm_jinja_fail(m, LM_FAILED, "division by zero"); }

static bool int_power(jinja *m, int64_t base, int64_t exponent, jval *out)
{
    int64_t result = 1;

    if (exponent < 0) {
        if (base == 0)
            return lm_jinja_fail(m, LM_FAILED, "0.0 cannot be raised to a negative power");
        *out = lm_jv_float(pow((double)base, (double)exponent));
        return true;
    }
    for (; exponent; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return overflow(m);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return overflow(m);
    }
    *out = lm_jv_int(result);
    return true;
}

static bool int_arith(jinja *m, jop op, int64_t a, int64_t b, jval *out)
{
    int64_t r = 0;

    switch (op) {
    case OP_ADD:
        if (__builtin_add_overflow(a, b, &r))
            return overflow(m);
        break;
    case OP_SUB:
        if (__builtin_sub_overflow(a, b, &r))
            return overflow(m);
        break;
    case OP_MUL:
        if (__builtin_mul_overflow(a, b, &r))
            return overflow(m);
        break;
    case OP_DIV:
        if (b == 0)
            return zero_division(m);
        *out = lm_jv_float((double)((long double)a / (long double)b));
        return true;
    case OP_FLOORDIV: case OP_MOD:
        if (b == 0)
            return lm_jinja_fail(m, LM_FAILED, "integer division or modulo by zero");
        if (b == -1) {                              /* INT64_MIN / -1 traps */
            if (op == OP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &r))
                return overflow(m);
            break;
        }
        r = op == OP_FLOORDIV ? a / b : a % b;
        if (a % b != 0 && (a % b < 0) != (b < 0))
            r += op == OP_FLOORDIV ? -1 : b;
        break;
    default:
        return int_power(m, a, b, out);
    }
    *out = lm_jv_int(r);
    return true;
}

static bool float_arith(jinja *m, jop op, double a, double b, jval *out)
{
    double r = 0;

    switch (op) {
    case OP_ADD: r = a + b; break;
    case OP_SUB: r = a - b; break;
    case OP_MUL: r = a * b; break;
    case OP_DIV:
        if (b == 0)
            return lm_jinja_fail(m, LM_FAILED, "float division by zero");
        r = a / b;
        break;
    case OP_FLOORDIV: case OP_MOD: {
        if (b == 0)
            return lm_jinja_fail(m, LM_FAILED, "float floor division or modulo by zero");
        double mod = fmod(a, b), div = (a - mod) / b;
        if (mod != 0) {
            if ((b < 0) != (mod < 0)) {
                mod += b;
                div -= 1;
            }
        } else {
            mod = copysign(0, b);
        }
        double floored = div != 0 ? floor(div) : copysign(0, a / b);
        if (div - floored > 0.5)
            floored += 1;
        r = op == OP_MOD ? mod : floored;
        break;
    }
    default:
        if (a == 0 && b < 0)
            return lm_jinja_fail(m, LM_FAILED, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return lm_jinja_fail(m, LM_UNSUPPORTED, "complex numbers are not supported");
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b))
            return lm_jinja_fail(m, LM_FAILED, "numerical result out of range");
        break;
    }
    *out = lm_jv_float(r);
    return true;
}

static bool repeat_str(jinja *m, const jstr *s, int64_t times, jval *out)
{
    jbuild b = { 0 };

    if (times > 0 && s->n > (size_t)J_MAX_TEXT / (size_t)times)
        return lm_jinja_fail(m, LM_LIMIT, "a string of more than %d bytes", J_MAX_TEXT);
    for (int64_t i = 0; s->n && i < times && m->status == LM_OK; i++)
        lm_jb_str(m, &b, s);
    return lm_jb_done(m, &b, s->safe, out);
}

static bool repeat_list(jinja *m, jval l, int64_t times, jval *out)
{
    jvec v = { 0 };

    for (int64_t i = 0; l.l->n && i < times; i++)
        for (size_t k = 0; k < l.l->n; k++)
            if (!lm_jvec_add(m, &v, l.l->items[k]))
                return false;
    return lm_jvec_done(m, &v, l.type, out);
}

static bool is_sequence(jval v) { return v.type == J_STR || v.type == J_LIST || v.type == J_TUPLE; }

static bool multiply_sequence(jinja *m, jval a, jval b, jval *out)
{
    jval sequence = is_sequence(a) ? a : b, times = is_sequence(a) ? b : a;

    if (!lm_jv_is_int(times))
        return lm_jinja_fail(m, LM_FAILED, "can't multiply sequence by non-int of type '%s'",
                             lm_jv_type_name(times));
    return sequence.type == J_STR ? repeat_str(m, sequence.s, lm_jv_int_of(times), out)
                                  : repeat_list(m, sequence, lm_jv_int_of(times), out);
}

static bool add_sequences(jinja *m, jval a, jval b, jval *out)
{
    if (a.type == J_STR) {
        const jstr *s = lm_jstr_concat(m, a.s, b.s);
        *out = lm_jv_of_str(s);
        return s != NULL;
    }
    const jlist *l = lm_jlist_concat(m, a.l, b.l);
    *out = (jval){ .type = a.type, .l = l };
    return l != NULL;
}

static double number_of(jval v)
{
    return v.type == J_FLOAT ? v.f : (double)lm_jv_int_of(v);
}

bool lm_jinja_arith(jinja *m, jop op, jval a, jval b, jval *out)
{
    if (a.type == J_STR && op == OP_MOD)
        return lm_jinja_percent(m, a.s, b, out);
    if (a.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, a.u);
    if (b.type == J_UNDEFINED)
        return lm_jinja_undefined_error(m, b.u);
    if (lm_jv_any_big(a, b))
        return overflow(m);
    if (lm_jv_is_int(a) && lm_jv_is_int(b))
        return int_arith(m, op, lm_jv_int_of(a), lm_jv_int_of(b), out);
    if (lm_jv_is_number(a) && lm_jv_is_number(b))
        return float_arith(m, op, number_of(a), number_of(b), out);
    if (op == OP_ADD && a.type == b.type && is_sequence(a))
        return add_sequences(m, a, b, out);
    if (op == OP_ADD && a.type == J_STR)
        return lm_jinja_fail(m, LM_FAILED, "can only concatenate str (not \"%s\") to str",
                             lm_jv_type_name(b));
    if (op == OP_MUL && (is_sequence(a) || is_sequence(b)) && (lm_jv_is_number(a) || lm_jv_is_number(b)))
        return multiply_sequence(m, a, b, out);
    return unsupported(m, op, a, b);
}

bool lm_jinja_negate(jinja *m, jval a, bool plus, jval *out)
{
    int64_t r = 0;

    if (a.type == J_FLOAT) {
        *out = lm_jv_float(plus ? a.f : -a.f);
        return true;
    }
    if (a.type == J_BIG)
        return overflow(m);
    if (!lm_jv_is_int(a))
        return lm_jinja_type_error(m, plus ? "bad operand type for unary +" : "bad operand type for unary -",
                                   a);
    if (!plus && __builtin_sub_overflow((int64_t)0, lm_jv_int_of(a), &r))
        return overflow(m);
    *out = lm_jv_int(plus ? lm_jv_int_of(a) : r);
    return true;
}

bool lm_jinja_compare(jinja *m, jop op, jval a, jval b, bool *out)
{
    int order;

    switch (op) {
    case OP_EQ: case OP_NE:
        if (!lm_jv_equal(m, a, b, out))
            return false;
        *out = *out == (op == OP_EQ);
        return true;
    case OP_IN: case OP_NOT_IN:
        if (!lm_jv_contains(m, b, a, out))
            return false;
        *out = *out == (op == OP_IN);
        return true;
    default:
        if (!lm_jv_less(m, a, b, op_names[op], &order))
            return false;
        *out = order != 2 && (op == OP_LT   ? order < 0
                              : op == OP_LE ? order <= 0
                              : op == OP_GT ? order > 0
                                            : order >= 0);
        return true;
    }
}
