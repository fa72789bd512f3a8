/* gguf.c - fuzz target: the GGUF reader, then everything it promised, then the writer. */
#include "formats/gguf.h"
#include "gguf_mutator.h"
#include "walk.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return gguf_mutate(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const lm_container_options in_memory = { .no_mmap = true };   /* so that a sanitizer sees the last byte */
    lm_container                     *c;
    lm_error                          e = { 0 };
    int                               fd;
    const char                       *path = memory_file(data, size, &fd);
    lm_status                         s = lm_gguf_open(path, &in_memory, &c, &e);

    check_open(s, &e);
    if (s == LM_OK) {
        walk_meta(lm_container_meta(c));
        walk_tensors(c);
        lm_container_close(c);
    }
    close(fd);
    return 0;
}
