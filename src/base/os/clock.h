/* clock.h - monotonic time: for durations, never for the time of day. Thread-safe. */
#ifndef LM_BASE_CLOCK_H
#define LM_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Return nanoseconds since some moment in the past, which stays the same while the system runs. */
static inline int64_t lm_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Return the same in seconds. */
static inline double lm_clock_seconds(void) { return 1e-9 * (double)lm_clock_ns(); }

#endif
