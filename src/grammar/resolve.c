/* resolve.c - compute the properties of expressions that depend on all rules; remove unused expressions. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "grammar/expression.h"
#include "grammar/members.h"

enum { MAX_HEIGHT = 2000 };          /* of nested beginnings of a text: derivatives recurse two levels per
                                        node */

/* ---- flags ---- */

static uint8_t list_flags(const lm_terms *p, const lm_node_data *d)
{
    uint8_t f = 0;

    for (uint32_t i = 0; i < d->b; i++) {
        const lm_node_data *x = &p->nodes[p->lists[d->a + i]];
        f |= x->flags | (x->kind == LM_NODE_FRAME ? LM_FRAMED : 0);
    }
    return f;
}

static uint8_t settled_flags(const lm_terms *p, lm_expr_id n)
{
    const lm_node_data *d = &p->nodes[n], *a;
    uint8_t             f;

    switch ((lm_node_kind)d->kind) {
    case LM_NODE_CAT:
    case LM_NODE_FRAME:
        a = &p->nodes[d->a];
        f = a->flags & p->nodes[d->b].flags & (LM_NULLABLE | LM_LIVE);
        f |= a->flags & LM_TOKENS;
        return a->flags & LM_NULLABLE ? f | (p->nodes[d->b].flags & LM_TOKENS) : f;
    case LM_NODE_ALT:
        return list_flags(p, d);
    case LM_NODE_REPEAT:
        f = p->nodes[d->a].flags & (LM_NULLABLE | LM_LIVE | LM_TOKENS);
        return d->b == 0 ? f | LM_NULLABLE | LM_LIVE : f;
    case LM_NODE_RULE:
        return p->nodes[p->rules[d->a].body].flags & (uint8_t)~LM_FRAMED;
    case LM_NODE_MEMBERS:
        return lm_members_live(p, d->a, d->b) ? LM_LIVE : 0;
    default:
        return d->flags;
    }
}

/* Compute all flags. Flags are only ever set, so this terminates. */
static void find_flags(lm_terms *p)
{
    for (bool more = true; more && p->status == LM_OK;) {
        more = false;
        for (lm_expr_id n = 2; n < p->n; n++) {
            uint8_t f = p->nodes[n].flags | settled_flags(p, n);
            more |= f != p->nodes[n].flags;
            p->nodes[n].flags = f;
        }
        for (uint32_t r = 0; r < p->n_rules; r++)
            p->rules[r].flags = p->nodes[p->rules[r].body].flags & (uint8_t)~LM_FRAMED;
        lm_terms_work(p, p->n);
    }
}

/* ---- left recursion ---- */

/* Return the i-th expression that a text of `n` can begin with; LM_NOTHING after the last. */
static lm_expr_id beginning(const lm_terms *p, lm_expr_id n, uint32_t i)
{
    const lm_node_data *d = &p->nodes[n];

    switch ((lm_node_kind)d->kind) {
    case LM_NODE_CAT:
    case LM_NODE_FRAME:
        if (i == 0)
            return d->a;
        return i == 1 && (p->nodes[d->a].flags & LM_NULLABLE) ? d->b : LM_NOTHING;
    case LM_NODE_ALT:    return i < d->b ? p->lists[d->a + i] : LM_NOTHING;
    case LM_NODE_REPEAT: return i == 0 ? d->a : LM_NOTHING;
    case LM_NODE_RULE:   return i == 0 ? p->rules[d->a].body : LM_NOTHING;
    default:             return LM_NOTHING;
    }
}

typedef struct visit { lm_expr_id n; uint32_t next; } visit;
enum { UNSEEN, OPEN, DONE };

typedef struct walk { visit *stack; uint32_t depth; uint8_t *seen; uint16_t *height; } walk;

static lm_status left_recursion(lm_terms *p, walk *w, uint32_t *rule, lm_error *e)
{
    while (w->depth) {
        visit  *v = &w->stack[w->depth - 1];
        lm_expr_id next = beginning(p, v->n, v->next++);
        if (next == LM_NOTHING) {
            w->seen[v->n] = DONE;
            w->depth--;
            if (w->depth) {
                visit *up = &w->stack[w->depth - 1];
                bool   along = p->nodes[up->n].kind == LM_NODE_CAT && up->next == 2;
                uint16_t h = (uint16_t)(w->height[v->n] + !along);
                if (h > w->height[up->n])
                    w->height[up->n] = h;
                if (h > MAX_HEIGHT)
                    return lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET,
                                   "rules begin with each other more than %d deep", MAX_HEIGHT);
            }
            continue;
        }
        if (w->seen[next] == OPEN) {
            while (p->nodes[next].kind != LM_NODE_RULE)         /* every cycle contains a rule */
                next = w->stack[--w->depth].n;
            *rule = p->nodes[next].a;
            return LM_USAGE;
        }
        if (w->seen[next] == DONE) {
            if (w->height[next] + 1 > w->height[v->n])
                w->height[v->n] = (uint16_t)(w->height[next] + 1);
            continue;
        }
        w->seen[next] = OPEN;
        w->stack[w->depth++] = (visit){ next, 0 };
    }
    return LM_OK;
}

