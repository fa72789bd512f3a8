/* attribution.c - what each part of the model adds to a token's logit (direct logit attribution, arXiv
 * 2104.08696 and later work).
 *
 * The residual stream is a sum, the final norm is linear once its scale is known, and the head is linear. So
 * the logit is a sum over the terms of the stream, plus biases. A logit cap is an additional term. What
 * remains is rounding: small in float32, larger if activations are rounded for the head. With it, the terms
 * add up to the logit that the engine computed. */
#include <math.h>
#include <string.h>

#include "trace/tracer.h"

enum { MAX_OPERATIONS = 16 };

typedef struct direction {
    const lm_tracer *t;
    const float     *stream;             /* [its width]: of this row */
    double          *g;                  /* derivative of the logit by each lane; NULL: at the token itself */
    uint32_t         width;
    double           scale, bias;        /* bias: part of the logit that does not depend on the stream */
    double           cap, outside;       /* of logits; 0: none. Scale applied after the cap */
    const char      *why;                /* why there is no attribution; NULL: there is */
} direction;

static const float *floats_of(const lm_engine *g, uint32_t weight)
{
    return weight == LM_NONE ? NULL : g->weight[weight];
}

/* Go back through a product: for the head, the token's row; for a matrix before it, all rows. */
static bool back_linear(direction *d, const lm_node *n, lm_token id, float *row, lm_arena *arena)
{
    const lm_engine *g    = d->t->g;
    uint32_t         cols = d->t->p->values[n->in[0]].width;
    double          *out  = lm_arena_new(arena, cols, double);

    if (!out)
        return false;
    const float     *bias = floats_of(g, n->weights[1]);
    for (uint32_t j = 0; bias && d->g && j < d->width; j++)
        d->bias += d->g[j] * (double)bias[j];
    if (!d->g) {
        d->bias = bias ? (double)bias[id] : 0;
        lm_engine_weight_row(g, n->weights[0], (uint64_t)id, row);
        for (uint32_t i = 0; i < cols; i++)
            out[i] = (double)row[i];
    } else {
        for (uint32_t j = 0; j < d->width; j++) {
            lm_engine_weight_row(g, n->weights[0], j, row);
            for (uint32_t i = 0; i < cols; i++)
                out[i] += d->g[j] * (double)row[i];
        }
    }
    d->g     = out;
    d->width = cols;
    return true;
}

static void back_norm(direction *d, const lm_node *n)
{
    const float *w    = floats_of(d->t->g, n->weights[0]), *x = d->stream;
    const float *bias = n->code == LM_OP_LAYER_NORM ? floats_of(d->t->g, n->weights[1]) : NULL;
    double       mean = 0, squares = 0, middle = 0;
    bool         layer = n->code == LM_OP_LAYER_NORM;

    for (uint32_t i = 0; layer && i < d->width; i++)
        mean += (double)x[i] / d->width;
    for (uint32_t i = 0; i < d->width; i++) {
        d->bias += bias ? d->g[i] * (double)bias[i] : 0;
        squares += ((double)x[i] - mean) * ((double)x[i] - mean) / d->width;
        d->g[i] *= w ? (double)w[i] : 1;
        middle += layer ? d->g[i] / d->width : 0;
    }
    double r = 1 / sqrt(squares + (double)n->norm.eps);
    for (uint32_t i = 0; i < d->width; i++)
        d->g[i] = (d->g[i] - middle) * r;
}

/* Go back from the logits to the stream. */
static bool go_back(direction *d, lm_token id, float *row, lm_arena *arena)
{
    const lm_program *p = d->t->p;

    for (lm_value v = p->logits; v != d->t->map.stream;) {
        const lm_node *n    = &p->nodes[p->values[v].producer];
        bool           norm = n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM;
        if (n->code == LM_OP_SCALE)
            d->scale *= (double)n->scale.factor;
        else if (n->code == LM_OP_SOFTCAP)
            d->cap = (double)n->scale.factor, d->outside = d->scale;
        else if (n->code == LM_OP_LINEAR && !back_linear(d, n, id, row, arena))
            return false;
        else if (norm && (!d->g || n->norm.groups != 1 || n->in[0] != d->t->map.stream))
            d->why = "attribution: what the logits are made of is not a norm and a product";
        else if (norm)
            back_norm(d, n);
        v = n->in[0];
        if (d->why)
            return true;
    }
    if (!d->g)
        d->why = "attribution: the model has no head that is a product";
    return true;
}

static double dot(const direction *d, const float *x, const float *minus)
{
    double sum = 0;

    for (uint32_t i = 0; i < d->width; i++)
        sum += d->g[i] * ((double)x[i] - (minus ? (double)minus[i] : 0));
    return sum * d->scale;
}

lm_status lm_trace_attribute(lm_tracer *t, lm_trace_record *r, lm_error *e)
{
    uint32_t        width = lm_trace_width(t);
    const float    *terms = r->states + t->map.n_points * (size_t)width;
    direction       d     = { .t = t, .stream = terms + 2 * t->map.n_terms * (size_t)width, .scale = 1 };
    lm_trace_contribution *out   = lm_arena_new(&r->arena, t->map.n_terms + 3, lm_trace_contribution);
    double          sum   = 0;

    if (!out || !go_back(&d, r->row.token, t->lanes, &r->arena))
        return lm_fail_memory(e, "attribution", width);
    if (d.why) {
        r->row.note = d.why;
        return LM_OK;
    }
    for (size_t i = 0; i < t->map.n_terms; i++) {
        const lm_trace_term *x = &t->map.terms[i];
        const float         *v = terms + 2 * i * (size_t)width;
        out[i] = (lm_trace_contribution){ .path = x->path, .layer = x->layer, .part = x->part };
        out[i].value = (double)x->factor * dot(&d, v, x->minus == LM_NONE ? NULL : v + width);
        sum += out[i].value;
    }
    size_t n = t->map.n_terms;
    if (d.bias != 0) {
        out[n++] = (lm_trace_contribution){
            .path = "bias", .layer = -1, .part = LM_TRACE_BIAS, .value = d.bias * d.scale
        };
        sum += d.bias * d.scale;
    }
    if (d.cap > 0) {
        double capped = d.outside * d.cap * tanh(sum / d.outside / d.cap);
        out[n++] = (lm_trace_contribution){
            .path = "cap", .layer = -1, .part = LM_TRACE_CAP, .value = capped - sum
        };
        sum = capped;
    }
    out[n++] = (lm_trace_contribution){
        .path = "rest", .layer = -1, .part = LM_TRACE_REST, .value = r->row.logit - sum
    };
    r->row.attribution   = out;
    r->row.n_attribution = n;
    return LM_OK;
}
