/* listing_c_line.c - write one operation of a listing in C. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "study/listing/listing_c.h"

static const char *in_name(const lm_listing *l, const lm_node *n, uint32_t k)
{
    return l->names[n->in[k]];
}

static uint32_t in_width(const lm_listing *l, const lm_node *n, uint32_t k)
{
    return l->p->values[n->in[k]].width;
}

/* w("self_attn.q_proj.weight", 9437184): append a path, relative to the layer if the weight belongs to it. `star`: replaces '*'; NULL:
 * the path has none. */
static void put_path(const lm_listing *l, const char *path, const char *star, uint64_t n, lm_text *out)
{
    const char *at = strchr(path, '*'), *of = !lm_listing_own(l, &path) ? "W" : at ? "we" : "w";

    if (at)
        lm_text_printf(out, "%s(\"%.*s%%d%s\", %s, %" PRIu64 ")", of, (int)(at - path), path, at + 1, star, n);
    else
        lm_text_printf(out, "%s(\"%s\", %" PRIu64 ")", of, path, n);
}

static uint64_t elements(const lm_weight *w)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < w->n_dims; i++)
        n *= w->dims[i];
    return n;
}

static void put_weight(const lm_listing *l, uint32_t index, lm_text *out)
{
    const lm_weight *w = index == LM_NONE ? NULL : &l->p->weights[index];

    if (!w) {
        lm_text_add_str(out, "NULL");
    } else if (strchr(w->path, '*')) {           /* one vector per head, stored separately */
        const char *prefix = l->p->modules[l->f->ledger->layer[l->layer]].path;
        const char *path = w->path + strlen(prefix) + 1, *at = strchr(path, '*');
        lm_text_printf(out, "stacked(\"%.*s%%d%s\", %" PRIu64 ", %" PRIu64 ")", (int)(at - path), path, at + 1, w->dims[0],
                       elements(w) / w->dims[0]);
    } else {
        if (w->plus_one)
            lm_text_add_str(out, "plus_one(");
        put_path(l, w->path, NULL, elements(w), out);
        if (w->plus_one)
            lm_text_printf(out, ", %" PRIu64 ")", elements(w));
    }
}

const char *lm_listing_c_act(lm_act a)
{
    return a == LM_ACT_TANH ? "squashed" : lm_act_id(a);
}

/* ---- results of operations ---- */

static void put_linear(const lm_listing *l, const lm_node *n, lm_text *out)
{
    lm_text_printf(out, "%s(%s, %u, %u, ", l->p->weights[n->weights[0]].transposed ? "linear_stored_in_out" : "linear", in_name(l, n, 0),
                   in_width(l, n, 0), l->p->values[n->out].width);
    put_weight(l, n->weights[0], out);
    lm_text_add_str(out, ", ");
    put_weight(l, n->weights[1], out);
    lm_text_add_char(out, ')');
}

static void put_norm(const lm_listing *l, const lm_node *n, lm_text *out)
{
    uint32_t groups = n->norm.groups > 1 ? n->norm.groups : 1;

    lm_text_printf(out, "%s(%s, %u, %u, ", n->code == LM_OP_RMS_NORM ? "rms_norm" : "layer_norm", in_name(l, n, 0), groups,
                   in_width(l, n, 0) / groups);
    put_weight(l, n->weights[0], out);
    if (n->code == LM_OP_LAYER_NORM) {
        lm_text_add_str(out, ", ");
        put_weight(l, n->weights[1], out);
    }
    lm_text_printf(out, ", %u, %g)", n->norm.own && groups > 1, (double)n->norm.eps);
}

static void put_rope(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_rope_spec *s = &l->p->ropes[n->rope.table].spec;
    char                rotary[LM_LISTING_NAME];

    lm_listing_rotary(l, n->rope.table, rotary);
    lm_text_printf(out, "%s(%s, %u, %u, %u, %s)", (s->pairing == LM_ROPE_PAIR) != s->permuted ? "rope_pairs" : "rope", in_name(l, n, 0),
                   n->rope.n_heads, in_width(l, n, 0) / n->rope.n_heads, s->dim / 2, rotary);
}

static void put_attention(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_attention_spec *s = &n->attention.spec;
    double                   scale = (double)s->scale * (l->scores_by_layer ? n->layer + 1 : 1);

    lm_text_printf(out, "attention(%s, %s, %s, %u, %u, %u, %u, ", in_name(l, n, 0), in_name(l, n, 1), s->v_in_k ? "NULL" : in_name(l, n, 2),
                   s->n_heads, s->n_kv_heads, s->k_dim, s->v_dim);
    if (fabs(scale * sqrt(s->k_dim) - 1) < 1e-6)
        lm_text_printf(out, "1 / sqrtf(%u)", s->k_dim);
    else
        lm_text_printf(out, "%.9g", scale);
    lm_text_printf(out, "%s, %u, %.9g, ", l->scores_by_layer ? " / (i + 1)" : "", s->window, (double)s->softcap);
    put_weight(l, s->sinks ? n->weights[0] : LM_NONE, out);
    lm_text_add_char(out, ')');
}

/* Append the view of expert e's matrix or vector: where it begins, and its row and column strides. */
static void put_view(const lm_listing *l, uint32_t index, lm_text *out)
{
    const lm_weight      *w = &l->p->weights[index];
    const lm_interleaved *x = &w->interleaved;
    uint64_t              rows = w->dims[1], cols = w->n_dims > 2 ? w->dims[2] : 1, of = x->path ? x->of : rows, each = of * cols;
    bool                  flip = x->path && x->transposed && w->n_dims > 2;

    lm_text_add_str(out, "(view){ ");
    put_path(l, x->path ? x->path : w->path, "e", x->path ? w->dims[0] * each : each, out);
    if (x->path) {
        lm_text_printf(out, " + (size_t)e * %" PRIu64, each);
        if (x->first)
            lm_text_printf(out, " + %" PRIu64, x->first * (flip ? 1 : cols));
    }
    lm_text_printf(out, ", %" PRIu64 ", %" PRIu64 " }", (x->path && of != rows ? x->step : 1) * (flip ? 1 : cols), flip ? of : 1);
}

