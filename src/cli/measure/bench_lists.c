/* bench_lists.c - parse lists of numbers: "1,2,4", "128-512+128", "1-64*2", "4k". */
#include "cli/measure/bench_lists.h"

#include <stdbool.h>
#include <stdlib.h>

/* Read a number; 4k is 4096. It is less than 2^42, so its sum or product with a value of a list does not
 * overflow. */
static bool read_one(const char **at, uint64_t *out)
{
    char *end;

    *out = strtoull(*at, &end, 10);
    if (end == *at || **at == '-' || **at == '+' || **at == ' ' || *out > UINT32_MAX)
        return false;
    if (*end == 'k' || *end == 'K') {
        *out *= 1024;
        end++;
    }
    *at = end;
    return true;
}

/* Read N, FIRST-LAST, FIRST-LAST+STEP or FIRST-LAST*FACTOR. */
static bool read_range(const char **at, uint64_t min, uint64_t max, lm_bench_list *out)
{
    uint64_t first, last, step = 1;
    char     how = '+';

    if (!read_one(at, &first))
        return false;
    last = first;
    if (**at == '-') {
        ++*at;
        if (!read_one(at, &last))
            return false;
        if (**at == '+' || **at == '*') {
            how = *(*at)++;
            if (!read_one(at, &step))
                return false;
        }
    }
    if (first < min || last > max || last < first || step < (how == '*' ? 2u : 1u) ||
        (how == '*' && first == 0))
        return false;
    for (uint64_t v = first; v <= last; v = how == '*' ? v * step : v + step) {
        if (out->n == LM_BENCH_VALUES)
            return false;
        out->at[out->n++] = (uint32_t)v;
    }
    return true;
}

lm_status lm_bench_read_list(const char *flag, const char *text, uint32_t min, uint32_t max,
                             lm_bench_list *out, lm_error *e)
{
    out->n = 0;
    for (const char *at = text;; at++) {
        if (!read_range(&at, min, max, out) || (*at && *at != ','))
            return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET,
                           "\"%s\" is not a list of at most %d numbers from %u to %u", text, LM_BENCH_VALUES,
                           min, max);
        if (!*at)
            return LM_OK;
    }
}

uint32_t lm_bench_largest(const lm_bench_list *n)
{
    uint32_t max = 0;

    for (uint32_t i = 0; i < n->n; i++)
        max = n->at[i] > max ? n->at[i] : max;
    return max;
}
