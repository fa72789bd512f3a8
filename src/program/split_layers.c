/* split_layers.c - make the program of one range of layers. */
#include <string.h>

#include "base/alloc.h"
#include "program/op.h"
#include "program/split.h"

/* ---- choice of layers ---- */

/* Compute the bytes of the weights of each layer, counting each weight where it is read first; `others`:
 * those outside the stack. */
static void layer_bytes(const lm_program *p, const lm_dtype *types, uint64_t *layers, uint64_t *others,
                        bool *seen)
{
    *others = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS && p->nodes[i].weights[k] != LM_NONE; k++) {
            uint32_t w = p->nodes[i].weights[k];
            uint64_t bytes = lm_elements_bytes(p->weights[w].elements, types ? types[w] : LM_F32);
            int32_t  layer = p->nodes[i].layer;
            if (!seen[w])
                *(layer < 0 ? others : &layers[layer]) += bytes;
            seen[w] = true;
        }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Divide the layers so that the largest range is as small as possible. best[s][l]: bytes of the largest range
 * for the first l layers in s ranges (as in chains of tasks on chains of processors, Bokhari 1988). The first
 * range also has the weights outside the stack. */
static void cut_evenly(const uint64_t *bytes, uint64_t others, uint32_t layers, uint32_t stages,
                       uint64_t *best, uint32_t *from, uint32_t *edges)
{
    uint32_t wide = layers + 1;

    for (uint32_t l = 1; l <= layers; l++)
        best[wide + l] = (l == 1 ? others : best[wide + l - 1]) + bytes[l - 1];
    for (uint32_t s = 2; s <= stages; s++)
        for (uint32_t l = s; l <= layers; l++) {
            uint64_t last = 0, min = UINT64_MAX;
            for (uint32_t k = l - 1; k + 1 >= s; k--) {
                last += bytes[k];
                uint64_t max = larger(best[(s - 1) * wide + k], last);
                if (max < min) {
                    min               = max;
                    from[s * wide + l] = k;
                }
            }
            best[s * wide + l] = min;
        }
    edges[stages] = layers;
    for (uint32_t s = stages; s > 1; s--)
        edges[s - 1] = from[s * wide + edges[s]];
    edges[0] = 0;
}

lm_status lm_split_layers(const lm_program *p, const lm_dtype *types, uint32_t stages, uint32_t *edges,
                          lm_error *e)
{
    uint32_t layers = p->n_layers;

    if (stages < 1 || stages > LM_MAX_RANKS || stages > layers)
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET, "%u runs of %u layers; 1 to %u are possible",
                       stages, layers, layers < LM_MAX_RANKS ? layers : LM_MAX_RANKS);
    size_t    cells = ((size_t)stages + 1) * (layers + 1);
    uint64_t *bytes = lm_alloc_zero(layers + 1, sizeof *bytes), *best = lm_alloc_zero(cells, sizeof *best),
             others;
    uint32_t *from  = lm_alloc_zero(cells, sizeof *from);
    bool     *seen  = lm_alloc_zero(p->n_weights + 1, sizeof *seen);
    bool      good  = bytes && best && from && seen;

    if (good) {
        layer_bytes(p, types, bytes, &others, seen);
        cut_evenly(bytes, others, layers, stages, best, from, edges);
    }
    lm_free(bytes);
    lm_free(best);
    lm_free(from);
    lm_free(seen);
    return good ? LM_OK : lm_fail_memory(e, "split", cells * sizeof *best);
}

/* ---- the program of one range ---- */

typedef struct layering {
    const lm_program     *p;
    const lm_layers_spec *spec;
    lm_program           *out;
    lm_value             *value;         /* [p->n_values]: in the new program; LM_NONE */
    uint32_t             *weight;        /* [p->n_weights] */
    uint32_t             *place;         /* [p->n_nodes + 1]: the operation of the new program made for this
                                            one, or the next one */
    uint32_t             *source;        /* [out->n_weights] */
    uint32_t              first, end;    /* operations of these layers; in the first range, also those before
                                            the stack */
    uint32_t              after;         /* the first operation after the stack */
} layering;

