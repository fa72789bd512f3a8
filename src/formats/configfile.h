/* configfile.h - a separate config.json: in a file of any name, from a pipe or from standard input. */
#ifndef LM_FORMATS_CONFIGFILE_H
#define LM_FORMATS_CONFIGFILE_H

#include "formats/meta.h"

/* The path of standard input. */
#define LM_STANDARD_INPUT "/dev/stdin"

/* Return whether `path` is a config.json, under any name: a regular file that ends in ".json" or begins like
 * a JSON object (after a byte order mark and blanks) and is not a safetensors file. */
bool lm_config_is_file(const char *path);

/* Return whether `path` can be read only once, from its beginning: a pipe, a terminal. */
bool lm_config_is_stream(const char *path);

/* Read all of it, without a byte order mark: at most 4 MiB, NUL-terminated, in memory freed with lm_free. A
 * stream is read to its end. */
lm_status lm_config_read(const char *path, char **text, size_t *size, lm_error *e);

/* Parse it as metadata; for a vision-language model, as that of its language model (nested.h), with a line
 * about the rest in `warnings`, which may be NULL. The caller keeps `text`. */
lm_status lm_config_parse(const char *text, size_t size, const char *name, lm_text *warnings, lm_meta **out,
                          lm_error *e);

/* Return its name for messages: the path, "standard input", "a pipe". */
const char *lm_config_name(const char *path);

#endif
