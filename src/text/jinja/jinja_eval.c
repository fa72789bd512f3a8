/* jinja_eval.c - evaluate expressions. */
#include "text/jinja/jinja.h"

static bool eval_name(jinja *m, jscope *s, const jnode *n, jval *out)
{
    for (; s; s = s->parent) {
        for (size_t i = 0; i < s->n; i++) {
            if (s->vars[i].name == n->name && s->vars[i].value.type != J_MISSING) {
                *out = s->vars[i].value;
                return true;
            }
        }
    }
    *out = m->globals[n->name];
    return out->type != J_MISSING || lm_jv_undefined_name(m, m->t->names[n->name], J_MISSING, false, out);
}

static bool eval_list(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jvec v = { 0 };
    jval item;

    for (size_t i = 0; i < n->n; i++)
        if (!lm_jinja_eval(m, s, n->list[i], &item) || !lm_jvec_add(m, &v, item))
            return false;
    return lm_jvec_done(m, &v, n->kind == N_LIST ? J_LIST : J_TUPLE, out);
}

static bool eval_dict(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jdict *d = lm_jinja_new(m, 1, jdict);
    jval key, value;

    if (!d)
        return false;
    for (size_t i = 0; i + 1 < n->n; i += 2)
        if (!lm_jinja_eval(m, s, n->list[i], &key) || !lm_jinja_eval(m, s, n->list[i + 1], &value) ||
            !lm_jdict_set(m, d, key, value))
            return false;
    *out = lm_jv_of_dict(d);
    return true;
}

static bool eval_cond(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval test;
    if (!lm_jinja_eval(m, s, n->b, &test))
        return false;
    if (lm_jv_truth(test))
        return lm_jinja_eval(m, s, n->a, out);
    if (n->c)
        return lm_jinja_eval(m, s, n->c, out);
    return lm_jv_undefined(m, "the inline if-expression evaluated to false and no else section was defined",
                           out);
}

/* `and` and `or` return one of their operands. */
static bool eval_logic(jinja *m, jscope *s, const jnode *n, jval *out)
{
    for (size_t i = 0; i < n->n; i++) {
        if (!lm_jinja_eval(m, s, n->list[i], out))
            return false;
        if (lm_jv_truth(*out) == (n->kind == N_OR))
            break;
    }
    return true;
}

static bool eval_compare(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval left, right;
    bool holds = true;

    if (!lm_jinja_eval(m, s, n->list[0], &left))
        return false;
    for (size_t i = 1; holds && i < n->n; i++) {
        if (!lm_jinja_eval(m, s, n->list[i], &right))
            return false;
        m->at = n->at;
        if (!lm_jinja_compare(m, n->ops[i - 1], left, right, &holds))
            return false;
        left = right;
    }
    *out = lm_jv_bool(holds);
    return true;
}

static bool eval_arith(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval left, right;

    if (!lm_jinja_eval(m, s, n->list[0], &left))
        return false;
    for (size_t i = 1; i < n->n; i++) {
        if (!lm_jinja_eval(m, s, n->list[i], &right))
            return false;
        m->at = n->at;
        if (!lm_jinja_arith(m, n->ops[i - 1], left, right, &left))
            return false;
    }
    *out = left;
    return true;
}

/* The buffer of the first operand grows, so `ns.text ~ more` in a loop stays linear. */
static bool eval_concat(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jvec parts = { 0 };
    const jstr *text = NULL;
    jval v;

    for (size_t i = 0; i < n->n; i++)
        if (!lm_jinja_eval(m, s, n->list[i], &v) || !lm_jvec_add(m, &parts, v))
            return false;
    m->at = n->at;
    for (size_t i = 0; i < parts.n; i++) {
        const jstr *part;
        if (!lm_jv_str(m, parts.items[i], &part) || !(part = lm_jstr_plain(m, part)))
            return false;
        text = text ? lm_jstr_concat(m, text, part) : part;
        if (!text)
            return false;
    }
    *out = lm_jv_of_str(text);
    return true;
}

static bool eval_slice(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval v, part[3];

    if (!lm_jinja_eval(m, s, n->a, &v))
        return false;
    for (int i = 0; i < 3; i++) {
        part[i] = (jval){ .type = J_MISSING };
        if (n->list[i] && !lm_jinja_eval(m, s, n->list[i], &part[i]))
            return false;
    }
    m->at = n->at;
    return lm_jinja_slice(m, v, part, out);
}

static bool add_keyword(jinja *m, jcall *c, size_t *capacity, const jstr *key, jval value)
{
    for (size_t i = 0; i < c->n_kw; i++)
        if (lm_jstr_equal(c->kw[i].key, key))
            return lm_jinja_fail(m, LM_FAILED, "got multiple values for keyword argument '%.*s'", (int)key->n,
                                 key->data);
    if (c->n_kw == *capacity) {
        *capacity = 2 * *capacity + 4;
        jkw *kw = lm_jinja_new(m, *capacity, jkw);
        if (!kw)
            return false;
        for (size_t i = 0; i < c->n_kw; i++)
            kw[i] = c->kw[i];
        c->kw = kw;
    }
    c->kw[c->n_kw++] = (jkw){ key, value };
    return lm_jinja_spend(m, 1 + c->n_kw / 8);
}

