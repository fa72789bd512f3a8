/* sigbus.c - turn a read past the end of a file that has shrunk into an error of the thread that reads.
 *
 * The handler jumps only if the fault lies in a registered mapping and the thread that faulted is inside a
 * guard; any other SIGBUS goes to the previous handler. The mapping is checked first: a thread of the host
 * may not have this library's thread-local memory yet, and a handler must not allocate it. SA_NODEFER leaves
 * the signal mask unchanged, so that entering a guard needs no system call; SA_ONSTACK is for hosts whose
 * threads have stacks too small for a handler, such as Go's. */
#include "base/os/sigbus.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/os/filemap.h"

/* The table of mappings grows and never shrinks, so that the handler may walk it without a lock. */
typedef struct range { atomic_uintptr_t from, to; } range;               /* from 0: free */
typedef struct table {
    range ranges[128];
    _Atomic(struct table *) next;
} table;

/* ThreadSanitizer blocks every signal while a handler runs, whatever the handler's mask is, so the mask must
 * be restored. */
#if defined(__SANITIZE_THREAD__)
#define SAVE_MASK 1
#else
#define SAVE_MASK 0
#endif

enum { RANGES = sizeof((table *)0)->ranges / sizeof(range) };

static table             first;
static pthread_mutex_t   changing = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction  previous;
static pthread_once_t    installed = PTHREAD_ONCE_INIT;
static _Thread_local sigjmp_buf *guard;

static range *free_range(void)
{
    for (table *t = &first;;) {
        for (size_t i = 0; i < RANGES; i++)
            if (!atomic_load(&t->ranges[i].from))
                return &t->ranges[i];
        table *next = atomic_load(&t->next);
        if (!next) {
            next = lm_alloc_zero(1, sizeof *next);
            if (!next)
                return NULL;
            atomic_store(&t->next, next);
        }
        t = next;
    }
}

static bool is_ours(uintptr_t at)
{
    for (table *t = &first; t; t = atomic_load(&t->next))
        for (size_t i = 0; i < RANGES; i++) {
            uintptr_t from = atomic_load(&t->ranges[i].from);
            if (from && at >= from && at < atomic_load(&t->ranges[i].to))
                return true;
        }
    return false;
}

static void on_sigbus(int signal, siginfo_t *info, void *context)
{
    bool fault = info->si_code > 0;                      /* by an access, not by kill() */

    if (fault && is_ours((uintptr_t)info->si_addr) && guard)
        siglongjmp(*guard, 1);
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else if (fault || previous.sa_handler == SIG_DFL) {
        struct sigaction plain = { .sa_handler = SIG_DFL };
        sigaction(SIGBUS, &plain, NULL);
        if (!fault)
            raise(signal);                               /* a fault repeats by itself */
    }
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

bool lm_guarded_add(const void *from, size_t size)
{
    pthread_once(&installed, install);
    pthread_mutex_lock(&changing);
    range *r = free_range();
    if (r) {
        atomic_store(&r->to, (uintptr_t)from + size);
        atomic_store(&r->from, (uintptr_t)from);
    }
    pthread_mutex_unlock(&changing);
    return r != NULL;
}

void lm_guarded_remove(const void *from)
{
    pthread_mutex_lock(&changing);
    for (table *t = &first; t; t = atomic_load(&t->next))
        for (size_t i = 0; i < RANGES; i++)
            if (atomic_load(&t->ranges[i].from) == (uintptr_t)from)
                atomic_store(&t->ranges[i].from, 0);
    pthread_mutex_unlock(&changing);
}

lm_status lm_filemap_guard(lm_status (*work)(void *arg), void *arg, const char *file, lm_error *e)
{
    sigjmp_buf           here;
    sigjmp_buf *volatile outer = guard;

    if (sigsetjmp(here, SAVE_MASK) != 0) {
        guard = outer;
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "the file was truncated while in use");
        return lm_fail_in(e, file);
    }
    guard = &here;
    lm_status status = work(arg);
    guard            = outer;
    return status;
}
