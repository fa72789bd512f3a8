/* members.h - what may follow inside the braces of an object: which names are still allowed, which are
 * required, and how many members are possible.
 *
 * The set of seen names is part of the state, so members may come in any order without a grammar of all
 * orders: a state is created when it is reached. A state from which the object cannot be completed is dead: a
 * required name has been passed, or more names are required than allowed. */
#ifndef LM_GRAMMAR_MEMBERS_H
#define LM_GRAMMAR_MEMBERS_H

#include "grammar/expression.h"

typedef struct lm_member {
    lm_expr_id key, value;           /* the quoted name with its colon; the value */
    bool    required;
} lm_member;

typedef struct lm_need { uint32_t if_seen, then; } lm_need;       /* dependentRequired */

typedef struct lm_object {
    lm_member *named;                /* in schema order; owned */
    lm_member *others;               /* names that match patterns, and all others; owned */
    lm_need   *needs;                /* owned */
    uint32_t   n_named, n_others, n_needs;
    lm_expr_id first, comma, close;  /* what precedes the first member, what precedes further members, the
                                        end */
    bool       any_order;
    uint32_t   min, max;             /* limits on the number of members; undeclared names may repeat, so they
                                        all count once for `min` */
} lm_object;

/* Add an object. Takes ownership of what the object owns, also on failure, which returns UINT32_MAX. */
uint32_t lm_members_add(lm_terms *p, const lm_object *o);

/* Return the state in which no name has been seen. */
lm_expr_id lm_members_begin(lm_terms *p, uint32_t object);

/* Return whether this state can be completed, as far as that is known of its parts. */
bool lm_members_live(const lm_terms *p, uint32_t object, uint32_t seen);

/* Return the expression of a state. */
lm_expr_id lm_members_unfold(lm_terms *p, lm_expr_id n);

/* objects are shared with `from`, which must live longer */
bool lm_members_copy(const lm_members *from, lm_members **to);
void lm_members_free(lm_members *m);

#endif
