/* jinja_operand.c - names, literals, calls, subscripts, filters and tests. See jinja_parser.h. */
#include "text/jinja/jinja_parser.h"

#include <string.h>

#include "text/jinja/jinja.h"

static lm_status parse_postfix(jparser *p, jnode *in, jnode **out);

lm_status lm_jp_unary(jparser *p, bool with_filter, jnode **out)
{
    uint32_t at = p->token->at;
    jtoken_type t = p->token->type;
    jnode *n;

    if (t == T_SUB || t == T_ADD) {
        p->token++;
        LM_TRY(lm_jp_enter(p));
        LM_TRY(lm_jp_unary(p, false, &n));
        p->nesting--;
        LM_TRY(lm_jp_over(p, t == T_SUB ? N_NEG : N_POS, at, n, &n));
    } else {
        LM_TRY(lm_jp_primary(p, false, &n));
    }
    LM_TRY(parse_postfix(p, n, &n));
    if (!with_filter) {
        *out = n;
        return LM_OK;
    }
    return lm_jp_filters(p, n, false, out);
}

static lm_status constant(jparser *p, uint32_t at, jval value, jnode **out)
{
    LM_TRY(lm_jp_node(p, N_CONST, at, out));
    (*out)->value = value;
    return LM_OK;
}

/* Record a name that a macro body mentions: it may decide what arguments the macro takes. */
void lm_jp_mention(jparser *p, int name, bool store)
{
    const lm_template *t = p->t;
    for (jmacro_frame *f = p->macro; f; f = f->outer) {
        bool *uses = name == t->name_caller   ? &f->def->uses_caller
                     : name == t->name_kwargs ? &f->def->uses_kwargs
                     : name == t->name_varargs ? &f->def->uses_varargs : NULL;
        bool *hides = name == t->name_caller   ? &f->hides_caller
                      : name == t->name_kwargs ? &f->hides_kwargs : &f->hides_varargs;
        if (!uses)
            return;
        if (store && !*uses)
            *hides = true;
        else if (!store && !*hides)
            *uses = true;
    }
}

lm_status lm_jp_word(jparser *p, bool with_namespace, jnode **out)
{
    const jtoken *t = p->token++;

    if (lm_view_is(t->text, "true") || lm_view_is(t->text, "True"))
        return constant(p, t->at, lm_jv_bool(true), out);
    if (lm_view_is(t->text, "false") || lm_view_is(t->text, "False"))
        return constant(p, t->at, lm_jv_bool(false), out);
    if (lm_view_is(t->text, "none") || lm_view_is(t->text, "None"))
        return constant(p, t->at, lm_jv_none(), out);

    LM_TRY(lm_jp_node(p, N_NAME, t->at, out));
    LM_TRY(lm_jp_name(p, t->text, &(*out)->name));
    if (with_namespace && lm_jp_skip(p, T_DOT)) {
        lm_view attribute;
        const jstr *s;
        LM_TRY(lm_jp_expect_name(p, &attribute));
        LM_TRY(lm_jp_string(p, attribute, &s));
        (*out)->kind = N_NSREF;
        (*out)->value = lm_jv_of_str(s);
    }
    return LM_OK;
}

static lm_status parse_strings(jparser *p, jnode **out)
{
    uint32_t at = p->token->at;
    lm_view text = p->token->text;
    size_t n = 0;
    const jstr *s;

    if (p->token[1].type == T_STRING) {
        const jtoken *end = p->token;
        for (; end->type == T_STRING; end++)
            n += end->text.size;
        char *joined = lm_arena_alloc(&p->t->arena, n + 1);
        if (!joined)
            return lm_fail_memory(p->e, "a string of a template", n);
        n = 0;
        for (const jtoken *t = p->token; t < end; t++) {
            memcpy(joined + n, t->text.data, t->text.size);
            n += t->text.size;
        }
        text = (lm_view){ joined, n };
        p->token = p->token + (end - p->token) - 1;
    }
    p->token++;
    LM_TRY(lm_jp_string(p, text, &s));
    return constant(p, at, lm_jv_of_str(s), out);
}

