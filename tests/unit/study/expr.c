/* Expressions: their values, and how they are printed in symbols, numbers and steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "study/derive/expr.h"

static lm_symbol symbols[] = {
    { .name = "layers", .latex = "L" },
    { .name = "kv_heads", .latex = "G" },
    { .name = "base", .latex = "b" },
    { .name = "self_attn.q_proj" },
};

static lm_symbol *find(void *arg, const char *name, size_t n)
{
    (void)arg;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strlen(symbols[i].name) == n && memcmp(symbols[i].name, name, n) == 0)
            return &symbols[i];
    return NULL;
}

static int set_values(void **state)
{
    (void)state;
    symbols[0].value = lm_whole(28);
    symbols[1].value = lm_whole(8);
    symbols[2].value = lm_real(500000);
    symbols[3].value = lm_whole(9437184);
    return 0;
}

static lm_arena arena;

static int drop(void **state)
{
    (void)state;
    lm_arena_free(&arena);
    return 0;
}

static const lm_expr *read_expr(const char *text)
{
    const lm_expr *x = NULL;
    lm_error       e;

    assert_int_equal(lm_expr_read(&arena, text, find, NULL, &x, &e), LM_OK);
    return x;
}

static void reads(const char *text, lm_notation notation, bool numbers, const char *expected)
{
    lm_text b = { 0 };

    lm_expr_write(read_expr(text), notation, numbers, &b);
    assert_string_equal(b.data, expected);
    lm_text_free(&b);
}

static void one_description_has_three_renderings(void **state)
{
    (void)state;
    reads("2 * layers * kv_heads * 128", LM_UNICODE, false, "2 · layers · kv_heads · 128");
    reads("2 * layers * kv_heads * 128", LM_LATEX, false, "2 \\cdot L \\cdot G \\cdot 128");
    reads("2 * layers * kv_heads * 128", LM_ASCII, true, "2 * 28 * 8 * 128");
    reads("base^-(2 * 15 / 64)", LM_LATEX, false, "b^{-\\frac{2 \\cdot 15}{64}}");
    reads("base^-(2 * 15 / 64)", LM_UNICODE, true, "500,000^(−2 · 15 / 64)");
    reads("1 / sqrt(128)", LM_UNICODE, false, "1 / √128");
    reads("1 / sqrt(128)", LM_LATEX, false, "\\frac{1}{\\sqrt{128}}");
    reads("100 * (1 - layers / 172032)", LM_UNICODE, true, "100 · (1 − 28 / 172,032)");
    reads("self_attn.q_proj + 3", LM_LATEX, false, "\\mathrm{self\\_attn.q\\_proj} + 3");
    reads("layers - (kv_heads - 3)", LM_ASCII, true, "28 - (8 - 3)");
    reads("layers / (kv_heads * 2)", LM_ASCII, true, "28 / (8 * 2)");
    reads("layers / kv_heads / 2", LM_ASCII, true, "28 / (8 * 2)");
    reads("2 * (layers / kv_heads)", LM_ASCII, true, "2 * (28 / 8)");
    reads("layers^2", LM_UNICODE, false, "layers²");
    reads("min(layers, 4096)", LM_LATEX, true, "\\min(28, 4{,}096)");
}

/* 10^16^2 is not valid LaTeX and would read as a different number. */
static void a_power_of_ten_is_a_product(void **state)
{
    (void)state;
    symbols[2].value = lm_real(1e16);
    reads("base^-(1 / 4)", LM_LATEX, true, "\\left(1 \\cdot 10^{16}\\right)^{-\\frac{1}{4}}");
    reads("base^-(1 / 4)", LM_LATEX, false, "b^{-\\frac{1}{4}}");
    reads("base^2", LM_UNICODE, true, "(1·10¹⁶)²");
    reads("base^2", LM_ASCII, true, "1e16^2");
    reads("2 / base", LM_UNICODE, true, "2 / (1·10¹⁶)");
    reads("2 / base", LM_LATEX, true, "\\frac{2}{1 \\cdot 10^{16}}");
    reads("sqrt(base)", LM_UNICODE, true, "√(1·10¹⁶)");
    reads("2 * base", LM_UNICODE, true, "2 · 1·10¹⁶");
    set_values(state);
}

static void values_are_exact_while_they_are_whole(void **state)
{
    (void)state;
    assert_true(lm_expr_value(read_expr("28 * 100669440 + 394002432 + 3072")).n == 3212749824);
    /* not representable as a double */
    assert_true(lm_expr_value(read_expr("9007199254740993 * 3 / 3")).n == 9007199254740993);
    assert_true(lm_expr_value(read_expr("24 / 8")).whole && lm_expr_value(read_expr("24 / 8")).n == 3);
    assert_false(lm_expr_value(read_expr("28 / 8")).whole);
    assert_true(lm_expr_value(read_expr("2^10")).n == 1024);
    assert_false(lm_expr_value(read_expr("9223372036854775807 * 2")).whole);
    assert_true(lm_expr_value(read_expr("9223372036854775807 * 2")).x > 1.8e19);
    assert_true(lm_expr_value(read_expr("8 - 28")).n == -20);
    assert_true(lm_expr_value(read_expr("min(7, 3 + 1)")).n == 4);
    assert_float_equal(lm_expr_value(read_expr("base^-(2 * 31 / 64)")).x, 3.0139e-6, 1e-9);
}

static void simplifying_goes_from_the_inside_out(void **state)
{
    static const char *const steps[] = { "28 * (9,437,184 + 8 * 2) + 1", "28 * (9,437,184 + 16) + 1",
                                         "28 * 9,437,200 + 1", "264,241,600 + 1", "264,241,601" };
    const lm_expr *x = read_expr("layers * (self_attn.q_proj + kv_heads * 2) + 1");

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        lm_text b = { 0 };
        lm_expr_write(x, LM_ASCII, true, &b);
        assert_string_equal(b.data, steps[i]);
        lm_text_free(&b);
        assert_true(lm_expr_value(x).n == 264241601);
        x = lm_expr_fold(&arena, x);
    }
    assert_true(lm_expr_is_number(x));
}

static void own_mistakes_are_named(void **state)
{
    static const char *const wrong[] = { "",       "2 *",    "layers kv_heads", "(layers", "heads * 2",
                                         "min(2)", "sec(2)", "2 +* 3",          "layers)" };
    const lm_expr           *x = NULL;
    lm_error                 e;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(lm_expr_read(&arena, wrong[i], find, NULL, &x, &e), LM_FAILED);
    assert_null(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_description_has_three_renderings),
        cmocka_unit_test(a_power_of_ten_is_a_product),
        cmocka_unit_test(values_are_exact_while_they_are_whole),
        cmocka_unit_test(simplifying_goes_from_the_inside_out),
        cmocka_unit_test(own_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, set_values, drop);
}
