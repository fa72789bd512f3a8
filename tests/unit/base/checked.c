/* checked.c - sums, products and alignments at the edge of 64 bits. */
#include "unit.h"

#include "base/checked.h"

static void results_and_overflows(void **state)
{
    const uint64_t top = UINT64_MAX;
    uint64_t       out = 77;

    (void)state;
    assert_true(lm_add_u64(top - 1, 1, &out));
    assert_true(out == top);
    assert_false(lm_add_u64(top, 1, &out));
    assert_true(out == top);                             /* unchanged */

    assert_true(lm_mul_u64(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    assert_true(out == ((UINT64_C(1) << 32) - 1) << 32);
    assert_false(lm_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(lm_mul_u64(top, 2, &out));
    assert_true(lm_mul_u64(top, 0, &out));
    assert_true(out == 0);
}

static void alignment(void **state)
{
    uint64_t out = 0;

    (void)state;
    for (uint64_t to = 1; to <= 4096; to *= 2)
        for (uint64_t n = 0; n < 5000; n += 7) {
            assert_true(lm_align_u64(n, to, &out));
            assert_true(out >= n && out - n < to && out % to == 0);
        }
    assert_true(lm_align_u64(UINT64_MAX - 31, 32, &out));
    assert_true(out == UINT64_MAX - 31);
    assert_false(lm_align_u64(UINT64_MAX - 30, 32, &out));
    assert_true(out == UINT64_MAX - 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(results_and_overflows),
                                        cmocka_unit_test(alignment) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
