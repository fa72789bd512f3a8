/* expression.c - create hash-consed expressions. */
#include "grammar/expression.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "grammar/members.h"

enum { FIRST_TABLE = 1 << 10, FIRST_KNOWN = 1 << 10 };

/* ---- errors ---- */

void lm_terms_fail(lm_terms *p, lm_status status, const char *reason)
{
    if (p->status == LM_OK) {
        p->status = status;
        p->reason = reason;
    }
}

void lm_terms_fail_limit(lm_terms *p, const char *reason, uint64_t limit)
{
    if (p->status == LM_OK)
        p->limit = limit;
    lm_terms_fail(p, LM_LIMIT, reason);
}

bool lm_terms_work(lm_terms *p, uint64_t units)
{
    p->work += units;
    if (p->max_work && p->work > p->max_work)
        lm_terms_fail_limit(p, "the grammar takes too many units of work to compile", p->max_work);
    return p->status == LM_OK;
}

lm_status lm_terms_check(const lm_terms *p, lm_error *e)
{
    if (p->status == LM_NO_MEMORY)
        return lm_fail_memory(e, "a grammar", 0);
    if (p->status != LM_OK && p->limit)
        return lm_fail(e, p->status, NULL, LM_NO_OFFSET, "%s (limit: %llu)", p->reason,
                       (unsigned long long)p->limit);
    if (p->status != LM_OK)
        return lm_fail(e, p->status, NULL, LM_NO_OFFSET, "%s",
                       p->reason ? p->reason : "the grammar failed before");
    return LM_OK;
}

bool lm_terms_reserve(lm_terms *p, void *array, uint32_t n, uint32_t *capacity, size_t size, uint32_t more)
{
    void   **at = array;
    uint64_t want = (uint64_t)n + more;

    if (want <= *capacity)
        return true;
    want = want < 64 ? 64 : want + want / 2;
    void *grown = want < UINT32_MAX ? lm_realloc(*at, (size_t)want * size) : NULL;
    if (!grown) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return false;
    }
    *at       = grown;
    *capacity = (uint32_t)want;
    return true;
}

/* ---- hash table ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t hash_of(const lm_terms *p, const lm_node_data *d)
{
    uint64_t h = mix(d->kind, 0x51);

    switch (d->kind) {
    case LM_NODE_LITERAL:
        for (uint32_t i = 0; i < d->b; i++)
            h = mix(h, p->bytes[d->a + i]);
        return h;
    case LM_NODE_ALT:
        for (uint32_t i = 0; i < d->b; i++)
            h = mix(h, p->lists[d->a + i]);
        return h;
    case LM_NODE_MEMBERS:
        return mix(mix(h, d->a), d->b);
    default:
        return mix(mix(mix(h, d->a), d->b), d->c);
    }
}

static bool same(const lm_terms *p, const lm_node_data *x, const lm_node_data *y)
{
    if (x->kind != y->kind || x->b != y->b)
        return false;
    if (x->kind == LM_NODE_LITERAL)
        return memcmp(p->bytes + x->a, p->bytes + y->a, x->b) == 0;
    if (x->kind == LM_NODE_ALT)
        return memcmp(p->lists + x->a, p->lists + y->a, x->b * sizeof *p->lists) == 0;
    return x->a == y->a && (x->c == y->c || x->kind == LM_NODE_MEMBERS);
}

static bool grow_table(lm_terms *p)
{
    uint32_t  size = p->table_mask ? (p->table_mask + 1) * 2 : FIRST_TABLE;
    uint32_t *table = lm_alloc_zero(size, sizeof *table);

    if (!table) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return false;
    }
    for (uint32_t i = 2; i < p->n; i++) {
        uint32_t at = (uint32_t)hash_of(p, &p->nodes[i]) & (size - 1);
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = i;
    }
    lm_free(p->table);
    p->table      = table;
    p->table_mask = size - 1;
    return true;
}

void lm_terms_rehash(lm_terms *p)
{
    memset(p->table, 0, ((size_t)p->table_mask + 1) * sizeof *p->table);
    for (uint32_t i = 2; i < p->n; i++) {
        uint32_t at = (uint32_t)hash_of(p, &p->nodes[i]) & p->table_mask;
        while (p->table[at])
            at = (at + 1) & p->table_mask;
        p->table[at] = i;
    }
}

static uint8_t flags_of(const lm_terms *p, const lm_node_data *d);

/* Return the node with this content. *made: it is new. */
static lm_expr_id intern(lm_terms *p, lm_node_data d, bool *made)
{
    *made = false;
    if (!lm_terms_work(p, 1 + (d.kind == LM_NODE_LITERAL || d.kind == LM_NODE_ALT ? d.b / 8 : 0)))
        return LM_NOTHING;
    uint32_t at = (uint32_t)hash_of(p, &d) & p->table_mask;
    for (; p->table[at]; at = (at + 1) & p->table_mask)
        if (same(p, &p->nodes[p->table[at]], &d))
            return p->table[at];
    if (p->n >= p->max_nodes) {
        lm_terms_fail_limit(p, "the grammar needs too many states", p->max_nodes);
        return LM_NOTHING;
    }
    if (!lm_terms_reserve(p, &p->nodes, p->n, &p->capacity, sizeof *p->nodes, 1))
        return LM_NOTHING;
    d.flags        = flags_of(p, &d);
    p->nodes[p->n] = d;
    p->table[at]   = p->n++;
    *made          = true;
    lm_expr_id out    = p->n - 1;
    if (p->n * 2 > p->table_mask)
        grow_table(p);
    return p->status == LM_OK ? out : LM_NOTHING;
}

