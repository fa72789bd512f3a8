/* jinja_call.c - calls: builtins with their arguments bound, macros, recursive loops. */
#include "text/jinja/jinja.h"

#include <string.h>

/* ---- builtins ---- */

typedef struct signature {
    struct { const char *name; size_t n; bool optional; } params[J_MAX_PARAMS];
    size_t n, n_positional;              /* those before "/" */
    bool   any;                          /* "*" */
} signature;

static void read_signature(const char *params, signature *out)
{
    *out = (signature){ 0 };
    for (const char *p = params; *p;) {
        size_t n = strcspn(p, " ");
        if (p[0] == '/') {
            out->n_positional = out->n;
        } else if (p[0] == '*') {
            out->any = true;
        } else if (out->n < J_MAX_PARAMS) {
            bool optional = p[n - 1] == '?';
            out->params[out->n].name = p;
            out->params[out->n].n = n - (optional ? 1 : 0);
            out->params[out->n++].optional = optional;
        }
        p += n;
        p += strspn(p, " ");
    }
}

static bool bind_keywords(jinja *m, const jbuiltin *fn, const signature *s, const jcall *c, jargs *a)
{
    if (s->any && c->n_kw) {
        a->rest.kw = lm_jinja_new(m, c->n_kw, jkw);
        if (!a->rest.kw)
            return false;
    }
    for (size_t k = 0; k < c->n_kw; k++) {
        const jstr *key = c->kw[k].key;
        size_t i = s->n_positional;
        while (i < s->n && (s->params[i].n != key->n || memcmp(s->params[i].name, key->data, key->n) != 0))
            i++;
        if (i == s->n && s->any) {
            a->rest.kw[a->rest.n_kw++] = c->kw[k];
            continue;
        }
        if (i == s->n)
            return lm_jinja_fail(m, LM_FAILED, "%s() got an unexpected keyword argument '%.*s'", fn->name,
                                 (int)key->n, key->data);
        if (a->v[i].type != J_MISSING)
            return lm_jinja_fail(m, LM_FAILED, "%s() got multiple values for argument '%.*s'", fn->name,
                                 (int)key->n, key->data);
        a->v[i] = c->kw[k].value;
    }
    return true;
}

bool lm_jinja_call_builtin(jinja *m, const jbuiltin *fn, const jval *self, const jcall *c, jval *out)
{
    signature s;
    jargs a = { 0 };
    size_t at = 0, used = 0;

    read_signature(fn->params, &s);
    if (self)
        a.v[at++] = *self;
    while (at < s.n && used < c->n_pos)
        a.v[at++] = c->pos[used++];
    if (used < c->n_pos && !s.any)
        return lm_jinja_fail(m, LM_FAILED, "%s() takes at most %zu arguments (%zu given)", fn->name,
                             s.n - (self ? 1 : 0), c->n_pos);
    a.rest.pos = c->pos ? c->pos + used : NULL;
    a.rest.n_pos = c->n_pos - used;
    if (!bind_keywords(m, fn, &s, c, &a))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (a.v[i].type == J_MISSING && !s.params[i].optional)
            return lm_jinja_fail(m, LM_FAILED, "%s() missing required argument '%.*s'", fn->name,
                                 (int)s.params[i].n, s.params[i].name);
    return fn->call(m, &a, out);
}

bool lm_jarg_int(jinja *m, const jargs *a, int i, int64_t otherwise, const char *name, int64_t *out)
{
    if (a->v[i].type == J_MISSING)
        *out = otherwise;
    else if (lm_jv_is_int(a->v[i]))
        *out = lm_jv_int_of(a->v[i]);
    else
        return lm_jinja_fail(m, LM_FAILED, "%s must be an integer, not '%s'", name, lm_jv_type_name(a->v[i]));
    return true;
}

bool lm_jarg_str(jinja *m, const jargs *a, int i, const char *name, const jstr **out)
{
    if (a->v[i].type != J_STR)
        return lm_jinja_fail(m, LM_FAILED, "%s must be str, not %s", name, lm_jv_type_name(a->v[i]));
    *out = a->v[i].s;
    return true;
}

/* ---- macros ---- */

static const jkw *find_keyword(const jcall *c, const jstr *name)
{
    for (size_t i = 0; i < c->n_kw; i++)
        if (lm_jstr_equal(c->kw[i].key, name))
            return &c->kw[i];
    return NULL;
}

/* Bind the parameters. One that has neither an argument nor a default yet is undefined, so
 * that defaults before it cannot see outer variables. */
static bool bind_params(jinja *m, const jmacro_def *d, jscope *s, const jcall *c, size_t *n_used)
{
    jval v;

    for (size_t i = 0; i < d->n_params; i++) {
        const jkw *kw = i < c->n_pos ? NULL : find_keyword(c, d->param_names[i]);
        if (i < c->n_pos)
            v = c->pos[i];
        else if (kw)
            v = kw->value;
        else if (!lm_jv_undefined_name(m, d->param_names[i], J_MISSING, false, &v))
            return false;
        *n_used += kw != NULL;
        if (!lm_jscope_set(m, s, d->params[i], v))
            return false;
    }
    for (size_t i = d->n_params - d->n_defaults; i < d->n_params; i++) {
        if (i < c->n_pos || find_keyword(c, d->param_names[i]))
            continue;
        if (!lm_jinja_eval(m, s, d->defaults[i + d->n_defaults - d->n_params], &v) ||
            !lm_jscope_set(m, s, d->params[i], v))
            return false;
    }
    return true;
}