/* Parse the elements of […] or {…}; the opening bracket is the current token. */
static lm_status parse_elements(jparser *p, jkind kind, jtoken_type closing, jnode **out)
{
    uint32_t at = p->token->at;
    jnodes list = { 0 };
    jnode *n;

    p->token++;
    while (p->token->type != closing) {
        if (list.n)
            LM_TRY(lm_jp_expect(p, T_COMMA));
        if (p->token->type == closing)
            break;
        LM_TRY(lm_jp_expression(p, true, &n));
        LM_TRY(lm_jp_push(p, &list, n));
        if (kind != N_DICT)
            continue;
        LM_TRY(lm_jp_expect(p, T_COLON));
        LM_TRY(lm_jp_expression(p, true, &n));
        LM_TRY(lm_jp_push(p, &list, n));
    }
    LM_TRY(lm_jp_expect(p, closing));
    LM_TRY(lm_jp_node(p, kind, at, out));
    lm_jp_list(&list, *out);
    return LM_OK;
}

lm_status lm_jp_primary(jparser *p, bool with_namespace, jnode **out)
{
    const jtoken *t = p->token;

    switch (t->type) {
    case T_NAME:
        LM_TRY(lm_jp_word(p, with_namespace, out));
        if ((*out)->kind == N_NAME && !with_namespace)
            lm_jp_mention(p, (*out)->name, false);
        return LM_OK;
    case T_STRING:
        return parse_strings(p, out);
    case T_INTEGER:
        p->token++;
        return constant(p, t->at, lm_jv_int(t->integer), out);
    case T_FLOAT:
        p->token++;
        return constant(p, t->at, lm_jv_float(t->real), out);
    case T_LPAREN:
        p->token++;
        LM_TRY(lm_jp_tuple(p, true, true, out));
        return lm_jp_expect(p, T_RPAREN);
    case T_LBRACKET:
        return parse_elements(p, N_LIST, T_RBRACKET, out);
    case T_LBRACE:
        return parse_elements(p, N_DICT, T_RBRACE, out);
    default:
        return lm_jp_fail(p, t->at, "unexpected '%s'", lm_jinja_token_name(t->type));
    }
}

/* Parse [a] or [a:b:c] after the opening bracket. */
static lm_status parse_subscribed(jparser *p, uint32_t at, jnode *in, jnode **out)
{
    jnode *part[3] = { NULL, NULL, NULL };
    int i = 0;

    if (p->token->type != T_COLON) {
        LM_TRY(lm_jp_expression(p, true, &part[0]));
        if (p->token->type != T_COLON) {
            LM_TRY(lm_jp_over(p, N_ITEM, at, in, out));
            (*out)->b = part[0];
            return LM_OK;
        }
    }
    while (i < 2 && lm_jp_skip(p, T_COLON)) {
        i++;
        if (p->token->type != T_COLON && p->token->type != T_RBRACKET && p->token->type != T_COMMA)
            LM_TRY(lm_jp_expression(p, true, &part[i]));
    }
    LM_TRY(lm_jp_over(p, N_SLICE, at, in, out));
    (*out)->list = lm_arena_new(&p->t->arena, 3, jnode *);
    if (!(*out)->list)
        return lm_fail_memory(p->e, "a slice", sizeof part);
    memcpy((*out)->list, part, sizeof part);
    return LM_OK;
}