static lm_expr_id make(lm_terms *p, lm_node_kind kind, uint32_t a, uint32_t b, uint32_t c)
{
    bool made;

    return intern(p, (lm_node_data){ .kind = (uint8_t)kind, .a = a, .b = b, .c = c }, &made);
}

/* ---- flags ---- */

/* Compute the flags from the parts. A node is dead until its rules are known to be live. */
static uint8_t flags_of(const lm_terms *p, const lm_node_data *d)
{
    const lm_node_data *n = p->nodes;
    uint8_t             f = 0;

    switch ((lm_node_kind)d->kind) {
    case LM_NODE_NOTHING: return 0;
    case LM_NODE_EMPTY:   return LM_NULLABLE | LM_LIVE;
    case LM_NODE_BYTES:
    case LM_NODE_LITERAL: return LM_LIVE;
    case LM_NODE_CAT:
    case LM_NODE_FRAME:
        f = n[d->a].flags & n[d->b].flags & (LM_NULLABLE | LM_LIVE);
        f |= n[d->a].flags & LM_TOKENS;
        return n[d->a].flags & LM_NULLABLE ? f | (n[d->b].flags & LM_TOKENS) : f;
    case LM_NODE_ALT:
        for (uint32_t i = 0; i < d->b; i++) {
            const lm_node_data *x = &n[p->lists[d->a + i]];
            f |= x->flags | (x->kind == LM_NODE_FRAME ? LM_FRAMED : 0);
        }
        return f;
    case LM_NODE_REPEAT:
        f = n[d->a].flags & (LM_NULLABLE | LM_LIVE | LM_TOKENS);
        return d->b == 0 ? f | LM_NULLABLE | LM_LIVE : f;
    case LM_NODE_RULE:
        return p->rules[d->a].flags;
    case LM_NODE_MEMBERS:
        return lm_members_live(p, d->a, d->b) ? LM_LIVE : 0;
    case LM_NODE_TOKEN:
        return LM_LIVE | LM_TOKENS;
    case LM_NODE_AND:
        return n[d->a].flags & n[d->b].flags & (LM_NULLABLE | LM_LIVE);
    case LM_NODE_NOT:
        return n[d->a].flags & LM_NULLABLE ? LM_LIVE : LM_NULLABLE | LM_LIVE;
    }
    return 0;
}

/* ---- constructors ---- */

lm_expr_id lm_bytes(lm_terms *p, const lm_byte_set *s)
{
    unsigned count = 0;
    uint8_t  only = 0;
    uint32_t i = 0;

    for (unsigned k = 0; k < 4; k++) {
        count += (unsigned)__builtin_popcountll(s->bits[k]);
        if (s->bits[k])
            only = (uint8_t)(64 * k + (unsigned)__builtin_ctzll(s->bits[k]));
    }
    if (count == 0)
        return LM_NOTHING;
    if (count == 1)
        return lm_literal(p, &only, 1);
    while (i < p->n_sets && memcmp(&p->sets[i], s, sizeof *s) != 0)
        i++;
    if (i == p->n_sets) {
        if (!lm_terms_reserve(p, &p->sets, i, &p->sets_capacity, sizeof *s, 1))
            return LM_NOTHING;
        p->sets[p->n_sets++] = *s;
    }
    return make(p, LM_NODE_BYTES, i, 0, 0);
}

lm_expr_id lm_byte_range(lm_terms *p, unsigned first, unsigned last)
{
    lm_byte_set s = { { 0 } };

    lm_byte_set_add(&s, first, last);
    return lm_bytes(p, &s);
}

