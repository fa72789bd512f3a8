/* jinja_statements.c - statements. See jinja_parser.h. */
#include "text/jinja/jinja_parser.h"

#include <string.h>

#include "text/jinja/jinja.h"

/* Statement parsers are called after the tag's name and return before the end of the (closing) tag. */

static lm_status parse_if_statement(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endif", "elif", "else", NULL }, *const last[] = { "endif", NULL };
    jnodes conditions = { 0 };
    jbody *bodies = NULL;
    size_t n_bodies = 0, capacity = 0;
    bool soft = p->soft, more = true;

    p->soft = true;
    for (bool has_else = false; more;) {
        if (!has_else) {
            jnode *condition;
            LM_TRY(lm_jp_tuple(p, false, false, &condition));
            LM_TRY(lm_jp_push(p, &conditions, condition));
        }
        if (n_bodies == capacity) {
            jbody *grown = lm_arena_new(&p->t->arena, 2 * capacity + 2, jbody);
            if (!grown)
                return lm_fail_memory(p->e, "a template's nodes", capacity * sizeof *grown);
            if (n_bodies)
                memcpy(grown, bodies, n_bodies * sizeof *bodies);
            bodies = grown;
            capacity = 2 * capacity + 2;
        }
        LM_TRY(lm_jp_block(p, has_else ? last : ends, false, n->at, &bodies[n_bodies++]));
        has_else = lm_jp_is_word(p->token, "else");
        more = has_else || lm_jp_is_word(p->token, "elif");
        p->token++;
    }
    p->soft = soft;
    n->list = conditions.items;
    n->n = conditions.n;
    n->bodies = bodies;
    n->n_bodies = n_bodies;
    return LM_OK;
}

static bool assigns(const jnode *target, int name)
{
    if (target->kind == N_NAME)
        return target->name == name;
    for (size_t i = 0; target->kind == N_TUPLE && i < target->n; i++)
        if (assigns(target->list[i], name))
            return true;
    return false;
}

static lm_status parse_for(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endfor", "else", NULL }, *const last[] = { "endfor", NULL };

    LM_TRY(lm_jp_bodies(p, n, 2));
    LM_TRY(lm_jp_target(p, false, false, &n->a));
    if (assigns(n->a, p->t->name_loop))
        return lm_jp_fail(p, n->at, "can't assign to special loop variable in for-loop target");
    if (!lm_jp_skip_word(p, "in"))
        return lm_jp_fail(p, p->token->at, "expected 'in'");
    LM_TRY(lm_jp_tuple(p, false, false, &n->b));
    if (lm_jp_skip_word(p, "if"))
        LM_TRY(lm_jp_expression(p, true, &n->c));
    n->recursive = lm_jp_skip_word(p, "recursive");
    p->loops++;
    LM_TRY(lm_jp_scope(p, ends, false, n->at, &n->bodies[0]));
    p->loops--;
    if (lm_jp_is_word(p->token++, "else"))
        LM_TRY(lm_jp_scope(p, last, true, n->at, &n->bodies[1]));
    return LM_OK;
}

static lm_status parse_set(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endset", NULL };

    LM_TRY(lm_jp_target(p, false, true, &n->a));
    if (p->loops && assigns(n->a, p->t->name_loop))
        return lm_jp_fail(p, n->at, "can't assign to special loop variable in for-loop target");
    if (lm_jp_skip(p, T_ASSIGN))
        return lm_jp_tuple(p, true, false, &n->b);
    n->kind = N_SET_BLOCK;
    LM_TRY(lm_jp_bodies(p, n, 1));
    LM_TRY(lm_jp_filters(p, NULL, false, &n->b));
    return lm_jp_scope(p, ends, true, n->at, &n->bodies[0]);
}

