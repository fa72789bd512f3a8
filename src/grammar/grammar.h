/* grammar.h - from a pool and a root to a grammar. */
#ifndef LM_GRAMMAR_GRAMMAR_H
#define LM_GRAMMAR_GRAMMAR_H

#include "grammar/automaton.h"

enum { LM_GRAMMAR_DEPTH = 64 };

struct lm_grammar {
    uint32_t        refs;            /* atomic */
    pthread_mutex_t lock;            /* of the list of matchers */
    lm_terms         pool;            /* settled; not changed any more */
    lm_node         root;
    lm_automaton    **automata;        /* one for each vocabulary that was used, and one for none */
    uint32_t        n_automata, automata_capacity;
    lm_grammar     *base;            /* of lm_grammar_after: kept as long */
};

/* An empty pool with the limits of the options; LM_USAGE for reserved words, LM_LIMIT for a text of more than 1 MiB. */
lm_status lm_grammar_begin(lm_terms *p, const lm_grammar_options *o, size_t size, lm_error *e);

/* The grammar takes the pool, also on failure. *rule is then in a left recursion, or UINT32_MAX. */
lm_status lm_grammar_finish(lm_terms *p, lm_node root, lm_grammar **out, uint32_t *rule, lm_error *e);

/* The one for a vocabulary (NULL: none), made where there is none yet. */
lm_status lm_grammar_automaton(const lm_grammar *g, const lm_vocabulary *v, lm_automaton **out, lm_error *e);

/* A JSON Schema as an expression of the pool. */
lm_status lm_grammar_add_schema(lm_terms *p, const char *text, size_t size, const lm_grammar_options *o, lm_node *root, lm_error *e);

lm_grammar *lm_grammar_keep(const lm_grammar *g);              /* one more owner */

#endif
