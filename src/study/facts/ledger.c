/* ledger.c - follow values and weights through a program, once, for all facts (ledger.h).
 *
 * Everything is found by data flow, never by names: what a product is for follows backward from attention and
 * from gates; what is added to the residual stream, from sums of values of different parts. Layers are twins
 * if a walk over both programs meets the same operations, widths and attributes. Owner: lm_facts. One
 * thread. */
#include "study/facts/ledger.h"

#include <string.h>

#include "base/alloc.h"
#include "program/op.h"

/* ---- the module tree ---- */

static void find_tree(lm_ledger *l)
{
    const lm_program *p = l->program;

    l->stack = LM_NONE;
    for (uint32_t m = p->n_modules; m-- > 0;) { /* backward, so that siblings are linked in
                                                                order */
        uint32_t parent = p->modules[m].parent;
        if (parent == LM_NONE)
            continue;
        l->sibling[m]    = l->child[parent];
        l->child[parent] = m;
        if (p->modules[m].layer >= 0 && p->modules[parent].layer < 0) {
            l->layer[p->modules[m].layer] = m;
            l->stack                      = parent;
        }
    }
}

static bool is_nonlinear(const lm_node *n)
{
    return n->code == LM_OP_GLU || n->code == LM_OP_ACT || n->code == LM_OP_ROUTE || n->code == LM_OP_EXPERTS;
}

static void find_blocks(lm_ledger *l)
{
    const lm_program *p = l->program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t m = p->nodes[i].module, block = LM_NONE;
        if (p->nodes[i].layer >= 0)
            for (uint32_t up = m; up != l->layer[p->nodes[i].layer]; up = p->modules[up].parent)
                block = up;
        l->block[i] = block;
        bool *has = p->nodes[i].code == LM_OP_ATTENTION        ? l->attends
                    : lm_op_of(p->nodes[i].code)->state ? l->carries
                                                        : NULL;
        bool acts = block != LM_NONE && !lm_is_apart(p, block) && (has || is_nonlinear(&p->nodes[i]));
        if (acts)
            l->acts[block] = true;
        for (; has && m != LM_NONE; m = p->modules[m].parent)
            has[m] = true;
    }
}

/* Return whether a block only prepares or uses the residual stream, or is a residual of low rank. */
static bool is_aside(const lm_ledger *l, uint32_t block)
{
    return lm_has_several(l->program, block) && !l->acts[block];
}

/* ---- roles of products ---- */

/* Mark the products that make `v`, within `block`; LM_NONE: only the nearest product. */
static void mark_makers(lm_ledger *l, lm_value v, uint32_t block, uint16_t role, unsigned depth)
{
    const lm_program *p = l->program;

    if (v == LM_NONE || depth == 0)
        return;
    uint32_t       i = p->values[v].producer;
    const lm_node *n = &p->nodes[i];
    if (l->block[i] == LM_NONE || (block != LM_NONE && l->block[i] != block) || n->code == LM_OP_ATTENTION ||
        n->code == LM_OP_ADD)
        return;
    if (n->code == LM_OP_LINEAR)
        l->roles[i] |= role;
    if (n->code == LM_OP_LINEAR && block == LM_NONE)
        return;
    for (uint32_t k = 0; k < n->n_in; k++)
        mark_makers(l, n->in[k], block, role, depth - 1);
}

/* Mark the first product after operation `from` that reads its result, directly or through operations other
 * than products. */
static void mark_readers(lm_ledger *l, uint32_t from, uint16_t role)
{
    const lm_program *p = l->program;
    lm_value          v = p->nodes[from].out;

    for (uint32_t i = from + 1; i < p->n_nodes && p->nodes[i].layer == p->nodes[from].layer; i++)
        for (uint32_t k = 0; k < p->nodes[i].n_in; k++)
            if (p->nodes[i].in[k] == v) {
                if (p->nodes[i].code == LM_OP_LINEAR) {
                    l->roles[i] |= role;
                    return;
                }
                if (p->nodes[i].code == LM_OP_ADD)
                    return;
                v = p->nodes[i].out;
                break;
            }
}

