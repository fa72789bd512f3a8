/* expression.h - languages over bytes, as expressions that exist once each.
 *
 * An expression is a number; equal expressions have equal numbers, so a state of the automaton is an expression: what may still
 * follow. Reading a byte is taking the derivative (Brzozowski 1964): see derivative.h. Rules may recurse; the expression then grows a
 * stack of frames, innermost first, which makes the automaton a pushdown one. Repetitions keep their counters.
 *
 * Memory and limits: what fails marks the pool (`status`) and returns LM_NOTHING; who builds checks once, at the end. */
#ifndef LM_GRAMMAR_EXPRESSION_H
#define LM_GRAMMAR_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "lamina/text.h"

typedef uint32_t lm_node;

enum {
    LM_NOTHING = 0,                  /* the empty language */
    LM_EMPTY_TEXT = 1,               /* the language of the empty text alone */
};
#define LM_UNBOUNDED UINT32_MAX

typedef enum lm_node_kind {
    LM_NODE_NOTHING, LM_NODE_EMPTY,
    LM_NODE_BYTES,                   /* one byte of a set: a = the set */
    LM_NODE_LITERAL,                 /* b bytes at a */
    LM_NODE_CAT,                     /* a, then b */
    LM_NODE_FRAME,                   /* the same; a is what is left of a rule, b what follows its call */
    LM_NODE_ALT,                     /* one of b nodes listed at a, in rising order */
    LM_NODE_REPEAT,                  /* a, from b to c times */
    LM_NODE_RULE,                    /* rule a */
    LM_NODE_MEMBERS,                 /* the rest of an object: object a of which set b was seen; c: what it unfolds to, once known */
    LM_NODE_TOKEN,                   /* one token of token set a */
    LM_NODE_AND,                     /* both a and b: only while compiling (explore.h) */
    LM_NODE_NOT,                     /* any bytes but a: the same */
} lm_node_kind;

enum {
    LM_NULLABLE = 1,                 /* holds the empty text */
    LM_LIVE = 2,                     /* holds any text */
    LM_FRAMED = 4,                   /* a choice with a frame in it */
    LM_TOKENS = 8,                   /* may begin with a token item */
};

typedef struct lm_node_data {
    uint8_t  kind, flags;
    uint32_t a, b, c;
} lm_node_data;

typedef struct lm_byte_set { uint64_t bits[4]; } lm_byte_set;

static inline bool lm_byte_set_has(const lm_byte_set *s, unsigned b) { return s->bits[b >> 6] >> (b & 63) & 1; }
static inline void lm_byte_set_add(lm_byte_set *s, unsigned first, unsigned last)
{
    for (unsigned b = first; b <= last; b++)
        s->bits[b >> 6] |= UINT64_C(1) << (b & 63);
}

/* Which tokens an item stands for. */
typedef enum lm_token_mode { LM_TOKENS_OF, LM_TOKENS_BUT, LM_TOKENS_SPECIAL_BUT } lm_token_mode;
typedef struct lm_token_set {
    lm_token_mode mode;
    uint32_t      from, n;           /* of lm_terms.token_ids */
} lm_token_set;

typedef struct lm_rule {
    lm_node body;                    /* LM_NOTHING until it is defined */
    uint8_t flags;
} lm_rule;

typedef struct lm_members lm_members;              /* members.h */

typedef struct lm_terms {
    lm_node_data *nodes;
    uint32_t      n, capacity;
    uint32_t     *table, table_mask;               /* nodes by content: 0 is free */
    uint32_t     *lists;                           /* of choices */
    uint32_t      n_lists, lists_capacity;
    uint8_t      *bytes;                           /* of literals */
    uint32_t      n_bytes, bytes_capacity;
    lm_byte_set  *sets;
    uint32_t      n_sets, sets_capacity;
    lm_token_set *token_sets;
    uint32_t      n_token_sets, token_sets_capacity;
    lm_token     *token_ids;
    uint32_t      n_token_ids, token_ids_capacity;
    lm_rule      *rules;
    uint32_t      n_rules, rules_capacity;
    lm_members   *members;                         /* objects; owned by who compiled, shared by copies */

    /* derivatives that are known */
    struct lm_known { uint64_t key; lm_node value; } *known;
    uint32_t      n_known, known_mask;

    bool          settled;                         /* flags of rules are known: lm_terms_settle */
    uint32_t      most_nodes, most_list, most_lists;           /* limits: nodes, ways in one choice, in all */
    uint32_t      most_states;                     /* of one exploration (explore.h) */
    uint64_t      work, most_work;                 /* units so far, and at most; 0: any number */
    uint32_t      depth;                           /* of derivatives inside each other */
    lm_status     status;                          /* LM_OK, or the first failure */
    const char   *reason;                          /* of LM_LIMIT */
    uint64_t      limit;                           /* the number that `reason` is about; 0: none */
} lm_terms;

