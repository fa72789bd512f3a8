/* index.c - fuzz target: the index of a sharded model in a folder with two good shards, a.safetensors and
 * b.safetensors. */
#include "formats/safetensors.h"
#include "json_mutator.h"
#include "walk.h"

static char folder[64];

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return json_mutate(data, size, max_size, seed);
}

static void put(const char *name, const void *data, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    PROMISE(f && fwrite(data, 1, size, f) == size && !fclose(f));
}

static void shard(const char *name, const char *tensor)
{
    uint8_t file[128] = { 0 };
    int n = snprintf((char *)file + 8, 100,
                     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", tensor);

    file[0] = (uint8_t)n;
    put(name, file, 8 + (size_t)n + 2);
}

static void remove_folder(void)
{
    static const char *const names[] = { "config.json", "a.safetensors", "b.safetensors",
                                         "model.safetensors.index.json" };
    char                     path[128];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lm_container *c;
    lm_error      e = { 0 };

    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/lamina-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        PROMISE(mkdtemp(folder));
        atexit(remove_folder);
        put("config.json", "{}", 2);
        shard("a.safetensors", "a");
        shard("b.safetensors", "b");
    }
    put("model.safetensors.index.json", data, size);
    lm_status s = lm_container_open(folder, NULL, &c, &e);
    check_open(s, &e);
    if (s == LM_OK) {
        PROMISE(lm_container_n_files(c) <= 2);
        walk_tensors(c);
        lm_container_close(c);
    }
    return 0;
}
