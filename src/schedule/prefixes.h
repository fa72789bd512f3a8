/* prefixes.h - the prefix cache: a tree of full pages over token ids.
 *
 * A node is one page of tokens (LM_PAGE of them) after those of its parent, and the pages of each group that hold their
 * keys and values, of which it is one owner. Prefixes with different salts have nothing in common, and sequences with other adapters have
 * other salts: lm_prefixes_salt_for. A windowed group's
 * page may be missing: it was returned to the pool, and the prefix can be used only where the window no longer includes it.
 *
 * Evicted first: leaves used longest ago, and before them those that no later sequence has used again.
 * Nodes that a sequence uses (pins) stay, and with them all above.
 *
 * All memory is taken by lm_prefixes_open. By the thread that steps. */
#ifndef LM_SCHEDULE_PREFIXES_H
#define LM_SCHEDULE_PREFIXES_H

#include "runtime/engine/kept.h"

typedef struct lm_prefix {
    lm_token          tokens[LM_PAGE];
    struct lm_prefix *parent;        /* NULL: a beginning */
    struct lm_prefix *child, *next_sibling, *previous_sibling;
    struct lm_prefix *next_in_bucket;
    struct lm_prefix *older, *newer; /* in its list */
    uint64_t          salt;
    uint32_t          depth;         /* pages before it */
    uint32_t          pins;          /* sequences that use it */
    bool              again;         /* a later sequence has used it again */
    uint8_t           stored;        /* whether a file has it: the store's */
    uint32_t          pages[];       /* [groups]; LM_NONE: missing. Then float scales [adapters] that they were computed with */
} lm_prefix;

typedef struct lm_prefix_list { lm_prefix *oldest, *newest; size_t n; } lm_prefix_list;

typedef struct lm_prefixes {
    lm_engine     *g;
    uint8_t       *memory;           /* of all nodes */
    size_t         node_bytes, n_nodes, most;        /* `most`: that the limit of bytes allows */
    lm_prefix     *unused;           /* by `child` */
    lm_prefix    **buckets;
    size_t         n_buckets;
    lm_prefix     *roots;            /* by next_sibling */
    lm_prefix_list once, again;
    uint64_t       evicted;          /* pages */
} lm_prefixes;

/* `bytes` 0: as many as the cache has. */
lm_status lm_prefixes_open(lm_prefixes *p, lm_engine *g, uint64_t bytes, lm_error *e);
void      lm_prefixes_close(lm_prefixes *p);

uint64_t lm_prefixes_salt(const char *salt);

/* The salt of a sequence with these adapters ([lm_engine_n_adapters] scales; NULL: none). Without any it is the salt itself. */
uint64_t lm_prefixes_salt_for(const lm_prefixes *p, uint64_t salt, const float *scales);

/* The deepest node by which a sequence of `n` tokens may begin, with all pages that its next token attends to; NULL: none.
 * *cached: tokens of the sequence that it spares, n - 1 at most. It counts as used. */
lm_prefix *lm_prefixes_find(lm_prefixes *p, uint64_t salt, const lm_token *ids, size_t n, size_t *cached);

/* Let an empty sequence begin with what `node` and those above it hold, the first `positions`, and have its adapters. */
void lm_prefixes_share(lm_prefixes *p, const lm_prefix *node, uint32_t sequence, uint32_t positions);

/* The page after `node` (NULL: the first one) of a sequence that is full of these tokens. Returns its node, made or found;
 * NULL if no node is free. */
lm_prefix *lm_prefixes_add(lm_prefixes *p, lm_prefix *node, uint64_t salt, const lm_token *tokens, uint32_t sequence);

static inline void lm_prefixes_pin(lm_prefix *node)   { if (node) node->pins++; }
static inline void lm_prefixes_unpin(lm_prefix *node) { if (node) node->pins--; }

/* Give back a page of this group, if any can be. */
bool lm_prefixes_evict(lm_prefixes *p, uint32_t group);

/* The least useful node goes; false: none can. */
bool lm_prefixes_evict_any(lm_prefixes *p);

/* Whether a sequence could begin with all of it. */
bool lm_prefixes_whole(const lm_prefixes *p, const lm_prefix *node);

/* Pages of this group that lm_prefixes_evict could give back, one after the other. */
uint32_t lm_prefixes_spare(const lm_prefixes *p, uint32_t group);

/* Remove `node` and those above it, as far as they are not pinned and no other prefix begins with them. */
void lm_prefixes_forget(lm_prefixes *p, lm_prefix *node);

/* How far the tokens after `matched` pages of a sequence agree with the child of `node` that agrees most; NULL: there is none. */
const lm_prefix *lm_prefixes_nearest(const lm_prefixes *p, const lm_prefix *node, uint64_t salt, const lm_token *ids, size_t n,
                                     size_t *same);

/* The deepest node that the sequence matches, whether or not it can be used. */
lm_prefix *lm_prefixes_down(const lm_prefixes *p, uint64_t salt, const lm_token *ids, size_t n);

/* Tokens from the beginning to the end of `node`. ids: [(depth + 1) * LM_PAGE] */
size_t lm_prefixes_tokens(const lm_prefix *node, lm_token *ids);

#endif
