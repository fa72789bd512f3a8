/* adapt.c - copy a program and attach low-rank adapters to some of its operations. */
#include "program/adapt.h"

#include <string.h>

#include "base/alloc.h"

typedef struct adapting {
    const lm_program   *from;
    lm_program         *to;
    const lm_adapt_set *sets;
    uint32_t            n_sets;
    uint32_t           *target;      /* [n_sets][n_nodes]: the set's target, or LM_NONE */
    lm_value           *now;         /* [n_values of from]: the value in `to` that replaces it */
    uint32_t           *begin;       /* [n_nodes + 1]: index in `to` of each node of `from` */
    uint32_t           *after;       /* [n_nodes + 1]: start in `to` of the run that begins with a node;
                                        LM_NONE within a run */
    lm_value           *low;         /* [n_sets][n_nodes]: h, while a run is copied */
    bool                failed;      /* no memory for a name */
} adapting;

/* ---- names, weights, operations ---- */

static const char *name(adapting *a, const char *module, const char *word, const char *set, const char *end)
{
    char *s = lm_arena_printf(&a->to->arena, "%s.%s%s%s%s", module, word, set ? "." : "", set ? set : "",
                              end);

    a->failed |= !s;
    return s ? s : "";
}

static uint32_t weight(adapting *a, uint32_t set, const char *path, const char *gguf, const char *gguf_end,
                       lm_weight_kind kind, uint64_t rows, uint64_t cols)
{
    lm_program *p    = a->to;
    char       *file = gguf ? lm_arena_printf(&p->arena, "%s%s", gguf, gguf_end) : NULL;

    a->failed |= gguf && !file;
    for (uint32_t w = a->from->n_weights; w < p->n_weights; w++)
        if (strcmp(p->weights[w].path, path) == 0) {         /* of a matrix that two operations use */
            p->weights[w].uses++;
            return w;
        }
    p->weights[p->n_weights] = (lm_weight){
        .path       = path,
        .gguf       = file,
        .kind       = kind,
        .n_dims     = kind == LM_VECTOR ? 1 : 2,
        .dims       = { rows, kind == LM_VECTOR ? 1 : cols },
        .elements   = rows * (kind == LM_VECTOR ? 1 : cols),
        .uses       = 1,
        .adapter    = set + 1,
        .transposed = kind == LM_TABLE,
    };
    return p->n_weights++;
}

static lm_node *node(adapting *a, lm_op_code code, const lm_node *like, const char *path, uint32_t set,
                     lm_value x, uint32_t width)
{
    lm_program *p = a->to;
    lm_node    *n = &p->nodes[p->n_nodes];

    *n = (lm_node){ .code = code,
                    .path = path,
                    .module = like->module,
                    .layer = like->layer,
                    .adapter = set + 1,
                    .out = p->n_values,
                    .n_in = x != LM_NONE };
    for (uint32_t i = 0; i < LM_MAX_INPUTS; i++)
        n->in[i] = LM_NONE;
    for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++)
        n->weights[i] = LM_NONE;
    n->in[0] = x;
    p->values[p->n_values++] = (lm_value_info){ .width = width, .producer = p->n_nodes };
    p->n_nodes++;
    return n;
}

/* ---- one target ---- */

/* Return the input of an operation as adapters read it: before it is rounded. */
static lm_value adapted_input(const lm_program *p, const lm_node *n)
{
    const lm_node *made = &p->nodes[p->values[n->in[0]].producer];

    return made->code == LM_OP_ROUND ? made->in[0] : n->in[0];
}

/* Record h = x A^T, or the rows of A that the tokens select. */
static lm_value record_low(adapting *a, uint32_t set, uint32_t index, const lm_adapt_target *t)
{
    const lm_node *base = &a->from->nodes[index];
    const char    *s    = a->sets[set].name;
    lm_adapt_shape shape;

    lm_adapt_possible(a->from, index, &shape);
    const char *path = name(a, shape.module, shape.table ? "lora_embedding_A" : "lora_A", s, "");
    uint32_t w = shape.table ? weight(a, set, path, shape.gguf, ".lora_a", LM_TABLE, shape.in, t->rank)
                             : weight(a, set, name(a, shape.module, "lora_A", s, ".weight"), shape.gguf,
                                      ".lora_a", LM_MATRIX, t->rank, shape.in);
    lm_node *n = shape.table ? node(a, LM_OP_EMBED, base, path, set, LM_NONE, t->rank)
                             : node(a, LM_OP_LINEAR, base, path, set, a->now[adapted_input(a->from, base)],
                                    t->rank);
    n->weights[0] = w;
    return n->out;
}

