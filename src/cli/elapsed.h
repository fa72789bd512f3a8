/* elapsed.h - how long something takes, by a clock that only rises. */
#ifndef LM_CLI_ELAPSED_H
#define LM_CLI_ELAPSED_H

#include <time.h>

/* Seconds since some moment in the past, the same one for as long as the system runs. */
static inline double lm_clock_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
