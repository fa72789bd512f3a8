/* jinja_parser.c - statements. See jinja_parser.h. */
#include "text/jinja_parser.h"

#include <stdarg.h>
#include <string.h>

#include "text/jinja.h"

/* ---- shared with jinja_expr.c ---- */

lm_status lm_jp_fail(jparser *p, uint32_t at, const char *format, ...)
{
    char where[48], message[256];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    lm_jinja_position(p->t->source, p->t->size, at, where);
    return lm_fail(p->e, LM_BAD_MODEL, where, LM_NO_OFFSET, "%s", message);
}

lm_status lm_jp_node(jparser *p, jkind kind, uint32_t at, jnode **out)
{
    jnode *n = lm_arena_new(&p->t->arena, 1, jnode);
    if (!n)
        return lm_fail_memory(p->e, "a template's nodes", sizeof *n);
    n->kind = kind;
    n->at = at;
    *out = n;
    return LM_OK;
}

lm_status lm_jp_push(jparser *p, jnodes *list, jnode *n)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        jnode **items = lm_arena_new(&p->t->arena, capacity, jnode *);
        if (!items)
            return lm_fail_memory(p->e, "a template's nodes", capacity * sizeof *items);
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = n;
    return LM_OK;
}

lm_status lm_jp_string(jparser *p, lm_view text, const jstr **out)
{
    jstr *s = lm_arena_new(&p->t->arena, 1, jstr);
    if (!s)
        return lm_fail_memory(p->e, "a string of a template", sizeof *s);
    *s = (jstr){ .data = text.data, .n = text.size };
    *out = s;
    return LM_OK;
}

lm_status lm_jp_name(jparser *p, lm_view name, int *id)
{
    lm_template *t = p->t;

    for (size_t i = 0; i < t->n_names; i++) {
        if (t->names[i]->n == name.size && memcmp(t->names[i]->data, name.data, name.size) == 0) {
            *id = (int)i;
            return LM_OK;
        }
    }
    if (t->n_names == 1024)
        return lm_jp_fail(p, p->token->at, "more than %zu different names", t->n_names);
    if ((t->n_names & (t->n_names - 1)) == 0) {
        const jstr **names = lm_arena_array(&t->arena, t->n_names ? 2 * t->n_names : 1, sizeof *names);
        if (!names)
            return lm_fail_memory(p->e, "names", t->n_names);
        if (t->n_names)
            memcpy(names, t->names, t->n_names * sizeof *names);
        t->names = names;
    }
    LM_TRY(lm_jp_string(p, name, &t->names[t->n_names]));
    *id = (int)t->n_names++;
    return LM_OK;
}

bool lm_jp_is_word(const jtoken *t, const char *word) { return t->type == T_NAME && lm_view_is(t->text, word); }

bool lm_jp_skip_word(jparser *p, const char *word)
{
    bool is = lm_jp_is_word(p->token, word);
    p->token += is;
    return is;
}

bool lm_jp_skip(jparser *p, jtoken_type type)
{
    bool is = p->token->type == type;
    p->token += is && type != T_EOF;
    return is;
}

lm_status lm_jp_expect(jparser *p, jtoken_type type)
{
    const jtoken *t = p->token;

    if (lm_jp_skip(p, type))
        return LM_OK;
    if (t->type == T_EOF)
        return lm_jp_fail(p, t->at, "unexpected end of template, expected '%s'", lm_jinja_token_name(type));
    if (t->type == T_NAME)
        return lm_jp_fail(p, t->at, "expected token '%s', got '%.*s'", lm_jinja_token_name(type), (int)t->text.size, t->text.data);
    return lm_jp_fail(p, t->at, "expected token '%s', got '%s'", lm_jinja_token_name(type), lm_jinja_token_name(t->type));
}

lm_status lm_jp_expect_name(jparser *p, lm_view *name)
{
    *name = p->token->text;
    return lm_jp_expect(p, T_NAME);
}

