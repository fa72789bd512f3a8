/* operations.c - record operations: infer and check widths, name weights. */
#include <stdio.h>
#include <string.h>

#include "program/record.h"

lm_value lm_embed_scaled(lm_builder *b, const char *name, const char *scaled_class, uint32_t rows,
                         uint32_t width, float factor)
{
    lm_push(b, name, factor == 1 ? "Embedding" : scaled_class);
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_TABLE, 2, rows, width);
    lm_node    *n    = lm_record_node(b, LM_OP_EMBED, factor == 1 ? path : lm_record_path(b, "row"), width);
    n->weights[0]    = w;
    lm_value out     = lm_scale(b, n->out, factor);
    lm_pop(b);
    return out;
}

lm_value lm_embedding(lm_builder *b, const char *name, uint32_t rows, uint32_t width)
{
    return lm_embed_scaled(b, name, "", rows, width, 1);
}

lm_value lm_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias)
{
    lm_push(b, name, "Linear");
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_MATRIX, 2, out, lm_record_width(b, x));
    uint32_t    wb   = bias ? lm_record_weight(b, path, "bias", LM_VECTOR, 1, out, 1) : LM_NONE;
    lm_node    *n    = lm_record_unary(b, LM_OP_LINEAR, path, x, out);
    n->weights[0]    = w;
    n->weights[1]    = wb;
    lm_value y       = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_head(lm_builder *b, const char *name, lm_value x, uint32_t n_vocab, const char *tied_to)
{
    if (!tied_to)
        return lm_linear(b, name, x, n_vocab, false);
    lm_push(b, name, "Linear");
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, tied_to, "weight", LM_TABLE, 2, n_vocab, lm_record_width(b, x));
    lm_record_need(b,
                   b->failed || (b->p->weights[w].dims[0] == n_vocab &&
                                 b->p->weights[w].dims[1] == lm_record_width(b, x)),
                   path, "the tied table has another shape");
    lm_node *n    = lm_record_unary(b, LM_OP_LINEAR, path, x, n_vocab);
    n->weights[0] = w;
    lm_value y    = n->out;
    lm_pop(b);
    return y;
}

static lm_value norm(lm_builder *b, lm_op_code code, const char *name, const char *class_name, lm_value x,
                     float eps, bool bias)
{
    lm_push(b, name, class_name);
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_VECTOR, 1, lm_record_width(b, x), 1);
    uint32_t wb = bias ? lm_record_weight(b, path, "bias", LM_VECTOR, 1, lm_record_width(b, x), 1) : LM_NONE;
    lm_node    *n    = lm_record_unary(b, code, path, x, lm_record_width(b, x));
    n->weights[0]    = w;
    n->weights[1]    = wb;
    n->norm.eps      = eps;
    n->norm.groups   = 1;
    lm_value y       = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_rms_norm(lm_builder *b, const char *name, lm_value x, float eps)
{
    return norm(b, LM_OP_RMS_NORM, name, "%sRMSNorm", x, eps, false);
}

lm_value lm_layer_norm(lm_builder *b, const char *name, lm_value x, float eps, bool bias)
{
    return norm(b, LM_OP_LAYER_NORM, name, "LayerNorm", x, eps, bias);
}

