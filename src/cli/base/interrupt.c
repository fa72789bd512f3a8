/* interrupt.c - signal handlers that set a flag and cancel the engine that is watched.
 *
 * The handler may run on any thread at any time: it only writes `interrupts`, `ended` and the atomic cancel
 * of the engine. `watched` must be cleared (lm_interrupt_watch(NULL)) before its engine is freed. */
#include "cli/base/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cli/base/output.h"

static _Atomic(lm_engine *) watched;
static volatile sig_atomic_t interrupts, ended;

static void on_interrupt(int number)
{
    lm_engine *g = atomic_load(&watched);
    bool again = number == SIGINT ? interrupts > 0 : ended > 0;

    interrupts = 1;
    if (number != SIGINT)
        ended = number;
    if (again) {
        /* the first was not handled: this one ends the process */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (g)
        lm_engine_cancel(g);
}

/* The signals that end the program. */
static const int endings[] = { SIGTERM, SIGHUP };

static void install(void)
{
    /* No SA_RESTART: also interrupts a blocked read. */
    struct sigaction action = { .sa_handler = on_interrupt };

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct sigaction before;
        /* Keep signals ignored by nohup. */
        if (sigaction(endings[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(endings[i], &action, NULL);
    }
}

static bool is_caught(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == on_interrupt;
}

bool lm_interrupt_record(void)
{
    bool held = !is_caught(SIGINT);

    install();
    return held;
}

lm_status lm_interrupt_release(bool held, lm_status status, lm_error *e)
{
    for (size_t i = 0; held && i < sizeof endings / sizeof *endings; i++)
        if (is_caught(endings[i]))
            signal(endings[i], SIG_DFL);
    if (held)
        signal(SIGINT, SIG_DFL);
    return lm_interrupted() ? lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted") : status;
}

bool lm_interrupt_progress(void *bar, double fraction)
{
    lm_progress_show(bar, fraction);
    return !lm_interrupted();
}

bool lm_interrupt_progress_of(void *bar, double fraction, const char *what)
{
    ((lm_progress *)bar)->label = what;
    return lm_interrupt_progress(bar, fraction);
}

void lm_interrupt_watch(lm_engine *g)
{
    atomic_store(&watched, g);
    install();
}

bool lm_interrupted(void)
{
    return interrupts > 0 || ended > 0;
}

int lm_interrupt_ended(void)
{
    return ended;
}

void lm_interrupt_clear(void)
{
    lm_engine *g = atomic_load(&watched);

    if (g)           /* clear a cancel that arrived when nothing was running */
        lm_engine_cancelled(g);
    interrupts = 0;
    install();
}

bool lm_interrupt_wait(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    sigset_t mine, before;

    /* Block the signals except during ppoll: one that arrives between the check and the wait would otherwise
     * not end the wait. */
    sigemptyset(&mine);
    sigaddset(&mine, SIGINT);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        sigaddset(&mine, endings[i]);
    sigprocmask(SIG_BLOCK, &mine, &before);
    while (!lm_interrupted() && ppoll(&ready, 1, NULL, &before) <= 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !lm_interrupted();
}
