/* A connection is suspended while its response is generated. One atomic word is the state of its exchange:
 *
 *   BUSY     a worker has the exchange: no thread resumes the connection, so that it cannot end meanwhile
 *   SIGNAL   something has happened since the connection was last checked
 *   PARKED   the connection is suspended: the thread that clears this bit resumes it, and no other may
 *
 * So each suspension ends once. A thread that has not cleared PARKED must not use the exchange afterwards:
 * the front may be freeing it. */
#include "server/front/http_exchange.h"

void lm_exchange_park(lm_exchange *x)
{
    unsigned now = atomic_load(&x->state);

    MHD_suspend_connection(x->mhd);
    do
        if ((now & SIGNAL) && !(now & BUSY)) {           /* set between the check and the suspension */
            MHD_resume_connection(x->mhd);
            return;
        }
    while (!atomic_compare_exchange_weak(&x->state, &now, now | PARKED));
}

void lm_exchange_signal(lm_exchange *x, unsigned done)
{
    unsigned now = atomic_load(&x->state), next;

    do {
        next = (now & ~done) | SIGNAL;
        if (!(next & BUSY))
            next &= ~(unsigned)PARKED;
    } while (!atomic_compare_exchange_weak(&x->state, &now, next));
    if ((now & PARKED) && !(next & PARKED))
        MHD_resume_connection(x->mhd);
}

void lm_exchange_wake(lm_exchange *x)
{
    lm_exchange_signal(x, 0);
}

bool lm_exchange_is_busy(lm_exchange *x)
{
    return atomic_load(&x->state) & BUSY;
}
