/* thread.h - threads that never run a signal handler of the host: only signals raised by their own instructions reach them. */
#ifndef LM_BASE_THREAD_H
#define LM_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* pthread_create with those signals blocked. `name`: at most 15 bytes, for debuggers; NULL: that of the caller. The caller joins the
 * thread. Returns 0, or the error of pthread_create. */
static inline int lm_thread_start(pthread_t *out, void *(*f)(void *), void *arg, const char *name)
{
    static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
    sigset_t others, before;

    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int why = pthread_create(out, NULL, f, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!why && name)
        pthread_setname_np(*out, name);
    return why;
}

#endif