static lm_status parse_signature(jparser *p, jmacro_def *d)
{
    jnodes params = { 0 }, defaults = { 0 };
    jnode *n;

    LM_TRY(lm_jp_expect(p, T_LPAREN));
    while (p->token->type != T_RPAREN) {
        if (params.n)
            LM_TRY(lm_jp_expect(p, T_COMMA));
        LM_TRY(lm_jp_target(p, true, false, &n));
        lm_jp_mention(p, n->name, true);
        LM_TRY(lm_jp_push(p, &params, n));
        if (lm_jp_skip(p, T_ASSIGN)) {
            LM_TRY(lm_jp_expression(p, true, &n));
            LM_TRY(lm_jp_push(p, &defaults, n));
        } else if (defaults.n) {
            return lm_jp_fail(p, p->token->at, "non-default argument follows default argument");
        }
    }
    LM_TRY(lm_jp_expect(p, T_RPAREN));

    d->params = lm_arena_new(&p->t->arena, params.n + 1, int);
    d->param_names = lm_arena_array(&p->t->arena, params.n + 1, sizeof *d->param_names);
    if (!d->params || !d->param_names)
        return lm_fail_memory(p->e, "a macro's parameters", params.n);
    for (size_t i = 0; i < params.n; i++) {
        d->params[i] = params.items[i]->name;
        d->param_names[i] = p->t->names[d->params[i]];
        for (size_t k = 0; k < i; k++)
            if (d->params[k] == d->params[i])
                return lm_jp_fail(p, params.items[i]->at, "duplicate argument '%.*s'",
                                  (int)d->param_names[i]->n, d->param_names[i]->data);
    }
    d->n_params = params.n;
    d->defaults = defaults.items;
    d->n_defaults = defaults.n;
    return LM_OK;
}

/* Parse the body of a macro or call block. It is a separate function, so break cannot cross it. */
static lm_status parse_macro_body(jparser *p, jmacro_def *d, const char *const *ends, uint32_t opened)
{
    jmacro_frame frame = { .outer = p->macro, .def = d };
    unsigned loops = p->loops;

    for (size_t i = 0; i < d->n_params; i++) {
        frame.hides_kwargs |= d->params[i] == p->t->name_kwargs;
        frame.hides_varargs |= d->params[i] == p->t->name_varargs;
        if (d->params[i] == p->t->name_caller) {
            frame.hides_caller = true;
            if (i + d->n_defaults < d->n_params)
                return lm_jp_fail(p, opened,
                                  "the special \"caller\" argument must be omitted or be given a default");
        }
    }
    p->macro = &frame;
    p->loops = 0;
    LM_TRY(lm_jp_scope(p, ends, true, opened, &d->body));
    p->loops = loops;
    p->macro = frame.outer;
    return LM_OK;
}

static lm_status new_macro(jparser *p, jnode *n)
{
    n->macro = lm_arena_new(&p->t->arena, 1, jmacro_def);
    return n->macro ? LM_OK : lm_fail_memory(p->e, "a macro", sizeof *n->macro);
}

static lm_status parse_macro(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endmacro", NULL };
    jnode *name;

    LM_TRY(new_macro(p, n));
    LM_TRY(lm_jp_target(p, true, false, &name));
    n->macro->name_id = name->name;
    n->macro->name = p->t->names[name->name];
    LM_TRY(parse_signature(p, n->macro));
    return parse_macro_body(p, n->macro, ends, n->at);
}

static lm_status parse_call_block(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endcall", NULL };

    LM_TRY(new_macro(p, n));
    if (p->token->type == T_LPAREN)
        LM_TRY(parse_signature(p, n->macro));
    LM_TRY(lm_jp_expression(p, true, &n->a));
    if (n->a->kind != N_CALL)
        return lm_jp_fail(p, n->at, "expected call");
    return parse_macro_body(p, n->macro, ends, n->at);
}

static lm_status parse_filter_block(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endfilter", NULL };

    LM_TRY(lm_jp_bodies(p, n, 1));
    LM_TRY(lm_jp_filters(p, NULL, true, &n->a));
    return lm_jp_scope(p, ends, true, n->at, &n->bodies[0]);
}

static lm_status parse_with(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endwith", NULL };
    jnodes pairs = { 0 };
    jnode *part;

    LM_TRY(lm_jp_bodies(p, n, 1));
    while (p->token->type != T_BLOCK_END) {
        if (pairs.n)
            LM_TRY(lm_jp_expect(p, T_COMMA));
        LM_TRY(lm_jp_target(p, false, false, &part));
        LM_TRY(lm_jp_push(p, &pairs, part));
        LM_TRY(lm_jp_expect(p, T_ASSIGN));
        LM_TRY(lm_jp_expression(p, true, &part));
        LM_TRY(lm_jp_push(p, &pairs, part));
    }
    n->list = pairs.items;
    n->n = pairs.n;
    return lm_jp_scope(p, ends, true, n->at, &n->bodies[0]);
}