static lm_status parse_subscript(jparser *p, jnode *in, jnode **out)
{
    uint32_t at = p->token->at;

    if (lm_jp_skip(p, T_DOT)) {
        const jtoken *t = p->token++;
        const jstr *s;
        if (t->type == T_NAME) {
            LM_TRY(lm_jp_over(p, N_ATTR, at, in, out));
            LM_TRY(lm_jp_string(p, t->text, &s));
            (*out)->value = lm_jv_of_str(s);
            return LM_OK;
        }
        if (t->type != T_INTEGER)
            return lm_jp_fail(p, t->at, "expected name or number");
        LM_TRY(lm_jp_over(p, N_ITEM, at, in, out));
        return constant(p, t->at, lm_jv_int(t->integer), &(*out)->b);
    }
    p->token++;
    if (lm_jp_skip(p, T_RBRACKET)) {                 /* a[]: its key is the empty tuple */
        LM_TRY(lm_jp_over(p, N_ITEM, at, in, out));
        return lm_jp_node(p, N_TUPLE, at, &(*out)->b);
    }
    LM_TRY(parse_subscribed(p, at, in, out));
    if (p->token->type == T_COMMA) {                 /* a[1, 2]: a tuple too */
        jnodes list = { 0 };
        jnode *key, *n = (*out)->b;
        if ((*out)->kind == N_SLICE)
            return lm_jp_fail(p, at, "several slices at once are not supported");
        LM_TRY(lm_jp_push(p, &list, n));
        while (lm_jp_skip(p, T_COMMA) && p->token->type != T_RBRACKET) {
            LM_TRY(lm_jp_expression(p, true, &n));
            LM_TRY(lm_jp_push(p, &list, n));
        }
        LM_TRY(lm_jp_node(p, N_TUPLE, at, &key));
        (*out)->b = key;
        lm_jp_list(&list, key);
    }
    return lm_jp_expect(p, T_RBRACKET);
}

static lm_status push_keyword(jparser *p, jcall_args *args, jnodes *values, size_t *capacity)
{
    jnode *n;
    const jstr *key;

    LM_TRY(lm_jp_string(p, p->token->text, &key));
    for (size_t i = 0; i < args->n_kw; i++)
        if (lm_jstr_equal(args->keys[i], key))
            return lm_jp_fail(p, p->token->at, "keyword argument repeated: %.*s", (int)key->n, key->data);
    p->token += 2;
    LM_TRY(lm_jp_expression(p, true, &n));
    LM_TRY(lm_jp_push(p, values, n));
    if (args->n_kw == *capacity) {
        const jstr **keys = lm_arena_array(&p->t->arena, 2 * *capacity + 4, sizeof *keys);
        if (!keys)
            return lm_fail_memory(p->e, "keyword arguments", *capacity);
        if (args->n_kw)
            memcpy(keys, args->keys, args->n_kw * sizeof *keys);
        args->keys = keys;
        *capacity = 2 * *capacity + 4;
    }
    args->keys[args->n_kw++] = key;
    return LM_OK;
}

static lm_status parse_call_args(jparser *p, jcall_args **out)
{
    uint32_t at = p->token->at;
    jcall_args *args = lm_arena_new(&p->t->arena, 1, jcall_args);
    jnodes pos = { 0 }, values = { 0 };
    size_t key_capacity = 0;
    bool comma = false;
    jnode *n;

    if (!args)
        return lm_fail_memory(p->e, "arguments", sizeof *args);
    LM_TRY(lm_jp_expect(p, T_LPAREN));
    while (p->token->type != T_RPAREN) {
        bool valid = true;
        if (comma) {
            LM_TRY(lm_jp_expect(p, T_COMMA));
            if (p->token->type == T_RPAREN)
                break;
        }
        if (lm_jp_skip(p, T_MUL)) {
            valid = !args->dyn_args && !args->dyn_kwargs;
            LM_TRY(lm_jp_expression(p, true, &args->dyn_args));
        } else if (lm_jp_skip(p, T_POW)) {
            valid = !args->dyn_kwargs;
            LM_TRY(lm_jp_expression(p, true, &args->dyn_kwargs));
        } else if (p->token->type == T_NAME && p->token[1].type == T_ASSIGN) {
            valid = !args->dyn_kwargs;
            LM_TRY(push_keyword(p, args, &values, &key_capacity));
        } else {
            valid = !args->dyn_args && !args->dyn_kwargs && !args->n_kw;
            LM_TRY(lm_jp_expression(p, true, &n));
            LM_TRY(lm_jp_push(p, &pos, n));
        }
        if (!valid)
            return lm_jp_fail(p, at, "invalid syntax for function call expression");
        comma = true;
    }
    LM_TRY(lm_jp_expect(p, T_RPAREN));
    args->pos = pos.items;
    args->n_pos = pos.n;
    args->values = values.items;
    *out = args;
    return LM_OK;
}

static lm_status parse_call(jparser *p, jnode *in, jnode **out)
{
    LM_TRY(lm_jp_over(p, N_CALL, p->token->at, in, out));
    return parse_call_args(p, &(*out)->args);
}

