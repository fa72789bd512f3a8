/* replay.c - runs a fuzz target over the files of its corpus, where there is no libFuzzer.
 *
 *   replay_NAME FILE-OR-FOLDER…      prints `count: fuzz inputs N`; a crash is the failure */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    /* Exactly `size` bytes on the heap: a sanitizer sees the first byte past the end. */
    uint8_t *data = malloc(size ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
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
        n += replay_all(file);
    }
    if (folder)
        closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++)
        n += replay_all(argv[i]);
    printf("count: fuzz inputs %d\n", n);
    return n > 0 ? 0 : 1;        /* an empty corpus proves nothing */
}
