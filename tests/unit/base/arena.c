/* arena.c - pieces do not move or overlap, are zeroed and aligned, and are all freed at once. */
#include "unit.h"

#include "base/alloc.h"
#include "base/arena.h"

static void pieces_are_separate(void **state)
{
    enum { PIECES = 3000 };
    static unsigned char *piece[PIECES];
    static size_t         size[PIECES];
    lm_alloc_stats        before = lm_alloc_statistics();
    lm_arena              a      = { 0 };
    uint64_t              total  = 0;

    (void)state;
    for (size_t i = 0; i < PIECES; i++) {
        size[i]  = i * 37 % 411 + (i % 500 == 499 ? 70000u : 0);     /* some larger than a block */
        piece[i] = lm_arena_alloc(&a, size[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % 16, 0);
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], 0);
        memset(piece[i], (int)(i % 251 + 1), size[i]);
        total += (size[i] + 15) / 16 * 16;
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], i % 251 + 1);
    assert_int_equal(a.used, total);
    lm_arena_free(&a);
    assert_null(a.head);
    assert_int_equal(a.used, 0);
    assert_int_equal(lm_alloc_statistics().live_bytes, before.live_bytes);
}

static void impossible_sizes(void **state)
{
    lm_arena a = { 0 };

    (void)state;
    assert_null(lm_arena_alloc(&a, SIZE_MAX));
    assert_null(lm_arena_alloc(&a, SIZE_MAX - 20));
    assert_null(lm_arena_new(&a, SIZE_MAX / 4, uint64_t));
    assert_null(lm_arena_strndup(&a, "x", SIZE_MAX));
    assert_non_null(lm_arena_alloc(&a, 0));
    assert_non_null(lm_arena_new(&a, 5, uint64_t));      /* still usable */
    lm_arena_free(&a);
}

static void out_of_memory_leaves_it_usable(void **state)
{
    lm_arena a = { 0 };

    (void)state;
    lm_alloc_fail_at(1);
    assert_null(lm_arena_alloc(&a, 10));
    assert_int_equal(a.used, 0);
    char *kept = lm_arena_strdup(&a, "kept");
    lm_alloc_fail_at(1);
    assert_null(lm_arena_alloc(&a, 100000));
    assert_string_equal(kept, "kept");
    assert_non_null(lm_arena_alloc(&a, 100000));
    assert_string_equal(kept, "kept");
    lm_arena_free(&a);
}

static void strings(void **state)
{
    lm_arena a = { 0 };
    char     text[6000];

    (void)state;
    assert_string_equal(lm_arena_strdup(&a, ""), "");
    assert_string_equal(lm_arena_strndup(&a, "lamina", 3), "lam");
    assert_memory_equal(lm_arena_strndup(&a, "a\0b", 3), "a\0b", 4);
    assert_string_equal(lm_arena_printf(&a, "%d %s", 7, "layers"), "7 layers");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_string_equal(lm_arena_printf(&a, "%s", text), text);
    lm_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_separate), cmocka_unit_test(impossible_sizes),
        cmocka_unit_test(out_of_memory_leaves_it_usable), cmocka_unit_test(strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
