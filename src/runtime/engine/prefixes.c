/* prefixes.c - the tree: nodes in a pool, found by a hash of parent and tokens, in two lists by use. */
#include "runtime/engine/prefixes.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/kv.h"

enum { PROTECTED = 3, OF = 4 };          /* nodes used again are evicted first if they exceed this fraction of
                                            all */

/* ---- memory ---- */

lm_status lm_prefixes_open(lm_prefixes *p, lm_engine *g, uint64_t bytes, lm_error *e)
{
    uint64_t page = 0, max = 0;

    *p = (lm_prefixes){ .g = g };
    for (uint32_t i = 0; i < lm_pages_groups(g); i++) {
        const lm_kv_group *k = &g->plan->groups[i];
        /* nodes before a window have no page */
        uint64_t n = k->window || k->states ? (uint64_t)k->pages_per_sequence * g->plan->options.sequences
                               : lm_pages_total(g, i);
        page += k->page_bytes;
        max = max > n ? max : n;
    }
    max          = bytes && page && bytes / page < max ? bytes / page : max;
    p->n_nodes    = p->max = max;
    p->node_bytes = (sizeof(lm_prefix) + lm_pages_groups(g) * sizeof(uint32_t) +
                     lm_engine_n_adapters(g) * sizeof(float) + 15) /
                    16 * 16;
    for (p->n_buckets = 64; p->n_buckets < 2 * max; p->n_buckets *= 2)
        ;
    p->memory  = lm_alloc_zero(max + 1, p->node_bytes);
    p->buckets = lm_alloc_zero(p->n_buckets, sizeof *p->buckets);
    if (!p->memory || !p->buckets)
        return lm_fail_memory(e, "prefixes", max * p->node_bytes);
    for (size_t i = max; i-- > 0;) {
        lm_prefix *x = (lm_prefix *)(void *)(p->memory + i * p->node_bytes);
        x->child     = p->unused;
        p->unused    = x;
    }
    return LM_OK;
}

static void give_back_pages(lm_prefixes *p, lm_prefix_list *list)
{
    for (lm_prefix *x = list->oldest; x; x = x->newer)
        for (uint32_t i = 0; i < lm_pages_groups(p->g); i++)
            lm_page_unref(p->g, i, x->pages[i]);
}

void lm_prefixes_close(lm_prefixes *p)
{
    give_back_pages(p, &p->once);
    give_back_pages(p, &p->again);
    lm_free(p->memory);
    lm_free(p->buckets);
    *p = (lm_prefixes){ 0 };
}

uint64_t lm_prefixes_salt(const char *salt)
{
    uint8_t    digest[LM_BLAKE2B_BYTES];
    uint64_t   out;
    lm_blake2b h;

    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, salt ? salt : "", salt ? strlen(salt) : 0);
    lm_blake2b_end(&h, digest);
    memcpy(&out, digest, sizeof out);
    return out;
}

uint64_t lm_prefixes_salt_for(const lm_prefixes *p, uint64_t salt, const float *scales)
{
    return salt ^ lm_engine_adapters_key(p->g, scales);
}

static float *scales_of(const lm_prefixes *p, const lm_prefix *x)
{
    return (float *)(void *)(x->pages + lm_pages_groups(p->g));
}

/* ---- lists by use ---- */

static void unlink_use(lm_prefixes *p, lm_prefix *x)
{
    lm_prefix_list *l = x->again ? &p->again : &p->once;

    *(x->older ? &x->older->newer : &l->oldest) = x->newer;
    *(x->newer ? &x->newer->older : &l->newest) = x->older;
    l->n--;
}

static void link_use(lm_prefixes *p, lm_prefix *x)
{
    lm_prefix_list *l = x->again ? &p->again : &p->once;

    x->older = l->newest;
    x->newer = NULL;
    *(l->newest ? &l->newest->newer : &l->oldest) = x;
    l->newest = x;
    l->n++;
}

/* Mark `x` and its ancestors as used, from `x` up, so that a parent is always newer than its children. */
static void use(lm_prefixes *p, lm_prefix *x, bool again)
{
    for (; x; x = x->parent) {
        unlink_use(p, x);
        x->again |= again;
        link_use(p, x);
    }
}

