/* sandbox.h - restrictions of a server once it serves: Landlock for files, seccomp for system calls. They
 * apply to the process and cannot be lifted. */
#ifndef LM_SERVER_SANDBOX_H
#define LM_SERVER_SANDBOX_H

#include <stdbool.h>

typedef struct lm_sandbox {
    bool files;                      /* only files allowed by lm_sandbox_files can be opened */
    bool calls;                      /* no programs can be started, sockets created, or other processes
                                        inspected */
    char why[160];                   /* what is not restricted, and why; "": everything is, or it was not
                                        requested */
} lm_sandbox;

/* Restrict files for the calling thread and all threads that it creates; call it before there are other
 * threads. Files below `read` can be read; files below `write` can be read, created, written and removed; in
 * the folders `sockets` unix sockets can be created and removed. All lists are NULL-ended; NULL: none.
 * Missing paths are skipped. What an engine reads of the system is allowed, too. If the kernel has no
 * Landlock, nothing changes, and `why` contains this. */
void lm_sandbox_files(const char *const *read, const char *const *write, const char *const *sockets);

/* Restrict system calls for all threads, once the server listens: starting programs, creating processes and
 * sockets, connecting, tracing, mounting and loading code into the kernel fail with EPERM. */
void lm_sandbox_calls(void);

/* Return what is restricted. Any thread, once the server listens. */
const lm_sandbox *lm_sandbox_now(void);

#endif
