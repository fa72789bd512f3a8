/* map.c - every key that was added is found with its value, and no other. */
#include "unit.h"

#include "base/alloc.h"
#include "base/map.h"

static void many_keys(void **state)
{
    enum { KEYS = 20000 };
    static char text[KEYS][12];
    lm_map     *m = lm_map_new(0);                       /* grows many times */
    uint64_t    value;

    (void)state;
    assert_non_null(m);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(text[i], sizeof text[i], "t%zu", i);
        assert_false(lm_map_get(m, lm_view_of(text[i]), &value));
        assert_true(lm_map_add(m, lm_view_of(text[i]), i * i));
    }
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(lm_map_get(m, lm_view_of(text[i]), &value));
        assert_true(value == i * i);
        assert_false(lm_map_add(m, lm_view_of(text[i]), 1));     /* exists: the old value stays */
    }
    assert_false(lm_map_failed(m));
    assert_false(lm_map_get(m, lm_view_of("t20000"), &value));
    lm_map_free(m);
}

static void keys_are_bytes(void **state)
{
    lm_map  *m = lm_map_new(4);
    uint64_t value;
    lm_view  none = { 0 };

    (void)state;
    assert_true(lm_map_add(m, LM_VIEW("a\0b"), 1));
    assert_true(lm_map_add(m, LM_VIEW("a"), 2));
    assert_true(lm_map_add(m, LM_VIEW("a\0c"), 3));
    assert_true(lm_map_add(m, none, 4));
    assert_false(lm_map_add(m, LM_VIEW(""), 5));         /* the same empty key */
    assert_true(lm_map_get(m, LM_VIEW("a\0b"), &value) && value == 1);
    assert_true(lm_map_get(m, LM_VIEW("a"), &value) && value == 2);
    assert_true(lm_map_get(m, LM_VIEW(""), &value) && value == 4);
    assert_true(lm_map_set(m, LM_VIEW("a"), 9));
    assert_true(lm_map_get(m, LM_VIEW("a"), &value) && value == 9);
    assert_true(lm_map_set(m, LM_VIEW("new"), UINT64_MAX));
    assert_true(lm_map_get(m, LM_VIEW("new"), &value) && value == UINT64_MAX);
    lm_map_free(m);
    lm_map_free(NULL);
}

static void expected_keys_fit_at_once(void **state)
{
    static char text[1000][24];

    (void)state;
    for (size_t n = 1; n <= 1000; n += 37) {
        lm_map  *m     = lm_map_new(n);
        uint64_t calls = lm_alloc_statistics().calls;
        for (size_t i = 0; i < n; i++) {
            snprintf(text[i], sizeof text[i], "%zu", i);
            assert_true(lm_map_add(m, lm_view_of(text[i]), i));
        }
        assert_int_equal(lm_alloc_statistics().calls, calls);
        lm_map_free(m);
    }
}

static void out_of_memory_differs_from_duplicates(void **state)
{
    static char text[64][8];
    size_t      added = 0;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        lm_alloc_fail_at(n);
        assert_null(lm_map_new(10));
    }
    lm_map *m = lm_map_new(0);
    lm_alloc_fail_at(1);
    for (; added < 64; added++) {
        snprintf(text[added], sizeof text[added], "%zu", added);
        if (!lm_map_add(m, lm_view_of(text[added]), added))
            break;
    }
    assert_true(added < 64 && lm_map_failed(m));
    for (size_t i = 0; i < added; i++) {
        uint64_t value;
        assert_true(lm_map_get(m, lm_view_of(text[i]), &value) && value == i);
    }
    lm_map_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_keys),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(expected_keys_fit_at_once),
        cmocka_unit_test(out_of_memory_differs_from_duplicates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
