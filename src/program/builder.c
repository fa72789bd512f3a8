/* builder.c - recording a program. */
#include "program/builder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

#define MAX_DEPTH 16

/* A growing array of one type: `n` used of `capacity`. */
#define GROW(b, array, n)                                                                     \
    grow((b), (void **)&(b)->p->array, (n), &(b)->capacity_##array, sizeof *(b)->p->array)

struct lm_builder {
    lm_program    *p;
    const char    *prefix;
    const lm_name *names;
    uint32_t       stack[MAX_DEPTH], depth;
    int32_t        layer;
    lm_map        *weight_index;
    size_t         capacity_nodes, capacity_values, capacity_weights, capacity_modules, capacity_caches, capacity_ropes;
    bool           failed;
    lm_error       error;
};

static void fail(lm_builder *b, const char *where, const char *what)
{
    if (b->failed)
        return;
    b->failed = true;
    lm_fail(&b->error, LM_BAD_MODEL, where, LM_NO_OFFSET, "%s", what);
}

static bool grow(lm_builder *b, void **array, uint32_t n, size_t *capacity, size_t size)
{
    if (b->failed)
        return false;
    if (n < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 64;
    void  *p    = lm_realloc(*array, more * size);
    if (!p) {
        b->failed = true;
        lm_fail_memory(&b->error, "program", more * size);
        return false;
    }
    *array    = p;
    *capacity = more;
    return true;
}

static const char *keep(lm_builder *b, const char *s)
{
    char *copy = s ? lm_arena_strdup(&b->p->arena, s) : NULL;
    if (s && !copy && !b->failed) {
        b->failed = true;
        lm_fail_memory(&b->error, "program", strlen(s));
    }
    return copy;
}

/* Parent path, a dot, a name; the root adds nothing. */
static const char *path_of(lm_builder *b, const char *name)
{
    const char *parent = b->depth ? b->p->modules[b->stack[b->depth - 1]].path : "";
    char       *path   = *parent ? lm_arena_printf(&b->p->arena, "%s.%s", parent, name) : lm_arena_strdup(&b->p->arena, name);

    if (!path) {
        fail(b, name, "out of memory");
        return "";
    }
    return path;
}

/* What GGUF calls a module: the row of the family's table that matches, its '*' filled in. */
static const char *gguf_name(lm_builder *b, const char *module, const char *parameter)
{
    for (const lm_name *n = b->names; n && n->module; n++) {
        const char *star = strchr(n->module, '*');
        if (!star) {
            if (strcmp(n->module, module) == 0)
                return lm_arena_printf(&b->p->arena, "%s.%s", n->gguf, parameter);
            continue;
        }
        size_t head = (size_t)(star - n->module);
        if (strncmp(n->module, module, head) != 0)
            continue;
        size_t digits = strspn(module + head, "0123456789");
        if (!digits || strcmp(module + head + digits, star + 1) != 0)
            continue;
        const char *g = strchr(n->gguf, '*');
        return lm_arena_printf(&b->p->arena, "%.*s%.*s%s.%s", (int)(g - n->gguf), n->gguf, (int)digits, module + head, g + 1,
                               parameter);
    }
    return NULL;
}

/* ---- modules ---- */

static uint32_t open_module(lm_builder *b, const char *name, const char *class_name)
{
    lm_program *p = b->p;

    if (!GROW(b, modules, p->n_modules))
        return LM_NONE;
    char        text[96];
    const char *s = strstr(class_name, "%s");
    if (s)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(s - class_name), class_name, b->prefix, s + 2);
    else
        snprintf(text, sizeof text, "%s", class_name);
    p->modules[p->n_modules] = (lm_module){
        .name       = keep(b, name),
        .path       = path_of(b, name),
        .class_name = keep(b, text),
        .parent     = b->depth ? b->stack[b->depth - 1] : LM_NONE,
        .depth      = b->depth,
        .layer      = b->layer,
        .first_op   = p->n_nodes,
        .end_op     = p->n_nodes,
        .in         = LM_NONE,
        .out        = LM_NONE,
    };
    return p->n_modules++;
}

/* The module's input is the first value that it reads from outside; its output the last one it makes. */
static void close_module(lm_builder *b, uint32_t index)
{
    lm_program *p = b->p;
    lm_module  *m = &p->modules[index];

    m->end_op = p->n_nodes;
    if (m->end_op == m->first_op)
        return;
    m->in  = p->nodes[m->first_op].n_in ? p->nodes[m->first_op].in[0] : LM_NONE;
    m->out = p->nodes[m->end_op - 1].out;
}

void lm_push(lm_builder *b, const char *name, const char *class_name)
{
    if (b->failed)
        return;
    if (b->depth == MAX_DEPTH) {
        fail(b, name, "modules are nested too deeply");
        return;
    }
    uint32_t m = open_module(b, name, class_name);
    if (m != LM_NONE)
        b->stack[b->depth++] = m;
}

void lm_push_layer(lm_builder *b, uint32_t layer, const char *class_name)
{
    char name[16];

    snprintf(name, sizeof name, "%u", layer);
    b->layer = (int32_t)layer;
    lm_push(b, name, class_name);
    if (!b->failed && layer + 1 > b->p->n_layers)
        b->p->n_layers = layer + 1;
}

void lm_pop(lm_builder *b)
{
    if (b->failed)
        return;
    uint32_t m = b->stack[--b->depth];
    close_module(b, m);
    b->layer = b->depth ? b->p->modules[b->stack[b->depth - 1]].layer : -1;
}

void lm_leaf(lm_builder *b, const char *name, const char *class_name)
{
    lm_push(b, name, class_name);
    lm_pop(b);
}

/* ---- values, weights, operations ---- */

static uint32_t width_of(const lm_builder *b, lm_value v)
{
    return v < b->p->n_values ? b->p->values[v].width : 0;
}

static uint32_t add_weight(lm_builder *b, const char *module, const char *parameter, lm_weight_kind kind, uint32_t n_dims,
                           uint64_t d0, uint64_t d1)
{
    lm_program *p    = b->p;
    char       *path = lm_arena_printf(&p->arena, "%s.%s", module, parameter);
    uint64_t    known;

    if (b->failed || !path)
        return LM_NONE;
    if (lm_map_get(b->weight_index, lm_view_of(path), &known)) {
        p->weights[known].uses++;
        return (uint32_t)known;
    }
    if (!GROW(b, weights, p->n_weights))
        return LM_NONE;
    p->weights[p->n_weights] = (lm_weight){
        .path     = path,
        .gguf     = gguf_name(b, module, parameter),
        .kind     = kind,
        .n_dims   = n_dims,
        .dims     = { d0, n_dims > 1 ? d1 : 1 },
        .elements = d0 * (n_dims > 1 ? d1 : 1),
        .uses     = 1,
    };
    lm_map_add(b->weight_index, lm_view_of(path), p->n_weights);
    return p->n_weights++;
}

static lm_node *add_node(lm_builder *b, lm_op_code code, const char *path, uint32_t width)
{
    static lm_node nowhere;      /* what callers write to after a failure */
    lm_program    *p = b->p;

    if (!GROW(b, nodes, p->n_nodes) || !GROW(b, values, p->n_values)) {
        nowhere = (lm_node){ 0 };
        return &nowhere;
    }
    lm_node *n = &p->nodes[p->n_nodes];
    *n         = (lm_node){
        .code = code,
        .path = path,
        .module = b->depth ? b->stack[b->depth - 1] : LM_NONE,
        .layer = b->layer,
        .in = { LM_NONE, LM_NONE, LM_NONE, LM_NONE },
        .weights = { LM_NONE, LM_NONE, LM_NONE, LM_NONE },
        .out = p->n_values,
    };
    p->values[p->n_values++] = (lm_value_info){ .width = width, .producer = p->n_nodes };
    p->n_nodes++;
    return n;
}

static lm_node *add_unary(lm_builder *b, lm_op_code code, const char *path, lm_value x, uint32_t width)
{
    if (x >= b->p->n_values)
        fail(b, path, "an operation reads a value that does not exist");
    lm_node *n = add_node(b, code, path, width);
    n->n_in    = 1;
    n->in[0]   = x;
    return n;
}

static void need(lm_builder *b, bool condition, const char *where, const char *what)
{
    if (!condition)
        fail(b, where, what);
}

lm_value lm_embed(lm_builder *b, const char *name, uint32_t rows, uint32_t width)
{
    lm_push(b, name, "Embedding");
    if (b->failed)
        return LM_NONE;
    const char *path = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    w    = add_weight(b, path, "weight", LM_TABLE, 2, rows, width);
    lm_node    *n    = add_node(b, LM_OP_EMBED, path, width);
    n->weights[0]    = w;
    lm_value out     = n->out;
    lm_pop(b);
    return out;
}

lm_value lm_linear(lm_builder *b, const char *name, lm_value x, uint32_t out, bool bias)
{
    lm_push(b, name, "Linear");
    if (b->failed)
        return LM_NONE;
    const char *path = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    w    = add_weight(b, path, "weight", LM_MATRIX, 2, out, width_of(b, x));
    uint32_t    wb   = bias ? add_weight(b, path, "bias", LM_VECTOR, 1, out, 1) : LM_NONE;
    lm_node    *n    = add_unary(b, LM_OP_LINEAR, path, x, out);
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
    const char *path = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    w    = add_weight(b, tied_to, "weight", LM_TABLE, 2, n_vocab, width_of(b, x));
    need(b, b->failed || (b->p->weights[w].dims[0] == n_vocab && b->p->weights[w].dims[1] == width_of(b, x)), path,
         "the tied table has another shape");
    lm_node *n    = add_unary(b, LM_OP_LINEAR, path, x, n_vocab);
    n->weights[0] = w;
    lm_value y    = n->out;
    lm_pop(b);
    return y;
}

static lm_value norm(lm_builder *b, lm_op_code code, const char *name, const char *class_name, lm_value x, float eps, bool bias)
{
    lm_push(b, name, class_name);
    if (b->failed)
        return LM_NONE;
    const char *path = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    w    = add_weight(b, path, "weight", LM_VECTOR, 1, width_of(b, x), 1);
    uint32_t    wb   = bias ? add_weight(b, path, "bias", LM_VECTOR, 1, width_of(b, x), 1) : LM_NONE;
    lm_node    *n    = add_unary(b, code, path, x, width_of(b, x));
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
    need(b, b->failed || (n_heads && width_of(b, x) % n_heads == 0), name, "heads do not divide the width");
    lm_push(b, name, "%sRMSNorm");
    if (b->failed)
        return LM_NONE;
    const char *path = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    w    = add_weight(b, path, "weight", LM_VECTOR, 1, width_of(b, x) / n_heads, 1);
    lm_node    *n    = add_unary(b, LM_OP_RMS_NORM, path, x, width_of(b, x));
    n->weights[0]    = w;
    n->norm.eps      = eps;
    n->norm.groups   = n_heads;
    lm_value y       = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_position_embed(lm_builder *b, const char *name, uint32_t rows, uint32_t width, uint32_t offset)
{
    lm_push(b, name, "Embedding");
    if (b->failed)
        return LM_NONE;
    need(b, rows > offset, name, "the table has no row for the first position");
    const char *path      = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    w         = add_weight(b, path, "weight", LM_TABLE, 2, rows, width);
    lm_node    *n         = add_node(b, LM_OP_POSITION, path, width);
    n->weights[0]         = w;
    n->position.offset    = offset;
    lm_value out          = n->out;
    b->p->context_length  = rows - offset;
    b->p->context_is_hard = true;
    lm_pop(b);
    return out;
}

lm_value lm_sinusoid(lm_builder *b, const char *name, uint32_t width, lm_sinusoid_layout layout, uint32_t offset)
{
    lm_push(b, name, "%sSinusoidalPositionalEmbedding");
    if (b->failed)
        return LM_NONE;
    need(b, width % 2 == 0, name, "sines and cosines need an even width");
    lm_node *n         = add_node(b, LM_OP_SINUSOID, b->p->modules[b->stack[b->depth - 1]].path, width);
    n->position.offset = offset;
    n->position.layout = layout;
    lm_value out       = n->out;
    lm_pop(b);
    return out;
}

lm_value lm_columns(lm_builder *b, const char *word, lm_value x, uint32_t groups, uint32_t offset, uint32_t width)
{
    if (b->failed)
        return LM_NONE;
    need(b, groups && width_of(b, x) % groups == 0 && (uint64_t)offset + width <= width_of(b, x) / groups, word,
         "takes lanes that the value does not have");
    if (b->failed)
        return LM_NONE;
    lm_node *n        = add_unary(b, LM_OP_COLUMNS, path_of(b, word), x, groups * width);
    n->columns.groups = groups;
    n->columns.offset = offset;
    return n->out;
}

static lm_value by_number(lm_builder *b, lm_op_code code, const char *word, lm_value x, float number)
{
    if (b->failed)
        return LM_NONE;
    lm_node *n      = add_unary(b, code, path_of(b, word), x, width_of(b, x));
    n->scale.factor = number;
    return n->out;
}

lm_value lm_softcap(lm_builder *b, lm_value x, float cap)
{
    return by_number(b, LM_OP_SOFTCAP, "softcap", x, cap);
}

lm_value lm_clamp(lm_builder *b, lm_value x, float limit)
{
    return by_number(b, LM_OP_CLAMP, "clamp", x, limit);
}

lm_value lm_route(lm_builder *b, lm_value logits, const lm_route_spec *r, const char *correction)
{
    if (b->failed)
        return LM_NONE;
    const char *parent = b->p->modules[b->stack[b->depth - 1]].path;

    need(b, width_of(b, logits) == r->n_experts && r->top_k >= 1 && r->top_k <= r->n_experts && r->n_experts <= LM_MAX_EXPERTS &&
                r->n_groups <= LM_MAX_GROUPS,
         parent,
         "the router cannot choose that many experts");
    need(b, !r->n_groups || (r->n_experts % r->n_groups == 0 && r->top_groups >= 1 && r->top_groups <= r->n_groups &&
                             r->top_groups * (r->n_experts / r->n_groups) >= r->top_k),
         parent, "the open groups hold too few experts");
    lm_node *n    = add_unary(b, LM_OP_ROUTE, path_of(b, "route"), logits, 2 * r->top_k);
    n->route.spec = *r;
    if (correction)
        n->weights[0] = add_weight(b, parent, correction, LM_VECTOR, 1, r->n_experts, 1);
    return n->out;
}

/* One matrix for each expert: "….experts.*.gate_proj.weight"; GGUF keeps all in one tensor. */
static uint32_t add_experts(lm_builder *b, const char *module, const char *name, uint64_t n, uint64_t out, uint64_t in)
{
    lm_arena *arena = &b->p->arena;
    char     *each  = lm_arena_printf(arena, "%s.*.%s", module, name);
    char     *all   = lm_arena_printf(arena, "%s.%s", module, name);

    if (!each || !all)
        return LM_NONE;
    uint32_t w = add_weight(b, each, "weight", LM_EXPERTS, 1, n, 1);
    if (w != LM_NONE) {
        lm_weight *x = &b->p->weights[w];
        x->gguf      = gguf_name(b, all, "weight");
        x->n_dims    = 3;
        x->dims[0]   = n;
        x->dims[1]   = out;
        x->dims[2]   = in;
        x->elements  = n * out * in;
    }
    return w;
}

lm_value lm_experts(lm_builder *b, const char *name, lm_value x, lm_value route, uint32_t n_experts, uint32_t top_k, uint32_t width,
                    lm_act act, const char *const names[3])
{
    lm_push(b, name, "%sExperts");
    if (b->failed)
        return LM_NONE;
    const char *path = b->p->modules[b->stack[b->depth - 1]].path;
    uint32_t    in   = width_of(b, x);
    uint32_t    gate = add_experts(b, path, names[0], n_experts, width, in);
    uint32_t    up   = add_experts(b, path, names[1], n_experts, width, in);
    uint32_t    down = add_experts(b, path, names[2], n_experts, in, width);

    need(b, width_of(b, route) == 2 * top_k, path, "the routes are not those of as many experts");
    lm_node *n           = add_unary(b, LM_OP_EXPERTS, path, x, in);
    n->n_in              = 2;
    n->in[1]             = route;
    n->weights[0]        = gate;
    n->weights[1]        = up;
    n->weights[2]        = down;
    n->experts.n_experts = n_experts;
    n->experts.top_k     = top_k;
    n->experts.width     = width;
    n->experts.act       = act;
    lm_value y           = n->out;
    lm_pop(b);
    return y;
}

static lm_node *maker(lm_builder *b, lm_value x)
{
    return b->failed || x >= b->p->n_values ? NULL : &b->p->nodes[b->p->values[x].producer];
}

void lm_stored_transposed(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (!n || n->weights[0] == LM_NONE)
        return;
    b->p->weights[n->weights[0]].transposed = true;
    for (uint32_t m = 0; m < b->p->n_modules; m++)
        if (strcmp(b->p->modules[m].path, n->path) == 0)
            b->p->modules[m].class_name = "Conv1D";
}

void lm_stored_minus_one(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[0] != LM_NONE)
        b->p->weights[n->weights[0]].plus_one = true;
}

void lm_with_bias(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[1] == LM_NONE)
        n->weights[1] = add_weight(b, n->path, "bias", LM_VECTOR, 1, width_of(b, x), 1);
}

