/* prefixes.h - the prefix cache: a tree of full pages over token ids.
 *
 * A node is one page of tokens (LM_PAGE of them) after those of its parent, and the page of each group that
 * holds their keys and values. The node is one owner of these pages. Prefixes with different salts share no
 * nodes; sequences with different adapters have different salts (lm_prefixes_salt_for). A page of a windowed
 * group may be missing, because it was returned to the pool; then the prefix can be used only where the
 * window no longer includes it.
 *
 * A checkpoint is a node at whose end later sequences are expected to diverge: the end of a prompt, the end
 * of a sequence, and where a sequence did diverge. Pages of a windowed group that are in no checkpoint's
 * window are evicted first, then those of the checkpoint that was used longest ago.
 *
 * Leaves used longest ago are evicted first, and before them leaves that no later sequence has used. Nodes
 * that a sequence uses (pins) and their ancestors are not evicted.
 *
 * lm_prefixes_open allocates all memory. All functions are called by the thread that steps. */
#ifndef LM_RUNTIME_PREFIXES_H
#define LM_RUNTIME_PREFIXES_H

#include "runtime/engine/page_owners.h"

typedef struct lm_prefix {
    lm_token          tokens[LM_PAGE];
    struct lm_prefix *parent;        /* NULL: a root */
    struct lm_prefix *child, *next_sibling, *previous_sibling;
    struct lm_prefix *next_in_bucket;
    struct lm_prefix *older, *newer; /* in its list */
    uint64_t          salt;
    uint64_t          checkpoint;    /* when it was last used as one; 0: it is none */
    uint64_t          needed;        /* the latest `checkpoint` whose window includes it; for one eviction */
    uint32_t          depth;         /* pages before it */
    uint32_t          pins;          /* sequences that use it */
    bool              again;         /* a later sequence has used it again */
    uint8_t           stored;        /* whether a file contains it; used by prefix_store.c */
    uint32_t          pages[];       /* [groups]; LM_NONE: missing. Followed by float [adapters]: the scales
                                        used to compute them */
} lm_prefix;

typedef struct lm_prefix_list { lm_prefix *oldest, *newest; size_t n; } lm_prefix_list;

typedef struct lm_prefixes {
    lm_engine     *g;
    uint8_t       *memory;           /* of all nodes */
    size_t         node_bytes, n_nodes, max;          /* `max`: maximum number of nodes */
    lm_prefix     *unused;           /* linked by `child` */
    lm_prefix    **buckets;
    size_t         n_buckets;
    lm_prefix     *roots;            /* linked by next_sibling */
    lm_prefix_list once, again;
    uint64_t       evicted;          /* pages */
    uint64_t       n_marks;          /* number of calls of lm_prefixes_mark */
} lm_prefixes;

/* Open an empty prefix cache of at most `bytes` of pages; 0: as many pages as the engine's cache has. */
lm_status lm_prefixes_open(lm_prefixes *p, lm_engine *g, uint64_t bytes, lm_error *e);
void      lm_prefixes_close(lm_prefixes *p);

uint64_t lm_prefixes_salt(const char *salt);

/* Return the salt of a sequence with these adapters ([lm_engine_n_adapters] scales; NULL: none). Without
 * adapters it is `salt`. */
uint64_t lm_prefixes_salt_for(const lm_prefixes *p, uint64_t salt, const float *scales);

/* Return the deepest node with which a sequence of `n` tokens can begin, with all pages that its next token
 * attends to; NULL: none. *cached: number of tokens that need not be processed, at most n - 1. Marks the node
 * as used again, and as a checkpoint; a deeper node that lacks pages as well. */
lm_prefix *lm_prefixes_find(lm_prefixes *p, uint64_t salt, const lm_token *ids, size_t n, size_t *cached);

/* Let an empty sequence begin with the first `positions` of `node` and its ancestors, and with its adapters.
 * NULL: it stays empty. */
void lm_prefixes_share(lm_prefixes *p, const lm_prefix *node, uint32_t sequence, uint32_t positions);

/* Add the page of a sequence that follows `node` (NULL: the first page) and is full of these tokens. Returns
 * its new or existing node; NULL: no node is free. */
lm_prefix *lm_prefixes_add(lm_prefixes *p, lm_prefix *node, uint64_t salt, const lm_token *tokens,
                           uint32_t sequence);

/* Add the further full pages of a sequence that holds `n_held` tokens, after those of *node, which is pinned
 * (NULL: none), and pin the last one instead of it. Where the prompt of `n_prompt` tokens ends is a
 * checkpoint. Returns false if no node is free: later pages would have no parent. */
bool lm_prefixes_follow(lm_prefixes *p, lm_prefix **node, uint64_t salt, const lm_token *ids, size_t n_held,
                        size_t n_prompt, uint32_t sequence);

static inline void lm_prefixes_pin(lm_prefix *node)   { if (node) node->pins++; }
static inline void lm_prefixes_unpin(lm_prefix *node) { if (node) node->pins--; }

/* Make the node (NULL: none) the checkpoint that was used last. */
void lm_prefixes_mark(lm_prefixes *p, lm_prefix *node);

/* Free a page of this group, evicting as many nodes as necessary; false: none can be freed. */
bool lm_prefixes_evict(lm_prefixes *p, uint32_t group);

/* Evict the least useful node; false: none can be evicted. */
bool lm_prefixes_evict_any(lm_prefixes *p);

/* Whether a sequence could begin with all of it. */
bool lm_prefixes_whole(const lm_prefixes *p, const lm_prefix *node);

/* Return the number of pages of this group that only the prefix cache owns. */
uint32_t lm_prefixes_spare(const lm_prefixes *p, uint32_t group);

/* Remove `node` and its ancestors, up to the first one that is pinned or has another child. */
void lm_prefixes_forget(lm_prefixes *p, lm_prefix *node);

/* Return the child of `node` (NULL: the root) with this salt that has the longest common prefix with the `n`
 * tokens, and its length in *same; NULL: it has no such child. */
const lm_prefix *lm_prefixes_nearest(const lm_prefixes *p, const lm_prefix *node, uint64_t salt,
                                     const lm_token *ids, size_t n, size_t *same);

/* Return the deepest node that the sequence matches, whether or not it can be used; NULL: none. */
lm_prefix *lm_prefixes_down(const lm_prefixes *p, uint64_t salt, const lm_token *ids, size_t n);

/* Write the tokens from the beginning to the end of `node` to ids [(depth + 1) * LM_PAGE]. Returns their
 * number. */
size_t lm_prefixes_tokens(const lm_prefix *node, lm_token *ids);

#endif
