/* str.c - views compare bytes, buffers grow, a failed allocation is reported once at the end. */
#include "unit.h"

#include "base/alloc.h"
#include "base/str.h"

static void views(void **state)
{
    lm_view empty = { 0 }, nul = { "a\0b", 3 };

    (void)state;
    assert_int_equal(lm_view_of(NULL).size, 0);
    assert_true(lm_view_equal(empty, lm_view_of("")));
    assert_true(lm_view_is(lm_view_of("rope"), "rope"));
    assert_false(lm_view_is(lm_view_of("rope"), "rop"));
    assert_false(lm_view_is(nul, "a"));
    assert_true(lm_view_equal(nul, LM_VIEW("a\0b")));
    assert_true(lm_view_starts(lm_view_of("blk.0.attn"), LM_VIEW("blk.")));
    assert_false(lm_view_starts(lm_view_of("blk"), LM_VIEW("blk.")));
    assert_true(lm_view_starts(empty, empty));
    assert_true(lm_view_ends(lm_view_of("model.gguf"), LM_VIEW(".gguf")));
    assert_false(lm_view_ends(lm_view_of("gguf"), LM_VIEW(".gguf")));
}

static void buffers_grow(void **state)
{
    lm_text b = { 0 };

    (void)state;
    for (int i = 0; i < 1000; i++) {
        lm_text_add_char(&b, 'a');
        lm_text_add(&b, "\0", 1);
        lm_text_printf(&b, "%d", i % 10);
        assert_int_equal(b.data[b.size], 0);
        assert_true(b.capacity > b.size);
    }
    assert_int_equal(b.size, 3000);
    for (size_t i = 0; i < 1000; i++)
        assert_memory_equal(b.data + 3 * i, ((char[]){ 'a', 0, (char)('0' + i % 10) }), 3);

    lm_text_clear(&b);
    uint64_t calls = lm_alloc_statistics().calls;
    lm_text_add_str(&b, "one ");
    lm_text_add_view(&b, LM_VIEW("two"));
    lm_text_add(&b, NULL, 0);
    assert_int_equal(lm_alloc_statistics().calls, calls);        /* the memory was reused */
    assert_true(lm_view_is(lm_text_view(&b), "one two"));
    lm_text_free(&b);
    assert_null(b.data);
}

static void reserve_makes_room(void **state)
{
    lm_text b = { 0 };

    (void)state;
    assert_true(lm_text_reserve(&b, 1000));
    uint64_t calls = lm_alloc_statistics().calls;
    for (int i = 0; i < 1000; i++)
        lm_text_add_char(&b, 'x');
    assert_int_equal(lm_alloc_statistics().calls, calls);
    assert_false(lm_text_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    assert_int_equal(b.size, 1000);
    lm_text_free(&b);
}

static void failure_sticks(void **state)
{
    lm_text b = { 0 };

    (void)state;
    lm_text_add_str(&b, "kept");
    lm_alloc_fail_at(1);
    lm_text_printf(&b, "%1000d", 1);
    lm_text_add_str(&b, " never");
    assert_true(b.failed);
    assert_string_equal(b.data, "kept");
    lm_text_clear(&b);                                    /* usable again after the failure */
    lm_text_add_str(&b, "again");
    assert_false(b.failed);
    assert_string_equal(b.data, "again");
    lm_text_free(&b);
}

static void edit_distances(void **state)
{
    static const struct { const char *a, *b; size_t d; } cases[] = {
        { "", "", 0 },          { "", "abc", 3 },          { "kitten", "sitting", 3 }, { "--temp", "--tmp", 1 },
        { "saturday", "sunday", 3 }, { "inspect", "inspect", 0 }, { "run", "nur", 2 },       { "flaw", "lawn", 2 },
    };
    char longer[100];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lm_edit_distance(cases[i].a, cases[i].b), cases[i].d);
        assert_int_equal(lm_edit_distance(cases[i].b, cases[i].a), cases[i].d);
    }
    memset(longer, 'a', 99);
    longer[99] = 0;
    assert_true(lm_edit_distance(longer, "a") >= 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views),
        cmocka_unit_test(buffers_grow),
        cmocka_unit_test(reserve_makes_room),
        cmocka_unit_test(failure_sticks),
        cmocka_unit_test(edit_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
