/* automaton.h - run a grammar on a vocabulary: states of the automaton, which are created on demand, and
 * token masks.
 *
 * A state is an expression with its transitions by byte classes. Its mask is composed of the masks of the
 * innermost frames that it begins with, which do not depend on the surrounding context (Dong et al. 2024,
 * XGrammar): `heads`. Only tokens that extend past the end of a frame are walked with what follows the frame.
 *
 * One lock guards the automaton: all constraints with the same grammar and vocabulary share it. */
#ifndef LM_GRAMMAR_AUTOMATON_H
#define LM_GRAMMAR_AUTOMATON_H

#include <pthread.h>

#include "grammar/derivative.h"
#include "grammar/expression.h"
#include "grammar/trie.h"

enum { LM_DEAD = 0, LM_HISTORY = 256, LM_CACHED_MASKS = 256 };
#define LM_UNKNOWN UINT32_MAX

typedef struct lm_state {
    lm_expr_id node;
    uint32_t mask;                   /* index of its cached mask + 1; valid if that mask still belongs to this
                                        state */
} lm_state;

/* The tokens that a frame accepts, whatever follows the frame. */
typedef struct lm_head {
    uint64_t *bits;                  /* [n_words] */
    uint32_t *exits, n_exits;        /* trie nodes at which the frame may end and tokens continue; LM_UNKNOWN:
                                        before the first byte */
    bool      open;                  /* there are too many exits; they are not stored */
} lm_head;

/* ---- counts (counted.c) ---- */

/* A token or a trie node, and the number of repetitions that have begun by then. */
typedef struct lm_token_use { uint32_t what, times; } lm_token_use;

typedef struct lm_token_uses {
    lm_token_use *list;
    uint32_t n, capacity;
} lm_token_uses;

enum { LM_COUNTED_MASKS = 32 };

typedef struct lm_counted {
    lm_expr_id key;                  /* the expression with its counter set out of reach */
    bool      unknown;               /* counting failed: the text is ambiguous, or there are too many tokens
                                        to list */
    lm_token_uses inside;            /* tokens after which the repetition may continue */
    lm_token_uses past;              /* tokens that end after the repetition */
    lm_token_uses exits;             /* trie nodes at which the frame may end and tokens continue */
    uint64_t *up_to;                 /* [LM_COUNTED_MASKS][n_words] tokens of `inside` that take at most that
                                        many repetitions; `inside`
                                      * lists the others. NULL: all are listed */
} lm_counted;

typedef struct lm_automaton {
    pthread_mutex_t      lock;
    lm_vocabulary       *v;          /* NULL: match text only, without tokens */
    lm_terms              pool;
    uint32_t             fixed;      /* number of nodes of the grammar itself */
    lm_expr_id           root;
    uint32_t             fixed_lists, fixed_bytes;
    uint8_t              class_of[256];
    uint32_t             n_classes;
    lm_state            *states;
    uint32_t             n_states, states_capacity;
    uint32_t            *next;       /* [n_states][n_classes] */
    uint32_t             next_capacity;
    uint32_t            *state_of, *head_of;                 /* by node; 0: none; head_of is the index + 1 */
    uint32_t             state_of_capacity, head_of_capacity;
    lm_head             *heads;
    uint32_t             n_heads, heads_capacity;
    lm_counted          *counted;
    uint32_t             n_counted, counted_capacity;
    bool                 counters_seen, counters_large;
    uint64_t            *masks;      /* [LM_CACHED_MASKS][n_words] */
    uint64_t            *scratch;    /* [n_words] */
    uint32_t             mask_state[LM_CACHED_MASKS], next_mask;
    uint32_t            *exits;      /* of the current walk */
    uint32_t             n_exits, exits_capacity;
    lm_constraint       *first;      /* list of the constraints that have states here */
    uint64_t             head_bytes;
    uint32_t             max_kept;   /* number of nodes above which unused ones are freed */
} lm_automaton;

struct lm_constraint {
    lm_automaton    *m;
    lm_grammar    *g;
    lm_constraint *next, **link;
    uint32_t       states[LM_HISTORY];       /* ring of the last states; the current one is states[at] */
    uint32_t       at, kept;                 /* kept: how many states can be rolled back */
    bool           ended;
    bool           begun;                    /* lm_constraint_logits has processed the prompt */
    size_t         n_ids;                    /* number of ids that it has processed */
    uint64_t      *bits;                     /* mask buffer of lm_constraint_logits for large vocabularies */
};

lm_status lm_automaton_new(const lm_terms *p, lm_expr_id root, const lm_vocabulary *v, lm_automaton **out,
                           lm_error *e);
void      lm_automaton_free(lm_automaton *m);

/* ---- functions that require the lock ---- */

/* Return the state of an expression, or LM_DEAD if no text can continue from it or memory is exhausted
 * (m->pool.status). */
uint32_t lm_state_of(lm_automaton *m, lm_expr_id n);
/* compute an unknown transition */
uint32_t lm_state_make(lm_automaton *m, uint32_t state, uint8_t byte);

static inline uint32_t lm_state_next(lm_automaton *m, uint32_t state, uint8_t byte)
{
    uint32_t to = m->next[(size_t)state * m->n_classes + m->class_of[byte]];

    return to == LM_UNKNOWN ? lm_state_make(m, state, byte) : to;
}

static inline bool lm_state_final(const lm_automaton *m, uint32_t state)
{
    return m->pool.nodes[m->states[state].node].flags & LM_NULLABLE;
}

/* Begin an operation and limit how many nodes it may create. lm_automaton_end returns what went wrong. It
 * frees unused memory on failure and when there is much of it, which renumbers the states; the states stored
 * in constraints are updated. */
void      lm_automaton_begin(lm_automaton *m);
lm_status lm_automaton_end(lm_automaton *m, lm_error *e);

void lm_counted_clear(lm_counted *x);            /* free its lists and mark it unknown */

/* mask.c: compute the mask of a state into `bits`. */
void lm_automaton_mask(lm_automaton *m, uint32_t state, uint64_t *bits);

#endif
