/* counted.h - what fits a repetition, for all of its counters at once.
 *
 * Up to 80 characters, then up to 79, and so on: each is a state of its own, and its mask differs from the others' only in how many
 * characters a token has. One walk with a counter that nothing reaches notes for every token how many repetitions it takes. */
#ifndef LM_GRAMMAR_COUNTED_H
#define LM_GRAMMAR_COUNTED_H

#include "grammar/automaton.h"

/* Of `n`, which begins with a counter or in the middle of a repetition: its counts, and the numbers that it has itself. NULL: no
 * counter is there, or it cannot be counted (or memory ran out: m->pool.status). */
const lm_counted *lm_counted_of(lm_automaton *m, lm_node n, uint32_t *least, uint32_t *most);

/* Add the tokens that fit without going on past the end of the frame. */
void lm_counted_add(const lm_automaton *m, const lm_counted *x, uint32_t least, uint32_t most, uint64_t *bits);

#endif