/* ---- bodies ---- */

static lm_status parse_statement(jparser *p, jnode **out);

static bool is_any_word(const jtoken *t, const char *const *words)
{
    for (; words && *words; words++)
        if (lm_jp_is_word(t, *words))
            return true;
    return false;
}

static lm_status check_unknown(jparser *p)
{
    if (!p->unknown)
        return LM_OK;
    return lm_jp_fail(p, p->unknown->at, "no %s named '%.*s'", p->unknown_filter ? "filter" : "test",
                      (int)p->unknown->text.size, p->unknown->text.data);
}

/* Everything up to a tag that starts with one of `ends`, at which the current token stays; NULL: up to the end. */
static lm_status parse_body(jparser *p, const char *const *ends, uint32_t opened, jbody *out)
{
    jnodes list = { 0 };

    if (++p->nesting > J_MAX_NESTING)
        return lm_jp_fail(p, p->token->at, "nested deeper than %d", J_MAX_NESTING);
    for (;;) {
        const jtoken *t = p->token;
        jnode *n = NULL;
        if (t->type == T_EOF)
            break;
        p->token++;
        if (t->type == T_DATA) {
            const jstr *s;
            LM_TRY(lm_jp_node(p, N_DATA, t->at, &n));
            LM_TRY(lm_jp_string(p, t->text, &s));
            n->value = lm_jv_of_str(s);
        } else if (t->type == T_VARIABLE_BEGIN) {
            jnodes one = { 0 };
            jnode *value;
            LM_TRY(lm_jp_tuple(p, true, false, &value));
            LM_TRY(lm_jp_expect(p, T_VARIABLE_END));
            LM_TRY(lm_jp_node(p, N_PRINT, t->at, &n));
            LM_TRY(lm_jp_push(p, &one, value));
            n->list = one.items;
            n->n = 1;
        } else {
            if (is_any_word(p->token, ends))
                break;
            LM_TRY(parse_statement(p, &n));
            LM_TRY(lm_jp_expect(p, T_BLOCK_END));
        }
        LM_TRY(check_unknown(p));
        LM_TRY(lm_jp_push(p, &list, n));
    }
    if (ends && p->token->type == T_EOF)
        return lm_jp_fail(p, opened, "this block is not closed: '%s' is missing", ends[0]);
    p->nesting--;
    *out = (jbody){ .items = list.items, .n = list.n };
    return LM_OK;
}

/* The rest of a tag and the body after it. `drop`: skip the word that ended it. */
static lm_status parse_block(jparser *p, const char *const *ends, bool drop, uint32_t opened, jbody *out)
{
    lm_jp_skip(p, T_COLON);
    LM_TRY(lm_jp_expect(p, T_BLOCK_END));
    LM_TRY(check_unknown(p));
    LM_TRY(parse_body(p, ends, opened, out));
    if (drop)
        p->token++;
    return LM_OK;
}

/* A body in a scope of its own, where unknown filters matter at once. */
static lm_status parse_scope(jparser *p, const char *const *ends, bool drop, uint32_t opened, jbody *out)
{
    bool soft = p->soft;
    p->soft = false;
    LM_TRY(parse_block(p, ends, drop, opened, out));
    p->soft = soft;
    return LM_OK;
}

static lm_status make_bodies(jparser *p, jnode *n, size_t count)
{
    n->bodies = lm_arena_new(&p->t->arena, count, jbody);
    n->n_bodies = count;
    return n->bodies ? LM_OK : lm_fail_memory(p->e, "a template's nodes", count * sizeof(jbody));
}