lm_value lm_rms_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, float eps)
{
    lm_record_need(b, b->failed || (n_heads && lm_record_width(b, x) % n_heads == 0), name,
                   "heads do not divide the width");
    lm_push(b, name, "%sRMSNorm");
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_here(b);
    uint32_t    w    = lm_record_weight(b, path, "weight", LM_VECTOR, 1, lm_record_width(b, x) / n_heads, 1);
    lm_node    *n    = lm_record_unary(b, LM_OP_RMS_NORM, path, x, lm_record_width(b, x));
    n->weights[0]    = w;
    n->norm.eps      = eps;
    n->norm.groups   = n_heads;
    lm_value y       = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_layer_norm_heads(lm_builder *b, const char *name, lm_value x, uint32_t n_heads, uint32_t rows,
                             float eps)
{
    lm_record_need(b,
                   b->failed ||
                       (n_heads && lm_record_width(b, x) % n_heads == 0 && (!rows || rows == n_heads)),
                   name, "heads do not divide the width");
    lm_push(b, name, rows ? "%sLayerNormPerHead" : "LayerNorm");
    if (b->failed)
        return LM_NONE;
    const char *path  = lm_record_here(b);
    uint32_t    width = lm_record_width(b, x) / n_heads;
    uint32_t w = lm_record_weight(b, path, "weight", LM_VECTOR, rows ? 2 : 1, rows ? rows : width, width);
    uint32_t    wb    = rows ? LM_NONE : lm_record_weight(b, path, "bias", LM_VECTOR, 1, width, 1);
    lm_node    *n     = lm_record_unary(b, LM_OP_LAYER_NORM, path, x, lm_record_width(b, x));
    n->weights[0]     = w;
    n->weights[1]     = wb;
    n->norm.eps       = eps;
    n->norm.groups    = n_heads;
    n->norm.own       = rows;
    lm_value y        = n->out;
    lm_pop(b);
    return y;
}

static bool same_rope(const lm_rope_spec *a, const lm_rope_spec *b)
{
    return a->dim == b->dim && a->base == b->base && a->pairing == b->pairing && a->type == b->type &&
           a->factor == b->factor && a->original_context == b->original_context &&
           a->max_context == b->max_context && a->stored_divisors == b->stored_divisors &&
           a->stored_factors == b->stored_factors && (a->short_factors != NULL) == (b->short_factors != NULL);
}

static uint32_t stored_factor(lm_builder *b, const char *name, uint32_t n)
{
    uint32_t w = lm_record_weight(b, name, "weight", LM_VECTOR, 1, n, 1);

    if (w != LM_NONE) {
        b->p->weights[w].gguf      = b->p->weights[w].path;
        b->p->weights[w].gguf_only = true;
        b->p->weights[w].constant  = true;
    }
    return w;
}

static const float *keep_floats(lm_builder *b, const float *x, uint32_t n)
{
    float *copy = x ? lm_arena_new(&b->p->arena, n, float) : NULL;

    if (copy)
        memcpy(copy, x, n * sizeof *x);
    else if (x)
        lm_record_no_memory(b);
    return copy;
}

static uint32_t rope_table(lm_builder *b, const lm_rope_spec *spec)
{
    lm_program *p = b->p;

    for (uint32_t i = 0; i < p->n_ropes; i++)
        if (same_rope(&p->ropes[i].spec, spec))
            return i;
    if (!LM_GROW(b, ropes, p->n_ropes))
        return 0;
    lm_rope_table *t      = &p->ropes[p->n_ropes];
    *t                    = (lm_rope_table){ *spec, LM_NONE, LM_NONE, LM_NONE };
    t->spec.short_factors = keep_floats(b, spec->short_factors, spec->dim / 2);
    t->spec.long_factors  = keep_floats(b, spec->long_factors, spec->dim / 2);
    if (spec->stored_divisors)
        t->divisors = stored_factor(b, "rope_freqs", spec->dim / 2);
    if (spec->stored_factors) {
        t->long_factors  = stored_factor(b, "rope_factors_long", spec->dim / 2);
        t->short_factors = stored_factor(b, "rope_factors_short", spec->dim / 2);
    }
    return p->n_ropes++;
}

lm_value lm_rope(lm_builder *b, lm_value x, uint32_t n_heads, const lm_rope_spec *spec)
{
    if (b->failed)
        return LM_NONE;
    uint32_t width = lm_record_width(b, x);
    char     word[32];

    lm_record_need(b, n_heads && width % n_heads == 0, "rope", "heads do not divide the width");
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, spec->dim && spec->dim % 2 == 0 && spec->dim <= width / n_heads, "rope",
                   "rotates more dimensions than a head has");
    /* named after what it rotates: q_proj -> q_rope */
    const char *source = strrchr(b->p->nodes[b->p->values[x].producer].path, '.');
    snprintf(word, sizeof word, "%c_rope", source ? source[1] : 'x');
    uint32_t table   = rope_table(b, spec);
    lm_node *n       = lm_record_unary(b, LM_OP_ROPE, lm_record_path(b, word), x, width);
    n->rope.table    = table;
    n->rope.n_heads  = n_heads;
    n->rope.head_dim = width / n_heads;
    return n->out;
}

