/* mask.c - compute which tokens fit a state. */
#include <string.h>

#include "base/alloc.h"
#include "grammar/counted.h"

enum {
    MAX_EXITS = 8192,                /* per frame; a frame with more is walked together with what follows
                                        it */
    MAX_CLAMPED = 48,                /* parts of a frame that are searched for counters */
    FAR = 8,                         /* larger counters are unified; tokens with more bytes are checked
                                        separately */
};

typedef struct walk {
    lm_automaton *m;
    uint64_t   *bits;
    bool        exits;               /* record where the frame may end */
    bool        open;                /* there were too many exits */
    uint32_t    above;               /* only tokens and exits with more bytes than this */
} walk;

static void set(uint64_t *bits, lm_token id)
{
    bits[(uint32_t)id >> 6] |= UINT64_C(1) << ((uint32_t)id & 63);
}

static void note_exit(walk *w, uint32_t node)
{
    lm_automaton *m = w->m;

    if (m->n_exits >= MAX_EXITS)
        w->open = true;
    else if (lm_terms_reserve(&m->pool, &m->exits, m->n_exits, &m->exits_capacity, sizeof *m->exits, 1))
        m->exits[m->n_exits++] = node;
}

/* Walk the trie nodes from..to, whose top level has depth `depth`, starting in `state`. */
static void walk_tree(walk *w, uint32_t state, uint32_t from, uint32_t to, uint32_t depth)
{
    lm_automaton          *m = w->m;
    const lm_vocabulary *v = m->v;
    uint32_t             at[LM_TRIE_DEPTH + 1], i = from;

    at[depth] = state;
    while (i < to) {
        uint32_t d = v->depth[i],
                 next = v->deepest[i] > w->above ? lm_state_next(m, at[d], v->byte[i]) : LM_DEAD;
        if (next == LM_DEAD) {
            i = v->skip[i];
            continue;
        }
        for (uint32_t k = d >= w->above ? v->first[i] : v->first[i + 1]; k < v->first[i + 1]; k++)
            set(w->bits, v->ids[k]);
        if (w->exits && !w->open && d >= w->above && v->skip[i] > i + 1 && lm_state_final(m, next))
            note_exit(w, i);
        at[d + 1] = next;
        i++;
    }
}

/* ---- counters out of a token's reach ---- */

typedef struct clamping {
    unsigned budget;
    uint32_t limit;                  /* tokens of at most this many bytes fit the same way */
} clamping;

static void lower(clamping *c, uint32_t to)
{
    if (to < c->limit)
        c->limit = to;
}

/* Return `n` with large counters unified: fewer expressions remain, and only long tokens tell them apart.
 * What fits `n` fits the result. */
static lm_expr_id clamp(lm_automaton *m, lm_expr_id n, clamping *c)
{
    lm_terms          *p = &m->pool;
    const lm_node_data d = p->nodes[n];

    if (c->budget == 0)
        return n;
    c->budget--;
    if (d.kind == LM_NODE_REPEAT) {
        uint32_t min = d.b > FAR ? FAR : d.b, max = d.c >= FAR ? LM_UNBOUNDED : d.c;
        if (min != d.b)
            lower(c, FAR - 1);
        if (max != d.c)
            lower(c, d.c);
        return lm_repeat(p, clamp(m, d.a, c), min, max);
    }
    if (d.kind == LM_NODE_CAT) {
        lm_expr_id a = clamp(m, d.a, c);
        return a == LM_NOTHING ? n : lm_cat(p, a, clamp(m, d.b, c));
    }
    if (d.kind == LM_NODE_ALT && d.b <= 8) {
        lm_expr_id list[8];
        for (uint32_t i = 0; i < d.b; i++)
            list[i] = clamp(m, p->lists[d.a + i], c);
        return lm_alt_of(p, list, d.b);
    }
    return n;
}

/* ---- frames ---- */

static lm_head *new_head(lm_automaton *m, lm_expr_id n)
{
    lm_terms *p = &m->pool;
    uint32_t had = m->head_of_capacity;

    if (n >= had) {
        if (!lm_terms_reserve(p, &m->head_of, n, &m->head_of_capacity, sizeof *m->head_of, 1))
            return NULL;
        memset(m->head_of + had, 0, (m->head_of_capacity - had) * sizeof *m->head_of);
    }
    if (!lm_terms_reserve(p, &m->heads, m->n_heads, &m->heads_capacity, sizeof *m->heads, 1))
        return NULL;
    lm_head *h = &m->heads[m->n_heads];
    *h = (lm_head){ .bits = lm_alloc_zero(m->v->n_words, sizeof *h->bits) };
    if (!h->bits) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return NULL;
    }
    return h;
}