static bool eval_args(jinja *m, jscope *s, const jcall_args *a, jcall *out)
{
    jvec pos = { 0 };
    size_t capacity = 0;
    jval v;

    *out = (jcall){ 0 };
    if (!a)
        return true;
    for (size_t i = 0; i < a->n_pos; i++)
        if (!lm_jinja_eval(m, s, a->pos[i], &v) || !lm_jvec_add(m, &pos, v))
            return false;
    for (size_t i = 0; i < a->n_kw; i++)
        if (!lm_jinja_eval(m, s, a->values[i], &v) || !add_keyword(m, out, &capacity, a->keys[i], v))
            return false;
    if (a->dyn_args && (!lm_jinja_eval(m, s, a->dyn_args, &v) || !lm_jv_collect(m, v, &pos)))
        return false;
    if (a->dyn_kwargs) {
        if (!lm_jinja_eval(m, s, a->dyn_kwargs, &v))
            return false;
        if (v.type != J_DICT)
            return lm_jinja_type_error(m, "argument after ** must be a mapping, not", v);
        for (size_t i = 0; i < v.d->n; i++) {
            if (v.d->pairs[i].key.type != J_STR)
                return lm_jinja_fail(m, LM_FAILED, "keywords must be strings");
            if (!add_keyword(m, out, &capacity, v.d->pairs[i].key.s, v.d->pairs[i].value))
                return false;
        }
    }
    out->pos = pos.items;
    out->n_pos = pos.n;
    return true;
}

static bool eval_call(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval callee;
    jcall c;

    if (!lm_jinja_eval(m, s, n->a, &callee) || !eval_args(m, s, n->args, &c))
        return false;
    m->at = n->at;
    return lm_jinja_call(m, callee, &c, out);
}

/* Call a filter or a test; the value before it is its first argument. */
static bool eval_builtin(jinja *m, jscope *s, const jnode *n, jval in, jval *out)
{
    jcall c;

    if (!eval_args(m, s, n->args, &c))
        return false;
    m->at = n->at;
    if (!n->builtin)
        return lm_jinja_fail(m, LM_FAILED, "no %s named '%.*s'", n->kind == N_FILTER ? "filter" : "test",
                             (int)n->value.s->n, n->value.s->data);
    return lm_jinja_call_builtin(m, n->builtin, &in, &c, out);
}

bool lm_jinja_filter(jinja *m, jscope *s, const jnode *n, jval in, jval *out)
{
    if (n->a && !lm_jinja_filter(m, s, n->a, in, &in))
        return false;
    return eval_builtin(m, s, n, in, out);
}

static bool eval_unary(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval v;

    if (!lm_jinja_eval(m, s, n->a, &v))
        return false;
    m->at = n->at;
    switch (n->kind) {
    case N_NOT:
        *out = lm_jv_bool(!lm_jv_truth(v));
        return true;
    case N_ATTR:
        return lm_jinja_attr(m, v, n->value.s, out);
    case N_FILTER: case N_TEST:
        return eval_builtin(m, s, n, v, out);
    default:
        return lm_jinja_negate(m, v, n->kind == N_POS, out);
    }
}

static bool eval(jinja *m, jscope *s, const jnode *n, jval *out)
{
    jval v, key;

    switch (n->kind) {
    case N_CONST:
        *out = n->value;
        return true;
    case N_NAME:
        return eval_name(m, s, n, out);
    case N_TUPLE: case N_LIST:
        return eval_list(m, s, n, out);
    case N_DICT:
        return eval_dict(m, s, n, out);
    case N_COND:
        return eval_cond(m, s, n, out);
    case N_OR: case N_AND:
        return eval_logic(m, s, n, out);
    case N_COMPARE:
        return eval_compare(m, s, n, out);
    case N_ARITH:
        return eval_arith(m, s, n, out);
    case N_CONCAT:
        return eval_concat(m, s, n, out);
    case N_ITEM:
        if (!lm_jinja_eval(m, s, n->a, &v) || !lm_jinja_eval(m, s, n->b, &key))
            return false;
        m->at = n->at;
        return lm_jinja_item(m, v, key, out);
    case N_SLICE:
        return eval_slice(m, s, n, out);
    case N_CALL:
        return eval_call(m, s, n, out);
    default:
        return eval_unary(m, s, n, out);
    }
}

bool lm_jinja_eval(jinja *m, jscope *s, const jnode *n, jval *out)
{
    uint32_t at = m->at;

    m->at = n->at;
    if (!lm_jinja_enter(m))
        return false;
    bool ok = eval(m, s, n, out);
    m->depth--;
    if (ok)
        m->at = at;
    return ok;
}

bool lm_jinja_call_args(jinja *m, jscope *s, const jnode *n, jval *callee, jcall *c)
{
    return lm_jinja_eval(m, s, n->a, callee) && eval_args(m, s, n->args, c);
}
