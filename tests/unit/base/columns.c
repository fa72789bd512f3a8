/* columns.c - widths of characters, cells and bars of a terminal; the nearest word. */
#include "base/columns.h"

#include "base/nearest.h"
#include "unit.h"

static void columns_equal_those_of_a_terminal(void **state)
{
    (void)state;
    assert_int_equal(lm_text_columns(""), 0);
    assert_int_equal(lm_text_columns("abc ×→"), 6);
    assert_int_equal(lm_text_columns("參數（f16）"), 11);
    assert_int_equal(lm_text_columns("e\xCC\x81"), 1);                       /* a combining accent */
    assert_int_equal(lm_text_columns("\xE1\x80\x80\xE1\x80\xAD"), 1);        /* KA, vowel I above it */
    assert_int_equal(lm_text_columns("\xE1\x80\x80\xE1\x80\xAC"), 2);        /* KA, vowel AA next to it */
    /* bytes that are not valid UTF-8 */
    assert_int_equal(lm_text_columns("a\xFF\x80z"), 2);
}

static void cells_and_bars_fill_columns(void **state)
{
    lm_text t = { 0 };

    (void)state;
    /* a half of a character does not fit */
    lm_text_add_cell(&t, "漢字", 3);
    lm_text_add_char(&t, '|');
    lm_text_add_cell(&t, "ab", 4);
    lm_text_add_char(&t, '|');
    lm_text_add_bar(&t, 0.5, 4);
    lm_text_add_bar(&t, 1e-6, 4);
    lm_text_add_bar(&t, 0, 4);
    assert_string_equal(t.data, "漢 |ab  |██▏");
    lm_text_free(&t);
    lm_text_add_cell(NULL, "x", 1);
    lm_text_add_bar(NULL, 1, 1);
    assert_int_equal(lm_text_columns(NULL), 0);
}

static void a_word_is_near_if_it_may_be_a_typing_error(void **state)
{
    static const char *const words[] = { "context", "sequences", "-c", NULL };

    (void)state;
    assert_string_equal(lm_nearest_word("contxt", words), "context");
    assert_string_equal(lm_nearest_word("sequecnes", words), "sequences");
    assert_string_equal(lm_nearest_word("context", words), "context");
    assert_null(lm_nearest_word("zzzzzz", words));
    assert_null(lm_nearest_word(NULL, words));
    assert_null(lm_nearest_word("context", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_equal_those_of_a_terminal),
        cmocka_unit_test(cells_and_bars_fill_columns),
        cmocka_unit_test(a_word_is_near_if_it_may_be_a_typing_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
