/* workers_queue.c - large work never occupies all threads, so that small work does not wait for it; all
 * accepted work is done before the threads end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/front/workers.h"

enum { LARGE = 5 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    unsigned        large_running, max_running, large_done, small_done;
    bool            opened;
} seen = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0, false };

/* Large work waits until the test opens the gate. */
static void work(lm_work_item *item)
{
    pthread_mutex_lock(&seen.lock);
    if (!item->large) {
        seen.small_done++;
    } else {
        if (++seen.large_running > seen.max_running)
            seen.max_running = seen.large_running;
        pthread_cond_broadcast(&seen.changed);
        while (!seen.opened)
            pthread_cond_wait(&seen.changed, &seen.lock);
        seen.large_running--;
        seen.large_done++;
    }
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void await(const unsigned *count, unsigned n)
{
    pthread_mutex_lock(&seen.lock);
    while (*count < n)
        pthread_cond_wait(&seen.changed, &seen.lock);
    pthread_mutex_unlock(&seen.lock);
}

/* `max` of the large items run at once; small items pass the others where a thread is left. */
static void pass_with(uint32_t threads, unsigned max)
{
    lm_work_item large[LARGE] = { 0 }, small[3] = { 0 };
    lm_workers *w;
    lm_error e;

    seen.large_running = seen.max_running = seen.large_done = seen.small_done = 0;
    seen.opened = false;
    assert_int_equal(lm_workers_new(threads, LARGE + 3, work, &w, &e), LM_OK);
    for (size_t i = 0; i < LARGE; i++) {
        large[i].large = true;
        assert_true(lm_workers_add(w, &large[i]));
    }
    for (size_t i = 0; i < 3; i++)
        assert_true(lm_workers_add(w, &small[i]));
    await(&seen.max_running, max);
    if (threads > 1)
        await(&seen.small_done, 3);
    pthread_mutex_lock(&seen.lock);
    seen.opened = true;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
    lm_workers_free(w);
    assert_int_equal(seen.large_done, LARGE);
    assert_int_equal(seen.small_done, 3);
    assert_int_equal(seen.max_running, max);
}

static void test_small_work_passes_large_work(void **state)
{
    (void)state;
    pass_with(1, 1);
    pass_with(2, 1);
    pass_with(4, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_small_work_passes_large_work) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