lm_value lm_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, const lm_attention_spec *s)
{
    if (b->failed)
        return LM_NONE;
    const char *path = lm_record_path(b, "scores");

    lm_record_need(b, s->n_kv_heads && s->n_heads % s->n_kv_heads == 0, path,
                   "key/value heads do not divide the query heads");
    lm_record_need(b,
                   lm_record_width(b, q) == s->n_heads * s->k_dim &&
                       lm_record_width(b, k) == s->n_kv_heads * s->k_dim &&
                       (s->v_in_k ? s->v_dim <= s->k_dim : lm_record_width(b, v) == s->n_kv_heads * s->v_dim),
                   path, "widths of q, k, v are not heads times dimensions");
    if (!LM_GROW(b, caches, b->p->n_caches))
        return LM_NONE;
    lm_node *n         = lm_record_unary(b, LM_OP_ATTENTION, path, q, s->n_heads * s->v_dim);
    n->n_in            = s->v_in_k ? 2 : 3;
    n->in[1]           = k;
    n->in[2]           = s->v_in_k ? LM_NONE : v;
    n->attention.spec  = *s;
    n->attention.cache = b->p->n_caches;
    if (s->sinks) {
        /* stored as "….sinks" by checkpoints and as "….sinks.weight" by GGUF */
        const char *parent = lm_record_here(b);
        n->weights[0]      = lm_record_weight(b, parent, "sinks", LM_VECTOR, 1, s->n_heads, 1);
        if (n->weights[0] != LM_NONE) {
            lm_weight *w = &b->p->weights[n->weights[0]];
            w->gguf      = lm_record_gguf(b, w->path, "weight");
        }
    }
    b->p->caches[b->p->n_caches++] = (lm_cache){ b->layer, s->n_kv_heads, s->k_dim, s->v_dim,
                                                 s->window, s->v_in_k, false };
    return n->out;
}

/* Return the path of a residual addition, named after the branch that is added:
 * "model.layers.0.self_attn_residual". */
static const char *residual_path(lm_builder *b, lm_value branch)
{
    const char *parent = b->depth ? lm_record_here(b) : "";
    const char *path   = branch < b->p->n_values ? b->p->nodes[b->p->values[branch].producer].path : "";
    size_t      skip   = strlen(parent);
    char        word[96];

    path = strncmp(path, parent, skip) == 0 && path[skip] == '.' ? path + skip + 1 : path;
    snprintf(word, sizeof word, "%.*s_residual", (int)strcspn(path, "."), path);
    return lm_record_path(b, word);
}

lm_value lm_add(lm_builder *b, lm_value x, lm_value y)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, lm_record_width(b, x) == lm_record_width(b, y), "residual",
                   "adds values of different widths");
    lm_node *n = lm_record_unary(b, LM_OP_ADD, residual_path(b, y), x, lm_record_width(b, x));
    n->n_in    = 2;
    n->in[1]   = y;
    return n->out;
}

lm_value lm_scale(lm_builder *b, lm_value x, float factor)
{
    if (b->failed || factor == 1)
        return x;
    lm_node *n      = lm_record_unary(b, LM_OP_SCALE, lm_record_path(b, "scale"), x, lm_record_width(b, x));
    n->scale.factor = factor;
    return n->out;
}

lm_value lm_activate(lm_builder *b, lm_value x, lm_act act)
{
    lm_push(b, b->act_name ? b->act_name : "act_fn", b->act_class ? b->act_class : lm_act_class(act));
    if (b->failed)
        return LM_NONE;
    lm_node *n = lm_record_unary(b, LM_OP_ACT, lm_record_here(b), x, lm_record_width(b, x));
    n->glu.act = act;
    lm_value y = n->out;
    lm_pop(b);
    return y;
}

static lm_value glu(lm_builder *b, const char *path, lm_value gate, lm_value up, lm_act act)
{
    lm_node *n = lm_record_unary(b, LM_OP_GLU, path, gate, lm_record_width(b, up));

    n->n_in    = 2;
    n->in[1]   = up;
    n->glu.act = act;
    return n->out;
}

lm_value lm_gate(lm_builder *b, const char *word, lm_value gate, lm_value x, lm_act act)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, lm_record_width(b, gate) == 1, word, "a gate for all dimensions is one dimension");
    return glu(b, lm_record_path(b, word), gate, x, act);
}

lm_value lm_glu(lm_builder *b, lm_value gate, lm_value up, lm_act act)
{
    if (b->failed)
        return LM_NONE;
    lm_record_need(b, lm_record_width(b, gate) == lm_record_width(b, up), "glu",
                   "gate and up have different widths");
    lm_push(b, b->act_name ? b->act_name : "act_fn", b->act_class ? b->act_class : lm_act_class(act));
    lm_pop(b);
    return glu(b, lm_record_path(b, "gated"), gate, up, act);
}
