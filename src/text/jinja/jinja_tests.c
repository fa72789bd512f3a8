/* jinja_tests.c - the tests after `is`. */
#include "text/jinja/jinja.h"

static bool yes(bool b, jval *out)
{
    *out = lm_jv_bool(b);
    return true;
}

static bool remainder_is(jinja *m, jval v, jval by, int64_t wanted, jval *out)
{
    jval rest;
    bool equal;
    return lm_jinja_arith(m, OP_MOD, v, by, &rest) && lm_jv_equal(m, rest, lm_jv_int(wanted), &equal) &&
           yes(equal, out);
}

static bool test_odd(jinja *m, const jargs *a, jval *out)
{
    return remainder_is(m, a->v[0], lm_jv_int(2), 1, out);
}
static bool test_even(jinja *m, const jargs *a, jval *out)
{
    return remainder_is(m, a->v[0], lm_jv_int(2), 0, out);
}
static bool test_divisibleby(jinja *m, const jargs *a, jval *out)
{
    return remainder_is(m, a->v[0], a->v[1], 0, out);
}

#define TEST(name, condition)                                      \
    static bool test_##name(jinja *m, const jargs *a, jval *out)   \
    {                                                              \
        jval v = a->v[0];                                          \
        (void)m;                                                   \
        return yes(condition, out);                                \
    }

TEST(defined, v.type != J_UNDEFINED)
TEST(undefined, v.type == J_UNDEFINED)
TEST(none, v.type == J_NONE)
TEST(boolean, v.type == J_BOOL)
TEST(true, v.type == J_BOOL && v.b)
TEST(false, v.type == J_BOOL && !v.b)
TEST(integer, v.type == J_INT || v.type == J_BIG)
TEST(float, v.type == J_FLOAT)
TEST(number, lm_jv_is_number(v) || v.type == J_BIG)
TEST(string, v.type == J_STR)
TEST(mapping, v.type == J_DICT)
TEST(iterable, lm_jv_iterable(v) || v.type == J_LOOP)
/* values with len() and []; an undefined value pretends to have both */
TEST(sequence, v.type == J_STR || v.type == J_LIST || v.type == J_TUPLE || v.type == J_DICT ||
                   v.type == J_RANGE || v.type == J_UNDEFINED)
TEST(callable, v.type == J_UNDEFINED || v.type == J_MACRO || v.type == J_FUNCTION || v.type == J_METHOD ||
                   v.type == J_LOOP || v.type == J_JOINER)
TEST(sameas, lm_jv_same(v, a->v[1]))
TEST(escaped, v.type == J_STR && v.s->safe)

/* Look up a name, which must be hashable because jinja2 uses a dict. */
static bool is_known(jinja *m, jval v, const jbuiltin *(*find)(const char *name, size_t n), jval *out)
{
    if (!lm_jv_hashable(m, v))
        return lm_jinja_type_error(m, "unhashable type", v);
    return yes(v.type == J_STR && find(v.s->data, v.s->n), out);
}

static bool test_filter(jinja *m, const jargs *a, jval *out)
{
    return is_known(m, a->v[0], lm_jinja_find_filter, out);
}
static bool test_test(jinja *m, const jargs *a, jval *out)
{
    return is_known(m, a->v[0], lm_jinja_find_test, out);
}

static bool test_lower(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    return lm_jv_str(m, a->v[0], &s) && yes(lm_jstr_is_lower(s), out);
}

static bool test_upper(jinja *m, const jargs *a, jval *out)
{
    const jstr *s;
    return lm_jv_str(m, a->v[0], &s) && yes(lm_jstr_is_upper(s), out);
}

static bool compare(jinja *m, jop op, const jargs *a, jval *out)
{
    bool holds;
    return lm_jinja_compare(m, op, a->v[0], a->v[1], &holds) && yes(holds, out);
}

static bool test_eq(jinja *m, const jargs *a, jval *out) { return compare(m, OP_EQ, a, out); }
static bool test_ne(jinja *m, const jargs *a, jval *out) { return compare(m, OP_NE, a, out); }
static bool test_lt(jinja *m, const jargs *a, jval *out) { return compare(m, OP_LT, a, out); }
static bool test_le(jinja *m, const jargs *a, jval *out) { return compare(m, OP_LE, a, out); }
static bool test_gt(jinja *m, const jargs *a, jval *out) { return compare(m, OP_GT, a, out); }
static bool test_ge(jinja *m, const jargs *a, jval *out) { return compare(m, OP_GE, a, out); }
static bool test_in(jinja *m, const jargs *a, jval *out) { return compare(m, OP_IN, a, out); }

static const jbuiltin tests[] = {
    { "odd", "value", test_odd },               { "even", "value", test_even },
    { "divisibleby", "value num", test_divisibleby }, { "defined", "value", test_defined },
    { "undefined", "value", test_undefined },   { "filter", "value", test_filter },
    { "test", "value", test_test },             { "none", "value", test_none },
    { "boolean", "value", test_boolean },       { "false", "value", test_false },
    { "true", "value", test_true },             { "integer", "value", test_integer },
    { "float", "value", test_float },           { "lower", "value", test_lower },
    { "upper", "value", test_upper },           { "string", "value", test_string },
    { "mapping", "value", test_mapping },       { "number", "value", test_number },
    { "sequence", "value", test_sequence },     { "iterable", "value", test_iterable },
    { "callable", "obj /", test_callable },     { "sameas", "value other", test_sameas },
    { "escaped", "value", test_escaped },       { "in", "value seq", test_in },
    { "==", "a b /", test_eq },                 { "eq", "a b /", test_eq },
    { "equalto", "a b /", test_eq },            { "!=", "a b /", test_ne },
    { "ne", "a b /", test_ne },                 { ">", "a b /", test_gt },
    { "gt", "a b /", test_gt },                 { "greaterthan", "a b /", test_gt },
    { "ge", "a b /", test_ge },                 { ">=", "a b /", test_ge },
    { "<", "a b /", test_lt },                  { "lt", "a b /", test_lt },
    { "lessthan", "a b /", test_lt },           { "<=", "a b /", test_le },
    { "le", "a b /", test_le },                 { NULL, NULL, NULL },
};

const jbuiltin *lm_jinja_find_test(const char *name, size_t n) { return lm_jinja_find_in(tests, name, n); }
