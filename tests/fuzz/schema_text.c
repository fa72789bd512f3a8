/* schema_text.c - fuzz target: JSON Schemas, and texts for them. */
#include "constraining.h"
#include "json_mutator.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return json_mutate(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_grammar(data, size, lm_grammar_json_schema);
}