static bool same_rope(const lm_rope_spec *a, const lm_rope_spec *b)
{
    return a->dim == b->dim && a->base == b->base && a->pairing == b->pairing && a->type == b->type &&
           a->factor == b->factor && a->original_context == b->original_context && a->max_context == b->max_context &&
           a->stored_divisors == b->stored_divisors && a->stored_factors == b->stored_factors &&
           (a->short_factors != NULL) == (b->short_factors != NULL);
}

static uint32_t stored_factor(lm_builder *b, const char *name, uint32_t n)
{
    uint32_t w = add_weight(b, name, "weight", LM_VECTOR, 1, n, 1);

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
    return copy;
}

static uint32_t rope_table(lm_builder *b, const lm_rope_spec *spec)
{
    lm_program *p = b->p;

    for (uint32_t i = 0; i < p->n_ropes; i++)
        if (same_rope(&p->ropes[i].spec, spec))
            return i;
    if (!GROW(b, ropes, p->n_ropes))
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
    uint32_t width = width_of(b, x);
    char     word[32];

    need(b, n_heads && width % n_heads == 0, "rope", "heads do not divide the width");
    if (b->failed)
        return LM_NONE;
    need(b, spec->dim && spec->dim % 2 == 0 && spec->dim <= width / n_heads, "rope", "rotates more lanes than a head has");
    /* named after what it rotates: q_proj -> q_rope */
    const char *source = strrchr(b->p->nodes[b->p->values[x].producer].path, '.');
    snprintf(word, sizeof word, "%c_rope", source ? source[1] : 'x');
    uint32_t table   = rope_table(b, spec);
    lm_node *n       = add_unary(b, LM_OP_ROPE, path_of(b, word), x, width);
    n->rope.table    = table;
    n->rope.n_heads  = n_heads;
    n->rope.head_dim = width / n_heads;
    return n->out;
}

