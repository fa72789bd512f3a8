/* cursor.c - a cursor never reads past its end, moves only on success and reports its offset. */
#include "unit.h"

#include "base/cursor.h"

static void little_endian(void **state)
{
    static const uint8_t data[] = { 0x04, 0x05, 0x06, 0xf7, 1, 2, 3, 4, 5, 6, 7, 0xf8 };
    lm_cursor            c = { data, sizeof data, 0, "f" };
    lm_error             e;
    uint32_t             d;
    uint64_t             q;

    (void)state;
    assert_int_equal(lm_cursor_u32(&c, "x", &d, &e), LM_OK);
    assert_int_equal(d, 0xf7060504u);
    assert_int_equal(lm_cursor_u64(&c, "x", &q, &e), LM_OK);
    assert_true(q == UINT64_C(0xf807060504030201));
    assert_int_equal(lm_cursor_left(&c), 0);
}

/* A read past the end by one byte or more is rejected with an error that names the field; neither the cursor
 * nor the result changes. The block ends where the data ends, so that the sanitizers detect a read of even
 * one byte too many. */
static void reads_past_the_end_are_rejected(void **state)
{
    static const size_t width[] = { 4, 8 };
    char                text[512], want[128];

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t left = 0; left < width[i]; left++) {
            uint8_t  *data = malloc(5 + left);
            lm_cursor c    = { data, 5 + left, 5, "model.gguf" };
            uint64_t  out  = 42;
            lm_error  e;
            lm_status s = LM_OK;

            assert_non_null(data);
            if (width[i] == 4)
                s = lm_cursor_u32(&c, "version", (uint32_t *)&out, &e);
            else
                s = lm_cursor_u64(&c, "version", &out, &e);
            assert_int_equal(s, LM_BAD_MODEL);
            assert_int_equal(c.at, 5);
            assert_true(out == 42);
            snprintf(want, sizeof want,
                     "version: model.gguf: needs %zu bytes, the file has %zu left (offset 5)", width[i],
                     left);
            assert_string_equal(lm_error_text(&e, text, sizeof text), want);
            free(data);
        }
}

static void views_and_strings(void **state)
{
    static const uint8_t data[] = { 3, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c', 'd', 'e' };
    static const uint8_t lies[] = { 255, 255, 255, 255, 255, 255, 255, 255, 'a' };
    lm_cursor            c = { data, sizeof data, 0, "f" }, bad = { lies, sizeof lies, 0, "f" };
    lm_error             e;
    lm_view              v = { 0 };

    (void)state;
    assert_int_equal(lm_cursor_string(&c, "name", 2, &v, &e), LM_BAD_MODEL);     /* longer than allowed */
    assert_int_equal(c.at, 0);
    assert_null(v.data);
    assert_int_equal(e.offset, 0);
    assert_int_equal(lm_cursor_string(&c, "name", 3, &v, &e), LM_OK);
    assert_true(lm_view_is(v, "abc"));
    assert_ptr_equal(v.data, data + 8);                  /* a view, not a copy */
    assert_int_equal(lm_cursor_view(&c, "rest", 3, &v, &e), LM_BAD_MODEL);
    assert_int_equal(lm_cursor_view(&c, "rest", UINT64_MAX, &v, &e), LM_BAD_MODEL);
    assert_int_equal(lm_cursor_view(&c, "rest", 2, &v, &e), LM_OK);
    assert_true(lm_view_is(v, "de"));
    assert_int_equal(lm_cursor_view(&c, "nothing", 0, &v, &e), LM_OK);
    assert_int_equal(v.size, 0);
    assert_int_equal(lm_cursor_string(&bad, "name", UINT64_MAX, &v, &e), LM_BAD_MODEL);
    assert_int_equal(bad.at, 0);
    bad.size = 4;                                        /* too short even for a length */
    assert_int_equal(lm_cursor_string(&bad, "name", 10, &v, NULL), LM_BAD_MODEL);
    assert_int_equal(bad.at, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_endian),
        cmocka_unit_test(reads_past_the_end_are_rejected),
        cmocka_unit_test(views_and_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
