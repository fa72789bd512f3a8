#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(lm_engine *) watched;
static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    lm_engine *g = atomic_load(&watched);

    if (interrupts++) {
        signal(number, SIG_DFL);                         /* the first was not heard: the next one ends the process */
        return;
    }
    if (g)
        lm_engine_cancel(g);
}

static void install(void)
{
    struct sigaction action = { .sa_handler = on_interrupt };      /* no SA_RESTART: a blocked read ends too */

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void lm_interrupt_watch(lm_engine *g)
{
    atomic_store(&watched, g);
    install();
}

bool lm_interrupted(void)
{
    return interrupts > 0;
}

void lm_interrupt_clear(void)
{
    interrupts = 0;
    install();
}

bool lm_interrupt_wait(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    sigset_t mine, before;

    /* Ctrl-C between a look at `interrupts` and the wait would be slept through: it is let in by the wait alone. */
    sigemptyset(&mine);
    sigaddset(&mine, SIGINT);
    sigprocmask(SIG_BLOCK, &mine, &before);
    while (!interrupts && ppoll(&ready, 1, NULL, &before) <= 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !interrupts;
}