static bool takes(const jmacro_def *d, int name)
{
    for (size_t i = 0; i < d->n_params; i++)
        if (d->params[i] == name)
            return true;
    return false;
}

static bool bind_caller(jinja *m, const jmacro_def *d, jscope *s, const jcall *c, size_t *n_used)
{
    const jstr *name = m->t->names[m->t->name_caller];
    const jkw *kw;
    jval v;

    if (!d->uses_caller || takes(d, m->t->name_caller))
        return true;
    kw = find_keyword(c, name);
    if (kw && kw->value.type != J_NONE)
        v = kw->value;
    else if (!lm_jv_undefined(m, "no caller defined", &v))
        return false;
    *n_used += kw != NULL;
    return lm_jscope_set(m, s, m->t->name_caller, v);
}

/* Collect the keyword arguments that no parameter takes. */
static bool bind_kwargs(jinja *m, const jmacro_def *d, jscope *s, const jcall *c)
{
    bool   takes_caller = d->uses_caller && !takes(d, m->t->name_caller);
    jdict *kwargs       = lm_jinja_new(m, 1, jdict);

    if (!kwargs)
        return false;
    for (size_t i = 0; i < c->n_kw; i++) {
        bool is_param = takes_caller && lm_jstr_equal(c->kw[i].key, m->t->names[m->t->name_caller]);
        for (size_t k = c->n_pos; k < d->n_params && !is_param; k++)
            is_param = lm_jstr_equal(d->param_names[k], c->kw[i].key);
        if (!is_param && !lm_jdict_set(m, kwargs, lm_jv_of_str(c->kw[i].key), c->kw[i].value))
            return false;
    }
    return lm_jscope_set(m, s, m->t->name_kwargs, lm_jv_of_dict(kwargs));
}

/* Bind the remaining arguments to varargs and kwargs if the macro mentions these; otherwise they are an
 * error. */
static bool bind_rest(jinja *m, const jmacro_def *d, jscope *s, const jcall *c, size_t n_used)
{
    const char *name = d->name ? d->name->data : "caller";
    int n = d->name ? (int)d->name->n : 6;
    jvec varargs = { 0 };
    jval v;

    if (d->uses_kwargs && !bind_kwargs(m, d, s, c))
        return false;
    if (!d->uses_kwargs && n_used < c->n_kw)
        return lm_jinja_fail(m, LM_FAILED, "macro '%.*s' was given a keyword argument that it does not take",
                             n, name);
    for (size_t i = d->n_params; d->uses_varargs && i < c->n_pos; i++)
        if (!lm_jvec_add(m, &varargs, c->pos[i]))
            return false;
    if (d->uses_varargs)
        return lm_jvec_done(m, &varargs, J_TUPLE, &v) && lm_jscope_set(m, s, m->t->name_varargs, v);
    if (c->n_pos > d->n_params)
        return lm_jinja_fail(m, LM_FAILED, "macro '%.*s' takes not more than %zu argument(s)", n, name,
                             d->n_params);
    return true;
}

static bool enter_call(jinja *m)
{
    if (++m->calls > J_MAX_CALLS)
        return lm_jinja_fail(m, LM_LIMIT, "calls nested deeper than %d", J_MAX_CALLS);
    return true;
}

bool lm_jinja_call_macro(jinja *m, const jmacro *macro, const jcall *c, jval *out)
{
    const jmacro_def *d = macro->def;
    jscope *s = lm_jscope_new(m, macro->scope);
    size_t n_used = 0;
    jflow flow;

    if (!s || !enter_call(m) || !lm_jscope_hide(m, s, &d->body) || !bind_params(m, d, s, c, &n_used) ||
        !bind_caller(m, d, s, c, &n_used) || !bind_rest(m, d, s, c, n_used) ||
        !lm_jinja_capture(m, s, &d->body, &flow, out))
        return false;
    m->calls--;
    return true;
}

static bool call_loop(jinja *m, jloop *loop, const jcall *c, jval *out)
{
    jbuild *before = m->out, caught = { 0 };
    jflow flow;

    if (!loop->node)
        return lm_jinja_fail(m, LM_FAILED,
                             "the loop must have the 'recursive' marker to be called recursively");
    if (c->n_pos != 1 || c->n_kw)
        return lm_jinja_fail(m, LM_FAILED, "loop() takes one argument");
    if (!enter_call(m))
        return false;
    m->out = &caught;
    bool ok = lm_jinja_loop(m, loop->scope, loop->node, c->pos[0], loop->depth0 + 1, &flow);
    m->out = before;
    m->calls--;
    return ok && lm_jb_done(m, &caught, false, out);
}

bool lm_jinja_call(jinja *m, jval callee, const jcall *c, jval *out)
{
    switch (callee.type) {
    case J_UNDEFINED:
        return lm_jinja_undefined_error(m, callee.u);
    case J_MACRO:
        return lm_jinja_call_macro(m, callee.macro, c, out);
    case J_FUNCTION:
        return lm_jinja_call_builtin(m, callee.fn, NULL, c, out);
    case J_METHOD:
        return lm_jinja_call_builtin(m, callee.method->fn, &callee.method->self, c, out);
    case J_LOOP:
        return call_loop(m, callee.loop, c, out);
    case J_JOINER: {
        const jstr *s = callee.joiner->used ? callee.joiner->sep : lm_jstr_new(m, "", 0, false);
        callee.joiner->used = true;
        *out = lm_jv_of_str(s);
        return s != NULL;
    }
    default:
        return lm_jinja_fail(m, LM_FAILED, "'%s' object is not callable", lm_jv_type_name(callee));
    }
}
