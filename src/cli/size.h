/* size.h - sizes as people write them: the one reader of every flag that takes one. */
#ifndef LM_CLI_SIZE_H
#define LM_CLI_SIZE_H

#include <stdint.h>

#include "lamina/error.h"

/* "16G" and "16GB" are 16 * 10^9 bytes, "16GiB" and "16Gi" 16 * 2^30; k, M, G and T, small or capital, with decimals. Without a unit
 * they are bytes, a million at least: less is a unit forgotten. LM_USAGE, naming `flag`, for that and anything else. */
lm_status lm_read_size(const char *flag, const char *text, uint64_t *out, lm_error *e);

#endif