static lm_status parse_postfix(jparser *p, jnode *in, jnode **out)
{
    for (;;) {
        if (p->token->type == T_DOT || p->token->type == T_LBRACKET)
            LM_TRY(parse_subscript(p, in, &in));
        else if (p->token->type == T_LPAREN)
            LM_TRY(parse_call(p, in, &in));
        else
            break;
    }
    *out = in;
    return LM_OK;
}

/* ---- filters and tests ---- */

/* Parse a dotted name and look it up. */
static lm_status parse_builtin(jparser *p, jnode *n, bool is_filter)
{
    lm_view name;
    const jstr *s;
    jtoken *t = p->token;

    LM_TRY(lm_jp_expect_name(p, &name));
    while (lm_jp_skip(p, T_DOT)) {
        lm_view more;
        LM_TRY(lm_jp_expect_name(p, &more));
        name = (lm_view){ name.data, (size_t)(more.data + more.size - name.data) };
    }
    n->builtin = is_filter ? lm_jinja_find_filter(name.data, name.size)
                           : lm_jinja_find_test(name.data, name.size);
    LM_TRY(lm_jp_string(p, name, &s));
    n->value = lm_jv_of_str(s);
    if (!n->builtin && !p->soft && !p->unknown) {
        p->unknown = t;
        p->unknown_filter = is_filter;
    }
    return LM_OK;
}

static lm_status parse_test(jparser *p, jnode *in, jnode **out)
{
    uint32_t at = p->token++->at;
    bool negated = lm_jp_skip_word(p, "not");
    jnode *n;

    LM_TRY(lm_jp_over(p, N_TEST, at, in, &n));
    LM_TRY(parse_builtin(p, n, false));
    const jtoken *t = p->token;
    if (t->type == T_LPAREN) {
        LM_TRY(parse_call_args(p, &n->args));
    } else if ((t->type == T_NAME && !lm_jp_is_word(t, "else") && !lm_jp_is_word(t, "or") &&
                !lm_jp_is_word(t, "and")) ||
               t->type == T_STRING || t->type == T_INTEGER || t->type == T_FLOAT || t->type == T_LBRACKET ||
               t->type == T_LBRACE) {
        jnodes pos = { 0 };
        jnode *arg;
        if (lm_jp_is_word(t, "is"))
            return lm_jp_fail(p, t->at, "you cannot chain multiple tests with is");
        LM_TRY(lm_jp_enter(p));
        LM_TRY(lm_jp_primary(p, false, &arg));
        LM_TRY(parse_postfix(p, arg, &arg));
        p->nesting--;
        LM_TRY(lm_jp_push(p, &pos, arg));
        n->args = lm_arena_new(&p->t->arena, 1, jcall_args);
        if (!n->args)
            return lm_fail_memory(p->e, "arguments", sizeof *n->args);
        n->args->pos = pos.items;
        n->args->n_pos = 1;
    }
    if (negated)
        return lm_jp_over(p, N_NOT, at, n, out);
    *out = n;
    return LM_OK;
}

/* Parse the filters, tests and calls after an operand. In a block (no operand) only filters; with
 * `starts_inline` the first has no bar. */
lm_status lm_jp_filters(jparser *p, jnode *in, bool starts_inline, jnode **out)
{
    bool block = starts_inline || !in;

    for (;;) {
        if (starts_inline || p->token->type == T_PIPE) {
            jnode *n;
            if (!starts_inline)
                p->token++;
            starts_inline = false;
            LM_TRY(lm_jp_over(p, N_FILTER, p->token->at, in, &n));
            LM_TRY(parse_builtin(p, n, true));
            if (p->token->type == T_LPAREN)
                LM_TRY(parse_call_args(p, &n->args));
            in = n;
        } else if (!block && lm_jp_is_word(p->token, "is")) {
            LM_TRY(parse_test(p, in, &in));
        } else if (!block && p->token->type == T_LPAREN) {
            LM_TRY(parse_call(p, in, &in));
        } else {
            break;
        }
    }
    *out = in;
    return LM_OK;
}
