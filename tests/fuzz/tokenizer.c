/* tokenizer.c - fuzz target: tokenizer.json, then the tokenizer it describes. */
#include "json_mutator.h"
#include "text/tokenizer_files.h"
#include "tokenize.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return json_mutate(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lm_tokenizer_files f = { .folder = "folder", .tokenizer = { (const char *)data, size } };
    lm_tokenizer      *t = NULL;
    lm_error           e = { 0 };
    lm_status          s = lm_tokenizer_from_files(&f, NULL, &t, &e);

    if (s != LM_OK) {
        check_refusal(s, &e);
        return 0;
    }
    if (t)
        use_tokenizer(t);
    lm_tokenizer_free(t);
    return 0;
}
