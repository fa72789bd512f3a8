/* gguf.c - fuzz target: the GGUF reader, then everything that it guarantees. */
#include "formats/gguf.h"
#include "gguf_mutator.h"
#include "walk.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return gguf_mutate(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    walk_file(lm_gguf_open, data, size);
    return 0;
}
