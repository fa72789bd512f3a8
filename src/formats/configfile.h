/* configfile.h - a config.json by itself: in a file of any name, from a pipe, from standard input. */
#ifndef LM_FORMATS_CONFIGFILE_H
#define LM_FORMATS_CONFIGFILE_H

#include "formats/meta.h"

/* What standard input is called as a path. */
#define LM_STANDARD_INPUT "/dev/stdin"

/* Whether `path` is a config.json, of whatever name: a regular file that ends in ".json" or begins like a JSON object (after a byte order
 * mark and blanks) and is no safetensors file. */
bool lm_config_is_file(const char *path);

/* Whether it can only be read once, from its beginning: a pipe, a terminal. */
bool lm_config_is_stream(const char *path);

/* All of it, without a byte order mark, at most 4 MiB, NUL-terminated, in memory freed with lm_free. A stream is read to its end. */
lm_status lm_config_read(const char *path, char **text, size_t *size, lm_error *e);

/* The same as metadata; for a vision-language model, that of its language model (nested.h), and a line about the rest in
 * `warnings`, which may be NULL. `text` stays the caller's. */
lm_status lm_config_parse(const char *text, size_t size, const char *name, lm_text *warnings, lm_meta **out, lm_error *e);

/* What messages call it: the path, "standard input", "a pipe". */
const char *lm_config_name(const char *path);

#endif