static lm_status parse_generation(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endgeneration", NULL };

    LM_TRY(new_macro(p, n));                        /* transformers makes it a call block */
    return parse_macro_body(p, n->macro, ends, n->at);
}

static lm_status parse_autoescape(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endautoescape", NULL };

    LM_TRY(lm_jp_bodies(p, n, 1));
    LM_TRY(lm_jp_expression(p, true, &n->a));
    if (n->a->kind != N_CONST || lm_jv_truth(n->a->value))
        return lm_jp_fail(p, n->at, "autoescape is not supported");
    return lm_jp_scope(p, ends, true, n->at, &n->bodies[0]);
}

static lm_status parse_named_block(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endblock", NULL };
    lm_view name;
    unsigned loops = p->loops;

    LM_TRY(lm_jp_bodies(p, n, 1));
    LM_TRY(lm_jp_expect_name(p, &name));
    n->recursive = lm_jp_skip_word(p, "scoped");
    if (lm_jp_skip_word(p, "required"))
        return lm_jp_fail(p, n->at, "a required block: there is no template that could fill it");
    p->loops = 0;
    LM_TRY(lm_jp_scope(p, ends, true, n->at, &n->bodies[0]));
    p->loops = loops;
    if (p->token->type == T_NAME && lm_view_equal(p->token->text, name))
        p->token++;
    return LM_OK;
}

static lm_status parse_print(jparser *p, jnode *n)
{
    jnodes list = { 0 };
    jnode *value;

    while (p->token->type != T_BLOCK_END) {
        if (list.n)
            LM_TRY(lm_jp_expect(p, T_COMMA));
        LM_TRY(lm_jp_expression(p, true, &value));
        LM_TRY(lm_jp_push(p, &list, value));
    }
    n->list = list.items;
    n->n = list.n;
    return LM_OK;
}

static lm_status parse_jump(jparser *p, jnode *n)
{
    if (!p->loops)
        return lm_jp_fail(p, n->at, "'%s' outside loop", n->kind == N_BREAK ? "break" : "continue");
    return LM_OK;
}

/* Parse a tag that loads a template. There is nothing to load from: it is an error when it is reached, as in
 * jinja2. */
static lm_status parse_loader(jparser *p, jnode *n)
{
    const jstr *s;
    LM_TRY(lm_jp_string(p, p->token[-1].text, &s));
    n->value = lm_jv_of_str(s);
    LM_TRY(lm_jp_expression(p, true, &n->a));
    /* as x, import x as y, ignore missing, with context */
    while (p->token->type == T_NAME || p->token->type == T_COMMA)
        p->token++;
    return LM_OK;
}

static const struct {
    const char *tag;
    jkind       kind;
    lm_status (*parse)(jparser *p, jnode *n);
} statements[] = {
    { "if", N_IF, parse_if_statement },         { "for", N_FOR, parse_for },
    { "set", N_SET, parse_set },                { "macro", N_MACRO, parse_macro },
    { "call", N_CALL_BLOCK, parse_call_block }, { "filter", N_FILTER_BLOCK, parse_filter_block },
    { "with", N_WITH, parse_with },             { "generation", N_GENERATION, parse_generation },
    { "break", N_BREAK, parse_jump },           { "continue", N_CONTINUE, parse_jump },
    { "print", N_PRINT, parse_print },          { "block", N_BLOCK, parse_named_block },
    { "include", N_LOADER, parse_loader },      { "import", N_LOADER, parse_loader },
    { "from", N_LOADER, parse_loader },         { "extends", N_LOADER, parse_loader },
    { "autoescape", N_SCOPE, parse_autoescape },
};

lm_status lm_jp_statement(jparser *p, jnode **out)
{
    const jtoken *t = p->token;

    if (t->type != T_NAME)
        return lm_jp_fail(p, t->at, "tag name expected");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!lm_jp_is_word(t, statements[i].tag))
            continue;
        p->token++;
        LM_TRY(lm_jp_node(p, statements[i].kind, t->at, out));
        return statements[i].parse(p, *out);
    }
    return lm_jp_fail(p, t->at, "encountered unknown tag '%.*s'", (int)t->text.size, t->text.data);
}
