/* jsonl.h - one JSON value a line, in and out. */
#ifndef LM_CLI_JSONL_H
#define LM_CLI_JSONL_H

#include <jansson.h>

#include "cli/command.h"

/* `value` is what a line holds, NULL where it is not JSON: then `why` says what is wrong. `line` is its text: numbers beyond 64 bits are
 * the nearest double in `value`, and as they were written in the text. Both are freed after the call. Returns what stops the reading. */
typedef lm_status (*lm_jsonl_line)(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e);

/* Every line of a file ("-": standard input). A line ends at \n and nowhere else: U+2028, \r and the like are data. Errors
 * of `each` get the file and the number of the line. */
lm_status lm_jsonl_read(const char *path, lm_jsonl_line each, void *arg, lm_error *e);

/* One line of output; takes the reference. */
lm_status lm_jsonl_write(json_t *value, lm_error *e);

#endif