/* Return whether the layer itself computes a value, or that of which these are lanes. */
static bool is_of_layer(const lm_program *p, lm_value v, int32_t layer)
{
    const lm_node *n = &p->nodes[p->values[v].producer];

    return n->code == LM_OP_COLUMNS ? is_of_layer(p, n->in[0], layer) : n->layer == layer;
}

static void find_roles(lm_ledger *l)
{
    static const uint16_t of_attention[3] = { LM_PRODUCT_QUERY, LM_PRODUCT_KEY, LM_PRODUCT_VALUE };
    const lm_program     *p               = l->program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer < 0)
            continue;
        switch (n->code) {
        case LM_OP_ATTENTION:
            for (uint32_t k = 0; k < n->n_in && k < 3; k++)
                mark_makers(l, n->in[k], l->block[i], of_attention[k], 24);
            mark_readers(l, i, LM_PRODUCT_OUTPUT);
            break;
        case LM_OP_GLU:
            if (!is_of_layer(p, n->in[1], n->layer))         /* not an MLP: it gates what all layers get */
                break;
            mark_makers(l, n->in[0], LM_NONE, LM_PRODUCT_GATE, 6);
            mark_makers(l, n->in[1], LM_NONE, LM_PRODUCT_UP, 6);
            mark_readers(l, i, LM_PRODUCT_DOWN);
            break;
        case LM_OP_ACT:
            if (lm_is_apart(p, l->block[i]))
                break;
            mark_makers(l, n->in[0], LM_NONE, LM_PRODUCT_UP, 6);
            mark_readers(l, i, LM_PRODUCT_DOWN);
            break;
        case LM_OP_ROUTE:
            mark_makers(l, n->in[0], LM_NONE, LM_PRODUCT_ROUTER, 6);
            break;
        default:
            break;
        }
    }
    l->roles[l->head] |= LM_PRODUCT_HEAD;
}

/* ---- parts and readers ---- */

static lm_part part_of(const lm_ledger *l, uint32_t i)
{
    const lm_node *n = &l->program->nodes[i];

    if (n->code == LM_OP_EMBED || n->code == LM_OP_POSITION)
        return LM_PART_EMBEDDING;
    if (lm_is_norm(n))
        return LM_PART_NORM;
    if (i == l->head)
        return LM_PART_HEAD;
    if (l->block[i] == LM_NONE || is_aside(l, l->block[i]))
        return LM_PART_OTHER;
    if (n->code == LM_OP_LINEAR && !l->roles[i] && !lm_has_several(l->program, l->block[i]))
        return LM_PART_OTHER;                /* a product beside attention and MLP */
    return l->attends[l->block[i]]   ? LM_PART_ATTENTION
           : l->carries[l->block[i]] ? LM_PART_STATE
                                     : LM_PART_MLP;
}

static void find_parts(lm_ledger *l)
{
    const lm_program *p = l->program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        l->part[i] = part_of(l, i);
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint32_t w = p->nodes[i].weights[k];
            if (w != LM_NONE && l->reader[w] == LM_NONE)
                l->reader[w] = i;
        }
    }
}

/* ---- identical layers ---- */

/* Return whether an input comes from outside the operation's layer: what the layer before hands on, its lanes
 * of a value that all layers read, or keys and values of an earlier layer. */
static bool from_outside(const lm_program *p, const lm_node *n, uint32_t input)
{
    return p->nodes[p->values[n->in[input]].producer].layer != n->layer;
}

static bool same_node(const lm_program *p, const lm_node *a, const lm_node *b)
{
    if (a->code != b->code || a->n_in != b->n_in || p->values[a->out].width != p->values[b->out].width)
        return false;
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
        uint32_t x = a->weights[k], y = b->weights[k];
        if ((x == LM_NONE) != (y == LM_NONE) ||
            (x != LM_NONE && p->weights[x].elements != p->weights[y].elements))
            return false;
    }
    for (uint32_t k = 0; k < a->n_in; k++)
        if (from_outside(p, a, k) != from_outside(p, b, k) ||
            (!from_outside(p, a, k) && a->out - a->in[k] != b->out - b->in[k]))  /* counting backward */
            return false;
    return lm_op_same(a, b) || (a->code == LM_OP_COLUMNS && from_outside(p, a, 0) && from_outside(p, b, 0) &&
                                a->columns.groups == b->columns.groups);
}

