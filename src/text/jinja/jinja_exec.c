/* jinja_exec.c - execute statements. */
#include "text/jinja/jinja.h"

#include <string.h>

static bool assign(jinja *m, jscope *s, const jnode *target, jval v);

static bool unpack(jinja *m, jscope *s, const jnode *target, jval v)
{
    jvec items = { 0 };

    if (v.type == J_LIST || v.type == J_TUPLE)
        items = (jvec){ .items = (jval *)v.l->items, .n = v.l->n };
    else if (!lm_jv_iterable(v))
        return lm_jinja_fail(m, LM_FAILED, "cannot unpack non-iterable %s object", lm_jv_type_name(v));
    else if (!lm_jv_collect(m, v, &items))
        return false;
    if (items.n < target->n)
        return lm_jinja_fail(m, LM_FAILED, "not enough values to unpack (expected %zu, got %zu)", target->n,
                             items.n);
    if (items.n > target->n)
        return lm_jinja_fail(m, LM_FAILED, "too many values to unpack (expected %zu)", target->n);
    for (size_t i = 0; i < items.n; i++)
        if (!assign(m, s, target->list[i], items.items[i]))
            return false;
    return true;
}

static bool assign(jinja *m, jscope *s, const jnode *target, jval v)
{
    jval ns;

    if (target->kind == N_NAME)
        return lm_jscope_set(m, s, target->name, v);
    if (target->kind == N_TUPLE)
        return unpack(m, s, target, v);
    jnode name = *target;
    name.kind = N_NAME;
    if (!lm_jinja_eval(m, s, &name, &ns))
        return false;
    if (ns.type != J_NAMESPACE)
        return lm_jinja_fail(m, LM_FAILED, "cannot assign attribute on non-namespace object");
    if (target->value.s->data[0] == '_')
        return lm_jinja_fail(m, LM_FAILED, "a namespace cannot store underscore-prefixed attributes: '%.*s'",
                             (int)target->value.s->n, target->value.s->data);
    return lm_jdict_set(m, &ns.ns->d, target->value, v);
}

bool lm_jinja_capture(jinja *m, jscope *s, const jbody *body, jflow *flow, jval *out)
{
    jbuild *before = m->out, caught = { 0 };

    m->out = &caught;
    *flow = lm_jinja_exec(m, s, body);
    m->out = before;
    return *flow != J_ERROR && lm_jb_done(m, &caught, false, out);
}

static jflow in_new_scope(jinja *m, jscope *s, const jbody *body)
{
    jscope *inner = lm_jscope_new(m, s);
    return inner && lm_jscope_hide(m, inner, body) ? lm_jinja_exec(m, inner, body) : J_ERROR;
}

static jflow exec_if(jinja *m, jscope *s, const jnode *n)
{
    jval v;

    for (size_t i = 0; i < n->n; i++) {
        if (!lm_jinja_eval(m, s, n->list[i], &v))
            return J_ERROR;
        if (lm_jv_truth(v))
            return lm_jinja_exec(m, s, &n->bodies[i]);
    }
    return n->n_bodies > n->n ? lm_jinja_exec(m, s, &n->bodies[n->n]) : J_NEXT;
}

/* The items that pass the test of `for … if`; the test sees the target and the outer scope, not the loop. */
struct filtered { const jnode *node; jscope *scope; };

/* Return what jinja2's generator yields: the targets again, so an unpacked list becomes a tuple. */
static bool repack(jinja *m, jscope *s, const jnode *target, jval *out)
{
    jvec v = { 0 };
    jval item;

    if (target->kind != N_TUPLE)
        return lm_jinja_eval(m, s, target, out);
    for (size_t i = 0; i < target->n; i++)
        if (!repack(m, s, target->list[i], &item) || !lm_jvec_add(m, &v, item))
            return false;
    return lm_jvec_done(m, &v, J_TUPLE, out);
}

static bool next_filtered(jinja *m, jiter *it, jval *out)
{
    const struct filtered *f = it->state;
    jval keep;

    for (;;) {
        if (!lm_jiter_next(m, it->inner, out))
            return false;
        it->done = it->inner->done;
        if (it->done)
            return true;
        f->scope->n = 0;
        if (!assign(m, f->scope, f->node->a, *out) || !lm_jinja_eval(m, f->scope, f->node->c, &keep))
            return false;
        if (lm_jv_truth(keep))
            return f->node->a->kind != N_TUPLE || repack(m, f->scope, f->node->a, out);
    }
}

