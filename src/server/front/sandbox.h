/* sandbox.h - what a server keeps of its rights once it serves: Landlock for files, seccomp for system calls. One for the process, and for
 * good. */
#ifndef LM_SERVER_SANDBOX_H
#define LM_SERVER_SANDBOX_H

#include <stdbool.h>

typedef struct lm_sandbox {
    bool files;                      /* only what lm_sandbox_files was told can be opened */
    bool calls;                      /* no program is started, no socket made, no other process looked into */
    char why[160];                   /* what is missing, and why; "": nothing, or it was not asked for */
} lm_sandbox;

/* For the calling thread and all that it makes: before any other thread is there. What lies below `read` can be read, below `write` read,
 * made, written and removed, in `sockets` (folders) unix sockets made and removed; all NULL-ended, NULL: none. Paths that are not there are
 * passed over. Besides, what an engine reads of the system. Where the kernel has no Landlock nothing changes, and `why` says so. */
void lm_sandbox_files(const char *const *read, const char *const *write, const char *const *sockets);

/* For all threads, once the server listens: starting programs, making processes and sockets, connecting, tracing, mounting, loading code
 * into the kernel fail with EPERM. */
void lm_sandbox_calls(void);

/* Any thread, once the server listens. */
const lm_sandbox *lm_sandbox_now(void);

#endif
