/* members.c - states of objects whose members may come in any order. */
#include "grammar/members.h"

#include <string.h>

#include "base/alloc.h"

/* A state consists of bit words, one bit per declared name, and a word that counts the other names. */
struct lm_members {
    lm_object *objects;
    uint32_t   n, capacity;
    bool       shared;
    uint64_t  *words;
    uint32_t   n_words, words_capacity;
    uint32_t  *table, table_mask, n_states;      /* offset + 1 */
};

static uint32_t words_of(const lm_object *o) { return (o->n_named + 63) / 64 + 1; }
static const uint64_t *state_at(const lm_terms *p, uint32_t seen) { return p->members->words + seen; }
static bool is_seen(const uint64_t *s, uint32_t i) { return s[i >> 6] >> (i & 63) & 1; }

/* ---- hash table of states ---- */

static uint32_t hash_of(uint32_t object, const uint64_t *s, uint32_t n)
{
    uint64_t h = object * UINT64_C(0x9E3779B97F4A7C15) + n;

    for (uint32_t i = 0; i < n; i++)
        h = (h ^ s[i]) * UINT64_C(0xD6E8FEB86659FD93), h ^= h >> 32;
    return (uint32_t)h;
}

/* Double the hash table. It contains offsets; states of different objects with equally many words may share
 * one, which is harmless. */
static bool grow_table(lm_terms *p)
{
    lm_members *m    = p->members;
    uint32_t    size = m->table_mask ? (m->table_mask + 1) * 2 : 64;
    uint32_t   *table = lm_alloc_zero((size_t)size * 2, sizeof *table);

    if (!table) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return false;
    }
    for (uint32_t i = 0; m->table && i <= m->table_mask; i++)
        if (m->table[2 * i]) {
            uint32_t at = m->table[2 * i + 1] & (size - 1);
            while (table[2 * at])
                at = (at + 1) & (size - 1);
            table[2 * at]     = m->table[2 * i];
            table[2 * at + 1] = m->table[2 * i + 1];
        }
    lm_free(m->table);
    m->table      = table;
    m->table_mask = size - 1;
    return true;
}

static uint32_t intern(lm_terms *p, uint32_t object, const uint64_t *s)
{
    lm_members *m = p->members;
    uint32_t    n = words_of(&m->objects[object]), h = hash_of(n, s, n);

    if (m->n_states * 2 >= m->table_mask && !grow_table(p))
        return 0;
    uint32_t at = h & m->table_mask;
    for (; m->table[2 * at]; at = (at + 1) & m->table_mask) {
        uint32_t found = m->table[2 * at] - 1;
        if (m->table[2 * at + 1] == h && found + n <= m->n_words &&
            memcmp(m->words + found, s, n * sizeof *s) == 0)
            return found;
    }
    if (!lm_terms_reserve(p, &m->words, m->n_words, &m->words_capacity, sizeof *s, n))
        return 0;
    memcpy(m->words + m->n_words, s, n * sizeof *s);
    m->table[2 * at]     = m->n_words + 1;
    m->table[2 * at + 1] = h;
    m->n_words += n;
    m->n_states++;
    return m->n_words - n;
}

/* ---- objects ---- */

static void free_object(lm_object *o)
{
    lm_free(o->named);
    lm_free(o->others);
    lm_free(o->needs);
}

uint32_t lm_members_add(lm_terms *p, const lm_object *o)
{
    lm_object mine = *o;

    if (!p->members && !(p->members = lm_alloc_zero(1, sizeof *p->members)))
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
    if (!p->members ||
        !lm_terms_reserve(p, &p->members->objects, p->members->n, &p->members->capacity, sizeof mine, 1)) {
        free_object(&mine);
        return UINT32_MAX;
    }
    p->members->objects[p->members->n] = mine;
    return p->members->n++;
}

lm_expr_id lm_members_begin(lm_terms *p, uint32_t object)
{
    if (object == UINT32_MAX || p->status != LM_OK)
        return LM_NOTHING;
    uint32_t  n = words_of(&p->members->objects[object]);
    uint64_t *none = lm_alloc_zero(n, sizeof *none);
    lm_expr_id out = LM_NOTHING;

    if (!none)
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
    else
        out = lm_members_node(p, object, intern(p, object, none));
    lm_free(none);
    return out;
}

/* ---- possible names ---- */

/* Return the index of the first declared name that may still come; 0 if they may come in any order. */
static uint32_t position(const lm_object *o, const uint64_t *s)
{
    uint32_t n = o->n_named;

    if (o->any_order)
        return 0;
    if (s[words_of(o) - 1])
        return n;
    while (n > 0 && !is_seen(s, n - 1))
        n--;
    return n;
}

static bool can_appear(const lm_terms *p, const lm_member *m)
{
    return lm_is(p, m->key, LM_LIVE) && lm_is(p, m->value, LM_LIVE);
}

static bool must_appear(const lm_object *o, const uint64_t *s, uint32_t i)
{
    if (o->named[i].required)
        return true;
    for (uint32_t k = 0; k < o->n_needs; k++)
        if (o->needs[k].then == i && is_seen(s, o->needs[k].if_seen))
            return true;
    return false;
}

/* Return the number of missing required names, including those that missing names require; UINT32_MAX if one
 * of them can no longer come. *free_names is the number of names that may still come. */