lm_expr_id lm_literal(lm_terms *p, const void *data, size_t n)
{
    bool made;

    if (n == 0)
        return LM_EMPTY_TEXT;
    if (n > UINT32_MAX / 4 || !lm_terms_reserve(p, &p->bytes, p->n_bytes, &p->bytes_capacity, 1, (uint32_t)n))
        return LM_NOTHING;
    memcpy(p->bytes + p->n_bytes, data, n);
    lm_expr_id out = intern(p, (lm_node_data){ .kind = LM_NODE_LITERAL, .a = p->n_bytes, .b = (uint32_t)n },
                            &made);
    if (made)
        p->n_bytes += (uint32_t)n;
    return out;
}

lm_expr_id lm_word(lm_terms *p, const char *s) { return lm_literal(p, s, strlen(s)); }

lm_expr_id lm_literal_rest(lm_terms *p, uint32_t at, uint32_t n)
{
    return make(p, LM_NODE_LITERAL, at, n, 0);
}

static lm_expr_id cat_of(lm_terms *p, lm_expr_id a, lm_expr_id b, lm_node_kind kind)
{
    if (a == LM_NOTHING || b == LM_NOTHING)
        return LM_NOTHING;
    if (a == LM_EMPTY_TEXT)
        return b;
    if (b == LM_EMPTY_TEXT)
        return a;
    return make(p, kind, a, b, 0);
}

/* Join each alternative of a choice that contains frames with `after`, so that the innermost frame comes
 * first. */
static lm_expr_id spread(lm_terms *p, lm_expr_id a, lm_expr_id after,
                         lm_expr_id (*join)(lm_terms *, lm_expr_id, lm_expr_id))
{
    uint32_t n = p->nodes[a].b;
    lm_expr_id *out = lm_alloc(n * sizeof *out);

    if (!out) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return LM_NOTHING;
    }
    for (uint32_t i = 0; i < n; i++)
        out[i] = join(p, p->lists[p->nodes[a].a + i], after);
    lm_expr_id all = lm_alt_of(p, out, n);
    lm_free(out);
    return all;
}

/* Take the chain apart down to its last part, then rebuild it around the joined end. This is not recursive,
 * so chains may be long. */
lm_expr_id lm_cat(lm_terms *p, lm_expr_id a, lm_expr_id b)
{
    lm_node_list chain = { 0 };
    lm_expr_id   out;

    if (a <= LM_EMPTY_TEXT || b <= LM_EMPTY_TEXT)
        return cat_of(p, a, b, LM_NODE_CAT);
    for (; p->nodes[a].kind == LM_NODE_CAT || p->nodes[a].kind == LM_NODE_FRAME; a = p->nodes[a].b)
        lm_list_add(p, &chain, a);
    if (!lm_terms_work(p, chain.n))
        out = LM_NOTHING;
    else if (p->nodes[a].kind == LM_NODE_ALT && (p->nodes[a].flags & LM_FRAMED))
        out = spread(p, a, b, lm_cat);
    else
        out = cat_of(p, a, b, LM_NODE_CAT);
    while (chain.n) {
        lm_node_data d = p->nodes[chain.items[--chain.n]];
        out = cat_of(p, d.a, out, (lm_node_kind)d.kind);
    }
    lm_free(chain.items);
    return out;
}

/* ---- lists ---- */

void lm_list_add(lm_terms *p, lm_node_list *l, lm_expr_id n)
{
    if (lm_terms_reserve(p, &l->items, l->n, &l->capacity, sizeof *l->items, 1))
        l->items[l->n++] = n;
}

lm_expr_id lm_list_cat(lm_terms *p, lm_node_list *l, uint32_t from)
{
    lm_expr_id out = LM_EMPTY_TEXT;

    while (l->n > from)
        out = lm_cat(p, l->items[--l->n], out);
    return out;
}

lm_expr_id lm_list_alt(lm_terms *p, lm_node_list *l, uint32_t from)
{
    uint32_t n = l->n - from;

    l->n = from;
    if (n < 2)
        return n ? l->items[from] : LM_NOTHING;
    return lm_alt_of(p, l->items + from, n);
}

lm_expr_id lm_frame(lm_terms *p, lm_expr_id inner, lm_expr_id after)
{
    const lm_node_data d = p->nodes[inner];

    if (inner > LM_EMPTY_TEXT && after > LM_EMPTY_TEXT) {
        if (d.kind == LM_NODE_FRAME)
            return cat_of(p, d.a, lm_frame(p, d.b, after), LM_NODE_FRAME);
        if (d.kind == LM_NODE_ALT && ((d.flags & LM_FRAMED) || p->lists[d.a] == LM_EMPTY_TEXT))
            return spread(p, inner, after, lm_frame);
    }
    return cat_of(p, inner, after, LM_NODE_FRAME);
}

