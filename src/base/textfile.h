/* textfile.h - text that people write: prompts, data, grammars, templates. One rule for all commands.
 *
 * Text is UTF-8. A byte order mark at its beginning is not part of it. Other encodings are LM_USAGE: the
 * error has the byte offset, the likely encoding, and a hint with the command that converts it. In JSON lines
 * only \n ends a line, \r before it is white space, and lines of white space are skipped. */
#ifndef LM_BASE_TEXTFILE_H
#define LM_BASE_TEXTFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"

/* The maximum bytes of a text or of a line: far more than any prompt, so that endless input is detected. */
#define LM_MAX_INPUT ((size_t)256 << 20)

/* Check that a text is UTF-8. `offset`: of its first byte in the file. `name`: the file, for the hint; NULL:
 * none. The error does not name the file. */
lm_status lm_check_utf8(const char *text, size_t n, uint64_t offset, const char *name, lm_error *e);

/* Remove the byte order mark after the first `from` bytes of `t`, and check the rest. The error has the line
 * of the first invalid byte. */
lm_status lm_check_text(lm_text *t, size_t from, const char *name, lm_error *e);

/* Append the bytes of an open file, unchecked. LM_LIMIT: more than `max`. Errors name the file `name`. */
lm_status lm_read_bytes(FILE *f, const char *name, size_t max, lm_text *out, lm_error *e);

/* Append the text of an open file. LM_LIMIT: more than `max` bytes. Errors name the file `name`. */
lm_status lm_read_stream(FILE *f, const char *name, size_t max, lm_text *out, lm_error *e);

/* The lines of an open file. Begin with all other members zero. */
typedef struct lm_text_lines {
    FILE       *file;
    const char *name;
    uint64_t    number, offset;          /* of the last line, from 1; of the next one */
} lm_text_lines;

/* Read the next line into `out` (cleared first) with its newline, which the last one may lack. *end: there
 * are no more lines. After LM_USAGE, text that is not UTF-8, the next call continues. LM_LIMIT: more than
 * LM_MAX_INPUT bytes. Errors do not name the file. */
lm_status lm_next_line(lm_text_lines *l, lm_text *out, bool *end, lm_error *e);

/* Called per line. `value`: the parsed value; NULL if the line is not JSON, then `why` contains the reason.
 * `line`: its text, which has numbers beyond 64 bits as they were written; in `value` they are the nearest
 * double. Both are freed after the call. Any status other than LM_OK stops reading. */
typedef lm_status (*lm_jsonl_line)(void *arg, json_t *value, const char *why, const lm_text *line,
                                   lm_error *e);

/* Call `each` for every value of a file with JSON lines. `flags`: of json_loadb. `arrays`: no line is an
 * array, so that a file which begins with [ is one array of all values. The line, or the number of the record
 * in an array, is added to the errors of `each`; the file is not. */
lm_status lm_jsonl_each(lm_text_lines *l, size_t flags, bool arrays, lm_jsonl_line each, void *arg,
                        lm_error *e);

#endif
