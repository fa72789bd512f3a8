/* json_mutator.h - changes one to three tokens of a JSON text, or moves, copies and drops whole values. */
#ifndef LM_TEST_JSON_MUTATOR_H
#define LM_TEST_JSON_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

size_t json_mutate(uint8_t *text, size_t size, size_t max_size, unsigned seed);

#endif