static int rising(const void *a, const void *b)
{
    lm_expr_id x = *(const lm_expr_id *)a, y = *(const lm_expr_id *)b;

    return (x > y) - (x < y);
}

/* Create one choice from nodes in any order, which may be choices themselves. */
lm_expr_id lm_alt_of(lm_terms *p, lm_expr_id *nodes, size_t n)
{
    size_t   total = 0, kept = 0;
    bool     made;

    for (size_t i = 0; i < n; i++)
        total += p->nodes[nodes[i]].kind == LM_NODE_ALT ? p->nodes[nodes[i]].b : 1;
    if (!lm_terms_work(p, total))
        return LM_NOTHING;
    if (total > p->max_list || p->n_lists > p->max_lists) {
        lm_terms_fail_limit(p, "the grammar is too ambiguous: too many ways to read one text", p->max_list);
        return LM_NOTHING;
    }
    if (!lm_terms_reserve(p, &p->lists, p->n_lists, &p->lists_capacity, sizeof *p->lists,
                          (uint32_t)total + 1))
        return LM_NOTHING;
    uint32_t *out = p->lists + p->n_lists;
    for (size_t i = 0; i < n; i++) {
        const lm_node_data *d = &p->nodes[nodes[i]];
        if (d->kind == LM_NODE_ALT) {
            memcpy(out + kept, p->lists + d->a, d->b * sizeof *out);
            kept += d->b;
        } else if (nodes[i] != LM_NOTHING) {
            out[kept++] = nodes[i];
        }
    }
    qsort(out, kept, sizeof *out, rising);
    total = 0;
    for (size_t i = 0; i < kept; i++)
        if (i == 0 || out[i] != out[i - 1])
            out[total++] = out[i];
    if (total < 2)
        return total ? out[0] : LM_NOTHING;
    uint32_t at = p->n_lists;
    lm_expr_id all = intern(p, (lm_node_data){ .kind = LM_NODE_ALT, .a = at, .b = (uint32_t)total }, &made);
    if (made)
        p->n_lists += (uint32_t)total;
    return all;
}

lm_expr_id lm_alt(lm_terms *p, lm_expr_id a, lm_expr_id b)
{
    lm_expr_id both[2] = { a, b };

    if (a == b || b == LM_NOTHING)
        return a;
    return a == LM_NOTHING ? b : lm_alt_of(p, both, 2);
}

lm_expr_id lm_repeat(lm_terms *p, lm_expr_id x, uint32_t min, uint32_t max)
{
    if (min > max)
        return LM_NOTHING;
    if (x == LM_NOTHING || max == 0)
        return min == 0 ? LM_EMPTY_TEXT : LM_NOTHING;
    if (x == LM_EMPTY_TEXT || (min == 1 && max == 1))
        return x;
    return make(p, LM_NODE_REPEAT, x, min, max);
}

lm_expr_id lm_optional(lm_terms *p, lm_expr_id x) { return lm_alt(p, x, LM_EMPTY_TEXT); }

lm_expr_id lm_members_node(lm_terms *p, uint32_t object, uint32_t seen)
{
    lm_expr_id n = make(p, LM_NODE_MEMBERS, object, seen, 0);

    return p->resolved && !lm_is(p, n, LM_LIVE) ? LM_NOTHING : n;
}

lm_expr_id lm_token_item(lm_terms *p, lm_token_mode mode, const lm_token *ids, uint32_t n)
{
    if (!lm_terms_reserve(p, &p->token_sets, p->n_token_sets, &p->token_sets_capacity, sizeof *p->token_sets,
                          1) ||
        !lm_terms_reserve(p, &p->token_ids, p->n_token_ids, &p->token_ids_capacity, sizeof *p->token_ids, n))
        return LM_NOTHING;
    for (uint32_t i = 0; i < n; i++)
        p->token_ids[p->n_token_ids + i] = ids[i];
    p->token_sets[p->n_token_sets++] = (lm_token_set){ mode, p->n_token_ids, n };
    p->n_token_ids += n;
    return make(p, LM_NODE_TOKEN, p->n_token_sets - 1, 0, 0);
}

lm_expr_id lm_and(lm_terms *p, lm_expr_id a, lm_expr_id b)
{
    if (a == b || b == LM_NOTHING)
        return b;
    if (a == LM_NOTHING)
        return a;
    return make(p, LM_NODE_AND, a < b ? a : b, a < b ? b : a, 0);
}

