/* golden_text.h - tests/golden/tokenizer/: reading its files, comparing a tokenizer with them. */
#ifndef LM_TEST_GOLDEN_TEXT_H
#define LM_TEST_GOLDEN_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/os/filemap.h"
#include "lamina/text.h"
#include "../status.h"

static inline void path_in(const char *variable, char out[512], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline void path_in(const char *variable, char out[512], const char *format, ...)
{
    const char *root = getenv(variable);
    va_list     args;

    assert_non_null(root);
    int n = snprintf(out, 512, "%s/", root);
    va_start(args, format);
    vsnprintf(out + n, 512 - (size_t)n, format, args);
    va_end(args);
}

/* Return the documents of a .jsonl file as one array. */
static inline json_t *read_lines(const char *path)
{
    json_t *all = json_array();
    char   *data;
    size_t  size;

    assert_ok(lm_file_read(path, 1 << 28, &data, &size, e));
    for (char *line = data, *end; (end = memchr(line, '\n', size - (size_t)(line - data))); line = end + 1) {
        json_error_t why;
        json_t      *one = json_loadb(line, (size_t)(end - line), JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
        if (!one)
            fail_msg("%s: %s", path, why.text);
        json_array_append_new(all, one);
    }
    free(data);
    return all;
}

static inline bool same_ids(const lm_tokens *got, const json_t *want)
{
    if (got->n != json_array_size(want))
        return false;
    for (size_t i = 0; i < got->n; i++)
        if (json_integer_value(json_array_get(want, i)) != got->ids[i])
            return false;
    return true;
}

static inline void show_ids(const char *what, const lm_tokens *got, const json_t *want)
{
    size_t n = got ? got->n : json_array_size(want);

    print_message("  %s:", what);
    for (size_t i = 0; i < n && i < 60; i++)
        print_message(" %d", got ? got->ids[i] : (int)json_integer_value(json_array_get(want, i)));
    print_message("%s\n", n > 60 ? " …" : "");
}

/* Return how many texts of `texts` have the ids of `ids`, with special tokens parsed and as text. Prints the
 * first differences. */
static inline size_t equal_texts(const lm_tokenizer *t, const json_t *texts, const json_t *ids,
                                 unsigned flags, size_t *total)
{
    size_t equal = 0, shown = 0;

    *total = json_array_size(texts);
    assert_int_equal(json_array_size(ids), *total);
    for (size_t i = 0; i < *total; i++) {
        const json_t *text = json_array_get(texts, i), *row = json_array_get(ids, i);
        bool          two  = json_is_array(json_array_get(row, 0)), same = true;

        for (unsigned split = 0; split < 2; split++) {
            const json_t *want = two ? json_array_get(row, split) : row;
            lm_tokens     got  = { 0 };

            assert_ok(lm_tokenize(t, json_string_value(text), json_string_length(text),
                                  flags | (split ? LM_NO_PARSE_SPECIAL : 0), &got, e));
            if (!same_ids(&got, want)) {
                same = false;
                if (shown++ < 3) {
                    char *spelled = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
                    print_message("text %zu%s: %.300s\n", i, split ? " (special tokens as text)" : "",
                                  spelled);
                    free(spelled);
                    show_ids("got ", &got, NULL);
                    show_ids("want", NULL, want);
                }
            }
            lm_tokens_free(&got);
        }
        equal += same;
    }
    return equal;
}

/* Return how many rows of NAME.decode.jsonl decode alike, with special tokens and without. */
static inline size_t equal_decodes(const lm_tokenizer *t, const json_t *rows, size_t *total)
{
    size_t equal = 0, shown = 0;

    *total = json_array_size(rows);
    for (size_t i = 0; i < *total; i++) {
        const json_t *row = json_array_get(rows, i), *list = json_array_get(row, 0);
        lm_tokens     ids = { .n = json_array_size(list) };
        bool          same = true;

        ids.ids = calloc(ids.n + 1, sizeof *ids.ids);
        for (size_t k = 0; k < ids.n; k++)
            ids.ids[k] = (lm_token)json_integer_value(json_array_get(list, k));
        for (unsigned skip = 0; skip < 2; skip++) {
            const json_t *want = json_array_get(row, skip && json_array_size(row) == 3 ? 2 : 1);
            lm_text       got  = { 0 };

            assert_ok(lm_detokenize(t, ids.ids, ids.n, skip ? LM_SKIP_SPECIAL : 0, &got, e));
            if (got.size != json_string_length(want) ||
                memcmp(got.data, json_string_value(want), got.size) != 0) {
                same = false;
                if (shown++ < 3) {
                    show_ids("decoding", &ids, NULL);
                    print_message("  got  '%s'\n  want '%s'\n", got.data, json_string_value(want));
                }
            }
            lm_text_free(&got);
        }
        free(ids.ids);
        equal += same;
    }
    return equal;
}

/* The expected bytes of each piece into which a text is split: `arg` of lm_pretokenize. */
typedef struct pieces { const json_t *want; size_t n; bool same; } pieces;

static inline lm_status take_piece(void *arg, lm_view word, lm_error *error)
{
    pieces *p = arg;

    (void)error;
    p->same &= json_integer_value(json_array_get(p->want, p->n++)) == (json_int_t)word.size;
    return LM_OK;
}

#endif
