/* error.c - an error is one line with the problem and the place, however hostile the names it quotes. */
#include "unit.h"

#include <errno.h>

#include "base/error.h"

static void parts_come_in_order(void **state)
{
    lm_error e;
    char     text[1024];

    (void)state;
    assert_int_equal(lm_fail(&e, LM_BAD_MODEL, "blk.3.attn_k.weight", 18432, "expected [%d, 2048]", 1024),
                     LM_BAD_MODEL);
    assert_string_equal(lm_error_text(&e, text, sizeof text),
                        "blk.3.attn_k.weight: expected [1024, 2048] (offset 18432)");
    assert_int_equal(lm_fail_in(&e, "tiny.gguf"), LM_BAD_MODEL);
    assert_string_equal(lm_error_text(&e, text, sizeof text),
                        "blk.3.attn_k.weight: tiny.gguf: expected [1024, 2048] (offset 18432)");
    lm_fail_in(&e, "other.gguf");                        /* the first file named is kept */
    assert_string_equal(e.file, "tiny.gguf");
    assert_int_equal(lm_fail_hint(&e, "try %s", "this"), LM_BAD_MODEL);
    assert_string_equal(e.hint, "try this");

    lm_fail(&e, LM_FAILED, NULL, LM_NO_OFFSET, "no");    /* nothing of the previous error is left */
    assert_string_equal(lm_error_text(&e, text, sizeof text), "no");
    assert_string_equal(e.file, "");
    assert_string_equal(e.hint, "");
}

static void errors_are_optional(void **state)
{
    (void)state;
    assert_int_equal(lm_fail(NULL, LM_IO, "x", 1, "y"), LM_IO);
    assert_int_equal(lm_fail_memory(NULL, "x", 1), LM_NO_MEMORY);
    assert_int_equal(lm_fail_errno(NULL, "x", "y"), LM_IO);
    lm_fail_in(NULL, "f");
    lm_fail_hint(NULL, "h");
}

static void errno_and_memory(void **state)
{
    lm_error e;
    char     text[1024];

    (void)state;
    errno = ENOSPC;
    lm_fail_errno(&e, "out.gguf", "cannot be written");
    assert_string_equal(lm_error_text(&e, text, sizeof text),
                        "out.gguf: cannot be written: No space left on device");
    lm_fail_memory(&e, "the cache", 12345);
    assert_string_equal(lm_error_text(&e, text, sizeof text), "the cache: out of memory (12345 bytes)");
}

/* A name must not end the line, control the terminal or mislead the reader, and JSON must stay UTF-8. */
static void hostile_names_stay_on_their_line(void **state)
{
    static const struct { const char *in, *out;
    } cases[] = {
        { "a\nb\rc\td", "a\\x0ab\\x0dc\\x09d" },
        { "\033[31mred\007\177", "\\x1b[31mred\\x07\\x7f" },
        { "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x90\xb1", "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x90\xb1" },
        { "\xc2\x85 \xc2\x9b", "\\xc2\\x85 \\xc2\\x9b" }, /* NEL, CSI */
        /* line separator, right-to-left */
        { "a\xe2\x80\xa8"
          "b\xe2\x80\xae"
          "c",
          "a\\xe2\\x80\\xa8b\\xe2\\x80\\xaec" },
        { "\xff\xc3 \xc0\x80 \xed\xa0\x80",
          "\\xff\\xc3 \\xc0\\x80 \\xed\\xa0\\x80" }, /* broken, overlong NUL, surrogate */
        /* past U+10FFFF, cut off */
        { "\xf4\x90\x80\x80 \xe4\xb8", "\\xf4\\x90\\x80\\x80 \\xe4\\xb8" },
        { "back\\slash", "back\\slash" },
    };
    lm_error e;
    char     text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_fail(&e, LM_BAD_MODEL, cases[i].in, LM_NO_OFFSET, "%s", cases[i].in);
        lm_fail_in(&e, cases[i].in);
        lm_fail_hint(&e, "%s", cases[i].in);
        assert_string_equal(e.where, cases[i].out);
        assert_string_equal(e.message, cases[i].out);
        assert_string_equal(e.file, cases[i].out);
        assert_string_equal(e.hint, cases[i].out);
        lm_error_text(&e, text, sizeof text);
        assert_null(strchr(text, '\n'));
    }
}

/* Truncation at any length never leaves half a character or half an escape, and never writes past the end. */
static void cuts_are_clean(void **state)
{
    static const char text[] = "\xe4\xb8\xad\x01" "a\xf0\x9f\x90\xb1";
    static const char *const whole[] = { "", "\xe4\xb8\xad", "\xe4\xb8\xad\\x01", "\xe4\xb8\xad\\x01" "a",
                                         "\xe4\xb8\xad\\x01" "a\xf0\x9f\x90\xb1" };
    char              out[32];
    lm_error          e;
    char              longest[4096];

    (void)state;
    for (size_t size = 1; size < 20; size++) {
        memset(out, '#', sizeof out);
        lm_escape(out, size, text);
        assert_true(strlen(out) < size);
        assert_int_equal(out[size], '#');
        size_t best = 0;
        for (size_t i = 0; i < 5; i++)
            if (strlen(whole[i]) < size)
                best = i;
        assert_string_equal(out, whole[best]);
    }
    for (size_t at = 0; at < 4; at++) {
        memset(longest, 'x', sizeof longest);
        longest[at] = 0;
        for (size_t i = at; i + 3 < sizeof longest - 1; i += 3)
            memcpy(longest + i, "\xe4\xb8\xad", 4);
        lm_fail(&e, LM_FAILED, longest, LM_NO_OFFSET, "%s", longest);
        assert_true(strlen(e.where) >= sizeof e.where - 4);
        assert_int_equal((strlen(e.where) - at) % 3, 0);
        assert_int_equal((strlen(e.message) - at) % 3, 0);
    }
    lm_fail(&e, LM_FAILED, "where", 7, "message");
    for (size_t size = 1; size < 12; size++) {
        memset(out, '#', sizeof out);
        lm_error_text(&e, out, size);
        assert_int_equal(out[size], '#');
        assert_true(strncmp("where: message (offset 7)", out, strlen(out)) == 0);
    }
    out[0] = '#';
    lm_error_text(&e, out, 0);
    assert_int_equal(out[0], '#');
}

/* Scripts rely on these (docs/library/errors.md). */
static void words_of_statuses(void **state)
{
    static const struct { lm_status s; const char *word; } known[] = {
        { LM_OK, "ok" }, { LM_IO, "io" }, { LM_USAGE, "usage" }, { LM_BAD_MODEL, "bad_model" },
        { LM_UNSUPPORTED, "unsupported" }, { LM_NO_FIT, "no_fit" }, { LM_DIFFERS, "differs" },
        { LM_CANCELLED, "cancelled" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_string_equal(lm_status_word(known[i].s), known[i].word);
    }
    assert_non_null(lm_status_word((lm_status)999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_in_order), cmocka_unit_test(errors_are_optional),
        cmocka_unit_test(errno_and_memory),    cmocka_unit_test(hostile_names_stay_on_their_line),
        cmocka_unit_test(cuts_are_clean),      cmocka_unit_test(words_of_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