/* Record y' = y + d. */
static void record_sum(adapting *a, uint32_t set, const lm_node *base, const char *module, const char *word,
                       lm_value d)
{
    const char *path = name(a, module, word, a->sets[set].name, "");
    lm_node *n = node(a, LM_OP_ADD, base, path, set, a->now[base->out], a->from->values[base->out].width);

    n->n_in           = 2;
    n->in[1]          = d;
    a->now[base->out] = n->out;
}

/* Record the lanes of d that belong to `base`, which shares d with another operation: those from its offset
 * on in each head. */
static lm_value record_lanes(adapting *a, uint32_t set, const lm_node *base, const char *module,
                             const char *word, lm_value d)
{
    uint32_t offset = a->from->weights[base->weights[0]].joint.first;
    lm_node *n      = node(a, LM_OP_COLUMNS, base, name(a, module, word, a->sets[set].name, ""), set, d,
                           a->from->values[base->out].width);

    n->columns.groups = base->heads.n_heads;
    n->columns.offset = offset;
    return n->out;
}

/* Record d = s (h B^T + bias) and its addition to the output, or to keys and values. */
static void record_high(adapting *a, uint32_t set, uint32_t index, const lm_adapt_target *t, lm_value h)
{
    const lm_node *base   = &a->from->nodes[index];
    uint32_t       values = lm_adapt_values_of(a->from, index);
    const char    *s      = a->sets[set].name;
    lm_adapt_shape shape;

    lm_adapt_possible(a->from, index, &shape);
    const char *word = shape.table ? "lora_embedding_B" : "lora_B",
               *path = name(a, shape.module, word, s, "");
    uint32_t w = weight(a, set, shape.table ? path : name(a, shape.module, word, s, ".weight"), shape.gguf,
                        ".lora_b", LM_MATRIX, shape.out, t->rank);
    uint32_t bias = t->bias ? weight(a, set, name(a, shape.module, word, s, ".bias"), NULL, "", LM_VECTOR,
                                     shape.out, 1)
                            : LM_NONE;
    lm_node    *n    = node(a, LM_OP_LINEAR, base, path, set, h, (uint32_t)shape.out);

    n->weights[0]   = w;
    n->weights[1]   = bias;
    n = node(a, LM_OP_SCALE, base, name(a, shape.module, "lora_scale", s, ""), set, n->out,
             (uint32_t)shape.out);
    n->scale.factor = t->scale;
    if (values == LM_NONE) {
        record_sum(a, set, base, shape.module, "adapted", n->out);
        return;
    }
    const lm_node *v  = &a->from->nodes[values];
    lm_value       d  = n->out, dk = record_lanes(a, set, base, shape.module, "lora_k", d);
    lm_value       dv = record_lanes(a, set, v, shape.module, "lora_v", d);
    record_sum(a, set, base, shape.module, "adapted_k", dk);
    record_sum(a, set, v, shape.module, "adapted_v", dv);
}

/* ---- the program ---- */

static const lm_adapt_target *target_of(const adapting *a, uint32_t set, uint32_t index)
{
    uint32_t t = a->target[(size_t)set * a->from->n_nodes + index];

    return t == LM_NONE ? NULL : &a->sets[set].targets[t];
}

static bool is_target(const adapting *a, uint32_t index)
{
    for (uint32_t s = 0; s < a->n_sets; s++)
        if (target_of(a, s, index))
            return true;
    return false;
}

/* Return the end of the run of consecutive products of the same input that begins with an adapted product at
 * `index`. */
static uint32_t run_end(const adapting *a, uint32_t index)
{
    const lm_node *first = &a->from->nodes[index];
    uint32_t       end   = index + 1;

    if (!is_target(a, index) || first->code == LM_OP_EMBED)
        return end;
    while (end < a->from->n_nodes && a->from->nodes[end].code == first->code &&
           a->from->nodes[end].in[0] == first->in[0])
        end++;
    return end;
}