static bool filter_items(jinja *m, jscope *s, const jnode *n, jiter *inner, jval *over, jiter **out)
{
    jiter *it = lm_jiter_new(m, next_filtered, "filtered loop");
    struct filtered *f = lm_jinja_new(m, 1, struct filtered);

    if (!it || !f)
        return false;
    *f = (struct filtered){ n, lm_jscope_new(m, s) };
    it->inner = inner;
    it->state = f;
    *over = lm_jv_of_iter(it);
    *out = it;
    return f->scope != NULL;
}

bool lm_jinja_loop(jinja *m, jscope *s, const jnode *n, jval over, int64_t depth0, jflow *flow)
{
    jloop *loop = lm_jinja_new(m, 1, jloop);
    jscope *inner = lm_jscope_new(m, s);
    jiter *it;
    bool empty = true;

    *flow = J_ERROR;
    if (!loop || !inner || !lm_jv_iter(m, over, &it) || (n->c && !filter_items(m, s, n, it, &over, &it)))
        return false;
    *loop = (jloop){ .it = it, .of = over, .index0 = -1, .length = -1, .depth0 = depth0,
                     .node = n->recursive ? n : NULL, .scope = s };
    for (;;) {
        jval item = loop->after;
        if (item.type == J_MISSING) {
            if (!lm_jiter_next(m, loop->it, &item))
                return false;
            if (loop->it->done)
                break;
        }
        loop->after = (jval){ .type = J_MISSING };
        loop->index0++;
        loop->before = loop->current;
        loop->current = item;
        inner->n = 0;
        if (!lm_jscope_hide(m, inner, &n->bodies[0]) || !assign(m, inner, n->a, item) ||
            !lm_jscope_set(m, inner, m->t->name_loop, (jval){ .type = J_LOOP, .loop = loop }))
            return false;
        *flow = lm_jinja_exec(m, inner, &n->bodies[0]);
        if (*flow == J_ERROR)
            return false;
        if (*flow == J_BREAK)
            break;
        empty = empty && *flow != J_NEXT;           /* only a completed iteration counts */
    }
    *flow = J_NEXT;
    if (empty)
        *flow = in_new_scope(m, s, &n->bodies[1]);
    return *flow != J_ERROR;
}

static jflow exec_for(jinja *m, jscope *s, const jnode *n)
{
    jval over;
    jflow flow;

    if (!lm_jinja_eval(m, s, n->b, &over))
        return J_ERROR;
    lm_jinja_loop(m, s, n, over, 0, &flow);
    return flow;
}

/* Run the body of a block in a separate scope, and capture its output. */
static jflow captured(jinja *m, jscope *s, const jnode *n, jscope **inner, jval *text)
{
    jflow flow;

    *inner = lm_jscope_new(m, s);
    if (!*inner || !lm_jscope_hide(m, *inner, &n->bodies[0]) ||
        !lm_jinja_capture(m, *inner, &n->bodies[0], &flow, text))
        return J_ERROR;
    return flow;
}

static jflow exec_set_block(jinja *m, jscope *s, const jnode *n)
{
    jscope *inner;
    jval v;
    jflow flow = captured(m, s, n, &inner, &v);

    if (flow != J_NEXT)
        return flow;
    if ((n->b && !lm_jinja_filter(m, inner, n->b, v, &v)) || !assign(m, s, n->a, v))
        return J_ERROR;
    return J_NEXT;
}

static jflow exec_filter_block(jinja *m, jscope *s, const jnode *n)
{
    jscope *inner;
    jval v;
    jflow flow = captured(m, s, n, &inner, &v);

    if (flow != J_NEXT)
        return flow;
    if (!lm_jinja_filter(m, inner, n->a, v, &v))
        return J_ERROR;
    lm_jb_value(m, m->out, v);
    return m->status == LM_OK ? J_NEXT : J_ERROR;
}

static jflow exec_with(jinja *m, jscope *s, const jnode *n)
{
    jscope *inner = lm_jscope_new(m, s);
    jval v;

    if (!inner || !lm_jscope_hide(m, inner, &n->bodies[0]))
        return J_ERROR;
    for (size_t i = 0; i + 1 < n->n; i += 2)
        if (!lm_jinja_eval(m, s, n->list[i + 1], &v) || !assign(m, inner, n->list[i], v))
            return J_ERROR;
    return lm_jinja_exec(m, inner, &n->bodies[0]);
}

