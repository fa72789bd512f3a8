/* limits.h - what a machine is known to reach: kept in the cache folder, in one file for each machine, instruction set level and number
 * of threads, for home folders are shared between machines. */
#ifndef LM_RUNTIME_LIMITS_H
#define LM_RUNTIME_LIMITS_H

#include "base/arena.h"
#include "lamina/machine.h"

#define LM_LIMITS_BELOW 0.1            /* so far below the best known is no limit */

/* Where they are kept; NULL where there is no cache folder. Makes nothing. */
const char *lm_limits_file(lm_arena *arena, const char *level, uint32_t threads);

/* Rates, `busy` and `measured_at` into *out, which then counts as kept; false, and nothing written, where the file is missing or broken. */
bool lm_limits_read(const char *path, lm_limits *out);

/* Makes the last folder of the path too. */
bool lm_limits_write(const char *path, const lm_limits *l);

/* How far the worst rate of `now` stays below that of `best`, 0…1. A rate that `best` has not is no measure. */
double lm_limits_below(const lm_limits *best, const lm_limits *now);

/* Into *best what `now` has that is better; nothing gets worse. */
void lm_limits_improve(lm_limits *best, const lm_limits *now);

/* What was measured, with what is known: *best improves, and rates of *now that stay below by more than LM_LIMITS_BELOW give way to
 * the known ones, which now->below says. */
void lm_limits_settle(lm_limits *best, lm_limits *now);

#endif
