/* counted.c - group tokens by how many repetitions they take. */
#include "grammar/counted.h"

#include <string.h>

#include "base/alloc.h"

enum {
    MAX_COUNTED = 128,               /* expressions per grammar */
    MAX_PAST    = 1 << 14,
    MAX_EXITS   = 1 << 13,
    FEW_INSIDE   = 1 << 11,          /* up to this many tokens are listed instead of stored as masks */
    DEEP         = 4,                /* parts before a counter that are skipped: the rest of a character */
};
#define OUT_OF_REACH 0xC0000000u     /* a counter that no token can exhaust; above those used in practice */

/* ---- counters ---- */

typedef struct counter { lm_expr_id body; uint32_t min, max; } counter;

static bool is_counter(const lm_terms *p, lm_expr_id n)
{
    const lm_node_data *d = &p->nodes[n];

    return d->kind == LM_NODE_REPEAT && (d->c != LM_UNBOUNDED || d->b > 1) && !lm_is(p, d->a, LM_NULLABLE);
}

static lm_expr_id without_end(lm_terms *p, lm_expr_id n, counter *c)
{
    const lm_node_data d = p->nodes[n];

    *c = (counter){ d.a, d.b, d.c };
    return lm_repeat(p, d.a, 0, OUT_OF_REACH);
}

/* Return `n` with its counter set out of reach; LM_NOTHING: no counter was found. */
static lm_expr_id key_of(lm_terms *p, lm_expr_id n, counter *c, unsigned deep)
{
    const lm_node_data d = p->nodes[n];

    if (is_counter(p, n))
        return without_end(p, n, c);
    if (d.kind != LM_NODE_CAT)
        return LM_NOTHING;
    if (is_counter(p, d.a)) {
        lm_expr_id a = without_end(p, d.a, c);
        return lm_cat(p, a, d.b);
    }
    if (deep == DEEP || (p->nodes[d.a].kind != LM_NODE_BYTES && p->nodes[d.a].kind != LM_NODE_ALT))
        return LM_NOTHING;
    lm_expr_id rest = key_of(p, d.b, c, deep + 1);
    return rest == LM_NOTHING ? rest : lm_cat(p, d.a, rest);
}

/* If `n` still contains the repetition of `body`, store how many repetitions have begun since. Return false
 * if the repetition has ended. */
static bool times_begun(const lm_terms *p, lm_expr_id n, lm_expr_id body, uint32_t *times)
{
    for (;;) {
        const lm_node_data *d = &p->nodes[n];
        bool                sequence = d->kind == LM_NODE_CAT || d->kind == LM_NODE_FRAME;
        const lm_node_data *x = sequence ? &p->nodes[d->a] : d;
        if (x->kind == LM_NODE_REPEAT && x->a == body && x->b == 0 && x->c <= OUT_OF_REACH &&
            x->c >= OUT_OF_REACH - LM_TRIE_DEPTH) {
            *times = OUT_OF_REACH - x->c;
            return true;
        }
        if (!sequence)
            return false;
        n = d->b;
    }
}

/* ---- the walk ---- */

typedef struct count_walk {
    lm_automaton *m;
    lm_counted   *x;
    lm_expr_id    body;
} count_walk;

static void note(count_walk *w, lm_token_uses *u, uint32_t max, uint32_t what, uint32_t times)
{
    if (u->n >= max)
        w->x->unknown = true;
    else if (lm_terms_reserve(&w->m->pool, &u->list, u->n, &u->capacity, sizeof *u->list, 1))
        u->list[u->n++] = (lm_token_use){ what, times };
}

/* Return whether a state is inside the repetition, and how many repetitions it has begun. A choice in which
 * that is one of several alternatives cannot be counted. */
static bool stands_inside(count_walk *w, uint32_t state, uint32_t *times)
{
    const lm_terms *p = &w->m->pool;
    lm_expr_id      n = w->m->states[state].node;
    uint32_t        count, of_one;
    const lm_expr_id *way = lm_choices(p, &n, &count);

    if (count == 1)
        return times_begun(p, n, w->body, times);
    for (uint32_t i = 0; i < count; i++)
        if (times_begun(p, way[i], w->body, &of_one))
            w->x->unknown = true;
    return false;
}

static void walk_tree(count_walk *w, uint32_t state)
{
    lm_automaton        *m = w->m;
    const lm_vocabulary *v = m->v;
    uint32_t             at[LM_TRIE_DEPTH + 1], times[LM_TRIE_DEPTH + 1];

    at[0]    = state;
    times[0] = 0;
    for (uint32_t i = 0; i < v->n && !w->x->unknown && m->pool.status == LM_OK;) {
        uint32_t d = v->depth[i], next = lm_state_next(m, at[d], v->byte[i]);
        if (next == LM_DEAD) {
            i = v->skip[i];
            continue;
        }
        times[d + 1] = times[d];
        bool inside = stands_inside(w, next, &times[d + 1]);
        for (uint32_t k = v->first[i]; k < v->first[i + 1]; k++)
            note(w, inside ? &w->x->inside : &w->x->past, inside ? UINT32_MAX : MAX_PAST, (uint32_t)v->ids[k],
                 times[d + 1]);
        if (v->skip[i] > i + 1 && lm_state_final(m, next))
            note(w, &w->x->exits, MAX_EXITS, i, times[d + 1]);
        at[d + 1] = next;
        i++;
    }
}