static const lm_head *head_of(lm_automaton *m, lm_expr_id n)
{
    if (n < m->head_of_capacity && m->head_of[n])
        return &m->heads[m->head_of[n] - 1];
    lm_head *h = new_head(m, n);
    if (!h)
        return NULL;
    walk w = { .m = m, .bits = h->bits, .exits = true };
    m->n_exits = 0;
    if (lm_is(&m->pool, n, LM_NULLABLE))
        note_exit(&w, LM_UNKNOWN);
    walk_tree(&w, lm_state_of(m, n), 0, m->v->n, 0);
    h->open = w.open;
    if (!w.open && m->n_exits) {
        h->exits = lm_alloc(m->n_exits * sizeof *h->exits);
        if (!h->exits)
            lm_terms_fail(&m->pool, LM_NO_MEMORY, NULL);
        else
            memcpy(h->exits, m->exits, m->n_exits * sizeof *h->exits);
        h->n_exits = h->exits ? m->n_exits : 0;
    }
    if (m->pool.status != LM_OK) {
        lm_free(h->bits);
        lm_free(h->exits);
        return NULL;
    }
    m->head_bytes += m->v->n_words * sizeof *h->bits + h->n_exits * sizeof *h->exits;
    m->head_of[n] = ++m->n_heads;
    return h;
}

static void or_bits(uint64_t *to, const uint64_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] |= from[i];
}

static void add_node(lm_automaton *m, lm_expr_id n, uint64_t *bits, unsigned depth);

/* Add the tokens that continue past the end of a frame, from these trie nodes. */
static void add_exits(lm_automaton *m, const uint32_t *exits, uint32_t n, lm_expr_id after, uint64_t *bits,
                      unsigned depth)
{
    walk     w = { .m = m, .bits = bits };
    uint32_t state = lm_state_of(m, after);

    for (uint32_t k = 0; k < n && m->pool.status == LM_OK; k++) {
        if (exits[k] == LM_UNKNOWN)
            add_node(m, after, bits, depth + 1);
        else
            walk_tree(&w, state, exits[k] + 1, m->v->skip[exits[k]], m->v->depth[exits[k]] + 1u);
    }
}

/* Copy the tokens of `bits` that have at most `limit` bytes. */
static void keep_short(const lm_vocabulary *v, const uint64_t *bits, uint32_t limit, uint64_t *out)
{
    if (limit < LM_TRIE_SHORT) {
        const uint64_t *max = v->up_to + (size_t)limit * v->n_words;
        for (uint32_t i = 0; i < v->n_words; i++)
            out[i] = bits[i] & max[i];
        return;
    }
    memcpy(out, bits, v->n_words * sizeof *out);
    for (uint32_t i = 0;
         i < v->n_ids && v->text_at[v->by_length[i] + 1] - v->text_at[v->by_length[i]] > limit; i++)
        out[(uint32_t)v->by_length[i] >> 6] &= ~(UINT64_C(1) << ((uint32_t)v->by_length[i] & 63));
}

/* Add the tokens of a frame `n` whose counters were clamped: short tokens come from its head, long tokens are
 * walked. `after` is LM_NOTHING if `n` is not a frame. Return false if there are too many exits. */
static bool add_clamped(lm_automaton *m, lm_expr_id n, const lm_head *h, uint32_t limit, lm_expr_id after,
                        uint64_t *bits, unsigned depth)
{
    const lm_vocabulary *v = m->v;
    uint64_t            *own = m->scratch;
    uint32_t             kept = 0;

    keep_short(v, h->bits, limit, own);
    walk w = { .m = m, .bits = own, .exits = after != LM_NOTHING, .above = limit };
    m->n_exits = 0;
    for (uint32_t k = 0; k < h->n_exits && w.exits; k++)
        if (h->exits[k] == LM_UNKNOWN || v->depth[h->exits[k]] < limit)
            note_exit(&w, h->exits[k]);
    walk_tree(&w, lm_state_of(m, n), 0, v->n, 0);
    for (uint32_t i = 0; i < v->n_words; i++)
        bits[i] |= own[i];
    kept = m->n_exits;
    if (w.open)
        return false;
    if (kept == 0)
        return true;
    uint32_t *exits = lm_alloc(kept * sizeof *exits);    /* the calls below use m->exits */
    if (!exits) {
        lm_terms_fail(&m->pool, LM_NO_MEMORY, NULL);
        return true;
    }
    memcpy(exits, m->exits, kept * sizeof *exits);
    add_exits(m, exits, kept, after, bits, depth);
    lm_free(exits);
    return true;
}

static void add_whole(lm_automaton *m, lm_expr_id n, uint64_t *bits)
{
    uint32_t          min, max;
    const lm_counted *x = lm_counted_of(m, n, &min, &max);

    if (x) {
        lm_counted_add(m, x, min, max, bits);
        return;
    }
    clamping       c = { MAX_CLAMPED, UINT32_MAX };
    const lm_head *h = head_of(m, clamp(m, n, &c));

    if (!h)
        return;
    if (c.limit < m->v->longest)
        add_clamped(m, n, h, c.limit, LM_NOTHING, bits, 0);
    else
        or_bits(bits, h->bits, m->v->n_words);
}

