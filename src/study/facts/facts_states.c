/* facts_states.c - layers with a state: sizes, and how fast their states forget, from the weights. */
#include <math.h>
#include <stdlib.h>

#include "study/facts/counts.h"
#include "study/facts/fact.h"
#include "study/facts/traits.h"

/* ---- half-lives ---- */

/* Read a vector; NULL: there are no weights, the tensor has another name, or out of memory. */
static float *read_vector(lm_facts *f, uint32_t weight)
{
    const lm_weight      *w = &f->s.program->weights[weight];
    const lm_tensor_info *t = NULL;
    bool                  gguf = f->s.tensors && lm_container_kind_of(f->s.tensors) == LM_GGUF;

    if (f->s.tensors)
        t = lm_container_find(f->s.tensors, gguf ? w->gguf : w->path);
    float *x = t && t->elements == w->elements ? lm_arena_new(&f->arena, w->elements, float) : NULL;
    if (x)
        lm_container_unpack(f->s.tensors, t, 0, t->elements, x);
    return x;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* What decides how fast a state forgets: A and the bias of a step or gate, which are weights, and a bound of
 * the logarithm of a decay; 0: none. */
typedef struct forgetting { uint32_t a, bias; double bound; bool gated; } forgetting;

static const lm_node *maker(const lm_program *p, lm_value v)
{
    return &p->nodes[p->values[v].producer];
}

/* Read it off a gate, the sigmoid of a product with a bias. */
static bool find_gate(const lm_program *p, const lm_node *n, forgetting *out)
{
    const lm_node *gate = maker(p, n->in[1]), *bias = maker(p, gate->in[0]);

    *out = (forgetting){ .a = n->weights[0], .bias = bias->weights[0], .gated = true };
    return gate->code == LM_OP_ACT && gate->glu.act == LM_ACT_SIGMOID && bias->code == LM_OP_ADD_BIAS;
}

/* Read it off a decay or a selective scan. False: the operation is another one, or has another form. */
static bool find_forgetting(const lm_program *p, const lm_node *n, forgetting *out)
{
    bool scans = n->code == LM_OP_SELECTIVE_SCAN;

    if (n->code == LM_OP_GATED_RECURRENCE)
        return find_gate(p, n, out);
    if (!scans && n->code != LM_OP_DECAY)
        return false;
    const lm_node *step = maker(p, n->in[scans ? 3 : 0]);
    if (step->code == LM_OP_CLAMP)
        step = maker(p, step->in[0]);
    *out = (forgetting){ .a = n->weights[0], .bound = scans ? 0 : (double)n->decay.bound };
    if (!(out->bound < 0)) {
        if (step->code != LM_OP_ACT || step->glu.act != LM_ACT_SOFTPLUS)
            return false;
        step = maker(p, step->in[0]);
    }
    if (step->code != LM_OP_ADD_BIAS && step->code != LM_OP_LINEAR)
        return false;
    out->bias = step->weights[step->code == LM_OP_LINEAR];
    return out->bias != LM_NONE;
}

/* Return the half-life of a value from A, as folders store it, and its bias, the input's own part being
 * zero. */
static double half_life(const forgetting *w, double a, double bias)
{
    if (w->gated)
        return log(2) * (1 + exp(-bias)) / (8 * log1p(exp(a)));
    if (w->bound < 0)
        return log(2) / (-w->bound / (1 + exp(-exp(a) * bias)));
    return log(2) / (exp(a) * log1p(exp(bias)));
}

/* Find the half-lives of `n` values, rows or heads of a state, sorted. False: there are no weights. */
static bool find_half_life(lm_facts *f, const forgetting *w, double *out, uint64_t n)
{
    const lm_program *p = f->s.program;
    const float      *a = read_vector(f, w->a), *bias = read_vector(f, w->bias);

    if (!a || !bias)
        return false;
    bool     gguf = lm_container_kind_of(f->s.tensors) == LM_GGUF;           /* it stores exp(A) or -exp(A) */
    uint64_t each_a = n / p->weights[w->a].elements, each_bias = n / p->weights[w->bias].elements;
    for (uint64_t i = 0; i < n; i++) {
        double own = (double)a[i / each_a];
        out[i]     = half_life(w, gguf && !w->gated ? log(fabs(own)) : own, (double)bias[i / each_bias]);
    }
    qsort(out, n, sizeof *out, ascending);
    return true;
}

static void fill_half_life(lm_facts *f, lm_fact *list)
{
    const lm_program *p = f->s.program;
    forgetting        w;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (!find_forgetting(p, n, &w))
            continue;
        uint64_t    all = p->weights[w.a].elements, width = p->values[n->out].width;
        const char *of = "of the values of the layer's state";
        if (n->code == LM_OP_DECAY) {
            all = width;
            of   = "of the heads of the layer";
        }
        double *at = lm_arena_new(&f->arena, all, double);
        if (!at || !find_half_life(f, &w, at, all))
            continue;
        lm_fact *g = lm_add_group(list, NULL, NULL, 0);
        lm_add_count(g, "layer", (uint64_t)n->layer, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
        lm_add_number(g, "shortest", at[0], LM_UNIT_TOKENS, LM_FROM_TENSOR, of);
        lm_add_number(g, "median", at[all / 2], LM_UNIT_TOKENS, LM_FROM_TENSOR, of);
        lm_add_number(g, "longest", at[all - 1], LM_UNIT_TOKENS, LM_FROM_TENSOR, of);
    }
}

/* ---- sizes ---- */

static void fill_layers(lm_facts *f, lm_fact *list)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint64_t floats = 0;
        for (uint32_t k = 0; k < p->n_states; k++)
            floats += p->states[k].layer == (int32_t)i ? p->states[k].floats : 0;
        lm_add_count(list, NULL, floats, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM,
                     "carried from position to position");
    }
}