static void copy_node(adapting *a, uint32_t index)
{
    lm_node *n = &a->to->nodes[a->to->n_nodes];

    *n = a->from->nodes[index];
    for (uint32_t k = 0; k < n->n_in; k++)
        n->in[k] = a->now[n->in[k]];
    a->begin[index]                = a->to->n_nodes;
    a->to->values[n->out].producer = a->to->n_nodes;
    a->to->n_nodes++;
}

static uint32_t copy_run(adapting *a, uint32_t from)
{
    uint32_t               to = run_end(a, from), n = a->from->n_nodes;
    const lm_adapt_target *t;

    a->after[from] = a->to->n_nodes;
    for (uint32_t i = from; i < to; i++)
        copy_node(a, i);
    for (uint32_t s = 0; s < a->n_sets; s++)
        for (uint32_t i = from; i < to; i++)
            if ((t = target_of(a, s, i)))
                a->low[(size_t)s * n + i] = record_low(a, s, i, t);
    for (uint32_t s = 0; s < a->n_sets; s++)
        for (uint32_t i = from; i < to; i++)
            if ((t = target_of(a, s, i)))
                record_high(a, s, i, t, a->low[(size_t)s * n + i]);
    return to;
}

/* The operations of a module are contiguous. If others of a run are between them, the range of the module is
 * empty and lm_module_op finds its operations by their module. */
static void copy_modules(adapting *a)
{
    for (uint32_t i = 0; i < a->from->n_modules; i++) {
        lm_module *m = &a->to->modules[i];
        uint32_t   f = m->first_op, e = m->end_op;
        m->in  = m->in == LM_NONE ? LM_NONE : a->now[m->in];
        m->out = m->out == LM_NONE ? LM_NONE : a->now[m->out];
        m->first_op = f < a->from->n_nodes ? a->begin[f] : a->to->n_nodes;
        m->end_op   = f == e ? m->first_op : a->after[e] != LM_NONE ? a->after[e] : a->begin[e - 1] + 1;
        if (e == f + 1 && is_target(a, f) && (a->after[f] == LM_NONE || a->after[e] == LM_NONE))
            m->first_op = m->end_op = a->begin[f];
    }
}

static void copy_all(adapting *a)
{
    lm_program *p = a->to;

    p->n_nodes = 0;
    for (uint32_t v = 0; v < a->from->n_values; v++)
        a->now[v] = v;
    for (uint32_t i = 0; i <= a->from->n_nodes; i++)
        a->after[i] = LM_NONE;
    for (uint32_t i = 0; i < a->from->n_nodes;)
        i = copy_run(a, i);
    a->after[a->from->n_nodes] = a->begin[a->from->n_nodes] = p->n_nodes;
    copy_modules(a);
    p->logits     = a->now[p->logits];
    p->n_adapters = a->n_sets;
}

/* ---- memory and checks ---- */

/* Set the target of an operation, and of all others with its matrix. Return their number. */
static uint32_t adapt_uses(const lm_program *p, uint32_t node, uint32_t target, uint32_t *of)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == p->nodes[node].code && p->nodes[i].weights[0] == p->nodes[node].weights[0]) {
            of[i] = target;
            n++;
        }
    return n;
}

static lm_status find_targets(adapting *a, uint32_t *more, lm_error *e)
{
    memset(a->target, 0xff, (size_t)a->n_sets * a->from->n_nodes * sizeof *a->target);
    *more = 0;
    for (uint32_t s = 0; s < a->n_sets; s++)
        for (uint32_t i = 0; i < a->sets[s].n; i++) {
            const lm_adapt_target *t = &a->sets[s].targets[i];
            lm_adapt_shape         shape;
            if (t->node >= a->from->n_nodes || !lm_adapt_possible(a->from, t->node, &shape))
                return lm_fail(e, LM_USAGE,
                               t->node < a->from->n_nodes ? a->from->nodes[t->node].path : "adapter",
                               LM_NO_OFFSET, "an adapter cannot be attached to this operation");
            if (!t->rank)
                return lm_fail(e, LM_USAGE, shape.module, LM_NO_OFFSET, "an adapter of rank 0");
            uint32_t *at = &a->target[(size_t)s * a->from->n_nodes], first = at[t->node];
            if (first != LM_NONE && a->sets[s].targets[first].node == t->node)
                return lm_fail(e, LM_USAGE, shape.module, LM_NO_OFFSET, "named twice by one adapter");
            if (first == LM_NONE)
                *more += adapt_uses(a->from, t->node, i, at);
        }
    return LM_OK;
}

