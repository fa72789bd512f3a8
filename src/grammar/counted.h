/* counted.h - what fits a repetition, for all of its counters at once.
 *
 * Up to 80 characters, then up to 79, and so on: each is a state of its own, and its mask differs from the others' only in how many
 * characters a token has. One walk with a counter that nothing reaches notes for every token how many repetitions it takes. */
#ifndef LM_GRAMMAR_COUNTED_H
#define LM_GRAMMAR_COUNTED_H

#include "grammar/automaton.h"

/* A token or a node of the tree, and the repetitions that have begun by then. */
typedef struct lm_use { uint32_t what, times; } lm_use;

typedef struct lm_uses {
    lm_use  *list;
    uint32_t n, capacity;
} lm_uses;

enum { LM_COUNTED_MASKS = 32 };

struct lm_counted {
    lm_node   key;                   /* the expression, its counter out of reach */
    bool      unknown;               /* counting failed: a text may take one way or another, or there is too much to note */
    lm_uses   inside;                /* tokens that end where the repetition may go on */
    lm_uses   past;                  /* tokens that end beyond it */
    lm_uses   exits;                 /* nodes at which the frame may end and tokens go on */
    uint64_t *up_to;                 /* [LM_COUNTED_MASKS][n_words] tokens inside that take at most so many times; the others are listed.
                                      * NULL: all are listed */
};

/* Of `n`, which begins with a counter or in the middle of a repetition: its counts, and the numbers that it has itself. NULL: no
 * counter is there, or it cannot be counted (or memory ran out: m->pool.status). */
const lm_counted *lm_counted_of(lm_automaton *m, lm_node n, uint32_t *least, uint32_t *most);

/* Add the tokens that fit without going on past the end of the frame. */
void lm_counted_add(const lm_automaton *m, const lm_counted *x, uint32_t least, uint32_t most, uint64_t *bits);

void lm_counted_drop(lm_automaton *m);           /* all of them */

#endif
