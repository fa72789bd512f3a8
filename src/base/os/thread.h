/* thread.h - threads that never run a signal handler of the host: only signals raised by their own
 * instructions reach them. */
#ifndef LM_BASE_THREAD_H
#define LM_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Stack bytes of a thread that computes: the address space of 64 of them is a small part of what a model
 * takes. */
enum { LM_COMPUTE_STACK = 1 << 20 };

/* Call pthread_create with all other signals blocked. `name`: at most 15 bytes, for debuggers; NULL: the
 * caller's. `stack`: bytes; 0: the system's default. The caller joins the thread. Returns 0, or the error of
 * pthread_create. */
static inline int lm_thread_start(pthread_t *out, void *(*f)(void *), void *arg, const char *name,
                                  size_t stack)
{
    static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
    sigset_t       others, before;
    pthread_attr_t how;

    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    int why = pthread_attr_init(&how);
    if (why)
        return why;
    if (stack)
        pthread_attr_setstacksize(&how, stack);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    why = pthread_create(out, &how, f, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    if (!why && name)
        pthread_setname_np(*out, name);
    return why;
}

#endif
