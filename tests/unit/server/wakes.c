/* wakes.c - a front continues its connections after each wake, although the worker that finishes and the
 * threads that wake run concurrently. The connection is freed as soon as its worker has released it, as the
 * front does. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/front/http_wakes.h"

enum { ROUNDS = 50000, WAKERS = 2 };

typedef struct connection { lm_wake wake; atomic_bool busy; } connection;

static lm_wakes wakes;
/* A waker's lock takes the place of the reply's lock: after the reply is closed, it wakes nothing. */
static struct { pthread_mutex_t lock; connection *c; } wakers[WAKERS];
static _Atomic(connection *) work;
static atomic_bool stops;

static void *wake_always(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    while (!atomic_load(&stops)) {
        pthread_mutex_lock(&wakers[i].lock);
        if (wakers[i].c)
            lm_wakes_add(&wakes, &wakers[i].c->wake);
        pthread_mutex_unlock(&wakers[i].lock);
        sched_yield();
    }
    return NULL;
}

static void *finish_always(void *arg)
{
    (void)arg;
    while (!atomic_load(&stops)) {
        connection *c = atomic_exchange(&work, NULL);
        if (c)
            lm_wakes_release(&wakes, &c->wake, &c->busy);
        sched_yield();
    }
    return NULL;
}

static void set_wakers(connection *c)
{
    for (size_t i = 0; i < WAKERS; i++) {
        pthread_mutex_lock(&wakers[i].lock);
        wakers[i].c = c;
        pthread_mutex_unlock(&wakers[i].lock);
    }
}

/* Wait until something is listed, and take everything: only this connection can be. */
static void take(connection *c)
{
    struct pollfd p = { .fd = wakes.event, .events = POLLIN };
    lm_wake *x;

    assert_int_equal(poll(&p, 1, 60000), 1);
    lm_wakes_heard(&wakes);
    while ((x = lm_wakes_take(&wakes)))
        assert_ptr_equal(x, &c->wake);
}

static void no_wake_is_lost_and_none_comes_late(void **state)
{
    pthread_t threads[WAKERS + 1];

    (void)state;
    assert_true(lm_wakes_open(&wakes));
    for (size_t i = 0; i < WAKERS; i++) {
        pthread_mutex_init(&wakers[i].lock, NULL);
        void *index = (void *)(uintptr_t)i;              /* the number itself, as the argument of a thread */
        assert_int_equal(pthread_create(&threads[i], NULL, wake_always, index), 0);
    }
    assert_int_equal(pthread_create(&threads[WAKERS], NULL, finish_always, NULL), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        connection *c = calloc(1, sizeof *c);

        assert_non_null(c);
        atomic_store(&c->busy, true);
        if (i % 2)
            set_wakers(c);
        atomic_store(&work, c);
        while (atomic_load(&c->busy))
            take(c);
        set_wakers(NULL);
        lm_wakes_remove(&wakes, &c->wake);
        free(c);
    }
    assert_null(lm_wakes_take(&wakes));
    atomic_store(&stops, true);
    for (size_t i = 0; i <= WAKERS; i++)
        pthread_join(threads[i], NULL);
    lm_wakes_close(&wakes);
    printf("count: connections woken %d\n", ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_wake_is_lost_and_none_comes_late) };

    return cmocka_run_group_tests_name("wakes", tests, NULL, NULL);
}
