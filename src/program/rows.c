/* rows.c - the order of a projection's rows in GGUF files. */
#include "program/rows.h"

#include "program/op.h"

/* Return the order of the lanes of `v` by its rotation: between a projection and its rotation only single
 * lanes change. If v is scored without rotation, the order is that of any other rotation: files permute
 * layers that do not rotate, too; some families all of their layers (lm_attention_spec.gguf_permutes). */
static lm_gguf_rows rotation_of(const lm_program *p, lm_value v, uint32_t from)
{
    lm_gguf_rows   any    = { 0 };
    const lm_node *scored = NULL;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node      *n     = &p->nodes[i];
        const lm_rope_spec *rope  = n->code == LM_OP_ROPE ? &p->ropes[n->rope.table].spec : NULL;
        bool                reads = i > from && n->n_in && n->in[0] == v;
        if (reads && !rope && lm_op_of(n->code)->lanewise)
            return rotation_of(p, n->out, i);
        if (rope && rope->gguf_permutes)
            any = (lm_gguf_rows){ .head = n->rope.head_dim, .dim = rope->dim };
        if (rope && rope->gguf_permutes && reads)
            return any;
        if (n->code == LM_OP_ATTENTION && (n->in[0] == v || n->in[1] == v))
            scored = n;
    }
    if (!scored)
        return (lm_gguf_rows){ 0 };
    if (!any.dim && scored->attention.spec.gguf_permutes)
        any.head = any.dim = scored->attention.spec.k_dim;
    return any;
}

/* Return whether queries, keys and values are lanes of the operation's output. */
static bool is_fused(const lm_program *p, const lm_node *n, const lm_gguf_rows *fused)
{
    if (fused->groups < 2 || p->values[n->out].width != fused->groups * (fused->q + 2 * fused->kv))
        return false;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_COLUMNS && p->nodes[i].in[0] == n->out)
            return true;
    return false;
}

lm_gguf_rows lm_gguf_rows_of(const lm_program *p, uint32_t node, const lm_gguf_rows *fused)
{
    const lm_node *n    = &p->nodes[node];
    lm_gguf_rows   rope = { 0 }, o = { 0 };

    if (n->code == LM_OP_LINEAR)
        rope = rotation_of(p, n->out, node);

    if (n->weights[0] != LM_NONE && p->weights[n->weights[0]].layout) {
        o.layout = p->weights[n->weights[0]].layout;
    } else if (rope.dim) {
        o = rope;
    } else if (n->code == LM_OP_LINEAR && is_fused(p, n, fused)) {
        o = *fused;
    }
    return o;
}

uint64_t lm_gguf_column_from(const lm_gguf_rows *o, uint64_t i)
{
    return o->layout && o->layout->columns ? lm_gguf_layout_from(o->layout, i) : i;
}

uint64_t lm_gguf_row_from(const lm_gguf_rows *o, uint64_t i)
{
    if (o->layout)
        return o->layout->columns ? i : lm_gguf_layout_from(o->layout, i);
    if (o->dim) {
        uint64_t lane = i % o->head;
        return lane < o->dim ? i - lane + lane % 2 * (o->dim / 2) + lane / 2 : i;
    }
    if (!o->groups)
        return i;
    uint64_t group = o->q + 2 * o->kv, width = o->q, before = 0;
    if (i >= o->groups * o->q) {
        bool value = i >= o->groups * (o->q + o->kv);
        width      = o->kv;
        before     = o->q + (value ? o->kv : 0);
        i -= o->groups * before;
    }
    return i / width * group + before + i % width;
}
