/* safetensors.c - fuzz target: the safetensors reader, then everything that it guarantees. */
#include "formats/safetensors.h"
#include "json_mutator.h"
#include "walk.h"

static uint64_t length_of(const uint8_t *data)
{
    uint64_t n = 0;
    for (size_t i = 8; i-- > 0;)
        n = n << 8 | data[i];
    return n;
}

static void put_length(uint8_t *data, uint64_t n)
{
    for (size_t i = 0; i < 8; i++)
        data[i] = (uint8_t)(n >> 8 * i);
}

/* Mutate the header as JSON with its length corrected; less often the length, the data, or the whole file as
 * bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    enum { MAX = 1 << 16 };
    static uint8_t header[MAX];
    unsigned       state = seed;
    size_t         n, rest, grown;

    if (size < 10 || length_of(data) > size - 8 || length_of(data) > MAX / 2 || below(&state, 16) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    n    = (size_t)length_of(data);
    rest = size - 8 - n;
    switch (below(&state, 8)) {
    case 0:
        put_length(data, edge(&state, n, size));
        return size;
    case 1:
        return 8 + n + LLVMFuzzerMutate(data + 8 + n, rest, max_size - 8 - n);
    default:
        memcpy(header, data + 8, n);
        grown = json_mutate(header, n, MAX, draw(&state));
        if (8 + grown + rest > max_size)
            return size;
        memmove(data + 8 + grown, data + 8 + n, rest);
        memcpy(data + 8, header, grown);
        put_length(data, grown);
        return 8 + grown + rest;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    walk_file(lm_safetensors_open, data, size);
    return 0;
}