enum { MAX_NODES = 7, MAX_WEIGHTS = 3 };         /* maximum per target: of a projected latent */

/* Return a copy with space for `more` elements. */
static void *grown(const void *from, uint32_t n, uint64_t more, size_t size)
{
    void *p = lm_alloc_zero(n + more + 1, size);

    if (p && n)
        memcpy(p, from, n * size);
    return p;
}

static bool take_memory(adapting *a, uint32_t more)
{
    const lm_program *f = a->from;
    lm_program       *p = a->to;
    uint64_t          nodes = (uint64_t)more * MAX_NODES;

    *p          = *f;
    p->arena    = (lm_arena){ 0 };
    p->nodes    = grown(f->nodes, f->n_nodes, nodes, sizeof *p->nodes);
    p->values   = grown(f->values, f->n_values, nodes, sizeof *p->values);
    p->weights  = grown(f->weights, f->n_weights, (uint64_t)more * MAX_WEIGHTS, sizeof *p->weights);
    p->modules  = grown(f->modules, f->n_modules, 0, sizeof *p->modules);
    p->caches   = grown(f->caches, f->n_caches, 0, sizeof *p->caches);
    p->states   = grown(f->states, f->n_states, 0, sizeof *p->states);
    p->ropes    = grown(f->ropes, f->n_ropes, 0, sizeof *p->ropes);
    a->now      = lm_alloc_zero(f->n_values + 1, sizeof *a->now);
    a->begin    = lm_alloc_zero(f->n_nodes + 1, sizeof *a->begin);
    a->after    = lm_alloc_zero(f->n_nodes + 1, sizeof *a->after);
    a->low      = lm_alloc_zero((size_t)a->n_sets * f->n_nodes + 1, sizeof *a->low);
    return p->nodes && p->values && p->weights && p->modules && p->caches && p->states && p->ropes &&
           a->now && a->begin && a->after && a->low;
}

lm_status lm_program_adapt(const lm_program *p, const lm_adapt_set *sets, uint32_t n_sets, lm_program **out,
                           lm_error *e)
{
    adapting  a = { .from = p, .sets = sets, .n_sets = n_sets, .to = lm_alloc_zero(1, sizeof *a.to) };
    uint32_t  more;
    lm_status status = LM_OK;

    a.target = lm_alloc_zero((size_t)n_sets * p->n_nodes + 1, sizeof *a.target);
    if (!a.to || !a.target)
        status = lm_fail_memory(e, "program", 0);
    if (status == LM_OK)
        status = find_targets(&a, &more, e);
    if (status == LM_OK && !take_memory(&a, more))
        status = lm_fail_memory(e, "program", 0);
    if (status == LM_OK)
        copy_all(&a);
    if (status == LM_OK && a.failed)
        status = lm_fail_memory(e, "program", 0);
    lm_free(a.target);
    lm_free(a.now);
    lm_free(a.begin);
    lm_free(a.after);
    lm_free(a.low);
    if (status == LM_OK)
        *out = a.to;
    else
        lm_program_free(a.to);
    return status;
}

/* ---- lookup ---- */

static uint32_t find(const lm_program *p, const char *module, const char *word, const char *set,
                     const char *end)
{
    size_t n = strlen(module), k = strlen(word), s = set ? strlen(set) : 0;

    for (uint32_t i = 0; i < p->n_weights; i++) {
        const char *path = p->weights[i].path;
        if (strncmp(path, module, n) != 0 || path[n] != '.' || strncmp(path + n + 1, word, k) != 0)
            continue;
        path += n + 1 + k;
        if (set && (path[0] != '.' || strncmp(path + 1, set, s) != 0))
            continue;
        path += set ? s + 1 : 0;
        if (strcmp(path, end) == 0)
            return i;
    }
    return LM_NONE;
}

lm_adapt_weights lm_adapt_weights_of(const lm_program *adapted, const char *module, const char *set)
{
    lm_adapt_weights w = { find(adapted, module, "lora_A", set, ".weight"),
                           find(adapted, module, "lora_B", set, ".weight"),
                           find(adapted, module, "lora_B", set, ".bias") };

    if (w.a == LM_NONE)
        w.a = find(adapted, module, "lora_embedding_A", set, "");
    if (w.b == LM_NONE)
        w.b = find(adapted, module, "lora_embedding_B", set, "");
    return w;
}
