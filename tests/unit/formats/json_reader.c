/* json_reader.c - the JSON reader accepts exactly what RFC 8259 allows, infinity and NaN; jansson is the
 * reference. */
#include "describe.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>

#include "base/jsontext.h"
#include "formats/jsonread.h"

typedef struct text {
    const char *s;
    size_t      n;
} text;

#define T(literal) { literal, sizeof(literal) - 1 }

static const text good[] = {
    T("{}"), T("[]"), T("null"), T("true"), T("false"), T("0"), T("-0"), T("\"\""), T(" \t\r\n[1 , 2 ]\n"),
    T("{\"\":0,\" \":{\"a\":[]}}"), T("[1.5,-2e3,1E+2,0.1e-5,-0.0,123456789012345678]"),
    T("[9223372036854775807,-9223372036854775808]"), T("[4.9e-324,2.2250738585072011e-308,1.7976931348623157e308,1e-999]"),
    T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83e\\udd99\\u0000x\""),
    T("\"é€🦙\xef\xbf\xbf\xf4\x8f\xbf\xbf\""), T("\"\x7f\""), T("[[[[[[[[]]]]]]]]"), T("{\"a\":{\"a\":{\"a\":1}}}"),
    T("[[],[[]],[[],[]],{}]"), T("{\"weight\":1,\"Weight\":2}"),
};

static const text bad[] = {
    T(""), T(" "), T("{"), T("["), T("}"), T("{]"), T("[}"), T("[1,]"), T("[,1]"), T("[1 2]"), T("{\"a\"}"), T("{\"a\":}"),
    T("{\"a\":1,}"), T("{a:1}"), T("{'a':1}"), T("{1:1}"), T("{\"a\":1 \"b\":2}"), T("01"), T("-"), T("-01"), T("1."),
    T(".5"), T("1e"), T("1e+"), T("+1"), T("0x10"), T("1_000"), T("Na"), T("nan"), T("-NaN"), T("Infinit"), T("-Inf"), T("infinity"), T("1e999"), T("-1e999"),
    T("nul"), T("nulll"), T("True"), T("tru"), T("\""), T("\"\\\""), T("\"\\x\""), T("\"\\u12\""), T("\"\\u12g4\""), T("\"\n\""),
    T("\"\t\""), T("\"\0\""), T("\"\\ud800\""), T("\"\\ud800x\""), T("\"\\ud800\\u0041\""), T("\"\\udc00\""), T("\"\x80\""),
    T("\"\xc3\""), T("\"\xc0\x80\""), T("\"\xed\xa0\x80\""), T("\"\xf4\x90\x80\x80\""), T("\"\xe2\x82\""), T("\"\xfe\""),
    T("[]x"), T("{} {}"), T("1 2"), T("\xef\xbb\xbf{}"), T("/**/{}"), T("{}//"), T("[1]\0"), T("\0"), T("{\"a\":1,\"a\":2}"),
    T("{\"a\":1,\"\\u0061\":2}"), T("{\"x\":[{\"b\":0,\"b\":0}]}"), T("[\"a\",\"b\""), T("{\"a\":\"b\""), T("t"), T("\"abc"),
};

static bool jansson_takes(text t, json_t **out)
{
    *out = json_loadb(t.s, t.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    return *out != NULL;
}

static void assert_same(const lm_meta_value *v, const json_t *j)
{
    lm_meta_value element;
    lm_view       key;
    const char   *name;
    json_t       *member;
    uint64_t      i = 0;

    switch (json_typeof(j)) {
    case JSON_NULL:
        assert_int_equal(v->kind, LM_META_NULL);
        break;
    case JSON_TRUE: case JSON_FALSE:
        assert_true(v->kind == LM_META_BOOL && v->b == json_is_true(j));
        break;
    case JSON_INTEGER:
        assert_true(v->kind == LM_META_UINT ? (json_int_t)v->u == json_integer_value(j)
                                            : v->kind == LM_META_INT && v->i == json_integer_value(j));
        break;
    case JSON_REAL:
        assert_int_equal(v->kind, LM_META_FLOAT);
        assert_memory_equal(&v->f, &(double){ json_real_value(j) }, sizeof(double));
        break;
    case JSON_STRING:
        assert_int_equal(v->s.size, json_string_length(j));
        assert_memory_equal(v->s.data, json_string_value(j), v->s.size + 1);
        break;
    case JSON_ARRAY:
        assert_true(v->kind == LM_META_ARRAY && v->a.n == json_array_size(j));
        for (; i < v->a.n; i++) {
            assert_true(lm_meta_at(v, i, &element));
            assert_same(&element, json_array_get(j, i));
        }
        break;
    case JSON_OBJECT:
        assert_true(v->kind == LM_META_OBJECT && v->a.n == json_object_size(j));
        json_object_foreach(lm_json_iterable(j), name, member)
        {
            assert_true(lm_meta_member(v, i++, &key, &element) && lm_view_is(key, name));
            assert_same(&element, member);
            assert_true(lm_meta_field(v, name, &element));
        }
        break;
    }
}

static void it_accepts_what_jansson_accepts_with_equal_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        lm_meta      *m;
        lm_meta_value root;
        json_t       *j;
        assert_ok(lm_meta_from_json(good[i].s, good[i].n, "good", 16, &m, e));
        assert_true(jansson_takes(good[i], &j));
        assert_true(lm_meta_get(m, "", &root));
        assert_same(&root, j);
        json_decref(j);
        lm_meta_free(m);
    }
}

