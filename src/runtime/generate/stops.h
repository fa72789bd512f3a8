/* stops.h - find stop strings in text that arrives in pieces. */
#ifndef LM_RUNTIME_STOPS_H
#define LM_RUNTIME_STOPS_H

#include <stdbool.h>
#include <stddef.h>

/* Return how many of the `n` bytes of `text`, not delivered yet, may be delivered now.
 *   *found  a stop string follows them: the text ends there. Of several, the one that is complete first
 *           counts, and of those the longest, so pieces of any size give the same end.
 * Otherwise the longest tail that could still become a stop string is held back, unless this is the `last`
 * piece. Never ends inside a character. `stops` is NULL-ended, or NULL; empty strings in it are ignored. */
size_t lm_stop_scan(const char *const *stops, const char *text, size_t n, bool last, bool *found);

#endif