/* ---- statements; the tag's name is behind us ---- */

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
        LM_TRY(parse_block(p, has_else ? last : ends, false, n->at, &bodies[n_bodies++]));
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

    LM_TRY(make_bodies(p, n, 2));
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
    LM_TRY(parse_scope(p, ends, false, n->at, &n->bodies[0]));
    p->loops--;
    if (lm_jp_is_word(p->token++, "else"))
        LM_TRY(parse_scope(p, last, true, n->at, &n->bodies[1]));
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
    LM_TRY(make_bodies(p, n, 1));
    LM_TRY(lm_jp_filters(p, NULL, false, &n->b));
    return parse_scope(p, ends, true, n->at, &n->bodies[0]);
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
                return lm_jp_fail(p, params.items[i]->at, "duplicate argument '%.*s'", (int)d->param_names[i]->n,
                                  d->param_names[i]->data);
    }
    d->n_params = params.n;
    d->defaults = defaults.items;
    d->n_defaults = defaults.n;
    return LM_OK;
}

/* The body of a macro or call block: a function of its own, so no break across it. */
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
                return lm_jp_fail(p, opened, "the special \"caller\" argument must be omitted or be given a default");
        }
    }
    p->macro = &frame;
    p->loops = 0;
    LM_TRY(parse_scope(p, ends, true, opened, &d->body));
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

    LM_TRY(make_bodies(p, n, 1));
    LM_TRY(lm_jp_filters(p, NULL, true, &n->a));
    return parse_scope(p, ends, true, n->at, &n->bodies[0]);
}

static lm_status parse_with(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endwith", NULL };
    jnodes pairs = { 0 };
    jnode *part;

    LM_TRY(make_bodies(p, n, 1));
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
    return parse_scope(p, ends, true, n->at, &n->bodies[0]);
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

    LM_TRY(make_bodies(p, n, 1));
    LM_TRY(lm_jp_expression(p, true, &n->a));
    if (n->a->kind != N_CONST || lm_jv_truth(n->a->value))
        return lm_jp_fail(p, n->at, "autoescape is not supported");
    return parse_scope(p, ends, true, n->at, &n->bodies[0]);
}

static lm_status parse_named_block(jparser *p, jnode *n)
{
    static const char *const ends[] = { "endblock", NULL };
    lm_view name;
    unsigned loops = p->loops;

    LM_TRY(make_bodies(p, n, 1));
    LM_TRY(lm_jp_expect_name(p, &name));
    n->recursive = lm_jp_skip_word(p, "scoped");
    if (lm_jp_skip_word(p, "required"))
        return lm_jp_fail(p, n->at, "a required block: there is no template that could fill it");
    p->loops = 0;
    LM_TRY(parse_scope(p, ends, true, n->at, &n->bodies[0]));
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

/* There is nothing to load from: an error when it is reached, as with jinja2. */
static lm_status parse_loader(jparser *p, jnode *n)
{
    const jstr *s;
    LM_TRY(lm_jp_string(p, p->token[-1].text, &s));
    n->value = lm_jv_of_str(s);
    LM_TRY(lm_jp_expression(p, true, &n->a));
    while (p->token->type == T_NAME || p->token->type == T_COMMA)     /* as x, import x as y, ignore missing, with context */
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

static lm_status parse_statement(jparser *p, jnode **out)
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

lm_status lm_jinja_parse(lm_template *t, lm_error *e)
{
    jparser p = { .t = t, .e = e };
    jtokens tokens;

    LM_TRY(lm_jinja_lex(t->source, t->size, &t->arena, &tokens, e));
    p.token = tokens.items;
    LM_TRY(lm_jp_name(&p, LM_VIEW("loop"), &t->name_loop));
    LM_TRY(lm_jp_name(&p, LM_VIEW("caller"), &t->name_caller));
    LM_TRY(lm_jp_name(&p, LM_VIEW("kwargs"), &t->name_kwargs));
    LM_TRY(lm_jp_name(&p, LM_VIEW("varargs"), &t->name_varargs));
    LM_TRY(parse_body(&p, NULL, 0, &t->body));
    return lm_jinja_scopes(t, e);
}