/* ---- lookup ---- */

static size_t bucket_of(const lm_prefixes *p, const lm_prefix *parent, uint64_t salt, const lm_token *tokens)
{
    uint64_t h = salt ^ (uint64_t)(uintptr_t)parent * UINT64_C(0x9E3779B97F4A7C15);

    for (size_t i = 0; i < LM_PAGE; i++) {
        h = (h ^ (uint32_t)tokens[i]) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    return h & (p->n_buckets - 1);
}

static lm_prefix *child_of(const lm_prefixes *p, const lm_prefix *parent, uint64_t salt,
                           const lm_token *tokens)
{
    lm_prefix *x = p->buckets[bucket_of(p, parent, salt, tokens)];

    while (x && (x->parent != parent || x->salt != salt || memcmp(x->tokens, tokens, sizeof x->tokens) != 0))
        x = x->next_in_bucket;
    return x;
}

lm_prefix *lm_prefixes_down(const lm_prefixes *p, uint64_t salt, const lm_token *ids, size_t n)
{
    lm_prefix *x = NULL, *next;

    for (size_t at = 0; n - at >= LM_PAGE && (next = child_of(p, x, salt, ids + at)); at += LM_PAGE)
        x = next;
    return x;
}

/* Whether every group has the pages that the query at position `next`, at most the end of `x`, attends to. */
static bool is_whole(const lm_prefixes *p, const lm_prefix *x, uint32_t next)
{
    for (uint32_t i = 0; i < lm_pages_groups(p->g); i++) {
        uint32_t first = lm_kv_first_seen(p->g, i, next);
        if (!lm_kv_can_begin(p->g, i, next))
            return false;
        for (const lm_prefix *at = x; at && at->depth >= first; at = at->parent)
            if (at->pages[i] == LM_NONE)
                return false;
    }
    return true;
}

void lm_prefixes_mark(lm_prefixes *p, lm_prefix *node)
{
    if (node)
        node->checkpoint = ++p->n_marks;
}

lm_prefix *lm_prefixes_find(lm_prefixes *p, uint64_t salt, const lm_token *ids, size_t n, size_t *cached)
{
    lm_prefix *x = lm_prefixes_down(p, salt, ids, n);

    lm_prefixes_mark(p, x);
    for (*cached = 0; x; x = x->parent) {
        *cached = ((size_t)x->depth + 1) * LM_PAGE;
        *cached = *cached < n ? *cached : n - 1;
        if (is_whole(p, x, (uint32_t)*cached))
            break;
        *cached = 0;
    }
    lm_prefixes_mark(p, x);
    use(p, x, true);
    return x;
}

void lm_prefixes_share(lm_prefixes *p, const lm_prefix *node, uint32_t sequence, uint32_t positions)
{
    for (const lm_prefix *x = node; x; x = x->parent)
        for (uint32_t i = 0; i < lm_pages_groups(p->g); i++)
            lm_page_assign(p->g, i, sequence, x->depth,
                           x->depth >= lm_kv_first_seen(p->g, i, positions) ? x->pages[i] : LM_NONE);
    lm_pages_set_length(p->g, sequence, node ? positions : 0);
    if (node)
        lm_engine_set_adapters(p->g, sequence, scales_of(p, node), NULL);
}

const lm_prefix *lm_prefixes_nearest(const lm_prefixes *p, const lm_prefix *node, uint64_t salt,
                                     const lm_token *ids, size_t n, size_t *same)
{
    const lm_prefix *best = NULL;

    *same = 0;
    for (const lm_prefix *x = node ? node->child : p->roots; x; x = x->next_sibling) {
        size_t k = 0;
        while (k < LM_PAGE && k < n && x->tokens[k] == ids[k])
            k++;
        if (x->salt == salt && (!best || k > *same)) {
            best  = x;
            *same = k;
        }
    }
    return best;
}

size_t lm_prefixes_tokens(const lm_prefix *node, lm_token *ids)
{
    for (const lm_prefix *x = node; x; x = x->parent)
        memcpy(ids + (size_t)x->depth * LM_PAGE, x->tokens, sizeof x->tokens);
    return node ? ((size_t)node->depth + 1) * LM_PAGE : 0;
}

/* ---- insertion and eviction ---- */

static void remove_node(lm_prefixes *p, lm_prefix *x)
{
    lm_prefix **at = &p->buckets[bucket_of(p, x->parent, x->salt, x->tokens)];

    while (*at != x)
        at = &(*at)->next_in_bucket;
    *at = x->next_in_bucket;
    *(x->previous_sibling ? &x->previous_sibling->next_sibling
      : x->parent         ? &x->parent->child
                          : &p->roots) = x->next_sibling;
    if (x->next_sibling)
        x->next_sibling->previous_sibling = x->previous_sibling;
    unlink_use(p, x);
    for (uint32_t i = 0; i < lm_pages_groups(p->g); i++) {
        p->evicted += x->pages[i] != LM_NONE;
        lm_page_unref(p->g, i, x->pages[i]);
    }
    x->child  = p->unused;
    p->unused = x;
}

static bool can_go(const lm_prefix *x)
{
    return !x->child && x->pins == 0;
}

static lm_prefix *oldest_leaf(const lm_prefix_list *l)
{
    lm_prefix *x = l->oldest;

    while (x && !can_go(x))
        x = x->newer;
    return x;
}

static lm_prefix *least_useful(const lm_prefixes *p)
{
    lm_prefix *x = p->again.n * OF > p->max * PROTECTED ? oldest_leaf(&p->again) : oldest_leaf(&p->once);

    x = x ? x : oldest_leaf(&p->once);
    return x ? x : oldest_leaf(&p->again);
}

/* Return the node that comes after `x` (NULL: the first), those used longest ago first in each list. */
static lm_prefix *next_node(const lm_prefixes *p, const lm_prefix *x)
{
    if (!x)
        return p->once.oldest ? p->once.oldest : p->again.oldest;
    return x->newer || x->again ? x->newer : p->again.oldest;
}

/* Set `needed` of all nodes, for a windowed group. */
static void find_needed(lm_prefixes *p, uint32_t group)
{
    for (lm_prefix *x = NULL; (x = next_node(p, x));)
        x->needed = 0;
    for (lm_prefix *x = NULL; (x = next_node(p, x));) {
        /* a prompt that ends with the page is continued from the token before its end */
        uint32_t first = lm_kv_first_seen(p->g, group, (x->depth + 1) * LM_PAGE - 1);
        for (lm_prefix *y = x; x->checkpoint && y && y->depth >= first; y = y->parent)
            y->needed = y->needed > x->checkpoint ? y->needed : x->checkpoint;
    }
}

static bool holds_alone(const lm_prefixes *p, const lm_prefix *x, uint32_t group)
{
    return x->pages[group] != LM_NONE && lm_pages_owners(p->g, group, x->pages[group]) == 1;
}

/* Evict a page of a windowed group: one that no checkpoint needs, or one of the checkpoint used longest ago,
 * which is none from then on. */
static bool evict_from_window(lm_prefixes *p, uint32_t group)
{
    lm_prefix *best = NULL;
    uint64_t   lost;

    find_needed(p, group);
    for (lm_prefix *x = NULL; (x = next_node(p, x));)
        if (holds_alone(p, x, group) && (!best || x->needed < best->needed))
            best = x;
    if (!best)
        return false;
    lost = best->needed;
    for (lm_prefix *x = NULL; lost && (x = next_node(p, x));)
        if (x->checkpoint == lost)
            x->checkpoint = 0;
    lm_page_unref(p->g, group, best->pages[group]);
    best->pages[group] = LM_NONE;
    p->evicted++;
    return true;
}

bool lm_prefixes_evict(lm_prefixes *p, uint32_t group)
{
    uint32_t   before = lm_pages_free(p->g, group);
    lm_prefix *x;

    if (p->g->plan->groups[group].window || p->g->plan->groups[group].states)
        return evict_from_window(p, group);
    while (lm_pages_free(p->g, group) == before && (x = least_useful(p)))
        remove_node(p, x);
    return lm_pages_free(p->g, group) > before;
}

bool lm_prefixes_evict_any(lm_prefixes *p)
{
    lm_prefix *x = least_useful(p);

    if (x)
        remove_node(p, x);
    return x;
}

bool lm_prefixes_whole(const lm_prefixes *p, const lm_prefix *node)
{
    return is_whole(p, node, (node->depth + 1) * LM_PAGE);
}

uint32_t lm_prefixes_spare(const lm_prefixes *p, uint32_t group)
{
    uint32_t n = 0;

    for (const lm_prefix *x = NULL; (x = next_node(p, x));)
        n += holds_alone(p, x, group);
    return n;
}

void lm_prefixes_forget(lm_prefixes *p, lm_prefix *node)
{
    while (node && can_go(node)) {
        lm_prefix *parent = node->parent;
        remove_node(p, node);
        node = parent;
    }
}

static lm_prefix *new_node(lm_prefixes *p)
{
    lm_prefix *x;

    if (!p->unused && (x = least_useful(p)))
        remove_node(p, x);
    x = p->unused;
    if (x)
        p->unused = x->child;
    return x;
}

static void insert(lm_prefixes *p, lm_prefix *x)
{
    lm_prefix **first = x->parent ? &x->parent->child : &p->roots;
    size_t      b = bucket_of(p, x->parent, x->salt, x->tokens);

    x->next_in_bucket = p->buckets[b];
    p->buckets[b]     = x;
    x->next_sibling   = *first;
    if (*first)
        (*first)->previous_sibling = x;
    *first = x;
    link_use(p, x);
    use(p, x, false);
}

lm_prefix *lm_prefixes_add(lm_prefixes *p, lm_prefix *node, uint64_t salt, const lm_token *tokens,
                           uint32_t sequence)
{
    lm_prefix *x = child_of(p, node, salt, tokens);
    uint32_t   i = node ? node->depth + 1 : 0;

    if (x) {                                             /* another sequence added it before; this one may
                                                            have pages that it lacks */
        for (uint32_t k = 0; k < lm_pages_groups(p->g); k++)
            if (x->pages[k] == LM_NONE)
                x->pages[k] = lm_page_ref(p->g, k, sequence, i);
            else
                lm_page_replace(p->g, k, sequence, i, x->pages[k]);
        use(p, x, false);
        return x;
    }
    lm_prefixes_pin(node);                               /* not evicted for its own child */
    x = new_node(p);
    lm_prefixes_unpin(node);
    if (!x)
        return NULL;
    memset(x, 0, p->node_bytes);
    memcpy(x->tokens, tokens, sizeof x->tokens);
    x->parent = node;
    x->salt   = salt;
    x->depth  = i;
    for (uint32_t k = 0; k < lm_pages_groups(p->g); k++)
        x->pages[k] = lm_page_ref(p->g, k, sequence, i);
    if (lm_engine_n_adapters(p->g))
        memcpy(scales_of(p, x), lm_engine_adapters_of(p->g, sequence),
               lm_engine_n_adapters(p->g) * sizeof(float));
    insert(p, x);
    return x;
}

bool lm_prefixes_follow(lm_prefixes *p, lm_prefix **node, uint64_t salt, const lm_token *ids, size_t n_held,
                        size_t n_prompt, uint32_t sequence)
{
    for (size_t pages = *node ? (*node)->depth + 1 : 0; (pages + 1) * LM_PAGE <= n_held;) {
        lm_prefix *next = lm_prefixes_add(p, *node, salt, ids + pages++ * LM_PAGE, sequence);
        if (!next)
            return false;
        lm_prefixes_pin(next);
        lm_prefixes_unpin(*node);
        *node = next;
        /* the same prompt again continues before its last token */
        if (pages == n_prompt / LM_PAGE || pages == (n_prompt - 1) / LM_PAGE)
            lm_prefixes_mark(p, next);
    }
    return true;
}