static void set(uint64_t *bits, uint32_t id) { bits[id >> 6] |= UINT64_C(1) << (id & 63); }

/* If there are many tokens, create a mask per small number of repetitions. Tokens that take more stay in the
 * list. */
static void make_masks(lm_automaton *m, lm_counted *x)
{
    const uint32_t words = m->v->n_words;
    uint32_t       kept = 0;

    if (x->inside.n <= FEW_INSIDE)
        return;
    if (!(x->up_to = lm_alloc_zero((size_t)LM_COUNTED_MASKS * words, sizeof *x->up_to))) {
        lm_terms_fail(&m->pool, LM_NO_MEMORY, NULL);
        return;
    }
    for (uint32_t i = 0; i < x->inside.n; i++) {
        lm_token_use u = x->inside.list[i];
        if (u.times < LM_COUNTED_MASKS)
            set(x->up_to + (size_t)u.times * words, u.what);
        else
            x->inside.list[kept++] = u;
    }
    for (size_t i = words; i < (size_t)LM_COUNTED_MASKS * words; i++)
        x->up_to[i] |= x->up_to[i - words];
    x->inside.n = kept;
}

/* ---- cache ---- */

/* Return whether no counter of the grammar itself can be mistaken for one that is out of reach. */
static bool counters_are_small(lm_automaton *m)
{
    if (!m->counters_seen) {
        m->counters_seen = true;
        for (lm_expr_id n = 0; n < m->fixed; n++) {
            const lm_node_data *d = &m->pool.nodes[n];
            m->counters_large |= d->kind == LM_NODE_REPEAT && d->c != LM_UNBOUNDED &&
                                 d->c >= OUT_OF_REACH - LM_TRIE_DEPTH;
        }
    }
    return !m->counters_large;
}

static uint64_t bytes_of(const lm_automaton *m, const lm_counted *x)
{
    uint64_t masks = x->up_to ? (uint64_t)LM_COUNTED_MASKS * m->v->n_words * sizeof *x->up_to : 0;

    return masks +
           ((uint64_t)x->inside.capacity + x->past.capacity + x->exits.capacity) * sizeof(lm_token_use);
}

static lm_counted *count(lm_automaton *m, lm_expr_id key, lm_expr_id body)
{
    if (!lm_terms_reserve(&m->pool, &m->counted, m->n_counted, &m->counted_capacity, sizeof *m->counted, 1))
        return NULL;
    lm_counted *x = &m->counted[m->n_counted++];
    *x = (lm_counted){ .key = key };
    count_walk w = { m, x, body };
    walk_tree(&w, lm_state_of(m, key));
    if (!x->unknown && m->pool.status == LM_OK)
        make_masks(m, x);
    if (x->unknown || m->pool.status != LM_OK)
        lm_counted_clear(x);
    m->head_bytes += bytes_of(m, x);
    return x;
}

const lm_counted *lm_counted_of(lm_automaton *m, lm_expr_id n, uint32_t *min, uint32_t *max)
{
    counter     c;
    lm_counted *x = NULL;

    if (!counters_are_small(m))
        return NULL;
    lm_expr_id key = key_of(&m->pool, n, &c, 0);
    if (key == LM_NOTHING)
        return NULL;
    for (uint32_t i = 0; i < m->n_counted && !x; i++)
        x = m->counted[i].key == key ? &m->counted[i] : NULL;
    if (!x && m->n_counted < MAX_COUNTED)
        x = count(m, key, c.body);
    *min = c.min;
    *max  = c.max;
    return x && !x->unknown ? x : NULL;
}

void lm_counted_add(const lm_automaton *m, const lm_counted *x, uint32_t min, uint32_t max, uint64_t *bits)
{
    const uint32_t words = m->v->n_words;

    if (x->up_to) {
        const uint64_t *mask = x->up_to +
                               (size_t)(max < LM_COUNTED_MASKS ? max : LM_COUNTED_MASKS - 1) * words;
        for (uint32_t i = 0; i < words; i++)
            bits[i] |= mask[i];
    }
    for (uint32_t i = 0; i < x->inside.n; i++)
        if (x->inside.list[i].times <= max)
            set(bits, x->inside.list[i].what);
    for (uint32_t i = 0; i < x->past.n; i++)
        if (x->past.list[i].times >= min && x->past.list[i].times <= max)
            set(bits, x->past.list[i].what);
}
