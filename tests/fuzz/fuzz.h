/* fuzz.h - code that the targets share. */
#ifndef LM_TEST_FUZZ_H
#define LM_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A target may define its own mutator, which both libFuzzer and replay.c then call. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* libFuzzer's own mutations of bytes; replay.c has a small one. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* A condition that must hold for any input: a violation is a crash. */
#define PROMISE(condition)                                                         \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                               \
        }                                                                          \
    } while (0)

/* Create a file in memory with these bytes and return its path in /proc. Close it with close(*fd). */
static inline const char *memory_file(const void *data, size_t size, int *fd)
{
    static char path[64];

    *fd = memfd_create("input", MFD_CLOEXEC);
    PROMISE(*fd >= 0);
    for (size_t at = 0; at < size;) {
        ssize_t n = write(*fd, (const char *)data + at, size - at);
        PROMISE(n > 0);
        at += (size_t)n;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    return path;
}

/* ---- random choices of a mutator ---- */

static inline uint32_t draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline size_t below(unsigned *state, size_t n)
{
    return n ? draw(state) % n : 0;
}

/* Return a number at an edge where readers tend to fail. */
static inline uint64_t edge(unsigned *state, uint64_t now, size_t size)
{
    const uint64_t edges[] = {
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        32,
        33,
        63,
        64,
        65,
        255,
        256,
        257,
        4095,
        4096,
        65535,
        65536,
        (1u << 20) - 1,
        1u << 20,
        1u << 24,
        INT32_MAX,
        (uint64_t)INT32_MAX + 1,
        UINT32_MAX,
        (uint64_t)UINT32_MAX + 1,
        UINT64_C(1) << 40,
        (UINT64_C(1) << 40) + 1,
        UINT64_C(1) << 48,
        (UINT64_C(1) << 53) + 1,
        UINT64_C(1) << 61,
        INT64_MAX,
        (uint64_t)INT64_MAX + 1,
        UINT64_MAX - 31,
        UINT64_MAX - 7,
        UINT64_MAX - 1,
        UINT64_MAX,
        now + 1,
        now - 1,
        now * 2,
        now / 2,
        now ^ 1,
        now + 32,
        now - 32,
        size,
        size - 1,
        size + 1,
        size / 2,
        size - now,
        0 - now,
    };
    return edges[below(state, sizeof edges / sizeof *edges)];
}

#endif
