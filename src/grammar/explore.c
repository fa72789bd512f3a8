/* explore.c - construct all states of an expression. */
#include "grammar/explore.h"

#include <string.h>

#include "base/alloc.h"
#include "grammar/derivative.h"

enum { MAX_MARKS = 16 };

typedef struct exploration {
    lm_terms  *p;
    lm_expr_id *states;              /* by number */
    uint32_t *next;                  /* [n][n_classes]: state + 1; 0: none */
    uint8_t  *final, *live;
    uint32_t *rules;
    uint32_t  n, capacity, next_capacity, final_capacity;
    uint32_t *number;                /* by node: state + 1 */
    uint32_t  number_capacity;
    uint8_t   class_of[256], byte_of[256];
    uint32_t  n_classes;
} exploration;

/* Allow as many begin marks before the text as the expression can read. */
static lm_expr_id past_marks(lm_terms *p, lm_expr_id n)
{
    lm_expr_id all = n;

    for (unsigned i = 0; i < MAX_MARKS && n != LM_NOTHING; i++) {
        n   = lm_derivative(p, n, LM_TEXT_BEGIN);
        all = lm_alt(p, all, n);
    }
    return all;
}

static bool is_final(lm_terms *p, lm_expr_id n)
{
    for (unsigned i = 0; i < MAX_MARKS && n != LM_NOTHING; i++) {
        if (lm_is(p, n, LM_NULLABLE))
            return true;
        n = lm_derivative(p, n, LM_TEXT_END);
    }
    return false;
}

static uint32_t number_of(exploration *x, lm_expr_id n)
{
    lm_terms *p = x->p;
    uint32_t had = x->number_capacity;

    if (n == LM_NOTHING || p->status != LM_OK)
        return 0;
    if (n >= had) {
        if (!lm_terms_reserve(p, &x->number, n, &x->number_capacity, sizeof *x->number, 1))
            return 0;
        memset(x->number + had, 0, (x->number_capacity - had) * sizeof *x->number);
    }
    if (x->number[n])
        return x->number[n];
    if (x->n >= p->max_states) {
        lm_terms_fail_limit(p, "a pattern needs too many states", p->max_states);
        return 0;
    }
    if (!lm_terms_reserve(p, &x->states, x->n, &x->capacity, sizeof *x->states, 1) ||
        !lm_terms_reserve(p, &x->next, x->n * x->n_classes, &x->next_capacity, sizeof *x->next, x->n_classes))
        return 0;
    x->states[x->n++] = n;
    return x->number[n] = x->n;
}

static void explore(exploration *x, lm_expr_id start)
{
    lm_terms *p = x->p;

    x->n_classes = lm_byte_classes(p, x->class_of);
    for (unsigned b = 256; b-- > 0;)
        x->byte_of[x->class_of[b]] = (uint8_t)b;
    lm_terms_work(p, (p->n_bytes + p->n) / 4);           /* all existing nodes are scanned each time */
    number_of(x, past_marks(p, start));
    for (uint32_t s = 0; s < x->n && lm_terms_work(p, 2 * x->n_classes); s++)
        for (uint32_t c = 0; c < x->n_classes && p->status == LM_OK; c++) {
            uint8_t  b = x->byte_of[c];
            uint32_t to = b >= 0xF8 ? 0 : number_of(x, lm_derivative(p, x->states[s], b));
            x->next[(size_t)s * x->n_classes + c] = to;
        }
}

/* Find the states from which the text can end. */
static void find_live(exploration *x)
{
    x->final = lm_alloc_zero(x->n + 1, 1);
    x->live  = lm_alloc_zero(x->n + 1, 1);
    x->rules = lm_alloc_zero(x->n + 1, sizeof *x->rules);
    if (!x->final || !x->live || !x->rules) {
        lm_terms_fail(x->p, LM_NO_MEMORY, NULL);
        return;
    }
    for (uint32_t s = 0; s < x->n; s++)
        x->final[s] = x->live[s] = is_final(x->p, x->states[s]);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t s = x->n; s-- > 0;)
            for (uint32_t c = 0; c < x->n_classes && !x->live[s]; c++) {
                uint32_t to = x->next[(size_t)s * x->n_classes + c];
                more |= x->live[s] = to && x->live[to - 1];
            }
    }
}

static lm_expr_id body_of(exploration *x, uint32_t s)
{
    lm_terms  *p = x->p;
    lm_expr_id body = x->final[s] ? LM_EMPTY_TEXT : LM_NOTHING;
    uint32_t *row = x->next + (size_t)s * x->n_classes;

    for (uint32_t c = 0; c < x->n_classes; c++) {
        lm_byte_set set = { { 0 } };
        uint32_t    to = row[c];
        if (!to || !x->live[to - 1])
            continue;
        for (unsigned b = 0; b < 0xF8; b++)
            if (row[x->class_of[b]] == to)
                lm_byte_set_add(&set, b, b);
        for (uint32_t k = c; k < x->n_classes; k++)
            if (row[k] == to)
                row[k] = 0;
        body = lm_alt(p, body, lm_cat(p, lm_bytes(p, &set), lm_rule_node(p, x->rules[to - 1])));
    }
    return body;
}

static lm_expr_id to_rules(exploration *x)
{
    for (uint32_t s = 0; s < x->n; s++)
        if (x->live[s]) {
            x->rules[s] = lm_rule_new(x->p);
            if (x->p->status == LM_OK)
                x->p->rules[x->rules[s]].flags = LM_LIVE | (x->final[s] ? LM_NULLABLE : 0);
        }
    for (uint32_t s = 0; s < x->n && x->p->status == LM_OK; s++)
        if (x->live[s])
            lm_rule_define(x->p, x->rules[s], body_of(x, s));
    return x->live[0] ? lm_rule_node(x->p, x->rules[0]) : LM_NOTHING;
}

static lm_expr_id run(lm_terms *p, lm_expr_id n, bool rules, bool *empty)
{
    exploration x = { .p = p };
    lm_expr_id  out = LM_NOTHING;

    *empty = true;
    explore(&x, n);
    if (p->status == LM_OK && x.n)
        find_live(&x);
    if (p->status == LM_OK && x.n) {
        *empty = !x.live[0];
        if (rules)
            out = to_rules(&x);
    }
    lm_free(x.states);
    lm_free(x.next);
    lm_free(x.final);
    lm_free(x.live);
    lm_free(x.rules);
    lm_free(x.number);
    return out;
}

lm_expr_id lm_explore(lm_terms *p, lm_expr_id n)
{
    bool empty;

    return run(p, n, true, &empty);
}

bool lm_explore_empty(lm_terms *p, lm_expr_id n)
{
    bool empty;

    run(p, n, false, &empty);
    return empty;
}
