/* expression.h - languages over bytes as hash-consed expressions.
 *
 * An expression is a number, and equal expressions have equal numbers. A state of the automaton is an
 * expression: the text that may still follow. Processing a byte means taking the derivative (Brzozowski
 * 1964): see derivative.h. Rules may be recursive; the expression then contains a stack of frames, innermost
 * first, which makes the automaton a pushdown automaton. Repetitions keep their counters.
 *
 * Memory and limits: a failure sets `status` of the pool and returns LM_NOTHING. The caller that builds
 * expressions checks once, at the end. */
#ifndef LM_GRAMMAR_EXPRESSION_H
#define LM_GRAMMAR_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "lamina/text.h"

typedef uint32_t lm_expr_id;

enum {
    LM_NOTHING = 0,                  /* the empty language */
    LM_EMPTY_TEXT = 1,               /* the language that contains only the empty text */
};
#define LM_UNBOUNDED UINT32_MAX

typedef enum lm_node_kind {
    LM_NODE_NOTHING, LM_NODE_EMPTY,
    LM_NODE_BYTES,                   /* one byte of a set: a = the set */
    LM_NODE_LITERAL,                 /* b bytes at a */
    LM_NODE_CAT,                     /* a, then b */
    LM_NODE_FRAME,                   /* like LM_NODE_CAT; a is what remains of a rule, b what follows its
                                        call */
    LM_NODE_ALT,                     /* one of b nodes listed at a, in ascending order */
    LM_NODE_REPEAT,                  /* a, from b to c times */
    LM_NODE_RULE,                    /* rule a */
    LM_NODE_MEMBERS,                 /* the rest of an object: object a after the set b of seen names; c: its
                                        expansion, once known */
    LM_NODE_TOKEN,                   /* one token of token set a */
    LM_NODE_AND,                     /* both a and b: only while compiling (explore.h) */
    LM_NODE_NOT,                     /* any bytes except a: only while compiling */
} lm_node_kind;

enum {
    LM_NULLABLE = 1,                 /* contains the empty text */
    LM_LIVE = 2,                     /* contains at least one text */
    LM_FRAMED = 4,                   /* a choice that contains a frame */
    LM_TOKENS = 8,                   /* may begin with a token item */
};

typedef struct lm_node_data {
    uint8_t  kind, flags;
    uint32_t a, b, c;
} lm_node_data;

typedef struct lm_byte_set { uint64_t bits[4]; } lm_byte_set;

static inline bool lm_byte_set_has(const lm_byte_set *s, unsigned b)
{
    return s->bits[b >> 6] >> (b & 63) & 1;
}
static inline void lm_byte_set_add(lm_byte_set *s, unsigned first, unsigned last)
{
    for (unsigned b = first; b <= last; b++)
        s->bits[b >> 6] |= UINT64_C(1) << (b & 63);
}

/* The tokens that an item matches. */
typedef enum lm_token_mode { LM_TOKENS_OF, LM_TOKENS_BUT, LM_TOKENS_SPECIAL_BUT } lm_token_mode;
typedef struct lm_token_set {
    lm_token_mode mode;
    uint32_t      from, n;           /* range of lm_terms.token_ids */
} lm_token_set;

typedef struct lm_rule {
    lm_expr_id body;                 /* LM_NOTHING until it is defined */
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
    lm_members   *members;                         /* objects; owned by the pool that compiled them, shared by
                                                      copies */

    /* cache of derivatives */
    struct lm_known { uint64_t key; lm_expr_id value; } *known;
    uint32_t      n_known, known_mask;

    bool          resolved;                       /* the flags of rules are known: lm_terms_resolve */
    uint32_t      max_nodes, max_list, max_lists;              /* limits: nodes, alternatives per choice,
                                                                  alternatives in total */
    uint32_t      max_states;                      /* of one exploration (explore.h) */
    uint64_t      work, max_work;                  /* units used so far, and their maximum; 0: no limit */
    uint32_t      depth;                           /* of nested derivatives */
    lm_status     status;                          /* LM_OK, or the first failure */
    const char   *reason;                          /* of LM_LIMIT */
    uint64_t      limit;                           /* the number that `reason` is about; 0: none */
} lm_terms;