/* Add the tokens that continue past the end of a counted frame. */
static void add_counted_exits(lm_automaton *m, const lm_counted *x, lm_expr_id n, uint32_t min,
                              uint32_t max, lm_expr_id after, uint64_t *bits, unsigned depth)
{
    const lm_token_uses exits = x->exits;                /* a copy: nested counting may move the counts, but
                                                            not their lists */
    walk          w = { .m = m, .bits = bits };
    uint32_t      state = lm_state_of(m, after);

    if (lm_is(&m->pool, n, LM_NULLABLE))
        add_node(m, after, bits, depth + 1);
    for (uint32_t k = 0; k < exits.n && m->pool.status == LM_OK; k++) {
        const lm_token_use u = exits.list[k];
        if (u.times >= min && u.times <= max)
            walk_tree(&w, state, u.what + 1, m->v->skip[u.what], m->v->depth[u.what] + 1u);
    }
}

/* Add the tokens of a frame, and those that continue past its end. */
static void add_frame(lm_automaton *m, lm_expr_id n, uint64_t *bits, unsigned depth)
{
    const lm_node_data d = m->pool.nodes[n];
    uint32_t           min, max;
    const lm_counted  *x = depth > 64 ? NULL : lm_counted_of(m, d.a, &min, &max);

    if (x) {
        lm_counted_add(m, x, min, max, bits);
        add_counted_exits(m, x, d.a, min, max, d.b, bits, depth);
        return;
    }
    clamping           c = { MAX_CLAMPED, UINT32_MAX };
    const lm_head     *h = head_of(m, clamp(m, d.a, &c));

    if (!h)
        return;
    if (h->open || depth > 64) {
        add_whole(m, n, bits);
        return;
    }
    if (c.limit < m->v->longest) {
        if (!add_clamped(m, d.a, h, c.limit, d.b, bits, depth))
            add_whole(m, n, bits);
        return;
    }
    or_bits(bits, h->bits, m->v->n_words);
    const uint32_t  n_exits = h->n_exits;
    const uint32_t *exits   = h->exits;                  /* stays valid when `heads` is reallocated */
    add_exits(m, exits, n_exits, d.b, bits, depth);
}

static void add_node(lm_automaton *m, lm_expr_id n, uint64_t *bits, unsigned depth)
{
    uint32_t count;

    lm_choices(&m->pool, &n, &count);
    for (uint32_t i = 0; i < count && m->pool.status == LM_OK; i++) {
        lm_expr_id x = lm_choices(&m->pool, &n, &count)[i];
        if (m->pool.nodes[x].kind == LM_NODE_FRAME)
            add_frame(m, x, bits, depth);
        else if (x != LM_EMPTY_TEXT)
            add_whole(m, x, bits);
    }
}

/* ---- token items ---- */

typedef struct named { lm_automaton *m; uint64_t *bits; } named;

static void add_set(void *arg, const lm_token_set *s)
{
    const named         *x = arg;
    const lm_vocabulary *v = x->m->v;
    const lm_terms       *p = &x->m->pool;

    if (s->mode == LM_TOKENS_OF) {
        for (uint32_t i = 0; i < s->n; i++)
            if ((uint32_t)p->token_ids[s->from + i] < v->size)
                set(x->bits, p->token_ids[s->from + i]);
        return;
    }
    for (uint32_t i = 0; i < v->size; i++)
        if (!(v->special[i] & LM_TOKEN_ENDS) &&
            lm_token_in(p, s, (lm_token)i, v->special[i] & LM_TOKEN_CONTROL))
            set(x->bits, (lm_token)i);
}

/* ---- masks ---- */

void lm_automaton_mask(lm_automaton *m, uint32_t state, uint64_t *bits)
{
    const size_t bytes = m->v->n_words * sizeof *bits;
    uint32_t     place = m->states[state].mask;
    const lm_expr_id n = m->states[state].node;

    if (place && m->mask_state[place - 1] == state) {
        memcpy(bits, m->masks + (size_t)(place - 1) * m->v->n_words, bytes);
        return;
    }
    memset(bits, 0, bytes);
    add_node(m, n, bits, 0);
    if (lm_is(&m->pool, n, LM_TOKENS)) {
        named x = { m, bits };
        lm_first_tokens(&m->pool, n, add_set, &x);
    }
    if (lm_is(&m->pool, n, LM_NULLABLE))
        for (uint32_t i = 0; i < m->v->n_ends; i++)
            set(bits, m->v->ends[i]);
    if (m->pool.status != LM_OK)
        return;
    place = m->next_mask;
    m->next_mask = (place + 1) % LM_CACHED_MASKS;
    m->mask_state[place]   = state;
    m->states[state].mask  = place + 1;
    memcpy(m->masks + (size_t)place * m->v->n_words, bits, bytes);
}
