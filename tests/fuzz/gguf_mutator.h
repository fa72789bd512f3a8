/* gguf_mutator.h - changes one to three fields of a GGUF file and leaves the rest of its structure intact. */
#ifndef LM_TEST_GGUF_MUTATOR_H
#define LM_TEST_GGUF_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

size_t gguf_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#endif