/* Find the contiguous operations of the range. LM_UNSUPPORTED if the layers are not consecutive. */
static lm_status find_operations(layering *l, lm_error *e)
{
    const lm_program *p    = l->p;
    uint32_t          from = l->spec->edges[l->spec->stage], to = l->spec->edges[l->spec->stage + 1];
    int32_t           last = -1;

    l->first = l->end = LM_NONE;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        int32_t layer = p->nodes[i].layer;
        if (layer < 0)
            continue;
        if (layer < last)
            return lm_fail(e, LM_UNSUPPORTED, p->nodes[i].path, LM_NO_OFFSET,
                           "layers of this model cannot be cut apart");
        last     = layer;
        l->after = i + 1;
        if ((uint32_t)layer >= from && l->first == LM_NONE)
            l->first = i;
        if ((uint32_t)layer < to)
            l->end = i + 1;
    }
    if (l->spec->stage == 0)
        l->first = 0;
    return LM_OK;
}

/* Return whether a value computed before operation `at` is read there or later. */
static bool crosses(const lm_program *p, lm_value v, uint32_t at)
{
    if (p->values[v].producer >= at)
        return false;
    if (v == p->logits)
        return true;
    for (uint32_t i = at; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < p->nodes[i].n_in; k++)
            if (p->nodes[i].in[k] == v)
                return true;
    return false;
}

static lm_node *add(layering *l, lm_value v)
{
    lm_program *o = l->out;
    lm_node    *n = &o->nodes[o->n_nodes];

    n->out                   = o->n_values;
    o->values[o->n_values++] = (lm_value_info){ l->p->values[v].width, o->n_nodes++ };
    l->value[v]              = n->out;
    return n;
}

static bool add_message(layering *l, lm_value v, bool sends, uint32_t peer, bool wanted)
{
    lm_program    *o    = l->out;
    const lm_node *made = &l->p->nodes[l->p->values[v].producer];
    lm_value       in   = l->value[v];
    lm_node       *n    = add(l, v);
    lm_value       out  = n->out;

    *n = (lm_node){ .code = sends ? LM_OP_SEND : LM_OP_RECEIVE,
                    .module = made->module,
                    .layer = sends ? made->layer : -1,
                    .out = out,
                    .n_in = sends ? 1 : 0,
                    .message = { peer, wanted } };
    n->path = lm_arena_printf(&o->arena, sends ? "%s.send" : "%s.receive", made->path);
    for (uint32_t k = 0; k < LM_MAX_INPUTS; k++)
        n->in[k] = LM_NONE;
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        n->weights[k] = LM_NONE;
    n->in[0] = sends ? in : LM_NONE;
    return n->path != NULL;
}

/* Add a message for every value that crosses the edge before operation `at`, in the order of values, which is
 * the same on both sides. */
static bool add_messages(layering *l, uint32_t at, bool sends, uint32_t peer, bool wanted)
{
    for (lm_value v = 0; v < l->p->n_values; v++)
        if (crosses(l->p, v, at)) {
            if (!add_message(l, v, sends, peer, wanted))
                return false;
            if (sends)
                l->out->logits = l->value[v];
        }
    return true;
}

static uint32_t weight_of(layering *l, uint32_t w)
{
    lm_program *o = l->out;

    if (w == LM_NONE)
        return w;
    if (l->weight[w] == LM_NONE) {
        l->weight[w]             = o->n_weights;
        l->source[o->n_weights]  = w;
        o->weights[o->n_weights] = l->p->weights[w];
        o->weights[o->n_weights].uses = 0;
        o->n_weights++;
    }
    o->weights[l->weight[w]].uses++;
    return l->weight[w];
}

static void add_operations(layering *l, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const lm_node *had = &l->p->nodes[i];
        lm_value       in[LM_MAX_INPUTS];
        for (uint32_t k = 0; k < LM_MAX_INPUTS; k++)
            in[k] = k < had->n_in ? l->value[had->in[k]] : LM_NONE;
        lm_node *n   = add(l, had->out);
        lm_value out = n->out;
        *n           = *had;
        n->out       = out;
        memcpy(n->in, in, sizeof in);
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            n->weights[k] = weight_of(l, had->weights[k]);
        if (n->code == LM_OP_ATTENTION || n->code == LM_OP_SELECT_KEYS) {
            /* the first of this range stores what others have sent */
            n->attention.stored = !l->out->caches[n->attention.cache].elsewhere;
            l->out->caches[n->attention.cache].elsewhere = false;
            if (n->code == LM_OP_ATTENTION && lm_node_rate(n))
                l->out->caches[n->attention.entries].elsewhere = false;
        }
        if (lm_op_of(n->code)->state)
            l->out->states[n->state.index].elsewhere = false;
        l->place[i] = l->out->n_nodes - 1;
    }
}

