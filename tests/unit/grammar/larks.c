/* larks.c - grammars in Lark's notation as regular expressions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/grammar.h"

static bool accepts(const char *pattern, const char *text)
{
    lm_error e = { 0 };
    lm_grammar *g;
    bool whole;
    size_t fits;

    if (lm_grammar_regex(pattern, strlen(pattern), NULL, &g, &e) != LM_OK)
        fail_msg("%s: %s", pattern, e.message);
    assert_int_equal(lm_grammar_matches(g, text, strlen(text), &whole, &fits, &e), LM_OK);
    lm_grammar_free(g);
    return whole;
}

static void grammars(void **state)
{
    static const struct { const char *grammar, *yes[4], *no[4]; } rows[] = {
        { "start: \"a\" | \"b\"\n", { "a", "b" }, { "", "ab" } },
        { "start: x+ [\"!\"]\nx: \"a\"i // one\n", { "a", "aAa!" }, { "!", "b" } },
        { "start: x~2 y~1..2\n\nx: \"a\"..\"c\"\ny.2: /\\d\\/?/\n", { "ab1", "cc1/2" }, { "a1", "ab123" } },
        { "?start: (\"x\"\n    | \"y\")*\n    | \"none\" -> none\n!z: \"z\"\n", { "", "xyx", "none" }, { "z", "x none" } },
        { "start: W LF?\nW: \"a.b*\\\"\\\\\"\n%import common.LF\n", { "a.b*\"\\", "a.b*\"\\\n" }, { "axb*\"\\" } },
        { "start: INT WS_INLINE CNAME\n%import common (INT, WS_INLINE, CNAME)", { "12 a_1" }, { "12a", "a 1" } },
        { "start: \"ü\" | /[äö]+/", { "ü", "äöä" }, { "u", "\xC3" } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lm_error e = { 0 };
        lm_text pattern = { 0 };

        if (lm_grammar_lark_regex(rows[i].grammar, &pattern, &e) != LM_OK)
            fail_msg("%s: %s", rows[i].grammar, e.message);
        for (size_t k = 0; k < 4 && rows[i].yes[k]; k++)
            assert_true(accepts(pattern.data, rows[i].yes[k]));
        for (size_t k = 0; k < 4 && rows[i].no[k]; k++)
            assert_false(accepts(pattern.data, rows[i].no[k]));
        lm_text_free(&pattern);
    }
}

static void refusals(void **state)
{
    static const struct { const char *grammar; lm_status status; const char *word; } rows[] = {
        { "", LM_USAGE, "start" },
        { "start: \"a", LM_USAGE, "without an end" },
        { "start: (\"a\"", LM_USAGE, "group" },
        { "start: [\"a\")", LM_USAGE, "malformed" },
        { "start: \"a\"~3..2", LM_USAGE, "repetition" },
        { "start: \"ab\"..\"c\"", LM_USAGE, "range" },
        { "start: ]", LM_USAGE, "malformed" },
        { "start \"a\"", LM_USAGE, "definition" },
        { "start: start", LM_UNSUPPORTED, "itself" },
        { "start: a\na: b\nb: \"x\" a", LM_UNSUPPORTED, "itself" },
        { "start: \"\\q\"", LM_UNSUPPORTED, "escape" },
        { "start: /a/s", LM_UNSUPPORTED, "flags" },
        { "start: a{b}", LM_UNSUPPORTED, "template" },
        { "%ignore \" \"\nstart: \"a\"", LM_UNSUPPORTED, "directive" },
        { "start: a a a a a a a a a a a a a a a a\na: b b b b b b b b b b b b b b b b\nb: c c c c c c c c c "
          "c c c c c c c\n"
          "c: d d d d d d d d d d d d d d d d\nd: \"long text\"",
          LM_LIMIT, "expansion" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lm_error e = { 0 };
        lm_text pattern = { 0 };

        assert_int_equal(lm_grammar_lark_regex(rows[i].grammar, &pattern, &e), rows[i].status);
        if (!strstr(e.message, rows[i].word))
            fail_msg("%s: %s", rows[i].grammar, e.message);
        lm_text_free(&pattern);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(grammars), cmocka_unit_test(refusals) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
