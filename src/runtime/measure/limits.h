/* limits.h - what a machine is known to reach, stored in the cache folder, in one file per machine,
 * instruction set level and number of threads, because home folders are shared between machines. */
#ifndef LM_RUNTIME_LIMITS_H
#define LM_RUNTIME_LIMITS_H

#include "base/arena.h"
#include "lamina/machine.h"

#define LM_LIMITS_BELOW 0.1            /* rates further below the best known are not limits */

/* Return the path of the file; NULL if there is no cache folder. Creates nothing. */
const char *lm_limits_file(lm_arena *arena, const char *level, uint32_t threads);

/* Read rates, `busy` and `measured_at` into *out, and set out->kept. False, with *out unchanged: the file is
 * missing or broken. */
bool lm_limits_read(const char *path, lm_limits *out);

/* Write the file, and create the last folder of its path if it is missing. */
bool lm_limits_write(const char *path, const lm_limits *l);

/* Return how far the worst rate of `now` is below that of `best`, 0…1. Rates that `best` does not have are
 * ignored. */
double lm_limits_below(const lm_limits *best, const lm_limits *now);

/* Copy what is better in `now` to *best; nothing gets worse. */
void lm_limits_improve(lm_limits *best, const lm_limits *now);

/* Combine a measurement with the known limits: *best improves, and rates of *now that are lower by more than
 * LM_LIMITS_BELOW are replaced by the known ones, which now->below reports. */
void lm_limits_commit(lm_limits *best, lm_limits *now);

#endif
