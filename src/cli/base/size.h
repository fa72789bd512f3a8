/* size.h - parse sizes such as 16G, for all flags that take one. */
#ifndef LM_CLI_SIZE_H
#define LM_CLI_SIZE_H

#include <stdint.h>

#include "lamina/error.h"

/* Parse a size in bytes. "16G" and "16GB" are 16 * 10^9, "16GiB" and "16Gi" 16 * 2^30; units are k, M, G and
 * T in either case, and decimals are allowed. A number without a unit is in bytes and must be at least a
 * million: a smaller one probably lacks its unit. LM_USAGE, naming `flag`: not a valid size. */
lm_status lm_read_size(const char *flag, const char *text, uint64_t *out, lm_error *e);

#endif