static bool same_layer(const lm_program *p, const lm_module *a, const lm_module *b)
{
    if (a->end_op - a->first_op != b->end_op - b->first_op)
        return false;
    for (uint32_t i = 0; i < a->end_op - a->first_op; i++)
        if (!same_node(p, &p->nodes[a->first_op + i], &p->nodes[b->first_op + i]))
            return false;
    return true;
}

/* Compare each layer with the first of each known kind: layers have few kinds. */
static void find_twins(lm_ledger *l)
{
    const lm_program *p = l->program;

    for (uint32_t i = 0; i < p->n_layers; i++) {
        l->twin[i] = i;
        for (uint32_t k = 0; k < i && l->twin[i] == i; k++)
            if (l->twin[k] == k && same_layer(p, &p->modules[l->layer[k]], &p->modules[l->layer[i]]))
                l->twin[i] = k;
    }
}

/* ---- creation ---- */

static uint32_t *numbers(uint32_t n)
{
    uint32_t *x = lm_alloc(((size_t)n + 1) * sizeof *x);

    if (x)
        memset(x, 0xFF, ((size_t)n + 1) * sizeof *x);        /* LM_NONE everywhere */
    return x;
}

lm_status lm_ledger_new(const lm_program *p, lm_ledger **out, lm_error *e)
{
    lm_ledger *l = lm_alloc_zero(1, sizeof *l);

    if (!l)
        return lm_fail_memory(e, "facts", sizeof *l);
    l->program = p;
    l->reader  = numbers(p->n_weights);
    l->block   = numbers(p->n_nodes);
    l->layer   = numbers(p->n_layers);
    l->twin    = numbers(p->n_layers);
    l->child   = numbers(p->n_modules);
    l->sibling = numbers(p->n_modules);
    l->part    = lm_alloc_zero((size_t)p->n_nodes + 1, sizeof *l->part);
    l->roles   = lm_alloc_zero((size_t)p->n_nodes + 1, sizeof *l->roles);
    l->attends = lm_alloc_zero((size_t)p->n_modules + 1, sizeof *l->attends);
    l->carries = lm_alloc_zero((size_t)p->n_modules + 1, sizeof *l->carries);
    l->acts    = lm_alloc_zero((size_t)p->n_modules + 1, sizeof *l->acts);
    if (!l->reader || !l->block || !l->layer || !l->twin || !l->child || !l->sibling || !l->part ||
        !l->roles || !l->attends || !l->carries || !l->acts) {
        lm_ledger_free(l);
        return lm_fail_memory(e, "facts", 0);
    }
    l->head = lm_program_head(p);
    find_tree(l);
    find_blocks(l);
    find_roles(l);
    find_parts(l);
    find_twins(l);
    *out = l;
    return LM_OK;
}

void lm_ledger_free(lm_ledger *l)
{
    if (!l)
        return;
    lm_free(l->reader);
    lm_free(l->block);
    lm_free(l->layer);
    lm_free(l->twin);
    lm_free(l->child);
    lm_free(l->sibling);
    lm_free(l->part);
    lm_free(l->roles);
    lm_free(l->attends);
    lm_free(l->carries);
    lm_free(l->acts);
    lm_free(l);
}

/* ---- residual stream ---- */

/* Return whether every input is made by an MLP or experts of the same layer, or is a norm of that. */
static bool joins_experts(const lm_ledger *l, const lm_node *n)
{
    const lm_program *p = l->program;

    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t made = p->values[n->in[k]].producer;
        while (lm_is_norm(&p->nodes[made]) && p->nodes[made].layer == n->layer)
            made = p->values[p->nodes[made].in[0]].producer;
        if (l->part[made] != LM_PART_MLP || p->nodes[made].layer != n->layer || lm_is_residual(l, made))
            return false;
    }
    return true;
}

bool lm_connects(const lm_program *p, uint32_t module)
{
    for (uint32_t i = module == LM_NONE ? LM_NONE : lm_module_op(p, module, 0); i != LM_NONE;
         i = lm_module_op(p, module, i + 1))
        if (p->nodes[i].code == LM_OP_CONNECT)
            return true;
    return false;
}

