/* jinja_scope.c - which variables a scope hides from the start.
 *
 * jinja2 decides at compile time where a name lives: a name that a scope assigns (outside any if) before
 * mentioning it, and that no enclosing scope mentions, is a new variable. Until the assignment it is
 * undefined, even for macros that are called earlier and even if the context has a variable of that name
 * (jinja2/idtracking.py). */
#include "text/jinja/jinja_parser.h"

#include <string.h>

enum { KNOWN = 1, HIDDEN };

typedef struct pass {
    lm_template *t;
    lm_error    *e;
    uint8_t     *seen[J_MAX_NESTING + 2];     /* by depth and name */
    unsigned     depth, ifs;
} pass;

static void load(pass *p, int name)
{
    for (unsigned d = p->depth + 1; d-- > 0;)
        if (p->seen[d][name])
            return;
    p->seen[p->depth][name] = KNOWN;
}

static void store(pass *p, int name)
{
    if (p->seen[p->depth][name])
        return;
    p->seen[p->depth][name] = p->ifs ? KNOWN : HIDDEN;
    for (unsigned d = p->depth; d-- > 0;)
        if (p->seen[d][name])
            p->seen[p->depth][name] = KNOWN;
}

static void loads_of(pass *p, const jnode *n)
{
    if (!n)
        return;
    if (n->kind == N_NAME || n->kind == N_NSREF)
        load(p, n->name);
    loads_of(p, n->a);
    loads_of(p, n->b);
    loads_of(p, n->c);
    for (size_t i = 0; i < (n->kind == N_SLICE ? 3 : n->n); i++)
        loads_of(p, n->list[i]);
    for (size_t i = 0; n->args && i < n->args->n_pos; i++)
        loads_of(p, n->args->pos[i]);
    for (size_t i = 0; n->args && i < n->args->n_kw; i++)
        loads_of(p, n->args->values[i]);
    if (n->args) {
        loads_of(p, n->args->dyn_args);
        loads_of(p, n->args->dyn_kwargs);
    }
}

static void stores_of(pass *p, const jnode *target)
{
    if (target->kind == N_NAME)
        store(p, target->name);
    else if (target->kind == N_NSREF)
        load(p, target->name);
    for (size_t i = 0; target->kind == N_TUPLE && i < target->n; i++)
        stores_of(p, target->list[i]);
}

static void parameters_of(pass *p, const jnode *target)
{
    if (target->kind == N_NAME)
        p->seen[p->depth][target->name] = KNOWN;
    for (size_t i = 0; target->kind == N_TUPLE && i < target->n; i++)
        parameters_of(p, target->list[i]);
}

/* Visit what one statement mentions in its own scope; scopes inside it come later. */
static void mentions_of(pass *p, const jnode *n)
{
    switch (n->kind) {
    case N_PRINT:
        for (size_t i = 0; i < n->n; i++)
            loads_of(p, n->list[i]);
        break;
    case N_IF:
        loads_of(p, n->list[0]);
        p->ifs++;
        for (size_t i = 0; i < n->n_bodies; i++) {
            if (i && i < n->n)
                loads_of(p, n->list[i]);
            for (size_t k = 0; k < n->bodies[i].n; k++)
                mentions_of(p, n->bodies[i].items[k]);
        }
        p->ifs--;
        break;
    case N_FOR:
        loads_of(p, n->b);
        break;
    case N_SET:
        loads_of(p, n->b);
        stores_of(p, n->a);
        break;
    case N_SET_BLOCK:
        stores_of(p, n->a);
        break;
    case N_MACRO:
        store(p, n->macro->name_id);
        break;
    case N_CALL_BLOCK: case N_FILTER_BLOCK: case N_LOADER:
        loads_of(p, n->a);
        break;
    case N_WITH:
        for (size_t i = 1; i < n->n; i += 2)
            loads_of(p, n->list[i]);
        break;
    default:
        break;
    }
}

static lm_status scopes_in(pass *p, const jbody *body);

/* Scan a scope whose parameters are set; `also`: an expression that belongs to it. */
static lm_status scan(pass *p, jbody *body, const jnode *also)
{
    unsigned ifs = p->ifs;
    size_t n = 0;

    p->ifs = 0;
    for (size_t i = 0; i < body->n; i++)
        mentions_of(p, body->items[i]);
    loads_of(p, also);
    for (size_t i = 0; i < p->t->n_names; i++)
        n += p->seen[p->depth][i] == HIDDEN;
    if (n) {
        body->hidden = lm_arena_new(&p->t->arena, n, int);
        if (!body->hidden)
            return lm_fail_memory(p->e, "a template's names", n);
        for (size_t i = 0; i < p->t->n_names; i++)
            if (p->seen[p->depth][i] == HIDDEN)
                body->hidden[body->n_hidden++] = (int)i;
    }
    LM_TRY(scopes_in(p, body));
    p->ifs = ifs;
    return LM_OK;
}

static void open_scope(pass *p)
{
    p->depth++;
    memset(p->seen[p->depth], 0, p->t->n_names);
}

static lm_status scan_macro(pass *p, jmacro_def *d)
{
    for (size_t i = 0; i < d->n_params; i++)
        p->seen[p->depth][d->params[i]] = KNOWN;
    p->seen[p->depth][p->t->name_caller] |= d->uses_caller;
    p->seen[p->depth][p->t->name_kwargs] |= d->uses_kwargs;
    p->seen[p->depth][p->t->name_varargs] |= d->uses_varargs;
    for (size_t i = 0; i < d->n_defaults; i++)
        loads_of(p, d->defaults[i]);
    return scan(p, &d->body, NULL);
}

static lm_status scan_for(pass *p, const jnode *n)
{
    parameters_of(p, n->a);
    p->seen[p->depth][p->t->name_loop] = KNOWN;
    LM_TRY(scan(p, &n->bodies[0], NULL));
    memset(p->seen[p->depth], 0, p->t->n_names);
    return scan(p, &n->bodies[1], NULL);
}

/* Scan the scopes that one statement opens. */
static lm_status scopes_of(pass *p, const jnode *n)
{
    if (n->kind == N_IF) {
        for (size_t i = 0; i < n->n_bodies; i++)
            LM_TRY(scopes_in(p, &n->bodies[i]));
        return LM_OK;
    }
    open_scope(p);
    if (n->macro) {
        LM_TRY(scan_macro(p, n->macro));
    } else if (n->kind == N_FOR) {
        LM_TRY(scan_for(p, n));
    } else if (n->n_bodies) {
        for (size_t i = 0; n->kind == N_WITH && i < n->n; i += 2)
            parameters_of(p, n->list[i]);
        LM_TRY(scan(p, &n->bodies[0], n->kind == N_FILTER_BLOCK ? n->a : NULL));
    }
    p->depth--;
    return LM_OK;
}

static lm_status scopes_in(pass *p, const jbody *body)
{
    for (size_t i = 0; i < body->n; i++)
        LM_TRY(scopes_of(p, body->items[i]));
    return LM_OK;
}

lm_status lm_jinja_scopes(lm_template *t, lm_error *e)
{
    pass p = { .t = t, .e = e };

    for (size_t d = 0; d < sizeof p.seen / sizeof *p.seen; d++) {
        p.seen[d] = lm_arena_alloc(&t->arena, t->n_names);
        if (!p.seen[d])
            return lm_fail_memory(e, "a template's names", t->n_names);
    }
    return scan(&p, &t->body, NULL);
}
