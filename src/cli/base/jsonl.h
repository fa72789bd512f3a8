/* jsonl.h - read and write one JSON value per line. */
#ifndef LM_CLI_JSONL_H
#define LM_CLI_JSONL_H

#include "base/textfile.h"
#include "cli/base/command.h"

/* Call `each` for every value of a file, or of standard input for "-": lm_jsonl_each, which defines `arrays`.
 * The file and the line number are added to the errors of `each`. */
lm_status lm_jsonl_read(const char *path, bool arrays, lm_jsonl_line each, void *arg, lm_error *e);

/* Print one line. Takes the reference to `value`. */
lm_status lm_jsonl_write(json_t *value, lm_error *e);

#endif
