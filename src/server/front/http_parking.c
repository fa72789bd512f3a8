/* A connection is suspended while its answer is made. One word says how its exchange stands, and is changed in one piece:
 *
 *   BUSY     a worker has the exchange: nobody resumes the connection, so that it cannot end meanwhile
 *   SIGNAL   there is something for the connection since it was looked at last
 *   PARKED   the connection is suspended: whoever clears this bit resumes it, and nobody else may
 *
 * So each suspension is ended once. Who has not cleared PARKED does not touch the exchange afterwards: the front may be freeing it. */
#include "server/front/http_exchange.h"

void lm_exchange_park(lm_exchange *x)
{
    unsigned now = atomic_load(&x->state);

    MHD_suspend_connection(x->mhd);
    do
        if ((now & SIGNAL) && !(now & BUSY)) {           /* it has come between the look and the suspension */
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
