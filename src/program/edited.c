/* edited.c - interventions: operations inserted into a program. */
#include "program/edited.h"

#include <string.h>

#include "base/alloc.h"

/* ---- copy of a program ---- */

static void *copy_of(const void *from, size_t n, size_t more, size_t size)
{
    void *to = lm_alloc_zero(n + more + 1, size);

    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

lm_program *lm_program_copy(const lm_program *p, uint32_t nodes, uint32_t values)
{
    lm_program *c = lm_alloc_zero(1, sizeof *c);

    if (!c)
        return NULL;
    *c         = *p;
    c->arena   = (lm_arena){ 0 };
    c->nodes   = copy_of(p->nodes, p->n_nodes, nodes, sizeof *p->nodes);
    c->values  = copy_of(p->values, p->n_values, values, sizeof *p->values);
    c->weights = copy_of(p->weights, p->n_weights, 0, sizeof *p->weights);
    c->modules = copy_of(p->modules, p->n_modules, 0, sizeof *p->modules);
    c->caches  = copy_of(p->caches, p->n_caches, 0, sizeof *p->caches);
    c->states  = copy_of(p->states, p->n_states, 0, sizeof *p->states);
    c->ropes   = copy_of(p->ropes, p->n_ropes, 0, sizeof *p->ropes);
    if (c->nodes && c->values && c->weights && c->modules && c->caches && c->states && c->ropes)
        return c;
    lm_program_free(c);
    return NULL;
}

/* ---- edits ---- */

static lm_status check(const lm_program *p, const lm_edit *x, lm_error *e)
{
    if (x->value >= p->n_values || p->values[x->value].producer >= p->n_nodes)
        return lm_fail(e, LM_USAGE, "an intervention", LM_NO_OFFSET, "no such value");
    const lm_node *n     = &p->nodes[p->values[x->value].producer];
    uint32_t       width = p->values[x->value].width;

    if (x->kind == LM_EDIT_EXPERT && n->code != LM_OP_ROUTE)
        return lm_fail(e, LM_USAGE, n->path, LM_NO_OFFSET, "does not choose experts");
    if (x->kind == LM_EDIT_EXPERT && x->from >= n->route.spec.n_experts)
        return lm_fail(e, LM_USAGE, n->path, LM_NO_OFFSET, "expert %u of %u", x->from,
                       n->route.spec.n_experts);
    if (x->kind != LM_EDIT_EXPERT && (x->from >= x->to || x->to > width))
        return lm_fail(e, LM_USAGE, n->path, LM_NO_OFFSET, "dimensions %u to %u of %u", x->from, x->to,
                       width);
    return LM_OK;
}

static uint32_t edits_of(const lm_edit *edits, size_t n, lm_value v, lm_edit *out)
{
    uint32_t k = 0;

    for (size_t i = 0; i < n; i++)
        if (edits[i].value == v)
            out[k++] = edits[i];
    return k;
}

/* Insert at index `at` the operation that edits value `v`; its output is a new value. */
static bool insert(lm_program *c, uint32_t at, uint32_t producer, lm_value v, const lm_edit *list, uint32_t n)
{
    lm_node *made = &c->nodes[producer], *edit = &c->nodes[at];
    lm_value new  = c->n_values++;

    *edit = (lm_node){
        .code = LM_OP_EDIT, .path = made->path, .module = made->module, .layer = made->layer, .n_in = 1
    };
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        edit->weights[k] = LM_NONE;
    edit->in[0]      = v;
    edit->out        = new;
    edit->edits.list = list;
    edit->edits.n    = n;
    made->path       = lm_arena_printf(&c->arena, "%s#unchanged", made->path);
    c->values[new]   = (lm_value_info){ c->values[v].width, at };
    return made->path != NULL;
}

/* Make every other reader of an edited value read the changed one. */
static void redirect(lm_program *c, const lm_value *changed)
{
    for (uint32_t i = 0; i < c->n_nodes; i++)
        for (uint32_t k = 0; c->nodes[i].code != LM_OP_EDIT && k < c->nodes[i].n_in; k++)
            c->nodes[i].in[k] = changed[c->nodes[i].in[k]];
    for (uint32_t m = 0; m < c->n_modules; m++) {
        lm_module *x = &c->modules[m];
        x->in        = x->in == LM_NONE ? LM_NONE : changed[x->in];
        x->out       = x->out == LM_NONE ? LM_NONE : changed[x->out];
    }
    c->logits = changed[c->logits];
}

static bool build(const lm_program *p, const lm_edit *edits, size_t n, lm_program *c, lm_value *changed,
                  uint32_t *place)
{
    lm_edit *list = lm_arena_new(&c->arena, n + 1, lm_edit);
    uint32_t at   = 0;

    for (lm_value v = 0; v < p->n_values; v++)
        changed[v] = v;
    for (uint32_t i = 0; list && i < p->n_nodes; i++) {
        const lm_node *node = &p->nodes[i];
        place[i]                      = at;
        c->nodes[at]                  = *node;
        c->values[node->out].producer = at++;
        uint32_t k = edits_of(edits, n, node->out, list);
        if (!k)
            continue;
        changed[node->out] = c->n_values;
        if (!insert(c, at, at - 1, node->out, list, k))
            return false;
        list += k;
        at++;
    }
    place[p->n_nodes] = c->n_nodes = at;
    for (uint32_t m = 0; m < c->n_modules; m++) {
        c->modules[m].first_op = place[p->modules[m].first_op];
        c->modules[m].end_op   = place[p->modules[m].end_op];
    }
    redirect(c, changed);
    return list != NULL;
}

lm_status lm_program_edited(const lm_program *p, const lm_edit *edits, size_t n, lm_program **out,
                            lm_error *e)
{
    for (size_t i = 0; i < n; i++)
        LM_TRY(check(p, &edits[i], e));
    lm_program *c       = n < UINT32_MAX / 4 ? lm_program_copy(p, (uint32_t)n, (uint32_t)n) : NULL;
    lm_value   *changed = lm_alloc_zero(p->n_values + 1, sizeof *changed);
    uint32_t   *place   = lm_alloc_zero(p->n_nodes + 1, sizeof *place);
    bool        whole   = c && changed && place && build(p, edits, n, c, changed, place);

    lm_free(changed);
    lm_free(place);
    if (!whole) {
        lm_program_free(c);
        return lm_fail_memory(e, "interventions", n);
    }
    *out = c;
    return LM_OK;
}