lm_value lm_attention(lm_builder *b, lm_value q, lm_value k, lm_value v, const lm_attention_spec *s)
{
    if (b->failed)
        return LM_NONE;
    const char *path = path_of(b, "scores");

    need(b, s->n_kv_heads && s->n_heads % s->n_kv_heads == 0, path, "key/value heads do not divide the query heads");
    need(b, width_of(b, q) == s->n_heads * s->k_dim && width_of(b, k) == s->n_kv_heads * s->k_dim &&
             width_of(b, v) == s->n_kv_heads * s->v_dim,
         path, "widths of q, k, v are not heads times lanes");
    if (!GROW(b, caches, b->p->n_caches))
        return LM_NONE;
    lm_node *n         = add_unary(b, LM_OP_ATTENTION, path, q, s->n_heads * s->v_dim);
    n->n_in            = 3;
    n->in[1]           = k;
    n->in[2]           = v;
    n->attention.spec  = *s;
    n->attention.cache = b->p->n_caches;
    if (s->sinks) {
        /* stored as "….sinks" by one container and as "….sinks.weight" by the other */
        const char *parent = b->p->modules[b->stack[b->depth - 1]].path;
        n->weights[0]      = add_weight(b, parent, "sinks", LM_VECTOR, 1, s->n_heads, 1);
        if (n->weights[0] != LM_NONE)
            b->p->weights[n->weights[0]].gguf = gguf_name(b, b->p->weights[n->weights[0]].path, "weight");
    }
    b->p->caches[b->p->n_caches++] = (lm_cache){ b->layer, s->n_kv_heads, s->k_dim, s->v_dim, s->window };
    return n->out;
}

