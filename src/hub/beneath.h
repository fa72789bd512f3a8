/* beneath.h - reach files of the cache without following links, which others may have planted. */
#ifndef LM_HUB_BENEATH_H
#define LM_HUB_BENEATH_H

#include <stdbool.h>
#include <stddef.h>

/* Open the folder of `path`, which begins with `root` and a slash. Links below `root` are not followed;
 * `root` may be one, which its owner chose. `make`: create what is missing, `root` too. *name: the last part
 * of `path`. -1: errno has the reason, ENOTDIR for a link. */
int  hub_open_beneath(const char *root, const char *path, bool make, const char **name);

/* Write n bytes, in several parts if necessary. false: errno has the reason. */
bool hub_write(int fd, const void *data, size_t n);

/* Remove the file or link `path`. false: errno has the reason. A missing file is removed already. */
bool hub_unlink_beneath(const char *root, const char *path);

#endif
