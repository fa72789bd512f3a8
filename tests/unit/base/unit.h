/* unit.h - functions that the unit tests of src/base share. */
#ifndef LM_TEST_UNIT_H
#define LM_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../temporary.h"

/* Create a new empty folder. Its name is valid until the next call. */
static inline const char *make_folder(void)
{
    static char *made;
    char         path[256];

    temporary_path(path, "unit-XXXXXX");
    assert_non_null(mkdtemp(path));
    free(made);
    return made = strdup(path);
}

static inline int remove_folder(const char *folder)
{
    char command[320];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static inline void path_in(char out[256], const char *folder, const char *name)
{
    snprintf(out, 256, "%s/%s", folder, name);
}

static inline void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

#endif
