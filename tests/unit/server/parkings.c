/* parkings.c - a connection is suspended while its response is computed, and each suspension is resumed
 * exactly once, although the worker that finishes and the threads that wake it run concurrently. The exchange
 * is freed as soon as it is seen to end, as the front does. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/front/http_exchange.h"

enum { ROUNDS = 100000, WAKERS = 2 };

/* The functions of libmicrohttpd that are called: they count calls, and resuming lets the front continue. */
static atomic_uint suspended, resumed;

void MHD_suspend_connection(struct MHD_Connection *mhd)
{
    (void)mhd;
    atomic_fetch_add(&suspended, 1);
}

void MHD_resume_connection(struct MHD_Connection *mhd)
{
    (void)mhd;
    atomic_fetch_add(&resumed, 1);
}

/* A waker's lock takes the place of the reply's lock: after the reply is closed, it wakes nothing. */
static struct { pthread_mutex_t lock; lm_exchange *x; } wakers[WAKERS];
static _Atomic(lm_exchange *) work;
static atomic_bool stops;

static void *wake_always(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    while (!atomic_load(&stops)) {
        pthread_mutex_lock(&wakers[i].lock);
        if (wakers[i].x)
            lm_exchange_wake(wakers[i].x);
        pthread_mutex_unlock(&wakers[i].lock);
        sched_yield();
    }
    return NULL;
}

static void *finish_always(void *arg)
{
    (void)arg;
    while (!atomic_load(&stops)) {
        lm_exchange *x = atomic_exchange(&work, NULL);
        if (x)
            lm_exchange_signal(x, BUSY);
        sched_yield();
    }
    return NULL;
}

static void set_wakers(lm_exchange *x)
{
    for (size_t i = 0; i < WAKERS; i++) {
        pthread_mutex_lock(&wakers[i].lock);
        wakers[i].x = x;
        pthread_mutex_unlock(&wakers[i].lock);
    }
}

/* Do what the front does until the worker releases the exchange: check, suspend, wait to be resumed. */
static void one_exchange(void)
{
    lm_exchange *x = calloc(1, sizeof *x);
    unsigned parks = 0;

    assert_non_null(x);
    atomic_store(&x->state, BUSY);
    set_wakers(x);
    atomic_store(&work, x);
    do {
        unsigned before = atomic_load(&resumed);

        /* the previous suspension was resumed once */
        assert_int_equal(before, atomic_load(&suspended));
        lm_exchange_park(x);
        while (atomic_load(&resumed) == before)
            sched_yield();
        atomic_fetch_and(&x->state, ~(unsigned)SIGNAL);
        parks++;
        if (parks == 3)
            set_wakers(NULL);
    } while (lm_exchange_is_busy(x));
    set_wakers(NULL);
    assert_int_equal(atomic_load(&x->state) & PARKED, 0);
    assert_int_equal(atomic_load(&resumed), atomic_load(&suspended));
    free(x);
}

static void each_suspension_is_ended_once(void **state)
{
    pthread_t threads[WAKERS + 1];

    (void)state;
    for (size_t i = 0; i < WAKERS; i++) {
        pthread_mutex_init(&wakers[i].lock, NULL);
        void *index = (void *)(uintptr_t)i;              /* the number itself, as the argument of a thread */
        assert_int_equal(pthread_create(&threads[i], NULL, wake_always, index), 0);
    }
    assert_int_equal(pthread_create(&threads[WAKERS], NULL, finish_always, NULL), 0);
    for (unsigned i = 0; i < ROUNDS; i++)
        one_exchange();
    atomic_store(&stops, true);
    for (size_t i = 0; i <= WAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&resumed), atomic_load(&suspended));
    printf("count: exchanges parked %d\n", ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_suspension_is_ended_once) };

    return cmocka_run_group_tests_name("parkings", tests, NULL, NULL);
}
