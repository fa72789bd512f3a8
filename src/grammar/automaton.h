/* automaton.h - a grammar at work on a vocabulary: states of the automaton, made as texts come to them, and masks.
 *
 * A state is an expression with its transitions by classes of bytes. Its mask is put together from the masks of the innermost frames
 * that it begins with, which do not depend on what stands around them (Dong et al. 2024, XGrammar): `heads`. Only tokens that reach
 * past the end of a frame are walked with what follows it.
 *
 * One lock guards all of it: constraints of one grammar and vocabulary share it. */
#ifndef LM_GRAMMAR_AUTOMATON_H
#define LM_GRAMMAR_AUTOMATON_H

#include <pthread.h>

#include "grammar/derivative.h"
#include "grammar/expression.h"
#include "grammar/trie.h"

enum { LM_DEAD = 0, LM_HISTORY = 256, LM_CACHED_MASKS = 256 };
#define LM_UNKNOWN UINT32_MAX

typedef struct lm_state {
    lm_node  node;
    uint32_t mask;                   /* its place among the cached masks + 1, if that still is its own */
} lm_state;

/* What a frame lets through, whatever follows it. */
typedef struct lm_head {
    uint64_t *bits;                  /* [n_words] */
    uint32_t *exits, n_exits;        /* nodes of the tree at which the frame may end and tokens go on; LM_UNKNOWN: before the first byte */
    bool      open;                  /* it may end nearly everywhere: exits were not kept */
} lm_head;

/* ---- counts (counted.c) ---- */

/* A token or a node of the tree, and the repetitions that have begun by then. */
typedef struct lm_use { uint32_t what, times; } lm_use;

typedef struct lm_uses {
    lm_use  *list;
    uint32_t n, capacity;
} lm_uses;

enum { LM_COUNTED_MASKS = 32 };

typedef struct lm_counted {
    lm_node   key;                   /* the expression, its counter out of reach */
    bool      unknown;               /* counting failed: a text may take one way or another, or there is too much to note */
    lm_uses   inside;                /* tokens that end where the repetition may go on */
    lm_uses   past;                  /* tokens that end beyond it */
    lm_uses   exits;                 /* nodes at which the frame may end and tokens go on */
    uint64_t *up_to;                 /* [LM_COUNTED_MASKS][n_words] tokens inside that take at most so many times; the others are listed.
                                      * NULL: all are listed */
} lm_counted;

typedef struct lm_automaton {
    pthread_mutex_t      lock;
    const lm_vocabulary *v;          /* NULL: only texts are matched */
    lm_terms              pool;
    uint32_t             fixed;      /* nodes of the grammar itself */
    lm_node              root;
    uint32_t             fixed_lists, fixed_bytes;
    uint8_t              class_of[256];
    uint32_t             n_classes;
    lm_state            *states;
    uint32_t             n_states, states_capacity;
    uint32_t            *next;       /* [n_states][n_classes] */
    uint32_t             next_capacity;
    uint32_t            *state_of, *head_of;                 /* by node; 0: none, else + 1 (head_of) */
    uint32_t             state_of_capacity, head_of_capacity;
    lm_head             *heads;
    uint32_t             n_heads, heads_capacity;
    lm_counted          *counted;
    uint32_t             n_counted, counted_capacity;
    bool                 counters_seen, counters_large;
    uint64_t            *masks;      /* [LM_CACHED_MASKS][n_words] */
    uint64_t            *scratch;    /* [n_words] */
    uint32_t             mask_state[LM_CACHED_MASKS], next_mask;
    uint32_t            *exits;      /* of the walk at hand */
    uint32_t             n_exits, exits_capacity;
    lm_constraint       *first;      /* all that have states here */
    uint64_t             head_bytes;
    uint32_t             most_kept;  /* nodes beyond which those that nothing needs are given back */
} lm_automaton;

struct lm_constraint {
    lm_automaton    *m;
    lm_grammar    *g;
    lm_constraint *next, **link;
    uint32_t       states[LM_HISTORY];       /* the last ones, in a ring; the current one at `at` */
    uint32_t       at, kept;                 /* kept: how many may be taken back */
    bool           ended;
    bool           begun;                    /* lm_constraint_logits has seen the prompt */
    size_t         n_ids;                    /* ids that it has accounted for */
    uint64_t      *bits;                     /* of lm_constraint_logits, where they are many */
};

lm_status lm_automaton_new(const lm_terms *p, lm_node root, const lm_vocabulary *v, lm_automaton **out, lm_error *e);
void      lm_automaton_free(lm_automaton *m);

/* ---- all below with the lock held ---- */

/* The state of an expression; LM_DEAD: no text goes on so, or memory ran out (m->pool.status). */
uint32_t lm_state_of(lm_automaton *m, lm_node n);
uint32_t lm_state_make(lm_automaton *m, uint32_t state, uint8_t byte);       /* a transition that is not known yet */

static inline uint32_t lm_state_next(lm_automaton *m, uint32_t state, uint8_t byte)
{
    uint32_t to = m->next[(size_t)state * m->n_classes + m->class_of[byte]];

    return to == LM_UNKNOWN ? lm_state_make(m, state, byte) : to;
}

static inline bool lm_state_final(const lm_automaton *m, uint32_t state)
{
    return m->pool.nodes[m->states[state].node].flags & LM_NULLABLE;
}

/* Begin work: limits how much may be made from here on. Then, at its end, what went wrong; memory is given back when there is much of
 * it, which moves states: `constraints` know where theirs went. */
void      lm_automaton_begin(lm_automaton *m);
lm_status lm_automaton_end(lm_automaton *m, lm_error *e);

void lm_counted_clear(lm_counted *x);            /* its lists go; it is unknown */

/* mask.c: the mask of a state, into `bits`. */
void lm_automaton_mask(lm_automaton *m, uint32_t state, uint64_t *bits);

#endif
