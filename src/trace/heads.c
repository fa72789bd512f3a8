/* heads.c - attention weights of heads: the softmax of a row's scores, computed from its queries and the keys
 * as rounded in the cache. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "trace/tracer.h"

static const lm_attention_spec *spec_of(const lm_tracer *t, const lm_trace_keys *k)
{
    return &t->p->nodes[k->node].attention.spec;
}

/* Round keys as the cache does. Block types, which rotate keys first, are not simulated: the scores hardly
 * change. */
static void round_keys(lm_dtype type, float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n && type == LM_F16; i++)
        x[i] = lm_f16_to_f32(lm_f32_to_f16(x[i]));
    for (uint32_t i = 0; i < n && type == LM_BF16; i++)
        x[i] = lm_rounded_to_bf16(x[i]);
}

void lm_trace_keep_keys(lm_tracer *t, size_t i, uint32_t position)
{
    for (size_t l = 0; l < t->n_keys && position < t->key_capacity; l++) {
        lm_trace_keys *k = &t->keys[l];
        const lm_node *n = &t->p->nodes[k->node];
        const float   *x = lm_engine_value(t->g, n->in[1], i);
        float         *y = k->keys + (size_t)position * k->width;
        if (!x)
            continue;
        uint32_t width = t->p->values[n->in[1]].width;
        memcpy(y, x, width * sizeof *y);
        round_keys(t->g->plan->layers[n->attention.cache].shape.k_type, y, width);
        if (!lm_node_rate(n))
            continue;
        memcpy(y + width, lm_engine_value(t->g, n->in[4], i), width * sizeof *y);
        round_keys(t->g->plan->layers[n->attention.entries].shape.k_type, y + width, width);
    }
}

static double score(const lm_attention_spec *s, const float *q, const float *key, float slope, uint32_t j,
                    uint32_t distance)
{
    double sum = 0;

    for (uint32_t i = 0; i < s->k_dim; i++)
        sum += (double)q[i] * (double)key[i];
    if (s->alibi > 0 && s->alibi_half)
        sum += (double)lm_rounded_to_bf16(slope * lm_rounded_to_bf16((float)j));
    sum *= (double)s->scale;
    if (s->softcap > 0)
        sum = (double)s->softcap * tanh(sum / (double)s->softcap);
    if (s->alibi > 0 && !s->alibi_half)
        sum -= (double)slope * distance;
    return sum;
}

const float *lm_trace_chosen(const lm_tracer *t, const lm_trace_keys *k, size_t i)
{
    const lm_node *n = &t->p->nodes[k->node];

    return n->attention.spec.top_k ? lm_engine_value(t->g, n->in[3], i) : NULL;
}

/* Set the scores of keys that are not chosen to -infinity. */
static void hide(const lm_attention_spec *s, const float *chosen, uint32_t position, float *scores)
{
    uint32_t next = 0, width = lm_choice_width(s), each = s->block ? s->block : 1;

    for (uint32_t j = 0; j <= position; j++) {
        float number = (float)(j / each);
        while (next < width && chosen[next] >= 0 && chosen[next] < number)
            next++;
        if (next == width || chosen[next] != number)
            scores[j] = -INFINITY;
    }
}

/* Return the scores of the entries that a query sees, all or the chosen ones: their maximum (max NULL), or
 * the sum of their exponentials, less *max. */
static double see_entries(const lm_attention_spec *s, const lm_trace_keys *k, uint32_t position,
                          const float *q, const float *chosen, const double *max)
{
    uint32_t n      = s->rate ? (position + 1) / s->rate : 0;
    double   result = max ? 0 : -INFINITY;

    for (uint32_t i = 0; i < (chosen ? s->top_k : n) && (!chosen || chosen[i] >= 0); i++) {
        uint32_t     entry = chosen ? (uint32_t)chosen[i] : i;
        const float *key = k->keys + ((size_t)(entry + 1) * s->rate - 1) * k->width + k->width / 2;
        double       x   = score(s, q, key, 0, 0, 0);
        result           = max ? result + exp(x - *max) : fmax(result, x);
    }
    return result;
}

/* out [position + 1]; 0 outside the window and at keys that are not chosen. Entries of compressed attention
 * have the rest. */
