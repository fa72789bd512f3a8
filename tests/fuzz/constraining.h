/* constraining.h - code that the targets for grammars share: compile with small limits, then match texts
 * against the grammar. */
#ifndef LM_TEST_FUZZ_CONSTRAINING_H
#define LM_TEST_FUZZ_CONSTRAINING_H

#include "fuzz.h"
#include "lamina/grammar.h"

typedef lm_status compile_grammar(const char *text, size_t size, const lm_grammar_options *o,
                                  lm_grammar **out, lm_error *e);

/* Compile the grammar before the first NUL, and match some fixed texts and the text after the NUL against
 * it. */
static inline int try_grammar(const uint8_t *data, size_t size, compile_grammar *compile)
{
    static const char *const texts[] = {
        "", "{\"a\": [1, \"x\"]}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "((((((((1))))))))", "\xff\xfe", "2024-02-29",
    };
    const uint8_t           *end = size ? memchr(data, 0, size) : NULL;
    size_t                   n = end ? (size_t)(end - data) : size, fits = 0;
    lm_grammar_options o = { .max_states = 2000,
                             .max_work = 1000000,
                             .any_order = size % 2,
                             .open = size % 3 == 0,
                             .strict = size % 7 == 0 };
    lm_grammar              *g = NULL;
    lm_error                 e = { .offset = LM_NO_OFFSET };
    bool                     whole = false;
    char                     line[1200];
    lm_status                status = compile((const char *)data, n, &o, &g, &e);

    if (status != LM_OK) {
        PROMISE(status == LM_USAGE || status == LM_UNSUPPORTED || status == LM_LIMIT);
        PROMISE(!g && e.code == status && *e.message &&
                !strpbrk(lm_error_text(&e, line, sizeof line), "\n\r\t\x1b"));
        return 0;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        status = lm_grammar_matches(g, texts[i], strlen(texts[i]), &whole, &fits, &e);
        PROMISE((status == LM_OK && fits <= strlen(texts[i]) && (!whole || fits == strlen(texts[i]))) ||
                status == LM_LIMIT);
    }
    if (end) {
        status = lm_grammar_matches(g, (const char *)end + 1, size - n - 1, &whole, &fits, &e);
        PROMISE((status == LM_OK && fits <= size - n - 1) || status == LM_LIMIT);
    }
    lm_grammar_free(g);
    return 0;
}

/* Insert one to three pieces of the notation, or change bytes. */
static inline size_t mutate_pieces(uint8_t *data, size_t size, size_t max, unsigned seed,
                                   const char *const *pieces, size_t n_pieces)
{
    for (size_t n = 1 + below(&seed, 3); n; n--) {
        const char *piece = pieces[below(&seed, n_pieces)];
        size_t length = strlen(piece), at = below(&seed, size + 1),
               out = below(&seed, 2) ? below(&seed, 12) : 0;
        if (below(&seed, 3) == 0) {
            size = LLVMFuzzerMutate(data, size, max);
            continue;
        }
        if (out > size - at)
            out = size - at;
        if (size - out + length > max)
            continue;
        memmove(data + at + length, data + at + out, size - at - out);
        memcpy(data + at, piece, length);
        size = size - out + length;
    }
    return size;
}

#endif
