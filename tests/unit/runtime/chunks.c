/* chunks.c - the shares into which a stage of products is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/engine/steps.h"

/* Shares are consecutive, cover everything once and begin at whole grains; none is more than one grain larger
 * than the previous. */
static void parts_cover_all_outputs(void **state)
{
    (void)state;
    for (uint64_t outputs = 0; outputs < 3000; outputs += outputs < 200 ? 1 : 97)
        for (uint64_t grain = 1; grain <= 64; grain *= 8)
            for (unsigned workers = 1; workers < 9; workers++)
                for (unsigned each = 1; each <= LM_MAX_CHUNKS; each++) {
                    uint64_t at = 0, before = UINT64_MAX - 1;
                    for (unsigned i = 0; i < workers * each; i++) {
                        uint64_t from, to;
                        lm_chunk_outputs(workers, outputs, grain, i, workers * each, &from, &to);
                        assert_true(from == at && to >= from && to <= outputs);
                        assert_true(from % grain == 0 || from == outputs);
                        uint64_t grains = (to - from + grain - 1) / grain;
                        assert_true(grains <= before + 1);
                        before = grains;
                        at     = to;
                    }
                    assert_true(at == outputs);
                }
}

/* There is at least one share per worker, and all workers get the same number. */
static void workers_have_equal_numbers(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers < 70; workers++)
        for (uint64_t bytes = 0; bytes < UINT64_C(1) << 40; bytes = 3 * bytes + 1000)
            for (uint64_t rows = 1; rows < 600; rows += 37) {
                unsigned n = lm_product_chunks(workers, bytes, rows), each = n / workers;
                assert_true(workers == 1
                                ? n == 1
                                : n == workers * each && (each == 1 || each == 2 || each == LM_MAX_CHUNKS));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cover_all_outputs),
        cmocka_unit_test(workers_have_equal_numbers),
    };

    return cmocka_run_group_tests_name("runtime/shares", tests, NULL, NULL);
}
