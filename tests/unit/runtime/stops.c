/* Stop strings in pieces of any size: the text ends where it would end in one piece, and no part of a stop
 * string is ever shown. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "base/rng.h"
#include "runtime/generate/stops.h"

/* Feed `text` in pieces of `size` bytes (0: random sizes). Returns the number of bytes that were shown. */
static size_t feed(const char *const *stops, const char *text, size_t n, size_t size, lm_rng *r, char *shown,
                   bool *found)
{
    char pending[256];
    size_t held = 0, out = 0;

    *found = false;
    for (size_t at = 0; at < n && !*found;) {
        size_t piece = size ? size : 1 + lm_rng_u32(r) % 5;
        piece = piece < n - at ? piece : n - at;
        memcpy(pending + held, text + at, piece);
        held += piece;
        at += piece;
        size_t safe = lm_stop_scan(stops, pending, held, at == n, found);
        memcpy(shown + out, pending, safe);
        out += safe;
        memmove(pending, pending + safe, held - safe);
        held -= safe;
    }
    if (!*found)
        assert_int_equal(held, 0);
    return out;
}

static void known_cases(void **state)
{
    const struct { const char *text, *stops[3], *shown; bool found; } cases[] = {
        { "hello world", { "wor" }, "hello ", true },
        { "hello world", { "xyz" }, "hello world", false },
        { "hello wo", { "world" }, "hello wo", false },            /* held, then shown at the end */
        { "aaab", { "aab" }, "a", true },
        { "abcd", { "abcd", "bc" }, "a", true },                   /* "bc" completes first */
        { "xabc", { "bc", "abc" }, "x", true },                    /* both complete at once: the longest */
        { "abc", { "" }, "abc", false },
        { "stop", { "stop" }, "", true },
        { "caf\xc3\xa9 noir", { "\xc3\xa9 n" }, "caf", true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = 1; size < 6; size++) {
            char shown[256];
            bool found;
            size_t n = feed(cases[i].stops, cases[i].text, strlen(cases[i].text), size, NULL, shown, &found);
            shown[n] = 0;
            assert_string_equal(shown, cases[i].shown);
            assert_int_equal(found, cases[i].found);
        }
}

static void ends_that_may_become_a_stop_are_held(void **state)
{
    const char *const stops[] = { "<|end|>", "\n\n", NULL };
    bool found;

    (void)state;
    assert_int_equal(lm_stop_scan(stops, "ab<|en", 6, false, &found), 2);
    assert_int_equal(lm_stop_scan(stops, "ab<|ex", 6, false, &found), 6);
    assert_int_equal(lm_stop_scan(stops, "ab\n", 3, false, &found), 2);
    assert_int_equal(lm_stop_scan(stops, "ab\n", 3, true, &found), 3);
    assert_false(found);
    assert_int_equal(lm_stop_scan(NULL, "ab\n", 3, false, &found), 3);

    /* If a stop string begins inside a character, the whole character is held or cut off. */
    const char *const inside[] = { "\xa9!", NULL };
    assert_int_equal(lm_stop_scan(inside, "caf\xc3\xa9", 5, false, &found), 3);
    assert_int_equal(lm_stop_scan(inside, "caf\xc3\xa9!", 6, false, &found), 3);
    assert_true(found);
}

/* Find the end by definition, in the whole text. */
static size_t by_definition(const char *const *stops, const char *text, size_t n, bool *found)
{
    size_t end = n + 1, start = n;

    for (size_t i = 0; stops[i]; i++) {
        size_t m = strlen(stops[i]);
        for (size_t at = 0; m && at + m <= n; at++) {
            if (memcmp(text + at, stops[i], m) != 0)
                continue;
            if (at + m < end || (at + m == end && at < start)) {
                end = at + m;
                start = at;
            }
            break;
        }
    }
    *found = end <= n;
    return start;
}

static void pieces_do_not_matter(void **state)
{
    lm_rng r = lm_rng_stream(1, 2);

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[64], a[6] = { 0 }, b[6] = { 0 }, shown[256];
        const char *const stops[] = { a, b, NULL };
        size_t n = 1 + lm_rng_u32(&r) % 40, expected;
        bool found, known;

        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + lm_rng_u32(&r) % 3);
        for (size_t i = 0, m = 1 + lm_rng_u32(&r) % 5; i < m; i++)
            a[i] = (char)('a' + lm_rng_u32(&r) % 3);
        for (size_t i = 0, m = lm_rng_u32(&r) % 5; i < m; i++)
            b[i] = (char)('a' + lm_rng_u32(&r) % 3);
        expected = by_definition(stops, text, n, &known);
        assert_int_equal(feed(stops, text, n, 0, &r, shown, &found), expected);
        assert_int_equal(found, known);
        assert_memory_equal(shown, text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(ends_that_may_become_a_stop_are_held),
        cmocka_unit_test(pieces_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
