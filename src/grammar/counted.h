/* counted.h - the tokens that fit a repetition, computed once for all values of its counter.
 *
 * Up to 80 characters, then up to 79, and so on: each is a separate state, and its mask differs from the
 * others only by how many characters a token may have. One walk with a counter that no token can exhaust
 * records how many repetitions each token takes. */
#ifndef LM_GRAMMAR_COUNTED_H
#define LM_GRAMMAR_COUNTED_H

#include "grammar/automaton.h"

/* Return the counts of `n`, which begins with a counter or is in the middle of a repetition, and store the
 * bounds of its counter in *min and *max. Return NULL if `n` has no counter, if it cannot be counted, or
 * if memory is exhausted (m->pool.status). */
const lm_counted *lm_counted_of(lm_automaton *m, lm_expr_id n, uint32_t *min, uint32_t *max);

/* Add the tokens that fit without extending past the end of the frame. */
void lm_counted_add(const lm_automaton *m, const lm_counted *x, uint32_t min, uint32_t max,
                    uint64_t *bits);

#endif
