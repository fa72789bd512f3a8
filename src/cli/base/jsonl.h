/* jsonl.h - read and write one JSON value per line. */
#ifndef LM_CLI_JSONL_H
#define LM_CLI_JSONL_H

#include <jansson.h>

#include "cli/base/command.h"

/* Called per line. `value`: the parsed value; NULL if the line is not JSON, then `why` contains the reason.
 * `line`: its text, which has numbers beyond 64 bits as they were written; in `value` they are the nearest
 * double. Both are freed after the call. Any status other than LM_OK stops reading. */
typedef lm_status (*lm_jsonl_line)(void *arg, json_t *value, const char *why, const lm_text *line,
                                   lm_error *e);

/* Call `each` for every line of a file ("-": standard input). Only \n ends a line: U+2028, \r and the like
 * are data. The file and the line number are added to the errors of `each`. */
lm_status lm_jsonl_read(const char *path, lm_jsonl_line each, void *arg, lm_error *e);

/* Print one line. Takes the reference to `value`. */
lm_status lm_jsonl_write(json_t *value, lm_error *e);

#endif