lm_expr_id lm_not(lm_terms *p, lm_expr_id a)
{
    return p->nodes[a].kind == LM_NODE_NOT ? p->nodes[a].a : make(p, LM_NODE_NOT, a, 0, 0);
}

/* ---- rules ---- */

uint32_t lm_rule_new(lm_terms *p)
{
    if (!lm_terms_reserve(p, &p->rules, p->n_rules, &p->rules_capacity, sizeof *p->rules, 1))
        return 0;
    p->rules[p->n_rules] = (lm_rule){ 0 };
    return p->n_rules++;
}

void lm_rule_define(lm_terms *p, uint32_t rule, lm_expr_id body)
{
    if (rule < p->n_rules)
        p->rules[rule].body = body;
}

lm_expr_id lm_rule_node(lm_terms *p, uint32_t rule)
{
    if (rule >= p->n_rules)
        return LM_NOTHING;
    return make(p, LM_NODE_RULE, rule, 0, 0);
}

const lm_expr_id *lm_choices(const lm_terms *p, const lm_expr_id *n, uint32_t *count)
{
    const lm_node_data *d = &p->nodes[*n];

    *count = d->kind == LM_NODE_ALT ? d->b : 1;
    return d->kind == LM_NODE_ALT ? p->lists + d->a : n;
}

/* ---- pools ---- */

lm_status lm_terms_init(lm_terms *p, lm_error *e)
{
    *p = (lm_terms){ .max_nodes = UINT32_MAX / 4, .max_list = 1 << 16, .max_lists = 1 << 24 };
    p->known = lm_alloc_zero(FIRST_KNOWN, sizeof *p->known);
    if (!p->known || !grow_table(p) ||
        !lm_terms_reserve(p, &p->nodes, 0, &p->capacity, sizeof *p->nodes, 256)) {
        lm_terms_free(p);
        return lm_fail_memory(e, "a grammar", 0);
    }
    p->known_mask = FIRST_KNOWN - 1;
    p->nodes[0] = (lm_node_data){ .kind = LM_NODE_NOTHING };
    p->nodes[1] = (lm_node_data){ .kind = LM_NODE_EMPTY, .flags = LM_NULLABLE | LM_LIVE };
    p->n        = 2;
    return LM_OK;
}

static void *copy_of(const void *data, size_t n, size_t size, bool *ok)
{
    void *out = lm_alloc((n ? n : 1) * size);

    if (!out)
        *ok = false;
    else if (n)
        memcpy(out, data, n * size);
    return out;
}

lm_status lm_terms_copy(lm_terms *to, const lm_terms *from, lm_error *e)
{
    bool ok = true;

    *to               = *from;
    to->nodes         = copy_of(from->nodes, from->n, sizeof *from->nodes, &ok);
    to->capacity      = from->n;
    to->table         = copy_of(from->table, from->table_mask + 1, sizeof *from->table, &ok);
    to->lists         = copy_of(from->lists, from->n_lists, sizeof *from->lists, &ok);
    to->lists_capacity = from->n_lists;
    to->bytes         = copy_of(from->bytes, from->n_bytes, 1, &ok);
    to->bytes_capacity = from->n_bytes;
    to->sets          = copy_of(from->sets, from->n_sets, sizeof *from->sets, &ok);
    to->sets_capacity = from->n_sets;
    to->token_sets    = copy_of(from->token_sets, from->n_token_sets, sizeof *from->token_sets, &ok);
    to->token_sets_capacity = from->n_token_sets;
    to->token_ids     = copy_of(from->token_ids, from->n_token_ids, sizeof *from->token_ids, &ok);
    to->token_ids_capacity = from->n_token_ids;
    to->rules         = copy_of(from->rules, from->n_rules, sizeof *from->rules, &ok);
    to->rules_capacity = from->n_rules;
    to->known         = lm_alloc_zero(FIRST_KNOWN, sizeof *to->known);
    to->known_mask    = FIRST_KNOWN - 1;
    to->n_known       = 0;
    to->members       = NULL;
    if (ok && to->known && lm_members_copy(from->members, &to->members))
        return LM_OK;
    lm_terms_free(to);
    return lm_fail_memory(e, "a grammar", 0);
}

void lm_terms_free(lm_terms *p)
{
    lm_free(p->nodes);
    lm_free(p->table);
    lm_free(p->lists);
    lm_free(p->bytes);
    lm_free(p->sets);
    lm_free(p->token_sets);
    lm_free(p->token_ids);
    lm_free(p->rules);
    lm_free(p->known);
    lm_members_free(p->members);
    *p = (lm_terms){ 0 };
}