static uint32_t missing(const lm_terms *p, const lm_object *o, const uint64_t *seen, uint32_t *free_names)
{
    uint64_t few[16], *s = few;
    uint32_t n = words_of(o), from = position(o, seen), count = 0;
    bool     more = true, possible = true;

    *free_names = 0;
    if (n > 16 && !(s = lm_alloc(n * sizeof *s)))
        return UINT32_MAX;
    memcpy(s, seen, n * sizeof *s);
    while (more && possible) {
        more = false;
        for (uint32_t i = 0; i < o->n_named && possible; i++)
            if (!is_seen(s, i) && must_appear(o, s, i)) {
                possible = i >= from && can_appear(p, &o->named[i]);
                s[i >> 6] |= UINT64_C(1) << (i & 63);
                more = o->n_needs > 0;
                count++;
            }
    }
    for (uint32_t i = from; i < o->n_named; i++)
        *free_names += !is_seen(s, i) && can_appear(p, &o->named[i]);
    if (s != few)
        lm_free(s);
    return possible ? count : UINT32_MAX;
}

static uint32_t seen_names(const lm_object *o, const uint64_t *s)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i + 1 < words_of(o); i++)
        count += (uint32_t)__builtin_popcountll(s[i]);
    return count;
}

static bool others_can_appear(const lm_terms *p, const lm_object *o)
{
    for (uint32_t i = 0; i < o->n_others; i++)
        if (can_appear(p, &o->others[i]))
            return true;
    return false;
}

bool lm_members_live(const lm_terms *p, uint32_t object, uint32_t seen)
{
    const lm_object *o = &p->members->objects[object];
    const uint64_t  *s = state_at(p, seen);
    uint64_t         others = s[words_of(o) - 1];
    uint32_t         free_names, must = missing(p, o, s, &free_names), names = seen_names(o, s);

    if (must == UINT32_MAX || names + others + must > o->max)
        return false;
    return (uint64_t)names + must + free_names + (others || others_can_appear(p, o)) >= o->min;
}

static bool can_close(const lm_terms *p, const lm_object *o, const uint64_t *s)
{
    uint32_t free_names;

    return missing(p, o, s, &free_names) == 0 && seen_names(o, s) + !!s[words_of(o) - 1] >= o->min;
}

/* Return the state after one more member: declared name `i`, or another one (i == n_named). */
static lm_expr_id after(lm_terms *p, uint32_t object, uint32_t seen, uint32_t i)
{
    const lm_object *o = &p->members->objects[object];
    uint64_t         few[16], *s = few;
    uint32_t         n = words_of(o);

    if (n > 16 && !(s = lm_alloc(n * sizeof *s))) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return LM_NOTHING;
    }
    memcpy(s, state_at(p, seen), n * sizeof *s);
    if (i < o->n_named)
        s[i >> 6] |= UINT64_C(1) << (i & 63);
    else if (s[n - 1] == 0 || o->max != LM_UNBOUNDED)
        s[n - 1]++;
    lm_expr_id out = lm_members_node(p, object, intern(p, object, s));
    if (s != few)
        lm_free(s);
    return out;
}

static lm_expr_id member(lm_terms *p, const lm_member *m, lm_expr_id rest)
{
    return rest == LM_NOTHING ? rest : lm_cat(p, m->key, lm_cat(p, m->value, rest));
}

lm_expr_id lm_members_unfold(lm_terms *p, lm_expr_id n)
{
    const lm_node_data d = p->nodes[n];
    const lm_object   *o = &p->members->objects[d.a];
    const uint32_t     all = o->n_named + o->n_others, n_words = words_of(o);

    if (d.c)
        return d.c;
    lm_expr_id *may = lm_alloc((all + 1) * sizeof *may);
    if (!may) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return LM_NOTHING;
    }
    const uint64_t *s = state_at(p, d.b);
    bool first = seen_names(o, s) == 0 && s[n_words - 1] == 0,
         full = seen_names(o, s) + s[n_words - 1] >= o->max;
    bool     close = can_close(p, o, s);
    uint32_t from = position(o, s), count = 0;

    for (uint32_t i = from; i < o->n_named && !full; i++)
        if (!is_seen(state_at(p, d.b), i) && can_appear(p, &o->named[i]))
            may[count++] = member(p, &o->named[i], after(p, d.a, d.b, i));
    lm_expr_id another = o->n_others && !full ? after(p, d.a, d.b, o->n_named) : LM_NOTHING;
    for (uint32_t i = 0; i < o->n_others && another != LM_NOTHING; i++)
        if (can_appear(p, &o->others[i]))
            may[count++] = member(p, &o->others[i], another);
    lm_expr_id next = lm_alt_of(p, may, count);
    lm_free(may);
    next = lm_cat(p, first ? o->first : o->comma, next);
    if (close)
        next = lm_alt(p, next, o->close);
    p->nodes[n].c = next;
    return next;
}

/* ---- copies ---- */

bool lm_members_copy(const lm_members *from, lm_members **to)
{
    *to = NULL;
    if (!from)
        return true;
    lm_members *m = lm_alloc_zero(1, sizeof *m);
    if (!m)
        return false;
    *m       = *from;
    m->shared = true;
    m->words = lm_alloc((m->n_words + 1) * sizeof *m->words);
    m->table = lm_alloc(((size_t)m->table_mask + 1) * 2 * sizeof *m->table);
    m->words_capacity = m->n_words;
    *to = m;
    if (!m->words || !m->table) {
        lm_members_free(m);
        *to = NULL;
        return false;
    }
    memcpy(m->words, from->words, m->n_words * sizeof *m->words);
    if (from->table)
        memcpy(m->table, from->table, ((size_t)m->table_mask + 1) * 2 * sizeof *m->table);
    else
        memset(m->table, 0, 2 * sizeof *m->table);
    return true;
}

void lm_members_free(lm_members *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->n && !m->shared; i++)
        free_object(&m->objects[i]);
    if (!m->shared)
        lm_free(m->objects);
    lm_free(m->words);
    lm_free(m->table);
    lm_free(m);
}
