/* derivative.c - derivatives (Brzozowski 1964) of expressions with counters, rules and frames. */
#include "grammar/derivative.h"

#include <string.h>

#include "base/alloc.h"
#include "grammar/members.h"

enum { MAX_DEPTH = 4000 };           /* of nested expressions: limited by the stack of a thread */

/* ---- cache of derivatives ---- */

static lm_expr_id *known_at(lm_terms *p, uint64_t key)
{
    uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(h >> 32) & p->known_mask;

    while (p->known[at].key && p->known[at].key != key)
        at = (at + 1) & p->known_mask;
    return p->known[at].key ? &p->known[at].value : NULL;
}

static void put(struct lm_known *table, uint32_t mask, uint64_t key, lm_expr_id value)
{
    uint32_t at = (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;

    while (table[at].key)
        at = (at + 1) & mask;
    table[at].key   = key;
    table[at].value = value;
}

static void know(lm_terms *p, uint64_t key, lm_expr_id value)
{
    if (p->n_known * 2 > p->known_mask) {
        uint32_t         size = (p->known_mask + 1) * 2;
        struct lm_known *table = lm_alloc_zero(size, sizeof *table);
        if (!table) {
            lm_terms_fail(p, LM_NO_MEMORY, NULL);
            return;
        }
        for (uint32_t i = 0; i <= p->known_mask; i++)
            if (p->known[i].key)
                put(table, size - 1, p->known[i].key, p->known[i].value);
        lm_free(p->known);
        p->known      = table;
        p->known_mask = size - 1;
    }
    put(p->known, p->known_mask, key, value);
    p->n_known++;
}

/* ---- derivatives by a byte or a token ---- */

typedef struct symbol { bool token, special; lm_token id; uint8_t byte; } symbol;

static lm_expr_id derive(lm_terms *p, lm_expr_id n, symbol s);

bool lm_token_in(const lm_terms *p, const lm_token_set *s, lm_token id, bool special)
{
    bool named = false;

    for (uint32_t i = 0; i < s->n && !named; i++)
        named = p->token_ids[s->from + i] == id;
    switch (s->mode) {
    case LM_TOKENS_OF:          return named;
    case LM_TOKENS_BUT:         return !named;
    case LM_TOKENS_SPECIAL_BUT: return special && !named;
    }
    return false;
}

static lm_expr_id derive_literal(lm_terms *p, lm_node_data d, symbol s)
{
    if (s.token || p->bytes[d.a] != s.byte)
        return LM_NOTHING;
    return d.b == 1 ? LM_EMPTY_TEXT : lm_literal_rest(p, d.a + 1, d.b - 1);
}

static lm_expr_id derive_alt(lm_terms *p, lm_node_data d, symbol s)
{
    lm_expr_id few[32], *out = d.b <= 32 ? few : lm_alloc(d.b * sizeof *out);

    if (!out) {
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
        return LM_NOTHING;
    }
    for (uint32_t i = 0; i < d.b; i++)
        out[i] = derive(p, p->lists[d.a + i], s);
    lm_expr_id all = lm_alt_of(p, out, d.b);
    if (out != few)
        lm_free(out);
    return all;
}

/* a, then b: go along the sequence as long as its parts may be empty. */
static lm_expr_id derive_cat(lm_terms *p, lm_expr_id n, symbol s)
{
    lm_expr_id all = LM_NOTHING;

    for (;;) {
        const lm_node_data d = p->nodes[n];
        if (d.kind != LM_NODE_CAT && d.kind != LM_NODE_FRAME)
            return lm_alt(p, all, derive(p, n, s));
        const uint8_t kind = p->nodes[d.a].kind;
        lm_expr_id first = derive(p, d.a, s);
        if (d.kind == LM_NODE_FRAME || kind == LM_NODE_RULE || kind == LM_NODE_MEMBERS)
            first = lm_frame(p, first, d.b);
        else
            first = lm_cat(p, first, d.b);
        all = lm_alt(p, all, first);
        if (!lm_is(p, d.a, LM_NULLABLE))
            return all;
        n = d.b;
    }
}

static lm_expr_id derive_repeat(lm_terms *p, lm_node_data d, symbol s)
{
    uint32_t min = d.b, max = d.c == LM_UNBOUNDED ? d.c : d.c - 1;
    lm_expr_id once = derive(p, d.a, s);

    min = lm_is(p, d.a, LM_NULLABLE) || min == 0 ? 0 : min - 1;
    if (once == LM_NOTHING)
        return once;
    lm_expr_id rest = lm_repeat(p, d.a, min, max);
    const uint8_t kind = p->nodes[d.a].kind;
    return kind == LM_NODE_RULE || kind == LM_NODE_MEMBERS ? lm_frame(p, once, rest) : lm_cat(p, once, rest);
}

static lm_expr_id derive_kind(lm_terms *p, lm_expr_id n, symbol s)
{
    const lm_node_data d = p->nodes[n];

    switch ((lm_node_kind)d.kind) {
    case LM_NODE_NOTHING:
    case LM_NODE_EMPTY:   return LM_NOTHING;
    case LM_NODE_BYTES:
        return !s.token && lm_byte_set_has(&p->sets[d.a], s.byte) ? LM_EMPTY_TEXT : LM_NOTHING;
    case LM_NODE_LITERAL: return derive_literal(p, d, s);
    case LM_NODE_CAT:
    case LM_NODE_FRAME:   return derive_cat(p, n, s);
    case LM_NODE_ALT:     return derive_alt(p, d, s);
    case LM_NODE_REPEAT:  return derive_repeat(p, d, s);
    case LM_NODE_RULE:    return derive(p, p->rules[d.a].body, s);
    case LM_NODE_MEMBERS: return derive(p, lm_members_unfold(p, n), s);
    case LM_NODE_TOKEN:
        return s.token && lm_token_in(p, &p->token_sets[d.a], s.id, s.special) ? LM_EMPTY_TEXT : LM_NOTHING;
    case LM_NODE_AND: {
        lm_expr_id a = derive(p, d.a, s);
        return a == LM_NOTHING ? a : lm_and(p, a, derive(p, d.b, s));
    }
    case LM_NODE_NOT:     return lm_not(p, derive(p, d.a, s));
    }
    return LM_NOTHING;
}

static bool is_quick(uint8_t kind) { return kind <= LM_NODE_LITERAL || kind == LM_NODE_TOKEN; }

static lm_expr_id derive(lm_terms *p, lm_expr_id n, symbol s)
{
    if (p->status != LM_OK)
        return LM_NOTHING;
    if (is_quick(p->nodes[n].kind))
        return derive_kind(p, n, s);
    if (s.token && !lm_is(p, n, LM_TOKENS))
        return LM_NOTHING;
    uint64_t key = (uint64_t)n << 8 | s.byte;
    lm_expr_id *known = s.token ? NULL : known_at(p, key);
    if (known)
        return *known;
    if (p->depth >= MAX_DEPTH) {
        lm_terms_fail(p, LM_LIMIT, "the grammar's rules are nested too deeply");
        return LM_NOTHING;
    }
    p->depth++;
    lm_expr_id out = derive_kind(p, n, s);
    p->depth--;
    if (out != LM_NOTHING && !lm_is(p, out, LM_LIVE))
        out = LM_NOTHING;
    if (!s.token && p->status == LM_OK)
        know(p, key, out);
    return out;
}

lm_expr_id lm_derivative(lm_terms *p, lm_expr_id n, uint8_t byte)
{
    return derive(p, n, (symbol){ .byte = byte });
}

lm_expr_id lm_derivative_by_token(lm_terms *p, lm_expr_id n, lm_token id, bool special)
{
    return derive(p, n, (symbol){ .token = true, .id = id, .special = special });
}

/* ---- first tokens ---- */

static void first_tokens(lm_terms *p, lm_expr_id n, unsigned depth,
                         void (*found)(void *arg, const lm_token_set *set), void *arg)
{
    if (depth > MAX_DEPTH || p->status != LM_OK)
        return;
    while (lm_is(p, n, LM_TOKENS)) {
        const lm_node_data d = p->nodes[n];
        switch ((lm_node_kind)d.kind) {
        case LM_NODE_TOKEN:
            found(arg, &p->token_sets[d.a]);
            return;
        case LM_NODE_CAT:
        case LM_NODE_FRAME:
            first_tokens(p, d.a, depth + 1, found, arg);
            if (!lm_is(p, d.a, LM_NULLABLE))
                return;
            n = d.b;
            break;
        case LM_NODE_ALT:
            for (uint32_t i = 0; i < d.b; i++)
                first_tokens(p, p->lists[d.a + i], depth + 1, found, arg);
            return;
        case LM_NODE_REPEAT:
            n = d.a;
            break;
        case LM_NODE_RULE:
            n = p->rules[d.a].body;
            break;
        default:
            return;
        }
    }
}

void lm_first_tokens(lm_terms *p, lm_expr_id n, void (*found)(void *arg, const lm_token_set *set), void *arg)
{
    first_tokens(p, n, 0, found, arg);
}

/* ---- byte classes ---- */

static uint32_t split(uint8_t class_of[256], const lm_byte_set *s)
{
    uint16_t inside[256], outside[256];
    uint32_t count = 0;

    memset(inside, 0xFF, sizeof inside);
    memset(outside, 0xFF, sizeof outside);
    for (unsigned b = 0; b < 256; b++) {
        uint16_t *to = lm_byte_set_has(s, b) ? &inside[class_of[b]] : &outside[class_of[b]];
        if (*to == 0xFFFF)
            *to = (uint16_t)count++;
        class_of[b] = (uint8_t)*to;
    }
    return count;
}

uint32_t lm_byte_classes(const lm_terms *p, uint8_t class_of[256])
{
    lm_byte_set literal = { { 0 } };
    uint32_t    n = 1;

    memset(class_of, 0, 256);
    for (uint32_t i = 0; i < p->n_sets; i++)
        n = split(class_of, &p->sets[i]);
    for (uint32_t i = 0; i < p->n_bytes; i++)
        lm_byte_set_add(&literal, p->bytes[i], p->bytes[i]);
    for (unsigned b = 0; b < 256; b++)
        if (lm_byte_set_has(&literal, b)) {
            lm_byte_set one = { { 0 } };
            lm_byte_set_add(&one, b, b);
            n = split(class_of, &one);
        }
    return n;
}
