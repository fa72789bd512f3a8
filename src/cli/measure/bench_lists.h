/* bench_lists.h - lists of numbers on the command line of `lamina bench`, as llama-bench writes them. */
#ifndef LM_CLI_BENCH_LISTS_H
#define LM_CLI_BENCH_LISTS_H

#include <stdint.h>

#include "lamina/error.h"

enum { LM_BENCH_VALUES = 32 };

typedef struct lm_bench_list {
    uint32_t at[LM_BENCH_VALUES];
    uint32_t n;
} lm_bench_list;

/* Read numbers and ranges separated by commas, each from `min` to `max`. LM_USAGE, naming `flag`: the text
 * is not such a list, or has more than LM_BENCH_VALUES numbers. */
lm_status lm_bench_read_list(const char *flag, const char *text, uint32_t min, uint32_t max,
                             lm_bench_list *out, lm_error *e);

/* Return the largest number of a list; 0 if it is empty. */
uint32_t lm_bench_largest(const lm_bench_list *list);

#endif
