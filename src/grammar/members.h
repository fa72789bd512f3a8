/* members.h - what may follow inside the braces of an object: which names are still free, which must come, how many there may be.
 *
 * Which names were seen is part of the state, so names may come in any order without a grammar of all orders: a state is made when a
 * text comes to it. A state from which the object cannot be finished (a name that must come was passed by, more names must come than
 * may) is dead. */
#ifndef LM_GRAMMAR_MEMBERS_H
#define LM_GRAMMAR_MEMBERS_H

#include "grammar/expression.h"

typedef struct lm_member {
    lm_node key, value;              /* the name in its quotes and the colon; what may follow */
    bool    required;
} lm_member;

typedef struct lm_need { uint32_t if_seen, then; } lm_need;       /* dependentRequired */

typedef struct lm_object {
    lm_member *named;                /* in the order of the schema; owned */
    lm_member *others;               /* names by pattern, and all others; owned */
    lm_need   *needs;                /* owned */
    uint32_t   n_named, n_others, n_needs;
    lm_node    first, comma, close;  /* before the first, before another one, the end */
    bool       any_order;
    uint32_t   least, most;          /* members; a name that is not declared may come twice, so those count once towards `least` */
} lm_object;

/* Takes what the object owns, also on failure; UINT32_MAX then. */
uint32_t lm_members_add(lm_terms *p, const lm_object *o);

/* The state in which none was seen. */
lm_node lm_members_begin(lm_terms *p, uint32_t object);

/* Can this state be finished, as far as is known of its parts? */
bool lm_members_live(const lm_terms *p, uint32_t object, uint32_t seen);

/* The state as an expression. */
lm_node lm_members_unfold(lm_terms *p, lm_node n);

/* The object of a state. */
const lm_object *lm_members_of(const lm_terms *p, lm_node n);

bool lm_members_copy(const lm_members *from, lm_members **to);      /* objects are shared with `from`, which lives longer */
void lm_members_free(lm_members *m);

#endif
