#include "cli/interrupt.h"

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