void lm_trace_head_weights(lm_tracer *t, const lm_trace_keys *k, uint32_t head, uint32_t position,
                           const float *q, const float *chosen, float *out)
{
    const lm_node           *n     = &t->p->nodes[k->node];
    const lm_attention_spec *s     = spec_of(t, k);
    const float             *sinks = n->weights[0] == LM_NONE ? NULL : t->g->weight[n->weights[0]];
    const float             *slopes = t->g->slopes[n->attention.cache];
    uint32_t first = lm_first_seen(s->window, s->chunked, position),
             group = head / (s->n_heads / s->n_kv_heads);
    double                   max   = sinks ? (double)sinks[head] : -INFINITY, sum = 0;

    memset(out, 0, first * sizeof *out);
    for (uint32_t j = first; j <= position; j++) {
        const float *key = k->keys + (size_t)j * k->width + (size_t)group * s->k_dim;
        out[j] = (float)score(s, q + (size_t)head * s->k_dim, key, slopes ? slopes[head] : 0, j,
                              position - j);
    }
    if (chosen && !s->rate)
        hide(s, chosen + (uint64_t)lm_seen_choice(s, group) * lm_choice_width(s), position, out);
    for (uint32_t j = first; j <= position; j++)
        max = fmax(max, (double)out[j]);
    if (s->rate)
        max = fmax(max, see_entries(s, k, position, q + (size_t)head * s->k_dim, chosen, NULL));
    if (sinks)
        sum = exp((double)sinks[head] - max);
    if (s->rate)
        sum += see_entries(s, k, position, q + (size_t)head * s->k_dim, chosen, &max);
    for (uint32_t j = first; j <= position; j++)
        sum += exp((double)out[j] - max);
    for (uint32_t j = first; j <= position; j++)
        out[j] = (float)(exp((double)out[j] - max) / sum);
}

static void take_largest(lm_trace_head *h, uint32_t at, float w)
{
    for (uint32_t k = 0; k < 3; k++)
        if (w > h->weight[k]) {
            uint32_t other = h->at[k];
            float    less  = h->weight[k];
            h->at[k]       = at;
            h->weight[k]   = w;
            at             = other;
            w              = less;
        }
}

static void describe(lm_trace_head *h, const float *w, uint32_t first, uint32_t position)
{
    double mass = 0, distance = 0;

    h->first = first == 0 ? (double)w[0] : 0;
    for (uint32_t j = first; j <= position; j++) {
        double x = (double)w[j];
        mass += x;
        distance += x * (position - j);
        h->entropy -= x > 0 ? x * log2(x) : 0;
        take_largest(h, j, w[j]);
    }
    h->distance = mass > 0 ? distance / mass : 0;
}

static bool is_whole(const lm_tracer *t, uint32_t layer, uint32_t head)
{
    for (size_t i = 0; i < t->o.n_heads; i++)
        if (t->o.heads[2 * i] == layer && t->o.heads[2 * i + 1] == head)
            return true;
    return false;
}

lm_status lm_trace_heads(lm_tracer *t, lm_trace_record *r, size_t i, lm_error *e)
{
    size_t n = 0, at = 0;

    for (size_t l = 0; l < t->n_keys; l++)
        n += t->keys[l].looked ? spec_of(t, &t->keys[l])->n_heads : 0;
    lm_trace_head *out = lm_arena_new(&r->arena, n + 1, lm_trace_head);
    if (!out)
        return lm_fail_memory(e, "attention", n);
    for (size_t l = 0; l < t->n_keys; l++) {
        const lm_trace_keys     *k    = &t->keys[l];
        const lm_node           *node = &t->p->nodes[k->node];
        const lm_attention_spec *s    = spec_of(t, k);
        const float             *q    = lm_engine_value(t->g, node->in[0], i);
        uint32_t                 first = lm_first_seen(s->window, s->chunked, r->position);
        for (uint32_t h = 0; k->looked && q && h < s->n_heads; h++) {
            lm_trace_head *x = &out[at++];
            *x = (lm_trace_head){ .path = lm_trace_block(t->p, node->module),
                                  .layer = (uint32_t)node->layer,
                                  .head = h };
            lm_trace_head_weights(t, k, h, r->position, q, lm_trace_chosen(t, k, i), t->lanes);
            describe(x, t->lanes, first, r->position);
            if (!is_whole(t, x->layer, h))
                continue;
            float *copy = lm_arena_new(&r->arena, r->position + 1 - first, float);
            if (!copy)
                return lm_fail_memory(e, "attention", r->position);
            memcpy(copy, t->lanes + first, (r->position + 1 - first) * sizeof *copy);
            x->weights        = copy;
            x->first_position = first;
            x->n_weights      = r->position + 1 - first;
        }
    }
    r->row.attention   = out;
    r->row.n_attention = at;
    return LM_OK;
}