/* Named after the branch that is added: "model.layers.0.self_attn_residual". */
static const char *residual_path(lm_builder *b, lm_value branch)
{
    const char *parent = b->depth ? b->p->modules[b->stack[b->depth - 1]].path : "";
    const char *path   = branch < b->p->n_values ? b->p->nodes[b->p->values[branch].producer].path : "";
    size_t      skip   = strlen(parent);
    char        word[96];

    path = strncmp(path, parent, skip) == 0 && path[skip] == '.' ? path + skip + 1 : path;
    snprintf(word, sizeof word, "%.*s_residual", (int)strcspn(path, "."), path);
    return path_of(b, word);
}

lm_value lm_add(lm_builder *b, lm_value x, lm_value y)
{
    if (b->failed)
        return LM_NONE;
    need(b, width_of(b, x) == width_of(b, y), "residual", "adds values of different widths");
    lm_node *n = add_unary(b, LM_OP_ADD, residual_path(b, y), x, width_of(b, x));
    n->n_in    = 2;
    n->in[1]   = y;
    return n->out;
}

lm_value lm_scale(lm_builder *b, lm_value x, float factor)
{
    if (b->failed || factor == 1)
        return x;
    lm_node *n      = add_unary(b, LM_OP_SCALE, path_of(b, "scale"), x, width_of(b, x));
    n->scale.factor = factor;
    return n->out;
}

