/* facts_states.c - layers with a state: sizes, and how fast heads forget, from the weights. */
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

/* Find the half-lives of the heads (or rows) of a decay, sorted: ln 2 / (exp(A) softplus(bias)), or with a
 * bound ln 2 / (-bound sigmoid(exp(A) bias)), the input's own part being zero. `out` [n]. False: the decay
 * has another form, or there are no weights. */
static bool find_half_life(lm_facts *f, const lm_node *decay, double *out, uint64_t n)
{
    const lm_program *p    = f->s.program;
    const lm_node    *step = &p->nodes[p->values[decay->in[0]].producer];

    double bound = (double)decay->decay.bound;
    if (step->code == LM_OP_CLAMP)
        step = &p->nodes[p->values[step->in[0]].producer];
    const lm_node *sum = bound < 0 ? step : &p->nodes[p->values[step->in[0]].producer];
    if ((step != sum && (step->code != LM_OP_ACT || step->glu.act != LM_ACT_SOFTPLUS)) ||
        sum->code != LM_OP_ADD_BIAS)
        return false;
    const float *a = read_vector(f, decay->weights[0]), *bias = read_vector(f, sum->weights[0]);
    if (!a || !bias)
        return false;
    bool     gguf = lm_container_kind_of(f->s.tensors) == LM_GGUF;           /* it stores exp(A) or -exp(A) */
    uint64_t each     = n / p->weights[decay->weights[0]].elements;
    for (uint64_t i = 0; i < n; i++) {
        double rate = gguf ? fabs((double)a[i / each]) : exp((double)a[i / each]);
        out[i]      = log(2) / (bound < 0 ? -bound / (1 + exp(-rate * (double)bias[i]))
                                          : rate * log1p(exp((double)bias[i])));
    }
    qsort(out, n, sizeof *out, ascending);
    return true;
}

static void fill_half_life(lm_facts *f, lm_fact *list)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n     = &p->nodes[i];
        uint64_t       width = n->code == LM_OP_DECAY ? p->values[n->out].width : 0;
        double        *at    = width ? lm_arena_new(&f->arena, width, double) : NULL;
        if (!at || !find_half_life(f, n, at, width))
            continue;
        lm_fact *g = lm_add_group(list, NULL, NULL, 0);
        lm_add_count(g, "layer", (uint64_t)n->layer, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
        lm_add_number(g, "shortest", at[0], LM_UNIT_TOKENS, LM_FROM_TENSOR, "of the heads of the layer");
        lm_add_number(g, "median", at[width / 2], LM_UNIT_TOKENS, LM_FROM_TENSOR, "of the heads of the layer");
        lm_add_number(g, "longest", at[width - 1], LM_UNIT_TOKENS, LM_FROM_TENSOR, "of the heads of the layer");
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
    lm_add_list(g, "half_life", fill_half_life, 0);
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
}