static bool new_macro(jinja *m, jscope *s, const jmacro_def *def, jval *out)
{
    jmacro *macro = lm_jinja_new(m, 1, jmacro);
    if (!macro)
        return false;
    *macro = (jmacro){ def, s };
    *out = (jval){ .type = J_MACRO, .macro = macro };
    return true;
}

static jflow exec_macro(jinja *m, jscope *s, const jnode *n)
{
    jval v;
    return new_macro(m, s, n->macro, &v) && lm_jscope_set(m, s, n->macro->name_id, v) ? J_NEXT : J_ERROR;
}

static jflow exec_call_block(jinja *m, jscope *s, const jnode *n)
{
    jval callee, caller, v;
    jcall c;

    if (!new_macro(m, s, n->macro, &caller) || !lm_jinja_call_args(m, s, n->a, &callee, &c))
        return J_ERROR;
    jkw *kw = lm_jinja_new(m, c.n_kw + 1, jkw);
    if (!kw)
        return J_ERROR;
    if (c.n_kw)
        memcpy(kw, c.kw, c.n_kw * sizeof *kw);
    kw[c.n_kw] = (jkw){ m->t->names[m->t->name_caller], caller };
    c.kw = kw;
    c.n_kw++;
    m->at = n->at;
    if (!lm_jinja_call(m, callee, &c, &v))
        return J_ERROR;
    lm_jb_value(m, m->out, v);
    return m->status == LM_OK ? J_NEXT : J_ERROR;
}

static jflow exec_generation(jinja *m, jscope *s, const jnode *n)
{
    const jcall nothing = { 0 };
    jval macro, v;

    if (!new_macro(m, s, n->macro, &macro) || !lm_jinja_call_macro(m, macro.macro, &nothing, &v))
        return J_ERROR;
    lm_jb_value(m, m->out, v);
    return m->status == LM_OK ? J_NEXT : J_ERROR;
}

static jflow exec_print(jinja *m, jscope *s, const jnode *n)
{
    jval v;

    for (size_t i = 0; i < n->n; i++) {
        if (!lm_jinja_eval(m, s, n->list[i], &v))
            return J_ERROR;
        lm_jb_value(m, m->out, v);
    }
    return m->status == LM_OK ? J_NEXT : J_ERROR;
}

static jflow exec(jinja *m, jscope *s, const jnode *n)
{
    jval v;

    switch (n->kind) {
    case N_DATA:
        lm_jb_str(m, m->out, n->value.s);
        return m->status == LM_OK ? J_NEXT : J_ERROR;
    case N_PRINT:
        return exec_print(m, s, n);
    case N_IF:
        return exec_if(m, s, n);
    case N_FOR:
        return exec_for(m, s, n);
    case N_SET:
        return lm_jinja_eval(m, s, n->b, &v) && assign(m, s, n->a, v) ? J_NEXT : J_ERROR;
    case N_SET_BLOCK:
        return exec_set_block(m, s, n);
    case N_MACRO:
        return exec_macro(m, s, n);
    case N_CALL_BLOCK:
        return exec_call_block(m, s, n);
    case N_FILTER_BLOCK:
        return exec_filter_block(m, s, n);
    case N_WITH:
        return exec_with(m, s, n);
    case N_GENERATION:
        return exec_generation(m, s, n);
    case N_SCOPE:
        return in_new_scope(m, s, &n->bodies[0]);
    case N_BLOCK:
        return in_new_scope(m, n->recursive ? s : m->root, &n->bodies[0]);
    case N_BREAK:
        return J_BREAK;
    case N_CONTINUE:
        return J_CONTINUE;
    default:
        lm_jinja_fail(m, LM_UNSUPPORTED, "'%.*s': a chat template has nothing to load from",
                      (int)n->value.s->n, n->value.s->data);
        return J_ERROR;
    }
}

jflow lm_jinja_exec(jinja *m, jscope *s, const jbody *body)
{
    for (size_t i = 0; i < body->n; i++) {
        m->at = body->items[i]->at;
        if (!lm_jinja_enter(m))
            return J_ERROR;
        jflow flow = exec(m, s, body->items[i]);
        m->depth--;
        if (flow != J_NEXT)
            return flow;
    }
    return J_NEXT;
}