lm_status lm_terms_init(lm_terms *p, lm_error *e);
lm_status lm_terms_copy(lm_terms *to, const lm_terms *from, lm_error *e);     /* nodes keep their numbers */
void      lm_terms_free(lm_terms *p);
void      lm_terms_fail(lm_terms *p, lm_status status, const char *reason);
/* LM_LIMIT; the error contains both */
void      lm_terms_fail_limit(lm_terms *p, const char *reason, uint64_t limit);
lm_status lm_terms_check(const lm_terms *p, lm_error *e);        /* the first failure as an error */
/* count units of work; false: the pool has failed, now or earlier */
bool      lm_terms_work(lm_terms *p, uint64_t units);

/* A list of nodes that are joined at its end: joining them one by one would take quadratic time. */
typedef struct lm_node_list { lm_expr_id *items; uint32_t n, capacity; } lm_node_list;
void    lm_list_add(lm_terms *p, lm_node_list *l, lm_expr_id n);
/* the nodes from `from` on in sequence; removes them */
lm_expr_id lm_list_cat(lm_terms *p, lm_node_list *l, uint32_t from);
/* one of the nodes from `from` on; removes them */
lm_expr_id lm_list_alt(lm_terms *p, lm_node_list *l, uint32_t from);

/* ---- building ---- */
lm_expr_id lm_bytes(lm_terms *p, const lm_byte_set *s);
lm_expr_id lm_byte_range(lm_terms *p, unsigned first, unsigned last);
lm_expr_id lm_literal(lm_terms *p, const void *data, size_t n);
lm_expr_id lm_word(lm_terms *p, const char *s);
/* of an existing literal, whose bytes are shared */
lm_expr_id lm_literal_rest(lm_terms *p, uint32_t at, uint32_t n);
lm_expr_id lm_cat(lm_terms *p, lm_expr_id a, lm_expr_id b);
lm_expr_id lm_frame(lm_terms *p, lm_expr_id inner, lm_expr_id after);
lm_expr_id lm_alt(lm_terms *p, lm_expr_id a, lm_expr_id b);
lm_expr_id lm_alt_of(lm_terms *p, lm_expr_id *nodes, size_t n); /* sorts `nodes` */
lm_expr_id lm_repeat(lm_terms *p, lm_expr_id x, uint32_t min, uint32_t max);
lm_expr_id lm_optional(lm_terms *p, lm_expr_id x);
lm_expr_id lm_members_node(lm_terms *p, uint32_t object, uint32_t seen);
lm_expr_id lm_token_item(lm_terms *p, lm_token_mode mode, const lm_token *ids, uint32_t n);
lm_expr_id lm_and(lm_terms *p, lm_expr_id a, lm_expr_id b);
lm_expr_id lm_not(lm_terms *p, lm_expr_id a);

uint32_t lm_rule_new(lm_terms *p);                              /* define it later */
void     lm_rule_define(lm_terms *p, uint32_t rule, lm_expr_id body);
lm_expr_id lm_rule_node(lm_terms *p, uint32_t rule);

static inline bool lm_is(const lm_terms *p, lm_expr_id n, unsigned flag) { return p->nodes[n].flags & flag; }

/* Return the alternatives of a choice; of any other node, the node itself. Valid until the pool grows. */
const lm_expr_id *lm_choices(const lm_terms *p, const lm_expr_id *n, uint32_t *count);

/* Call this when all rules are defined: find which nodes may be empty and which are dead, and reject left
 * recursion (LM_USAGE, *rule is part of it). */
lm_status lm_terms_resolve(lm_terms *p, uint32_t *rule, lm_error *e);

/* Remove the nodes from `fixed` on, except the marked ones (keep[n]) and the nodes that these consist of.
 * moved[n] is then the new number of each remaining node. Cached derivatives are discarded. */
void lm_terms_compact(lm_terms *p, uint32_t fixed, uint8_t *keep, uint32_t *moved);

/* Rebuild the hash table of nodes after nodes have moved. */
void lm_terms_rehash(lm_terms *p);

/* Grow an array of `n` elements to hold `more` elements more. Return false if that fails, which fails the
 * pool. */
bool lm_terms_reserve(lm_terms *p, void *array, uint32_t n, uint32_t *capacity, size_t size, uint32_t more);

#endif
