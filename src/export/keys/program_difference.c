/* program_difference.c - compare two programs operation by operation. */
#include "export/keys/program_difference.h"

#include <math.h>

#include "program/op.h"

static bool near(float a, float b)
{
    return fabsf(a - b) <= 1e-6f * fabsf(a);
}

/* Return whether an operation depends on whether projections are stored fused or separately. */
static bool is_storage(const lm_program *p, const lm_node *n)
{
    lm_op_code first = n->n_in ? p->nodes[p->values[n->in[0]].producer].code : n->code;

    return n->code == LM_OP_LINEAR || n->code == LM_OP_COLUMNS ||
           (n->code == LM_OP_JOIN && !n->join.shared && (first == LM_OP_COLUMNS || first == LM_OP_JOIN)) ||
           (p->folds && (n->code == LM_OP_SCALE || n->code == LM_OP_JOIN));
}

/* Return the operation that computes a value, before a multiplier that GGUF files have in their weights. */
static lm_op_code maker(const lm_program *p, lm_value v)
{
    while (p->folds && p->nodes[p->values[v].producer].code == LM_OP_SCALE)
        v = p->nodes[p->values[v].producer].in[0];
    return p->nodes[p->values[v].producer].code;
}

/* Return the next operation that does not depend on how weights are stored; n_nodes: none. */
static uint32_t next(const lm_program *p, uint32_t at)
{
    while (at < p->n_nodes && is_storage(p, &p->nodes[at]))
        at++;
    return at;
}

/* `b` is from a GGUF file, which stores some scalings as tensors. */
static bool same_scaling(const lm_rope_spec *a, const lm_rope_spec *b)
{
    float lanes[512];

    switch (a->type) {
    case LM_ROPE_DEFAULT:
        return b->type == LM_ROPE_DEFAULT && !b->stored_divisors;
    case LM_ROPE_LLAMA3:
    case LM_ROPE_PROPORTIONAL:
        return b->stored_divisors;
    case LM_ROPE_LINEAR:
        return b->type == LM_ROPE_LINEAR && near((float)a->factor, (float)b->factor);
    case LM_ROPE_YARN:
        return b->type == LM_ROPE_YARN && near((float)a->factor, (float)b->factor) &&
               a->original_context == b->original_context && near((float)a->beta_fast, (float)b->beta_fast) &&
               near((float)a->beta_slow, (float)b->beta_slow) && a->truncate == b->truncate &&
               near(lm_rope_frequencies(a, 1, NULL, NULL, lanes),
                    lm_rope_frequencies(b, 1, NULL, NULL, lanes));
    default:
        return a->type == b->type;
    }
}

static const char *rotation(const lm_rope_spec *a, const lm_rope_spec *b)
{
    if (a->dim != b->dim || !near((float)a->base, (float)b->base) || !same_scaling(a, b))
        return "rotary embedding";
    return a->pairing != b->pairing && !b->permuted ? "pairs of rotary lanes" : NULL;
}

static const char *operation(const lm_program *p, const lm_node *a, const lm_program *q, const lm_node *b)
{
    if (p->values[a->out].width != q->values[b->out].width)
        return "sizes";
    if (a->code == LM_OP_ROPE)
        return rotation(&p->ropes[a->rope.table].spec, &q->ropes[b->rope.table].spec);
    /* compare what is added: the output of a norm or the sum before it */
    for (uint32_t i = 0; a->code == LM_OP_ADD && i < 2; i++)
        if (maker(p, a->in[i]) != maker(q, b->in[i]))
            return "block";
    return lm_op_differs(a, b);
}

static bool same_sizes(const lm_config *m, const lm_config *r)
{
    return m->vocab_size == r->vocab_size && m->hidden == r->hidden && m->intermediate == r->intermediate &&
           m->n_layers == r->n_layers && m->n_heads == r->n_heads && m->n_kv_heads == r->n_kv_heads &&
           m->head_dim == r->head_dim;
}

const char *lm_program_difference(const lm_program *meant, const lm_config *m, const lm_program *read,
                                  const lm_config *r)
{
    const char *what;

    if (!same_sizes(m, r))
        return "sizes";
    if (m->context_length != r->context_length)
        return "context length";
    if (m->tied != r->tied)
        return "head";
    for (uint32_t i = next(meant, 0), k = next(read, 0); i < meant->n_nodes || k < read->n_nodes;
         i = next(meant, i + 1), k = next(read, k + 1)) {
        if (i >= meant->n_nodes || k >= read->n_nodes || meant->nodes[i].code != read->nodes[k].code)
            return "block";
        if ((what = operation(meant, &meant->nodes[i], read, &read->nodes[k])))
            return what;
    }
    return NULL;
}

/* ---- a GGUF file ---- */

/* Check that every tensor matches a weight of the model that the keys describe, and every weight a tensor. */
static lm_status check_names(const lm_container *seen, const lm_family *family, const lm_program *read,
                             lm_error *e)
{
    size_t n = lm_container_n_tensors(seen), found = read->n_weights;

    for (uint32_t i = 0; i < read->n_weights; i++) {
        const lm_weight *w     = &read->weights[i];
        const char      *joint = w->kind == LM_HEADS ? w->joint.gguf : NULL, *name = w->gguf;
        found -= w->gguf_key != NULL;
        if (w->gguf_key || (joint && lm_container_find(seen, joint)))
            continue;
        if (!name || !lm_container_find(seen, name))
            return lm_fail(e, LM_UNSUPPORTED, name ? name : w->path, LM_NO_OFFSET,
                           "GGUF has no form for this model");
    }
    if (found < n)
        return lm_fail(e, LM_UNSUPPORTED, family->name, LM_NO_OFFSET,
                       "GGUF has no form for %zu of this model's tensors", n - found);
    return LM_OK;
}

lm_status lm_read_back(lm_container *seen, const lm_family *family, const lm_program *meant,
                       const lm_config *m, lm_config *out, lm_error *e)
{
    const lm_family *as;
    lm_program      *read = NULL;
    lm_error         why;
    lm_source        source = { .kind = LM_GGUF, .meta = lm_container_meta(seen), .tensors = seen };

    if (lm_describe(&source, &as, out, &read, NULL, &why) != LM_OK)
        return lm_fail(e, LM_UNSUPPORTED, why.where, LM_NO_OFFSET, "GGUF has no form for this model: %s",
                       why.message);
    const char *what   = lm_program_difference(meant, m, read, out);
    lm_status   status = what ? lm_fail(e, LM_UNSUPPORTED, family->name, LM_NO_OFFSET,
                                        "GGUF has no form for its %s", what)
                              : check_names(seen, family, read, e);
    lm_program_free(read);
    return status;
}
