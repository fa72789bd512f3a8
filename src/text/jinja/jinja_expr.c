/* jinja_expr.c - operators, tuples and targets. See jinja_parser.h. */
#include "text/jinja/jinja_parser.h"

#include <string.h>

#include "text/jinja/jinja.h"

static lm_status parse_or(jparser *p, jnode **out);

lm_status lm_jp_enter(jparser *p)
{
    if (++p->nesting > J_MAX_NESTING)
        return lm_jp_fail(p, p->token->at, "nested deeper than %d", J_MAX_NESTING);
    return LM_OK;
}

/* Make a node over `below`; the length of chains such as a.b.c.d is limited too. */
lm_status lm_jp_over(jparser *p, jkind kind, uint32_t at, jnode *below, jnode **out)
{
    LM_TRY(lm_jp_node(p, kind, at, out));
    (*out)->a = below;
    (*out)->depth = below ? (uint16_t)(below->depth + 1) : 0;
    if ((*out)->depth > J_MAX_DEPTH)
        return lm_jp_fail(p, at, "a chain of more than %d filters and attributes", J_MAX_DEPTH);
    return LM_OK;
}

void lm_jp_list(jnodes *list, jnode *n)
{
    n->list = list->items;
    n->n = list->n;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i]->depth > n->depth)
            n->depth = list->items[i]->depth;
}

/* ---- operators, loosest first ---- */

/* Parse operands joined by the operators that `match` recognises at the current token (and
 * skips); a single operand is returned as it is. */
typedef bool (*matcher)(jparser *p, jop *op);
typedef lm_status (*operand)(jparser *p, jnode **out);

static lm_status parse_chain(jparser *p, jkind kind, matcher match, operand next, jnode **out)
{
    uint32_t at = p->token->at;
    jnodes list = { 0 };
    jop *ops = NULL, op;
    size_t capacity = 0;
    jnode *n;

    LM_TRY(next(p, &n));
    while (match(p, &op)) {
        if (!list.n)
            LM_TRY(lm_jp_push(p, &list, n));
        if (list.n > capacity) {
            jop *grown = lm_arena_new(&p->t->arena, 2 * list.n + 2, jop);
            if (!grown)
                return lm_fail_memory(p->e, "operators", list.n);
            if (list.n > 1)
                memcpy(grown, ops, (list.n - 1) * sizeof *ops);
            ops = grown;
            capacity = 2 * list.n + 2;
        }
        ops[list.n - 1] = op;
        LM_TRY(next(p, &n));
        LM_TRY(lm_jp_push(p, &list, n));
    }
    if (!list.n) {
        *out = n;
        return LM_OK;
    }
    LM_TRY(lm_jp_node(p, kind, at, out));
    (*out)->ops = ops;
    lm_jp_list(&list, *out);
    return LM_OK;
}

static bool take(jparser *p, jtoken_type type, jop op, jop *out)
{
    *out = op;
    return lm_jp_skip(p, type);
}

static bool match_pow(jparser *p, jop *op) { return take(p, T_POW, OP_POW, op); }

static bool match_product(jparser *p, jop *op)
{
    return take(p, T_MUL, OP_MUL, op) || take(p, T_DIV, OP_DIV, op) || take(p, T_FLOORDIV, OP_FLOORDIV, op) ||
           take(p, T_MOD, OP_MOD, op);
}

static bool match_tilde(jparser *p, jop *op) { return take(p, T_TILDE, OP_ADD, op); }

static bool match_sum(jparser *p, jop *op)
{
    return take(p, T_ADD, OP_ADD, op) || take(p, T_SUB, OP_SUB, op);
}

static bool match_compare(jparser *p, jop *op)
{
    if (take(p, T_EQ, OP_EQ, op) || take(p, T_NE, OP_NE, op) || take(p, T_LT, OP_LT, op) ||
        take(p, T_LE, OP_LE, op) || take(p, T_GT, OP_GT, op) || take(p, T_GE, OP_GE, op))
        return true;
    if (lm_jp_skip_word(p, "in")) {
        *op = OP_IN;
        return true;
    }
    if (lm_jp_is_word(p->token, "not") && lm_jp_is_word(p->token + 1, "in")) {
        p->token += 2;
        *op = OP_NOT_IN;
        return true;
    }
    return false;
}

static bool match_and(jparser *p, jop *op) { *op = OP_ADD; return lm_jp_skip_word(p, "and"); }
static bool match_or(jparser *p, jop *op) { *op = OP_ADD; return lm_jp_skip_word(p, "or"); }

static lm_status parse_filtered_unary(jparser *p, jnode **out) { return lm_jp_unary(p, true, out); }
static lm_status parse_pow(jparser *p, jnode **out)
{
    return parse_chain(p, N_ARITH, match_pow, parse_filtered_unary, out);
}
static lm_status parse_product(jparser *p, jnode **out)
{
    return parse_chain(p, N_ARITH, match_product, parse_pow, out);
}
static lm_status parse_concat(jparser *p, jnode **out)
{
    return parse_chain(p, N_CONCAT, match_tilde, parse_product, out);
}
static lm_status parse_sum(jparser *p, jnode **out)
{
    return parse_chain(p, N_ARITH, match_sum, parse_concat, out);
}
static lm_status parse_compare(jparser *p, jnode **out)
{
    return parse_chain(p, N_COMPARE, match_compare, parse_sum, out);
}

