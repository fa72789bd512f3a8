/* duration.h - durations in ollama's notation: "5m", "1h30m", "300ms", "90", and -1: forever. */
#ifndef LM_SERVER_DURATION_H
#define LM_SERVER_DURATION_H

#include <stdbool.h>

/* Read a duration in seconds; below 0: forever. A number without a unit is seconds. False: `text` is not a
 * duration, and *seconds is unchanged. */
bool lm_duration_read(const char *text, double *seconds);

#endif
