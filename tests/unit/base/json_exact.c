/* json_exact.c - JSON that parsers would reject or change: repaired, and with integers of any size as they
 * are written. */
#include "base/json_exact.h"
#include "base/jsontext.h"

#include <string.h>

#include "unit.h"

static void what_parsers_cannot_represent_is_mended(void **state)
{
    static const struct { const char *json, *mended; size_t characters; } cases[] = {
        { "[\"\\ud83d\", 1e999]", "[\"\xEF\xBF\xBD\", 1.7976931348623157e308]", 1 },
        { "[\"\\ud83d\\ude00\"]", "[\"\\ud83d\\ude00\"]", 0 },
        { "[\"\xFF\"]", "[\"\xEF\xBF\xBD\"]", 1 },
        { "[18446744073709551616]", "[1.8446744073709552e+19]", 0 },
        { "{\"a\": [1, }", "{\"a\": [1, }", 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_text t = { 0 };
        assert_int_equal(lm_text_add_mended_json(&t, cases[i].json, strlen(cases[i].json)),
                         cases[i].characters);
        assert_string_equal(t.data, cases[i].mended);
        lm_text_free(&t);
    }
}

static void wide_integers_survive_doubles(void **state)
{
    static const char given[] = "[\"2e20\", 18446744073709551615, 7]",
                      parsed[] = "[1.8446744073709552e19, 1]";
    lm_text           wide = { 0 }, exact = { 0 };

    (void)state;
    lm_text_add_wide_numbers(&wide, given, strlen(given));
    assert_string_equal(wide.data, "18446744073709551615\n");
    assert_int_equal(lm_text_add_exact_json(&exact, parsed, strlen(parsed), &wide, NULL), LM_OK);
    assert_string_equal(exact.data, "[18446744073709551615, 1]");
    lm_text_clear(&exact);
    assert_int_equal(lm_text_add_exact_json(&exact, parsed, strlen(parsed), NULL, NULL), LM_OK);
    assert_string_equal(exact.data, parsed);
    /* the same double as the other */
    lm_text_add_str(&wide, "18446744073709551616\n");
    assert_int_equal(lm_text_add_exact_json(&exact, parsed, strlen(parsed), &wide, NULL), LM_USAGE);
    assert_string_equal(exact.data, parsed);
    assert_int_equal(lm_text_add_exact_json(NULL, parsed, 1, NULL, NULL), LM_USAGE);
    lm_text_free(&wide);
    lm_text_free(&exact);
}

/* A share of a head's lanes that is printed with 15 digits is one lane less when it is read. */
static void numbers_are_printed_with_the_fewest_digits(void **state)
{
    static const struct { double x; const char *printed; } cases[] = {
        { 1e-5, "[1e-5]" },
        { 1.0 / 3, "[0.3333333333333333]" },
        { 0.1 + 0.2, "[0.30000000000000004]" },
        { 10000, "[10000.0]" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_text text = { 0 };
        json_t *list = json_pack("[f]", cases[i].x);
        assert_true(lm_json_print_exact(list, JSON_COMPACT, &text));
        assert_string_equal(text.data, cases[i].printed);
        json_decref(list);
        lm_text_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_printed_with_the_fewest_digits),
        cmocka_unit_test(what_parsers_cannot_represent_is_mended),
        cmocka_unit_test(wide_integers_survive_doubles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
