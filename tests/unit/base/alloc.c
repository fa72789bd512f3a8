/* alloc.c - allocations are counted exactly, aligned as requested, and fail when a test makes them fail. */
#include "unit.h"

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"

static void calls_and_bytes_are_counted(void **state)
{
    lm_alloc_stats before = lm_alloc_statistics();

    (void)state;
    char *a = lm_alloc(100), *b = lm_alloc_zero(10, 30), *c = lm_strdup("lamina");
    lm_alloc_stats with = lm_alloc_statistics();
    assert_int_equal(with.calls - before.calls, 3);
    assert_int_equal(with.live_bytes - before.live_bytes,
                     malloc_usable_size(a) + malloc_usable_size(b) + malloc_usable_size(c));
    assert_string_equal(c, "lamina");
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(b[i], 0);

    memset(a, 5, 100);
    a = lm_realloc(a, 100000);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(a[i], 5);
    assert_int_equal(lm_alloc_statistics().calls - before.calls, 4);
    lm_free(a);
    lm_free(b);
    lm_free(c);
    lm_free(NULL);
    assert_int_equal(lm_alloc_statistics().live_bytes, before.live_bytes);

    char *d = lm_realloc(NULL, 10);                      /* like malloc */
    assert_non_null(d);
    lm_free(d);
    char *nothing = lm_alloc(0);                         /* a pointer that can be freed */
    assert_non_null(nothing);
    lm_free(nothing);
}

static void products_are_checked(void **state)
{
    (void)state;
    assert_null(lm_alloc_zero(SIZE_MAX / 2, 3));
    assert_null(lm_alloc_zero(3, SIZE_MAX / 2));
}

static void aligned_blocks(void **state)
{
    static const size_t sizes[] = {
        0, 1, 63, 4096, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, (7u << 20) + 12345
    };
    lm_alloc_stats      before  = lm_alloc_statistics();

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t alignment = 1; alignment <= 2u << 20; alignment *= 2) {
            unsigned char *p = lm_alloc_aligned(sizes[i], alignment);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % alignment, 0);
            if (sizes[i] >= 2u << 20)                    /* so that huge pages are possible */
                assert_int_equal((uintptr_t)p % (2u << 20), 0);
            assert_int_equal(lm_alloc_statistics().aligned_bytes - before.aligned_bytes, sizes[i]);
            assert_int_equal(lm_alloc_statistics().live_bytes - before.live_bytes, sizes[i]);
            for (size_t at = 0; at < sizes[i]; at += at < 8192 ? 1 : 4093)
                assert_int_equal(p[at], 0);
            if (sizes[i])
                p[0] = p[sizes[i] - 1] = 1;
            lm_free_aligned(p, sizes[i]);
            assert_int_equal(lm_alloc_statistics().aligned_bytes, before.aligned_bytes);
        }
    assert_int_equal(lm_alloc_statistics().live_bytes, before.live_bytes);
    lm_free_aligned(NULL, 100);
    assert_null(lm_alloc_aligned(100, 3));
    assert_null(lm_alloc_aligned(100, 0));
    assert_null(lm_alloc_aligned(100, 4u << 20));
    assert_null(lm_alloc_aligned(SIZE_MAX, 64));
    assert_null(lm_alloc_aligned(SIZE_MAX - (2u << 20), 64));
    assert_null(lm_alloc_aligned(SIZE_MAX / 4, 64));     /* more than any machine has: an error now, not an
                                                            OOM kill later */
    assert_int_equal(lm_alloc_statistics().aligned_bytes, before.aligned_bytes);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)      /* sanitizers map their own memory */
static size_t mapped_pages(void)
{
    unsigned long total = 0;
    FILE         *f     = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &total), 1);
    fclose(f);
    return total;
}

/* Memory mapped beyond the block is unmapped at once, and the block when it is freed. */
static void mappings_do_not_leak(void **state)
{
    size_t before, size = (64u << 20) + 1, page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    mapped_pages();                                      /* let stdio allocate its buffer */
    before  = mapped_pages();
    void *p = lm_alloc_aligned(size, 64);
    assert_int_equal(mapped_pages() - before, size / page + 1);
    lm_free_aligned(p, size);
    assert_int_equal(mapped_pages(), before);
}
#endif

static void one_allocation_fails(void **state)
{
    (void)state;
    lm_alloc_fail_at(2);
    void *a = lm_alloc(1);
    assert_non_null(a);
    assert_null(lm_alloc(1));
    void *b = lm_alloc(1);                               /* only that one */
    assert_non_null(b);

    lm_alloc_fail_at(1);
    assert_null(lm_realloc(a, 50));                      /* `a` stays valid */
    lm_alloc_fail_at(1);
    assert_null(lm_alloc_aligned(1, 64));
    lm_alloc_fail_at(1);
    assert_null(lm_strdup("x"));
    lm_alloc_fail_at(1);
    lm_alloc_fail_at(0);
    void *c = lm_alloc_zero(1, 1);
    assert_non_null(c);
    lm_free(a);
    lm_free(b);
    lm_free(c);
}

static void *churn(void *arg)
{
    for (size_t i = 0; i < 2000; i++) {
        void *p = lm_alloc(i % 300), *q = lm_alloc_aligned(i, 64);
        p       = lm_realloc(p, i % 700);
        lm_free(p);
        lm_free_aligned(q, i);
    }
    return arg;
}

static void threads_count_together(void **state)
{
    lm_alloc_stats before = lm_alloc_statistics();
    pthread_t      t[4];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    lm_alloc_stats after = lm_alloc_statistics();
    assert_int_equal(after.calls - before.calls, 4 * 2000 * 3);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.aligned_bytes, before.aligned_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_and_bytes_are_counted), cmocka_unit_test(products_are_checked),
        cmocka_unit_test(aligned_blocks),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)      /* sanitizers map their own memory */
        cmocka_unit_test(mappings_do_not_leak),
#endif
        cmocka_unit_test(one_allocation_fails), cmocka_unit_test(threads_count_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
