/* clock.h - time that only rises: for how long something took, never for what o'clock it is. Thread-safe. */
#ifndef LM_BASE_CLOCK_H
#define LM_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment in the past, the same one for as long as the system runs. */
static inline int64_t lm_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The same in seconds. */
static inline double lm_clock_seconds(void) { return 1e-9 * (double)lm_clock_ns(); }

#endif