static lm_value value_of(const layering *l, lm_value v)
{
    return v == LM_NONE ? LM_NONE : l->value[v];
}

static void finish(layering *l)
{
    lm_program *o = l->out;

    for (uint32_t i = 0; i < o->n_ropes; i++) {
        o->ropes[i].divisors      = weight_of(l, o->ropes[i].divisors);
        o->ropes[i].long_factors  = weight_of(l, o->ropes[i].long_factors);
        o->ropes[i].short_factors = weight_of(l, o->ropes[i].short_factors);
    }
    for (uint32_t i = l->p->n_nodes, next = l->place[i] = o->n_nodes; i-- > 0; next = l->place[i])
        if (l->place[i] == LM_NONE)
            l->place[i] = next;
    for (uint32_t i = 0; i < o->n_modules; i++) {
        lm_module *m = &o->modules[i];
        m->first_op  = l->place[m->first_op];
        m->end_op    = l->place[m->end_op];
        m->in        = value_of(l, m->in);
        m->out       = value_of(l, m->out);
    }
}

static bool make(layering *l)
{
    const lm_layers_spec *s    = l->spec;
    bool                  last = s->stage + 1 == s->stages, good = true;

    if (s->stage)
        good = add_messages(l, l->first, false, s->from, false);
    add_operations(l, l->first, l->end);
    good = good && add_messages(l, l->end, true, s->to, last);
    if (s->stage == 0) {
        good = good && add_messages(l, l->after, false, s->from, true);
        add_operations(l, l->after, l->p->n_nodes);
        l->out->logits = l->value[l->p->logits];
    }
    finish(l);
    return good;
}

static void *numbers(size_t n)
{
    uint32_t *to = lm_alloc((n + 1) * sizeof *to);

    if (to)
        memset(to, 0xff, (n + 1) * sizeof *to);          /* LM_NONE */
    return to;
}

static void *copied(const void *from, size_t n, size_t room, size_t size)
{
    void *to = lm_alloc_zero(n + room + 1, size);

    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

static bool begin(layering *l)
{
    const lm_program *p = l->p;
    lm_program       *o = l->out = lm_alloc_zero(1, sizeof *o);
    size_t            more = 2 * (size_t)p->n_values + 4;

    if (!o)
        return false;
    *o         = *p;
    o->arena   = (lm_arena){ 0 };
    o->nodes   = copied(NULL, 0, p->n_nodes + more, sizeof *o->nodes);
    o->values  = copied(NULL, 0, p->n_values + more, sizeof *o->values);
    o->weights = copied(NULL, 0, p->n_weights, sizeof *o->weights);
    o->modules = copied(p->modules, p->n_modules, 0, sizeof *o->modules);
    o->caches  = copied(p->caches, p->n_caches, 0, sizeof *o->caches);
    o->states  = copied(p->states, p->n_states, 0, sizeof *o->states);
    o->ropes   = copied(p->ropes, p->n_ropes, 0, sizeof *o->ropes);
    o->n_nodes = o->n_values = o->n_weights = 0;
    l->value   = numbers(p->n_values);
    l->weight  = numbers(p->n_weights);
    l->place   = numbers(p->n_nodes);
    l->source  = lm_arena_new(&o->arena, p->n_weights + 1, uint32_t);
    for (uint32_t i = 0; o->caches && i < o->n_caches; i++)
        o->caches[i].elsewhere = true;
    for (uint32_t i = 0; o->states && i < o->n_states; i++)
        o->states[i].elsewhere = true;
    return o->nodes && o->values && o->weights && o->modules && o->caches && o->states && o->ropes &&
           l->value && l->weight && l->place && l->source;
}

lm_status lm_program_layers(const lm_program *p, const lm_layers_spec *spec, lm_program **out,
                            const uint32_t **source, lm_error *e)
{
    layering l = { .p = p, .spec = spec };

    LM_TRY(find_operations(&l, e));
    bool good = begin(&l) && make(&l);
    lm_free(l.value);
    lm_free(l.weight);
    lm_free(l.place);
    if (!good) {
        lm_program_free(l.out);
        return lm_fail_memory(e, "split", 0);
    }
    *out    = l.out;
    *source = l.source;
    return LM_OK;
}
