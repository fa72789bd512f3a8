/* Records passed from one thread to another all arrive, in order and complete, whatever their sizes, and
 * never exceed the space. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "schedule/ring.h"

enum { RECORDS = 20000 };

static uint32_t size_of_record(uint32_t i)
{
    lm_rng r = lm_rng_stream(7, i);

    return lm_rng_u32(&r) % (i % 50 ? 90 : 500);
}

static void *read_all(void *arg)
{
    lm_ring *r = arg;

    for (uint32_t i = 0; i < RECORDS;) {
        uint32_t       n;
        const uint8_t *p = lm_ring_next(r, &n);
        if (!p)
            continue;
        assert_int_equal(n, size_of_record(i));
        assert_int_equal((uintptr_t)p % 16, 0);
        for (uint32_t k = 0; k < n; k++)
            assert_int_equal(p[k], (uint8_t)(i + k));
        lm_ring_done(r);
        i++;
    }
    return NULL;
}

static void records_arrive_whole_and_in_order(void **state)
{
    lm_ring   r;
    pthread_t reader;
    uint32_t  refused = 0;

    (void)state;
    assert_int_equal(lm_ring_open(&r, 1200, NULL), LM_OK);
    assert_int_equal(r.size, 2048);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &r), 0);
    for (uint32_t i = 0; i < RECORDS;) {
        uint32_t n    = size_of_record(i);
        bool     fits = lm_ring_fits(&r, n);
        uint8_t *p    = lm_ring_add(&r, n);
        if (!p) {
            assert_false(fits && i % 3 == 1);            /* a record that fits is accepted if all before it
                                                            are published */
            refused++;
            lm_ring_publish(&r);
            continue;
        }
        for (uint32_t k = 0; k < n; k++)
            p[k] = (uint8_t)(i + k);
        if (i % 3 == 0 || i + 1 == RECORDS)
            lm_ring_publish(&r);
        i++;
    }
    pthread_join(reader, NULL);
    lm_ring_close(&r);
    assert_true(refused > 0);
}

/* As many records are accepted as are reported to fit, from every position in the buffer. */
static void records_that_fit_are_accepted(void **state)
{
    lm_ring  r;
    uint32_t n;

    (void)state;
    assert_int_equal(lm_ring_open(&r, 1024, NULL), LM_OK);
    for (uint32_t at = 0; at < 200; at++) {
        assert_non_null(lm_ring_add(&r, at % 40));       /* so that the next round begins elsewhere */
        lm_ring_publish(&r);
        assert_non_null(lm_ring_next(&r, &n));
        lm_ring_done(&r);
        assert_null(lm_ring_next(&r, &n));
        uint32_t taken = 0;
        for (uint32_t size = 10 + at; lm_ring_fits(&r, size); taken++) {
            assert_non_null(lm_ring_add(&r, size));
            lm_ring_publish(&r);
        }
        assert_true(taken > 0);
        for (; taken; taken--) {
            assert_non_null(lm_ring_next(&r, &n));
            assert_int_equal(n, 10 + at);
            lm_ring_done(&r);
        }
    }
    assert_null(lm_ring_add(&r, 513));                   /* more than half the buffer never fits */
    lm_ring_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_arrive_whole_and_in_order),
        cmocka_unit_test(records_that_fit_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
