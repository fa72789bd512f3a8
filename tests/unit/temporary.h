/* temporary.h - where the C tests write: below TMPDIR, which `scripts/test` sets to a folder in memory, else
 * below /tmp. */
#ifndef LM_TEST_TEMPORARY_H
#define LM_TEST_TEMPORARY_H

#include <stdio.h>
#include <stdlib.h>

/* Write "TMPDIR/lamina-NAME" to `out`. */
static inline void temporary_path(char out[256], const char *name)
{
    const char *folder = getenv("TMPDIR");

    snprintf(out, 256, "%s/lamina-%s", folder ? folder : "/tmp", name);
}

#endif
