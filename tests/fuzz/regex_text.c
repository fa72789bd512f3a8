/* regex_text.c - fuzz target: regular expressions, and texts for them. */
#include "constraining.h"

static const char *const pieces[] = {
    "^", "$", "(", ")", "(?:", "(?<n>", "|", "[a-z]", "[^\\d]", "\\d", "\\S", "\\p{L}", "\\x41", "\\u{1F999}", "\\uD83E\\uDD99", ".", "*", "+?", "{2}", "{0,300}", "{,3}",
    "{9999999999}", "\\1", "(?=a)", "\\b", "[[:alpha:]]", "é", "[", "]", "\\", "-", "(a*)*", "((((((((",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_pieces(data, size, max_size, seed, pieces, sizeof pieces / sizeof *pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return try_grammar(data, size, lm_grammar_regex);
}
