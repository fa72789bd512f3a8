/* gbnf_text.c - fuzz target: grammars in llama.cpp's notation, and texts for them. */
#include "constraining.h"

static const char *const pieces[] = {
    "root ::= ", "\na ::= ", " a ", " | ", "\"x\"", "[a-z]", "[^\\n]", ".", "(", ")", "*", "+", "?", "{2}", "{0,3}", "{,", "{2000}", "<[7]>", "!<[7]>", "# c\n",
    "\\x41", "\\u00e9", "\\U0001F999", "\"\"", "((((((((", "root", "\n", "[\\]\\-]", "::=", "{1,2000}",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_pieces(data, size, max_size, seed, pieces, sizeof pieces / sizeof *pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_grammar(data, size, lm_grammar_gbnf);
}