static void it_rejects_what_jansson_rejects(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_meta *m;
        json_t  *j;
        lm_error e = { 0 };
        if (jansson_takes(bad[i], &j))
            fail_msg("jansson takes %s", bad[i].s);
        if (lm_meta_from_json(bad[i].s, bad[i].n, "bad", 16, &m, &e) == LM_OK)
            fail_msg("taken: %s", bad[i].s);
        assert_int_equal(e.code, LM_BAD_MODEL);
        assert_true(e.offset >= 0 && (size_t)e.offset <= bad[i].n);
        assert_string_equal(e.file, "bad");
    }
}

/* Python's json module writes Infinity and NaN, transformers an object with one member. */
static void infinity_is_a_number_that_readers_of_numbers_reject(void **state)
{
    static const char text_of[] = "{\"a\":[0.0,Infinity],\"b\":-Infinity,"
                                  "\"c\":{\"__float__\":\"Infinity\"},"
                                  "\"d\":{\"__float__\":\"-Infinity\"},\"e\":{\"__float__\":\"x\"},"
                                  "\"f\":[1,NaN]}";
    static const struct { const char *key; double value; } cases[] = {
        { "a/1", INFINITY }, { "b", -INFINITY }, { "c", INFINITY }, { "d", -INFINITY },
    };
    lm_meta      *m;
    lm_meta_value v;
    double        x;

    (void)state;
    assert_ok(lm_meta_from_json(text_of, sizeof text_of - 1, "x.json", 16, &m, e));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(lm_meta_get(m, cases[i].key, &v) && v.kind == LM_META_FLOAT && v.f == cases[i].value);
        assert_fails(LM_BAD_MODEL, "expected a finite number",
                     lm_meta_f64(m, cases[i].key, -1e300, 1e300, &x, e));
    }
    assert_true(lm_meta_get(m, "f/1", &v) && v.kind == LM_META_FLOAT && isnan(v.f));
    assert_fails(LM_BAD_MODEL, "expected a finite number", lm_meta_f64(m, "f/1", -1e300, 1e300, &x, e));
    assert_true(lm_meta_get(m, "e", &v) && v.kind == LM_META_OBJECT);
    lm_meta_free(m);
}

/* Both readers agree on every change of one byte in a document that uses all of JSON. */
static void every_damaged_byte_is_judged_as_jansson_does(void **state)
{
    static const char whole[] = "{\"a\":[1,-2,3.5e+1,true,false,null,\"x\\u00e9\\n\xc3\xa9\"],"
                                "\"b\":{\"c\":{},\"d\":[]}, \"e\" : \"\\ud83e\\udd99\"}";
    char              damaged[sizeof whole];
    size_t            taken = 0, refused = 0;

    (void)state;
    for (size_t at = 0; at + 1 < sizeof whole; at++)
        for (int byte = 0; byte < 256; byte++) {
            text     t = { damaged, sizeof whole - 1 };
            lm_meta *m = NULL;
            json_t  *j;
            memcpy(damaged, whole, sizeof whole);
            damaged[at] = (char)byte;
            bool theirs = jansson_takes(t, &j);
            bool ours = lm_meta_from_json(t.s, t.n, "damaged", 16, &m, NULL) == LM_OK;
            if (ours != theirs)
                fail_msg("byte %zu as 0x%02x: jansson %d, ours %d: %s", at, byte, theirs, ours, damaged);
            if (ours) {
                lm_meta_value root;
                assert_true(lm_meta_get(m, "", &root));
                assert_same(&root, j);
            }
            taken += ours;
            refused += !ours;
            lm_meta_free(m);
            json_decref(j);
        }
    assert_true(taken > 1000 && refused > 10000);
    assert_int_equal(taken + refused, 256 * (sizeof whole - 1));
}

