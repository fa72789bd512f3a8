/* jinja_parser.c - nodes, tokens and bodies. See jinja_parser.h. */
#include "text/jinja/jinja_parser.h"

#include <stdarg.h>
#include <string.h>

#include "text/jinja/jinja.h"

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

bool lm_jp_is_word(const jtoken *t, const char *word)
{
    return t->type == T_NAME && lm_view_is(t->text, word);
}

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
        return lm_jp_fail(p, t->at, "expected token '%s', got '%.*s'", lm_jinja_token_name(type),
                          (int)t->text.size, t->text.data);
    return lm_jp_fail(p, t->at, "expected token '%s', got '%s'", lm_jinja_token_name(type),
                      lm_jinja_token_name(t->type));
}

lm_status lm_jp_expect_name(jparser *p, lm_view *name)
{
    *name = p->token->text;
    return lm_jp_expect(p, T_NAME);
}

/* ---- bodies ---- */

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

/* Parse everything up to a tag that starts with one of `ends`, which becomes the current token; NULL: up to
 * the end. */
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
            LM_TRY(lm_jp_statement(p, &n));
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

lm_status lm_jp_block(jparser *p, const char *const *ends, bool drop, uint32_t opened, jbody *out)
{
    lm_jp_skip(p, T_COLON);
    LM_TRY(lm_jp_expect(p, T_BLOCK_END));
    LM_TRY(check_unknown(p));
    LM_TRY(parse_body(p, ends, opened, out));
    if (drop)
        p->token++;
    return LM_OK;
}

lm_status lm_jp_scope(jparser *p, const char *const *ends, bool drop, uint32_t opened, jbody *out)
{
    bool soft = p->soft;
    p->soft = false;
    LM_TRY(lm_jp_block(p, ends, drop, opened, out));
    p->soft = soft;
    return LM_OK;
}

lm_status lm_jp_bodies(jparser *p, jnode *n, size_t count)
{
    n->bodies = lm_arena_new(&p->t->arena, count, jbody);
    n->n_bodies = count;
    return n->bodies ? LM_OK : lm_fail_memory(p->e, "a template's nodes", count * sizeof(jbody));
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