static lm_status refuse_left_recursion(lm_terms *p, uint32_t *rule, lm_error *e)
{
    walk      w = { .stack = lm_alloc((p->n + 1) * sizeof *w.stack), .seen = lm_alloc_zero(p->n + 1, 1),
                    .height = lm_alloc_zero(p->n + 1, sizeof *w.height) };
    lm_status status = w.stack && w.seen && w.height ? LM_OK : lm_fail_memory(e, "a grammar", p->n);

    for (lm_expr_id n = 2; n < p->n && status == LM_OK; n++)
        if (w.seen[n] == UNSEEN && p->nodes[n].kind == LM_NODE_RULE) {
            w.seen[n] = OPEN;
            w.stack[0] = (visit){ n, 0 };
            w.depth    = 1;
            status     = left_recursion(p, &w, rule, e);
        }
    lm_free(w.stack);
    lm_free(w.seen);
    lm_free(w.height);
    return status;
}

lm_status lm_terms_resolve(lm_terms *p, uint32_t *rule, lm_error *e)
{
    LM_TRY(lm_terms_check(p, e));
    find_flags(p);
    LM_TRY(lm_terms_check(p, e));
    *rule = UINT32_MAX;
    LM_TRY(refuse_left_recursion(p, rule, e));
    p->resolved = true;
    memset(p->known, 0, ((size_t)p->known_mask + 1) * sizeof *p->known);
    p->n_known = 0;
    return LM_OK;
}

/* ---- compaction ---- */

static void keep_parts(const lm_terms *p, lm_expr_id n, uint8_t *keep)
{
    const lm_node_data *d = &p->nodes[n];

    switch ((lm_node_kind)d->kind) {
    case LM_NODE_CAT:
    case LM_NODE_FRAME:
    case LM_NODE_AND:
        keep[d->a] = keep[d->b] = 1;
        break;
    case LM_NODE_ALT:
        for (uint32_t i = 0; i < d->b; i++)
            keep[p->lists[d->a + i]] = 1;
        break;
    case LM_NODE_REPEAT:
    case LM_NODE_NOT:
        keep[d->a] = 1;
        break;
    default:
        break;
    }
}

static lm_node_data moved_parts(lm_terms *p, lm_node_data d, const uint32_t *moved)
{
    switch ((lm_node_kind)d.kind) {
    case LM_NODE_CAT:
    case LM_NODE_FRAME:
    case LM_NODE_AND:
        d.b = moved[d.b];
        d.a = moved[d.a];
        break;
    case LM_NODE_ALT:
        for (uint32_t i = 0; i < d.b; i++)               /* the order is preserved: the renumbering is
                                                            monotonic */
            p->lists[d.a + i] = moved[p->lists[d.a + i]];
        break;
    case LM_NODE_REPEAT:
    case LM_NODE_NOT:
        d.a = moved[d.a];
        break;
    default:
        break;
    }
    return d;
}

/* Close the gaps between lists. Lists are stored in the order of their nodes. */
static void compact_lists(lm_terms *p, uint32_t fixed)
{
    uint32_t end = 0;

    for (lm_expr_id i = 0; i < p->n; i++) {
        lm_node_data *d = &p->nodes[i];
        if (d->kind != LM_NODE_ALT)
            continue;
        if (i >= fixed) {
            memmove(p->lists + end, p->lists + d->a, d->b * sizeof *p->lists);
            d->a = end;
        }
        if (d->a + d->b > end)
            end = d->a + d->b;
    }
    p->n_lists = end;
}

/* The parts of a node have lower numbers than the node. */
void lm_terms_compact(lm_terms *p, uint32_t fixed, uint8_t *keep, uint32_t *moved)
{
    uint32_t n = fixed;

    for (lm_expr_id i = p->n; i-- > fixed;)
        if (keep[i])
            keep_parts(p, i, keep);
    for (lm_expr_id i = 0; i < fixed; i++) {
        moved[i] = i;
        if (p->nodes[i].kind == LM_NODE_MEMBERS)
            p->nodes[i].c = 0;
    }
    for (lm_expr_id i = fixed; i < p->n; i++) {
        if (!keep[i])
            continue;
        p->nodes[n] = moved_parts(p, p->nodes[i], moved);
        if (p->nodes[n].kind == LM_NODE_MEMBERS)
            p->nodes[n].c = 0;
        moved[i] = n++;
    }
    p->n = n;
    compact_lists(p, fixed);
    lm_terms_rehash(p);
    memset(p->known, 0, ((size_t)p->known_mask + 1) * sizeof *p->known);
    p->n_known = 0;
}
