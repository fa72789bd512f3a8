/* grammar.h - create a grammar from a pool and a root. */
#ifndef LM_GRAMMAR_GRAMMAR_H
#define LM_GRAMMAR_GRAMMAR_H

#include "grammar/automaton.h"

enum { LM_GRAMMAR_DEPTH = 64 };

struct lm_grammar {
    uint32_t        refs;            /* atomic */
    pthread_mutex_t lock;            /* protects the list of automata */
    lm_terms         pool;            /* settled; immutable */
    lm_expr_id      root;
    lm_automaton    **automata;        /* one per vocabulary in use, and one without a vocabulary */
    uint32_t        n_automata, automata_capacity;
    lm_grammar     *base;            /* of lm_grammar_after, which keeps a reference */
};

/* Create an empty pool with the limits of the options. LM_USAGE: reserved fields are set; LM_LIMIT: the
 * source text exceeds 1 MiB. */
lm_status lm_grammar_begin(lm_terms *p, const lm_grammar_options *o, size_t size, lm_error *e);

/* Create a grammar, which takes over the pool, also on failure. *rule is then part of a left recursion, or
 * UINT32_MAX. */
lm_status lm_grammar_finish(lm_terms *p, lm_expr_id root, lm_grammar **out, uint32_t *rule, lm_error *e);

/* Return the automaton for a vocabulary (NULL: none). It is created on first use. */
lm_status lm_grammar_automaton(const lm_grammar *g, const lm_vocabulary *v, lm_automaton **out, lm_error *e);

/* Add a JSON Schema to the pool and store its expression in *root. */
lm_status lm_grammar_add_schema(lm_terms *p, const char *text, size_t size, const lm_grammar_options *o,
                                lm_expr_id *root, lm_error *e);

/* Create a lazy grammar that also allows a part between two marks at the beginning, in which everything is
 * free text; `close` is a trigger as of lm_grammar_after. */
lm_status lm_grammar_after_part(const lm_grammar *g, const lm_trigger *open, const lm_trigger *close,
                                lm_grammar **out, lm_error *e);

lm_grammar *lm_grammar_ref(const lm_grammar *g);               /* add a reference */

#endif
