/* LaTeX as MathML: every formula of the cards converts, and an unknown command is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "study/explain/cards.h"
#include "study/page/mathml.h"

/* Check that elements are properly nested and that text contains no unescaped markup: enough XML for the
 * output tested here. */
static void assert_balanced(const char *xml)
{
    const char *open[64];
    size_t      length[64], depth = 0;

    for (const char *p = xml; *p; p++) {
        if (*p != '<') {
            assert_true(*p != '&' || strchr(p, ';'));
            continue;
        }
        const char *end = strchr(p, '>');
        assert_non_null(end);
        if (p[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_true((size_t)(end - p - 2) == length[depth] &&
                        memcmp(p + 2, open[depth], length[depth]) == 0);
        } else if (end[-1] != '/') {
            assert_true(depth < 64);
            open[depth]     = p + 1;
            length[depth++] = strcspn(p + 1, " >");
        }
        p = end;
    }
    assert_int_equal(depth, 0);
}

static void every_card_converts(void **state)
{
    unsigned n = 0;

    (void)state;
    for (size_t i = 0; lm_card_at(i); i++)
        for (int k = 0; k < LM_CARD_LINES && lm_card_at(i)->formulas[k].latex; k++) {
            lm_text   b = { 0 };
            lm_error e = { 0 };
            if (lm_mathml(lm_card_at(i)->formulas[k].latex, true, &b, &e) != LM_OK)
                fail_msg("%s: %s: %s", lm_card_at(i)->topic, lm_card_at(i)->formulas[k].latex, e.message);
            assert_balanced(b.data);
            lm_text_free(&b);
            n++;
        }
    assert_true(n > 25);
}

static void becomes(const char *latex, const char *row)
{
    lm_text b = { 0 }, whole = { 0 };

    assert_int_equal(lm_mathml(latex, false, &b, NULL), LM_OK);
    lm_text_printf(&whole, "<math><mrow>%s</mrow></math>", row);
    assert_string_equal(b.data, whole.data);
    lm_text_free(&b);
    lm_text_free(&whole);
}

static void signs_and_scripts(void **state)
{
    (void)state;
    becomes("394{,}002{,}432", "<mn>394,002,432</mn>");
    becomes("-0.5x", "<mo>−</mo><mn>0.5</mn><mi>x</mi>");
    becomes("x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>");
    becomes("W^{UK}_{ij}", "<msubsup><mi>W</mi><mrow><mi>i</mi><mi>j</mi></mrow><mi>UK</mi></msubsup>");
    becomes("N_{attn}", "<msub><mi>N</mi><mi>attn</mi></msub>");
    becomes("\\frac{2}{H/G}",
            "<mfrac><mrow><mn>2</mn></mrow><mrow><mi>H</mi><mo>/</mo><mi>G</mi></mrow></mfrac>");
    becomes("\\sqrt{K}", "<msqrt><mrow><mi>K</mi></mrow></msqrt>");
    becomes("\\sum_{i=1}^{L}",
            "<munderover><mo largeop=\"true\">∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow>"
            "<mrow><mi>L</mi></mrow></munderover>");
    becomes("\\left\\lfloor x \\right\\rfloor",
            "<mrow><mo stretchy=\"true\">⌊</mo><mi>x</mi><mo stretchy=\"true\">⌋</mo></mrow>");
    becomes("\\mathrm{kv\\_heads}", "<mi>kv_heads</mi>");
    becomes("5\\ \\text{%<b>\\%}", "<mn>5</mn><mspace width=\"0.25em\"/><mtext>%&lt;b&gt;%</mtext>");
    becomes("\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}",
            "<mrow><mo stretchy=\"true\">(</mo><mtable "
            "class=\"matrix\"><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd>"
            "<mtd><mi>d</mi></mtd></mtr></mtable><mo stretchy=\"true\">)</mo></mrow>");
}

/* "cos iθ", not "cosiθ": a thin space on both sides of a function's name, none before a parenthesis. */
static void functions_are_set_apart(void **state)
{
    (void)state;
    becomes("\\cos i\\theta", "<mi>cos</mi><mspace width=\"0.17em\"/><mi>i</mi><mi>θ</mi>");
    becomes("x\\sin\\varphi",
            "<mi>x</mi><mspace width=\"0.17em\"/><mi>sin</mi><mspace width=\"0.17em\"/><mi>φ</mi>");
    becomes("\\ln(2)", "<mi>ln</mi><mo stretchy=\"false\">(</mo><mn>2</mn><mo stretchy=\"false\">)</mo>");
    becomes("\\max_i z", "<msub><mi>max</mi><mi>i</mi></msub><mspace width=\"0.17em\"/><mi>z</mi>");
}

static void unknown_names_are_named(void **state)
{
    static const struct {
        const char *latex, *message;
    } bad[] = {
        { "x + \\frobnicate{y}", "\\frobnicate is not understood" },
        { "\\frac{1}", "ends too early" },
        { "{x", "} is missing" },
        { "\\left( x", "\\right is missing" },
        { "\\begin{array} x \\end{array}", "array is not understood" },
        { "a_1_2", "second script" },
        { "\\text x", "text in braces" },
        { "\\begin{aligned} a", "\\end is missing" },
        { "é", "not understood" },
        { "\\", "not understood" },
        { "\\mathbb{Q}", "Q is not understood" },
        { "{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{x", "nested too deeply" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_text b = { 0 };
        lm_error e = { 0 };
        lm_text_add_str(&b, "before");
        assert_int_equal(lm_mathml(bad[i].latex, true, &b, &e), LM_FAILED);
        if (!strstr(e.message, bad[i].message))
            fail_msg("%s: %s", bad[i].latex, e.message);
        assert_int_equal(b.size, strlen("before"));
        lm_text_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_card_converts),
        cmocka_unit_test(signs_and_scripts),
        cmocka_unit_test(functions_are_set_apart),
        cmocka_unit_test(unknown_names_are_named),
    };

    return cmocka_run_group_tests_name("mathml", tests, NULL, NULL);
}