static void fill_convolution(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    lm_add_count(g, "taps", t.convolution->conv.taps, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "positions that an output reads");
    lm_add_count(g, "width", f->s.program->values[t.convolution->out].width, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 NULL);
}

static void fill_recurrence(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    const lm_recurrence *r = &t.recurrence->recurrence.spec;
    lm_add_count(g, "heads", r->n_heads, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
    lm_add_count(g, "key_heads", r->n_key_heads, LM_UNIT_NONE, LM_FROM_PROGRAM, "heads of q and k");
    lm_add_count(g, "key_dim", r->k_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "rows of the state of a head");
    lm_add_count(g, "value_dim", r->v_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "columns of the state of a head");
    lm_add_bool(g, "delta_rule", r->delta, LM_FROM_PROGRAM, "what the state returns for a key is replaced");
    lm_add_bool(g, "decay_by_row", r->decay_by_channel, LM_FROM_PROGRAM, "a decay for every row of the state");
}

static void fill_scan(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    const lm_recurrence *r = &t.scan->recurrence.spec;
    lm_add_count(g, "width", r->v_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "dimensions that carry a vector");
    lm_add_count(g, "entries", r->k_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "numbers of such a vector");
}

static void fill_gated(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    lm_add_count(g, "width", t.gated->recurrence.spec.v_dim, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "dimensions that carry a number");
}

void lm_fill_states(lm_facts *f, lm_fact *g)
{
    const lm_program *p      = f->s.program;
    uint64_t          floats = lm_count_state_floats(p), layers = 0;
    lm_traits         t;

    lm_find_traits(f->ledger, &t);
    for (uint32_t i = 0; i < p->n_states; i++)
        layers += i == 0 || p->states[i].layer != p->states[i - 1].layer;
    lm_add_count(g, "layers", layers, LM_UNIT_LAYERS, LM_FROM_PROGRAM, "layers with a state");
    lm_add_count(g, "elements", floats, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM,
                 "of a sequence, whatever its length; float32");
    lm_add_count(g, "bytes", floats * sizeof(float), LM_UNIT_BYTES, LM_FROM_PROGRAM, "of a sequence");
    if (p->n_states)
        lm_add_list(g, "elements_per_layer", fill_layers, 0);
    if (t.convolution)
        lm_add_group(g, "convolution", fill_convolution, 0);
    if (t.recurrence)
        lm_add_group(g, "recurrence", fill_recurrence, 0);
    if (t.scan)
        lm_add_group(g, "scan", fill_scan, 0);
    if (t.gated)
        lm_add_group(g, "gated", fill_gated, 0);
    if (t.recurrence || t.scan || t.gated)
        lm_add_list(g, "half_life", fill_half_life, 0);
}