void lm_listing_c_experts(const lm_listing *l, const lm_node *n, const char *name, lm_text *out)
{
    lm_text_printf(out, "    for (int e = 0; e < %u; e++)\n        add_expert(%s, %s, %s, e, %u, %u", n->experts.n_experts, name,
                   in_name(l, n, 0), in_name(l, n, 1), in_width(l, n, 0), n->experts.width);
    for (unsigned k = 0; k < 6; k++) {
        if (n->weights[k] == LM_NONE)
            continue;
        lm_text_add_str(out, ",\n                   ");
        put_view(l, n->weights[k], out);
    }
    lm_text_add_str(out, ");\n");
}

static void put_heads(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_weight *w = &l->p->weights[n->weights[0]];
    const lm_joint  *j = &w->joint;
    uint64_t         cols = j->transposed ? w->dims[1] : w->dims[2], each = (uint64_t)j->of * cols;

    lm_text_printf(out, "per_head(%s, %u, %u, %" PRIu64 ", %" PRIu64 ",\n                   (view){ ", in_name(l, n, 0), n->heads.shared,
                   n->heads.n_heads, w->dims[2], w->dims[1]);
    put_path(l, j->path, NULL, w->dims[0] * each, out);
    if (j->first)
        lm_text_printf(out, " + %" PRIu64, j->first * cols);
    lm_text_printf(out, ", %" PRIu64 ", %" PRIu64 " }, %" PRIu64 ")", j->transposed ? 1 : cols, j->transposed ? cols : 1, each);
}

void lm_listing_c_value(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_weight *first = n->weights[0] == LM_NONE ? NULL : &l->p->weights[n->weights[0]];
    uint32_t         width = l->p->values[n->out].width;

    switch (n->code) {
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_text_add_str(out, n->code == LM_OP_EMBED ? "embed(ids, " : "positions_of(");
        put_weight(l, n->weights[0], out);
        lm_text_printf(out, ", %" PRIu64 ", %u", first->dims[0], width);
        if (n->code == LM_OP_POSITION)
            lm_text_printf(out, ", %u", n->position.offset);
        lm_text_add_char(out, ')');
        return;
    case LM_OP_SINUSOID: lm_text_printf(out, "sinusoid(%u, %u)", width, n->position.offset); return;
    case LM_OP_LINEAR: put_linear(l, n, out); return;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM: put_norm(l, n, out); return;
    case LM_OP_ROPE: put_rope(l, n, out); return;
    case LM_OP_ATTENTION: put_attention(l, n, out); return;
    case LM_OP_ADD: lm_text_printf(out, "add(%s, %s, %u)", in_name(l, n, 0), in_name(l, n, 1), width); return;
    case LM_OP_SCALE: lm_text_printf(out, "scaled(%s, %u, %.9g)", in_name(l, n, 0), width, (double)n->scale.factor); return;
    case LM_OP_GLU:
        lm_text_printf(out, "%s(%s, %s, %s, %u)", in_width(l, n, 0) == width ? "gated" : "gated_by_one", lm_listing_c_act(n->glu.act),
                       in_name(l, n, 0), in_name(l, n, 1), width);
        return;
    case LM_OP_ACT: lm_text_printf(out, "activated(%s, %s, %u)", lm_listing_c_act(n->glu.act), in_name(l, n, 0), width); return;
    case LM_OP_COLUMNS:
        lm_text_printf(out, "columns(%s, %u, %u, %u, %u)", in_name(l, n, 0), n->columns.groups, in_width(l, n, 0) / n->columns.groups,
                       n->columns.offset, width / n->columns.groups);
        return;
    case LM_OP_SOFTCAP: lm_text_printf(out, "capped(%s, %u, %.9g)", in_name(l, n, 0), width, (double)n->scale.factor); return;
    case LM_OP_CLAMP: lm_text_printf(out, "clamped(%s, %u, %.9g)", in_name(l, n, 0), width, (double)n->scale.factor); return;
    case LM_OP_ROUTE:
        lm_text_printf(out, "choose(%s, %u, %u, ", in_name(l, n, 0), n->route.spec.n_experts, n->route.spec.top_k);
        put_weight(l, n->weights[0], out);
        lm_text_add_char(out, ')');
        return;
    case LM_OP_EXPERTS: lm_text_printf(out, "make(%u)", width); return;
    case LM_OP_HEAD_LINEAR: put_heads(l, n, out); return;
    case LM_OP_JOIN:
        lm_text_printf(out, "join(%s, %u, %s, %u, %u, %u)", in_name(l, n, 0), in_width(l, n, 0) / n->join.groups, in_name(l, n, 1),
                       n->join.shared ? in_width(l, n, 1) : in_width(l, n, 1) / n->join.groups, n->join.groups, n->join.shared);
        return;
    case LM_OP_ALL_REDUCE:               /* of split programs, which have no listings */
    case LM_OP_ALL_GATHER:
    case LM_OP_SEND:
    case LM_OP_RECEIVE:
    case LM_OP_EDIT:
    case LM_OP_GIVEN:
    case LM_OP_COUNT:
        return;
    }
}