lm_status lm_terms_init(lm_terms *p, lm_error *e);
lm_status lm_terms_copy(lm_terms *to, const lm_terms *from, lm_error *e);     /* nodes keep their numbers */
void      lm_terms_free(lm_terms *p);
void      lm_terms_fail(lm_terms *p, lm_status status, const char *reason);
void      lm_terms_fail_limit(lm_terms *p, const char *reason, uint64_t limit);     /* LM_LIMIT; the error names both */
lm_status lm_terms_check(const lm_terms *p, lm_error *e);        /* the first failure as an error */
bool      lm_terms_work(lm_terms *p, uint64_t units);            /* counted; false: it has failed, now or before */

/* Nodes in a row, for what is put together at its end: a node at a time it would take the square of their number. */
typedef struct lm_node_list { lm_node *items; uint32_t n, capacity; } lm_node_list;
void    lm_list_add(lm_terms *p, lm_node_list *l, lm_node n);
lm_node lm_list_cat(lm_terms *p, lm_node_list *l, uint32_t from);        /* those from `from` on, one after the other; taken out */
lm_node lm_list_alt(lm_terms *p, lm_node_list *l, uint32_t from);        /* or one of them */

/* ---- building ---- */
lm_node lm_bytes(lm_terms *p, const lm_byte_set *s);
lm_node lm_byte_range(lm_terms *p, unsigned first, unsigned last);
lm_node lm_literal(lm_terms *p, const void *data, size_t n);
lm_node lm_word(lm_terms *p, const char *s);
lm_node lm_literal_rest(lm_terms *p, uint32_t at, uint32_t n);       /* of a literal that is there: its bytes are shared */
lm_node lm_cat(lm_terms *p, lm_node a, lm_node b);
lm_node lm_frame(lm_terms *p, lm_node inner, lm_node after);
lm_node lm_alt(lm_terms *p, lm_node a, lm_node b);
lm_node lm_alt_of(lm_terms *p, lm_node *nodes, size_t n);       /* `nodes` is put in order */
lm_node lm_repeat(lm_terms *p, lm_node x, uint32_t least, uint32_t most);
lm_node lm_optional(lm_terms *p, lm_node x);
lm_node lm_members_node(lm_terms *p, uint32_t object, uint32_t seen);
lm_node lm_token_item(lm_terms *p, lm_token_mode mode, const lm_token *ids, uint32_t n);
lm_node lm_and(lm_terms *p, lm_node a, lm_node b);
lm_node lm_not(lm_terms *p, lm_node a);

uint32_t lm_rule_new(lm_terms *p);                              /* to be defined later */
void     lm_rule_define(lm_terms *p, uint32_t rule, lm_node body);
lm_node  lm_rule_node(lm_terms *p, uint32_t rule);

static inline bool lm_is(const lm_terms *p, lm_node n, unsigned flag) { return p->nodes[n].flags & flag; }

/* The elements of a choice; of anything else itself. Valid until the pool grows. */
const lm_node *lm_choices(const lm_terms *p, const lm_node *n, uint32_t *count);

/* All rules are defined: find which nodes may be empty, which are dead; refuse left recursion (LM_USAGE, *rule is in it). */
lm_status lm_terms_settle(lm_terms *p, uint32_t *rule, lm_error *e);

/* Keep of the nodes from `fixed` on those that are marked (keep[n]), which mark what they are made of; `moved[n]` is then where each
 * is. Known derivatives are forgotten. */
void lm_terms_compact(lm_terms *p, uint32_t fixed, uint8_t *keep, uint32_t *moved);

/* The table of nodes anew, after nodes have moved. */
void lm_terms_rehash(lm_terms *p);

/* Make room for one more of `n` elements; false, and failed, where there is none. */
bool lm_terms_room(lm_terms *p, void *array, uint32_t n, uint32_t *capacity, size_t size, uint32_t more);

#endif
