/* replay.c - runs a fuzz target without libFuzzer on the files of its corpus, and on the outputs of the
 * target's own mutator (if it has one) for each, which are always the same.
 *
 *   replay_NAME [--only FILE-NAME] FILE-OR-FOLDER…
 *
 * prints `count: fuzz inputs N`; a crash is the failure. --only: in folders, only files of that name. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
    __attribute__((weak));

static const char *only;

enum { MUTANTS = 24, MAX_SIZE = 1 << 16 };

/* Do what mutators expect of libFuzzer: change a bit, or append or drop a byte. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static unsigned state = 1;
    unsigned r = state = state * 1664525u + 1013904223u;

    if (size && r >> 28 < 10) {
        data[(r >> 8) % size] ^= (uint8_t)(1u << (r >> 5 & 7));
        return size;
    }
    if (size && r >> 28 < 13) {
        memmove(data + (r >> 8) % size, data + (r >> 8) % size + 1, size - 1 - (r >> 8) % size);
        return size - 1;
    }
    if (size < max_size)
        data[size++] = (uint8_t)(r >> 16);
    return size;
}

/* Run with exactly `size` bytes on the heap, so that a sanitizer detects a read of the first byte past the
 * end. */
static void run_exactly(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        exit(1);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int mutants(const uint8_t *data, size_t size)
{
    static uint8_t mutant[MAX_SIZE];

    if (!LLVMFuzzerCustomMutator || size > MAX_SIZE / 2)
        return 0;
    for (unsigned seed = 0; seed < MUTANTS; seed++) {
        memcpy(mutant, data, size);
        run_exactly(mutant, LLVMFuzzerCustomMutator(mutant, size, MAX_SIZE, seed * 7919 + (unsigned)size));
    }
    return MUTANTS;
}

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    if (f && fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size < 0 || fseek(f, 0, SEEK_SET) != 0) {
        perror(path);
        exit(1);
    }
    uint8_t *data = malloc(size ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    run_exactly(data, (size_t)size);
    int n = 1 + mutants(data, (size_t)size);
    free(data);
    return n;
}

static int replay_all(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0) {
        perror(path);
        exit(1);
    }
    if (!S_ISDIR(s.st_mode))
        return replay(path);
    int n = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char file[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (only && strchr(entry->d_name, '.') && strcmp(entry->d_name, only) != 0)
            continue;
        n += replay_all(file);
    }
    if (folder)
        closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    int  n     = 0;
    bool named = argc > 2 && strcmp(argv[1], "--only") == 0;
    only       = named ? argv[2] : NULL;
    for (int i = named ? 3 : 1; i < argc; i++)
        n += replay_all(argv[i]);
    printf("count: fuzz inputs %d\n", n);
    return n > 0 ? 0 : 1;        /* an empty corpus proves nothing */
}
