/* duration.h - times as ollama's users write them: "5m", "1h30m", "300ms", "90", and -1 for ever. */
#ifndef LM_SERVER_DURATION_H
#define LM_SERVER_DURATION_H

#include <stdbool.h>

/* Seconds; below 0: for ever. A number without unit is seconds. False: `text` is no time, and *seconds as it was. */
bool lm_duration_read(const char *text, double *seconds);

#endif