static lm_status parse_not(jparser *p, jnode **out)
{
    uint32_t at = p->token->at;
    jnode *below;

    if (!lm_jp_skip_word(p, "not"))
        return parse_compare(p, out);
    LM_TRY(lm_jp_enter(p));
    LM_TRY(parse_not(p, &below));
    p->nesting--;
    return lm_jp_over(p, N_NOT, at, below, out);
}

static lm_status parse_and(jparser *p, jnode **out)
{
    return parse_chain(p, N_AND, match_and, parse_not, out);
}
static lm_status parse_or(jparser *p, jnode **out) { return parse_chain(p, N_OR, match_or, parse_and, out); }

/* Parse `a if b else c`. Unknown filters inside are errors only if they are reached. */
static lm_status parse_if(jparser *p, jnode **out)
{
    const jtoken *unknown = p->unknown;
    bool soft = p->soft;
    jnode *left;

    LM_TRY(lm_jp_enter(p));
    LM_TRY(parse_or(p, &left));
    while (lm_jp_is_word(p->token, "if")) {
        jnode *n;
        p->unknown = unknown;
        p->soft = true;
        LM_TRY(lm_jp_node(p, N_COND, p->token->at, &n));
        p->token++;
        n->a = left;
        LM_TRY(parse_or(p, &n->b));
        if (lm_jp_skip_word(p, "else"))
            LM_TRY(parse_if(p, &n->c));
        n->depth = (uint16_t)(left->depth + 1);
        if (n->depth > J_MAX_DEPTH)
            return lm_jp_fail(p, n->at, "a chain of more than %d conditions", J_MAX_DEPTH);
        left = n;
    }
    p->soft = soft;
    p->nesting--;
    *out = left;
    return LM_OK;
}

lm_status lm_jp_expression(jparser *p, bool with_if, jnode **out)
{
    if (with_if)
        return parse_if(p, out);
    LM_TRY(lm_jp_enter(p));
    LM_TRY(parse_or(p, out));
    p->nesting--;
    return LM_OK;
}

lm_status lm_jp_tuple(jparser *p, bool with_if, bool parentheses, jnode **out)
{
    uint32_t at = p->token->at;
    jnodes list = { 0 };
    bool is_tuple = false;

    for (;;) {
        jtoken_type t = p->token->type;
        jnode *n;
        if (t == T_VARIABLE_END || t == T_BLOCK_END || t == T_RPAREN)
            break;
        LM_TRY(lm_jp_expression(p, with_if, &n));
        LM_TRY(lm_jp_push(p, &list, n));
        if (!lm_jp_skip(p, T_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && list.n) {
        *out = list.items[0];
        return LM_OK;
    }
    if (!is_tuple && !parentheses)
        return lm_jp_fail(p, p->token->at, "expected an expression, got '%s'",
                          lm_jinja_token_name(p->token->type));
    LM_TRY(lm_jp_node(p, N_TUPLE, at, out));
    lm_jp_list(&list, *out);
    return LM_OK;
}

/* ---- targets ---- */

static lm_status check_target(jparser *p, const jnode *n)
{
    if (n->kind == N_NAME) {
        lm_jp_mention(p, n->name, true);
        return LM_OK;
    }
    if (n->kind == N_NSREF)
        return LM_OK;
    if (n->kind != N_TUPLE)
        return lm_jp_fail(p, n->at, "can't assign to this expression");
    for (size_t i = 0; i < n->n; i++)
        LM_TRY(check_target(p, n->list[i]));
    return LM_OK;
}

lm_status lm_jp_target(jparser *p, bool name_only, bool with_namespace, jnode **out)
{
    uint32_t at = p->token->at;
    jnodes list = { 0 };
    bool is_tuple = false;

    if (name_only) {
        if (p->token->type != T_NAME)
            return lm_jp_expect(p, T_NAME);
        LM_TRY(lm_jp_node(p, N_NAME, at, out));
        LM_TRY(lm_jp_name(p, p->token->text, &(*out)->name));
        p->token++;
        return LM_OK;
    }
    for (;;) {
        jtoken_type t = p->token->type;
        jnode *n;
        if (t == T_VARIABLE_END || t == T_BLOCK_END || t == T_RPAREN)
            break;
        LM_TRY(lm_jp_enter(p));
        if (t == T_NAME)
            LM_TRY(lm_jp_word(p, with_namespace, &n));
        else
            LM_TRY(lm_jp_primary(p, with_namespace, &n));
        p->nesting--;
        LM_TRY(lm_jp_push(p, &list, n));
        if (!lm_jp_skip(p, T_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && !list.n)
        return lm_jp_fail(p, p->token->at, "expected an expression, got '%s'",
                          lm_jinja_token_name(p->token->type));
    if (is_tuple) {
        LM_TRY(lm_jp_node(p, N_TUPLE, at, out));
        lm_jp_list(&list, *out);
    } else {
        *out = list.items[0];
    }
    return check_target(p, *out);
}
