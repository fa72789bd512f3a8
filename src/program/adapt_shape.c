/* adapt_shape.c - find the operations that can have an adapter, and its shape. */
#include <string.h>

#include "program/adapt.h"

uint32_t lm_adapt_values_of(const lm_program *p, uint32_t node)
{
    const lm_node *k = &p->nodes[node], *v = k + 1;

    if (node + 1 >= p->n_nodes || k->code != LM_OP_HEAD_LINEAR || v->code != LM_OP_HEAD_LINEAR ||
        !k->heads.shared || !v->heads.shared)
        return LM_NONE;
    return k->module == v->module && k->in[0] == v->in[0] ? node + 1 : LM_NONE;
}

static void of_latent(const lm_program *p, const lm_node *n, lm_adapt_shape *out)
{
    const lm_weight *w = &p->weights[n->weights[0]];

    out->weight = w->joint.path;
    out->gguf   = w->joint.gguf;
    out->in     = p->values[n->in[0]].width;
    out->out    = w->dims[0] * w->joint.of;
}

bool lm_adapt_possible(const lm_program *p, uint32_t node, lm_adapt_shape *out)
{
    const lm_node *n      = &p->nodes[node];
    lm_adapt_shape s      = { 0 };
    bool           latent = lm_adapt_values_of(p, node) != LM_NONE;

    if (n->adapter || n->module == LM_NONE || !(n->code == LM_OP_LINEAR || n->code == LM_OP_EMBED || latent))
        return false;
    s.module = p->modules[n->module].path;
    if (latent) {
        of_latent(p, n, &s);
    } else {
        const lm_weight *w = &p->weights[n->weights[0]];
        s.table  = n->code == LM_OP_EMBED;
        if (!s.table && strcmp(n->path, s.module) != 0)          /* a parameter of a module, not a module */
            return false;
        s.weight = w->path;
        s.gguf   = w->gguf;
        s.in     = s.table ? w->dims[0] : w->dims[1];
        s.out    = s.table ? w->dims[1] : w->dims[0];
    }
    *out = s;
    return true;
}

uint32_t lm_adapt_node(const lm_program *p, const char *module)
{
    lm_adapt_shape shape;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (lm_adapt_possible(p, i, &shape) && strcmp(shape.module, module) == 0)
            return i;
    return LM_NONE;
}
