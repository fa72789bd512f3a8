/* jinja_machine.c - errors, fuel, memory and scopes of one rendering. */
#include "text/jinja/jinja.h"

#include <stdarg.h>
#include <string.h>

bool lm_jinja_fail(jinja *m, lm_status code, const char *format, ...)
{
    char where[48], message[320];
    va_list args;

    if (m->status != LM_OK)
        return false;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    lm_jinja_position(m->t->source, m->t->size, m->at, where);
    m->status = lm_fail(m->e, code, where, LM_NO_OFFSET, "%s", message);
    lm_fail_in(m->e, m->t->name);
    return false;
}

bool lm_jinja_undefined_error(jinja *m, const jundef *u)
{
    int n = u->name ? (int)(u->name->n < 64 ? u->name->n : 64) : 0;
    const char *name = u->name ? u->name->data : "";

    if (u->hint)
        return lm_jinja_fail(m, LM_FAILED, "%s", u->hint);
    if (u->of == J_MISSING)
        return lm_jinja_fail(m, LM_FAILED, "'%.*s' is undefined", n, name);
    const char *type = u->of == J_NONE ? "None" : NULL;
    jval of = { .type = u->of };
    if (!type)
        type = u->of == J_STR ? "str" : u->of == J_VIEW ? "dict view" : lm_jv_type_name(of);
    if (u->unsafe)
        return lm_jinja_fail(m, LM_FAILED, "access to attribute '%.*s' of '%s' object is unsafe", n, name,
                             type);
    return lm_jinja_fail(m, LM_FAILED, "'%s object' has no attribute '%.*s'", type, n, name);
}

bool lm_jinja_spend(jinja *m, size_t steps)
{
    if (m->status != LM_OK)
        return false;
    if (steps > J_FUEL || (m->fuel -= (int64_t)steps) < 0)
        return lm_jinja_fail(m, LM_LIMIT, "the template takes more than %d steps", J_FUEL);
    return true;
}

bool lm_jinja_enter(jinja *m)
{
    if (!lm_jinja_spend(m, 1))
        return false;
    if (++m->depth > J_MAX_EVAL)
        return lm_jinja_fail(m, LM_LIMIT, "the template nests deeper than %d evaluations", J_MAX_EVAL);
    return true;
}

void *lm_jinja_alloc(jinja *m, size_t bytes)
{
    if (m->status != LM_OK)
        return NULL;
    if (bytes > J_MAX_MEMORY || m->arena.used + bytes > J_MAX_MEMORY) {
        lm_jinja_fail(m, LM_LIMIT, "the template needs more than %d bytes of memory", J_MAX_MEMORY);
        return NULL;
    }
    void *p = lm_arena_alloc(&m->arena, bytes ? bytes : 1);
    if (!p)
        m->status = lm_fail_memory(m->e, "the values of a template", bytes);
    return p;
}

jscope *lm_jscope_new(jinja *m, jscope *parent)
{
    jscope *s = lm_jinja_new(m, 1, jscope);
    if (s)
        s->parent = parent;
    return s;
}

bool lm_jscope_set(jinja *m, jscope *s, int name, jval value)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->vars[i].name == name) {
            s->vars[i].value = value;
            return true;
        }
    }
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 4;
        struct jvar *vars = lm_jinja_new(m, capacity, struct jvar);
        if (!vars)
            return false;
        if (s->n)
            memcpy(vars, s->vars, s->n * sizeof *vars);
        s->vars = vars;
        s->capacity = capacity;
    }
    s->vars[s->n++] = (struct jvar){ name, value };
    return true;
}

bool lm_jscope_hide(jinja *m, jscope *s, const jbody *body)
{
    jval v;

    for (size_t i = 0; i < body->n_hidden; i++) {
        int name = body->hidden[i];
        if (m->globals[name].type != J_MISSING &&
            (!lm_jv_undefined_name(m, m->t->names[name], J_MISSING, false, &v) ||
             !lm_jscope_set(m, s, name, v)))
            return false;
    }
    return true;
}