static const char *act_class(lm_act act)
{
    switch (act) {
    case LM_ACT_SILU:
        return "SiLUActivation";
    case LM_ACT_GELU_TANH:
        return "GELUTanh";
    case LM_ACT_GELU:
        return "GELUActivation";
    case LM_ACT_RELU:
        return "ReLU";
    default:
        return "Activation";
    }
}

lm_value lm_activate(lm_builder *b, lm_value x, lm_act act)
{
    lm_push(b, "act_fn", act_class(act));
    if (b->failed)
        return LM_NONE;
    lm_node *n = add_unary(b, LM_OP_ACT, b->p->modules[b->stack[b->depth - 1]].path, x, width_of(b, x));
    n->glu.act = act;
    lm_value y = n->out;
    lm_pop(b);
    return y;
}

lm_value lm_glu(lm_builder *b, lm_value gate, lm_value up, lm_act act)
{
    if (b->failed)
        return LM_NONE;
    need(b, width_of(b, gate) == width_of(b, up), "glu", "gate and up have different widths");
    lm_push(b, "act_fn", act_class(act));
    lm_pop(b);
    lm_node *n = add_unary(b, LM_OP_GLU, path_of(b, "gated"), gate, width_of(b, gate));
    n->n_in    = 2;
    n->in[1]   = up;
    n->glu.act = act;
    return n->out;
}