bool lm_is_residual(const lm_ledger *l, uint32_t i)
{
    const lm_program *p = l->program;
    const lm_node    *n = &p->nodes[i];

    if (n->code == LM_OP_MERGE)
        return true;
    if (n->code != LM_OP_ADD || n->layer < 0 || joins_experts(l, n) || is_aside(l, l->block[i]))
        return false;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (l->block[i] == LM_NONE || l->block[p->values[n->in[k]].producer] != l->block[i])
            return true;
    return false;
}

uint32_t lm_added_by(const lm_ledger *l, uint32_t i, uint32_t k)
{
    const lm_program *p    = l->program;
    uint32_t          from = p->values[p->nodes[i].in[k]].producer;

    while (p->nodes[from].layer == p->nodes[i].layer &&
           (lm_is_norm(&p->nodes[from]) || p->nodes[from].code == LM_OP_SCALE))
        from = p->values[p->nodes[from].in[0]].producer;
    return p->nodes[from].layer != p->nodes[i].layer || lm_is_residual(l, from) ? LM_NONE : from;
}

/* ---- sums ---- */

void lm_module_sum(const lm_ledger *l, uint32_t module, lm_module_sums *out)
{
    const lm_program *p     = l->program;
    uint32_t          share = p->modules[module].share;
    lm_cost           c;

    *out = (lm_module_sums){ 0 };
    if (share) {
        lm_module_sum(l, p->modules[module].parent, out);
        out->parameters /= share;
        out->mult_adds /= share;
        out->flops /= share;
        out->weight_elements /= share;
        out->activations /= share;
    }
    for (uint32_t i = lm_module_op(p, module, 0); i != LM_NONE; i = lm_module_op(p, module, i + 1)) {
        const lm_node *n = &p->nodes[i];
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint32_t w = n->weights[k];
            /* an expert's matrix can be its own gate */
            if (w == LM_NONE || l->reader[w] != i || p->weights[w].constant || (k && w == n->weights[k - 1]))
                continue;
            out->parameters += p->weights[w].elements;
            if (p->weights[w].kind == LM_VECTOR && (n->code == LM_OP_LINEAR || n->code == LM_OP_EXPERTS))
                out->biases += p->weights[w].elements;
        }
        lm_node_cost(p, n, &c);
        out->mult_adds += c.mult_adds;
        out->flops += c.flops;
        out->key_mult_adds += c.key_mult_adds;
        out->key_flops += c.key_flops;
        out->weight_elements += c.weight_elements;
        out->activations += c.writes;
    }
}

bool lm_module_linear(const lm_program *p, uint32_t module, lm_linear_form *out)
{
    bool     share = p->modules[module].share;
    uint32_t from  = share ? p->modules[module].parent : module, i = lm_module_op(p, from, 0);

    if (i == LM_NONE || p->nodes[i].module != from)
        return false;
    const lm_node *n = &p->nodes[i];
    uint32_t next = lm_module_op(p, from, i + 1);
    if (n->code == LM_OP_LINEAR && (next == LM_NONE || p->nodes[next].weights[0] == n->weights[0])) {
        *out = (lm_linear_form){ p->values[n->in[0]].width, p->values[n->out].width,
                                 n->weights[1] != LM_NONE };
        return true;
    }
    if (n->code != LM_OP_HEAD_LINEAR || p->weights[n->weights[0]].joint.by_head)
        return false;
    const lm_weight *w = &p->weights[n->weights[0]];
    if (w->kind == LM_EXPERTS) {         /* a list of matrices, each of a module */
        *out = (lm_linear_form){ w->dims[2], w->dims[1], false };
        return share;
    }
    *out = (lm_linear_form){ w->joint.transposed ? w->dims[1] : w->dims[2], w->dims[0] * w->joint.of, false };
    return true;
}

uint64_t lm_node_mult_adds(const lm_program *p, const lm_node *n, uint64_t keys)
{
    lm_cost c;

    lm_node_cost(p, n, &c);
    if (lm_node_rate(n))
        keys = lm_node_keys_at(n, keys);
    else if (lm_node_reach(n) && keys > lm_node_reach(n))
        keys = lm_node_reach(n);
    return c.mult_adds + c.key_mult_adds * keys;
}
