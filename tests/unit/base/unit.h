/* unit.h - what the unit tests of src/base share. */
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

/* A new empty folder; removed with what the test made in it by remove_folder. */
static inline const char *make_folder(void)
{
    static char path[] = "/tmp/lamina-unit-XXXXXX";

    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(path));
    return path;
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
