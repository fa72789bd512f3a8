/* vocabulary.c - fuzz target: the tokenizer that a GGUF file's keys describe. */
#include "gguf_mutator.h"
#include "tokenize.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return gguf_mutate(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lm_tokenizer *t;
    lm_error      e = { 0 };
    int           fd;

    if (size < 4 || memcmp(data, "GGUF", 4))
        return 0;
    lm_status s = lm_tokenizer_open(memory_file(data, size, &fd), NULL, &t, &e);
    if (s == LM_OK) {
        use_tokenizer(t);
        lm_tokenizer_free(t);
    } else {
        check_refusal(s, &e);
    }
    close(fd);
    return 0;
}
