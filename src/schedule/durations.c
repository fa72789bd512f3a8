/* durations.c - histograms of durations. */
#include <math.h>

#include "schedule/schedule.h"

/* Seconds, from a token of a small model to a long answer of a large one, in steps that are usual in
 * dashboards. */
static const double bounds[LM_HISTOGRAM_COUNTS - 1] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                        0.25,  0.5,    1,     2.5,  5,     10,   20,
                                                        40,    80,     160,   320,  600 };

double lm_histogram_bound(size_t i)
{
    return i < LM_HISTOGRAM_COUNTS - 1 ? bounds[i] : (double)INFINITY;
}

void lm_durations_add(lm_durations *d, double seconds)
{
    size_t i = 0;

    while (i < LM_HISTOGRAM_COUNTS - 1 && seconds > bounds[i])
        i++;
    atomic_fetch_add_explicit(&d->counts[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->ns, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0, memory_order_relaxed);
}

lm_histogram lm_durations_now(const lm_durations *d)
{
    lm_histogram h = { .seconds = 1e-9 * (double)atomic_load_explicit(&d->ns, memory_order_relaxed) };

    for (size_t i = 0; i < LM_HISTOGRAM_COUNTS; i++)
        h.counts[i] = atomic_load_explicit(&d->counts[i], memory_order_relaxed);
    return h;
}
