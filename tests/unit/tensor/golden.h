/* golden.h - reading tests/golden/tensor/ and the hash in it. */
#ifndef LM_TEST_TENSOR_GOLDEN_H
#define LM_TEST_TENSOR_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline uint64_t fnv1a(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Hash float32 values; all NaNs hash alike. */
static inline uint64_t fnv1a_floats(const float *x, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (x[i] != x[i])
            bits = 0x7fc00000;
        for (int k = 0; k < 4; k++)
            h = (h ^ (bits >> 8 * k & 255)) * UINT64_C(0x100000001b3);
    }
    return h;
}

static inline FILE *golden_open(const char *name)
{
    const char *tests = getenv("LAMINA_TESTS");
    char path[4096];

    snprintf(path, sizeof path, "%s/golden/tensor/%s", tests ? tests : "tests", name);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s cannot be opened", path);
    return f;
}

#endif