void lm_context_length(lm_builder *b, uint32_t positions, bool hard)
{
    b->p->context_length  = positions;
    b->p->context_is_hard = hard;
}

/* ---- begin and end ---- */

lm_builder *lm_builder_new(const char *family, const char *class_prefix, const lm_name *names)
{
    lm_builder *b = lm_alloc_zero(1, sizeof *b);

    if (!b)
        return NULL;
    b->p            = lm_alloc_zero(1, sizeof *b->p);
    b->weight_index = lm_map_new(256);
    if (!b->p || !b->weight_index) {
        lm_map_free(b->weight_index);
        lm_free(b->p);
        lm_free(b);
        return NULL;
    }
    b->prefix        = class_prefix;
    b->names         = names;
    b->layer         = -1;
    b->p->family     = keep(b, family);
    b->p->class_name = lm_arena_printf(&b->p->arena, "%sForCausalLM", class_prefix);
    lm_push(b, "", "%sForCausalLM");
    return b;
}

lm_status lm_builder_finish(lm_builder *b, lm_value logits, lm_program **out, lm_error *e)
{
    if (!b->failed && (b->depth != 1 || logits >= b->p->n_values))
        fail(b, b->p->family, "the description is not complete");
    lm_pop(b);
    lm_program *p      = b->p;
    bool        failed = b->failed || lm_map_failed(b->weight_index);
    lm_status   status = b->failed ? b->error.code : failed ? LM_NO_MEMORY : LM_OK;

    if (status != LM_OK && e) {
        if (b->failed)
            *e = b->error;
        else
            lm_fail_memory(e, "program", 0);
    }
    lm_map_free(b->weight_index);
    lm_free(b);
    if (status != LM_OK) {
        lm_program_free(p);
        return status;
    }
    p->logits  = logits;
    p->n_vocab = p->values[logits].width;
    *out       = p;
    return LM_OK;
}