static void integers_are_exact_in_64_bits(void **state)
{
    static const text t = T(
        "[18446744073709551615,9223372036854775808,18446744073709551616,-9223372036854775808,"
        "-9223372036854775809,9007199254740993,1000000000000000019884624838656]");
    lm_meta          *m;
    lm_meta_value     a, v;

    (void)state;
    assert_ok(lm_meta_from_json(t.s, t.n, "x", 4, &m, e));
    assert_true(lm_meta_get(m, "", &a));
    assert_true(lm_meta_at(&a, 0, &v) && v.kind == LM_META_UINT && v.u == UINT64_MAX);
    assert_true(lm_meta_at(&a, 1, &v) && v.kind == LM_META_UINT && v.u == UINT64_C(1) << 63);
    assert_true(lm_meta_at(&a, 2, &v) && v.kind == LM_META_FLOAT && v.f == 0x1p64);
    assert_true(lm_meta_at(&a, 3, &v) && v.kind == LM_META_INT && v.i == INT64_MIN);
    assert_true(lm_meta_at(&a, 4, &v) && v.kind == LM_META_FLOAT && v.f == -0x1p63);
    assert_true(lm_meta_at(&a, 5, &v) && v.kind == LM_META_UINT && v.u == (UINT64_C(1) << 53) + 1);
    assert_true(lm_meta_at(&a, 6, &v) && v.kind == LM_META_FLOAT && v.f == 1e30);
    lm_meta_free(m);
}

static void depth_is_limited(void **state)
{
    char     deep[200];
    lm_meta *m;

    (void)state;
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    assert_ok(lm_meta_from_json(deep, 200, "x", 100, &m, e));
    lm_meta_free(m);
    assert_fails(LM_BAD_MODEL, "nested deeper than 99 levels (offset 99)",
                 lm_meta_from_json(deep, 200, "x", 99, &m, e));
}

/* A library must not read "0.5" as 0 because its host program uses a German locale. */
static void the_locale_does_not_matter(void **state)
{
    lm_meta *m;
    double   f = 0;

    (void)state;
    const char *german = setlocale(LC_NUMERIC, "de_DE.UTF-8");
    if (!german)
        german = setlocale(LC_NUMERIC, "fr_FR.UTF-8");
    assert_ok(lm_meta_from_json("{\"x\":0.5}", 9, "x", 4, &m, e));
    assert_ok(lm_meta_f64(m, "x", 0, 1, &f, e));
    assert_true(f == 0.5);
    lm_meta_free(m);
    setlocale(LC_NUMERIC, "C");
}

static void paths_lead_into_documents(void **state)
{
    static const text t = T("{\"a\":{\"b\":[10,{\"c\":null}],\"\":1},\"n\":null,\"s\":\"x\"}");
    lm_meta          *m;
    lm_meta_value     v;
    lm_view           key;
    uint32_t          u = 0;

    (void)state;
    assert_ok(lm_meta_from_json(t.s, t.n, "x.json", 8, &m, e));
    assert_string_equal(lm_meta_file(m), "x.json");
    assert_ok(lm_meta_u32(m, "a/b/0", 0, 10, &u, e));
    assert_int_equal(u, 10);
    assert_true(lm_meta_get(m, "a/b/1/c", &v) && v.kind == LM_META_NULL);
    assert_false(lm_meta_has(m, "a/b/1/c"));                                  /* null counts as absent */
    assert_false(lm_meta_has(m, "n"));
    assert_false(lm_meta_get(m, "a/b/2", &v));
    assert_false(lm_meta_get(m, "a/b/x", &v));
    assert_false(lm_meta_get(m, "a/b/00000000000000000000", &v));
    assert_false(lm_meta_get(m, "s/x", &v));
    assert_int_equal(lm_meta_count(m), 3);
    assert_true(lm_meta_entry(m, 2, &key, &v) && lm_view_is(key, "s") && lm_view_is(v.s, "x"));
    assert_false(lm_meta_entry(m, 3, &key, &v));
    assert_fails(LM_BAD_MODEL, "n: x.json: missing, expected an integer", lm_meta_u32(m, "n", 0, 1, &u, e));
    assert_fails(LM_BAD_MODEL, "a: x.json: expected an integer, found an object",
                 lm_meta_u32(m, "a", 0, 1, &u, e));
    lm_meta_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_accepts_what_jansson_accepts_with_equal_values),
        cmocka_unit_test(it_rejects_what_jansson_rejects),
        cmocka_unit_test(infinity_is_a_number_that_readers_of_numbers_reject),
        cmocka_unit_test(every_damaged_byte_is_judged_as_jansson_does),
        cmocka_unit_test(integers_are_exact_in_64_bits),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(paths_lead_into_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
