/* program.c - look up and count parts of a program, and print it. */
#include "program/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

void lm_program_free(lm_program *p)
{
    if (!p)
        return;
    lm_free(p->nodes);
    lm_free(p->values);
    lm_free(p->weights);
    lm_free(p->modules);
    lm_free(p->caches);
    lm_free(p->states);
    lm_free(p->ropes);
    lm_arena_free(&p->arena);
    lm_free(p);
}

uint32_t lm_program_weight(const lm_program *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (strcmp(p->weights[i].path, path) == 0)
            return i;
    return LM_NONE;
}

uint32_t lm_program_module(const lm_program *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_modules; i++)
        if (strcmp(p->modules[i].path, path) == 0)
            return i;
    return LM_NONE;
}

lm_value lm_program_value(const lm_program *p, const char *path)
{
    uint32_t m = lm_program_module(p, path);

    if (m != LM_NONE && p->modules[m].out != LM_NONE)
        return p->modules[m].out;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (strcmp(p->nodes[i].path, path) == 0)
            return p->nodes[i].out;
    return LM_NONE;
}

uint64_t lm_program_parameters(const lm_program *p)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < p->n_weights; i++)
        total += p->weights[i].constant ? 0 : p->weights[i].elements;
    return total;
}

/* Return the number of parameters of experts that a token is not routed to, including their biases. */
static uint64_t inactive(const lm_program *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        for (uint32_t k = 0; n->code == LM_OP_EXPERTS && k < LM_MAX_WEIGHTS; k++) {
            bool     counted = k == 1 && !lm_experts_have_gate(n);
            uint64_t all = n->weights[k] == LM_NONE || counted ? 0 : p->weights[n->weights[k]].elements;
            sum += all / n->experts.n_experts * (n->experts.n_experts - n->experts.top_k);
        }
    }
    return sum;
}

uint64_t lm_program_active(const lm_program *p)
{
    return lm_program_parameters(p) - inactive(p);
}

/* A weight belongs to the modules whose paths are prefixes of its own; a tied weight has the path of the
 * first module that reads it. */
uint64_t lm_module_parameters(const lm_program *p, uint32_t module)
{
    const lm_module *m     = &p->modules[module];
    size_t           n     = strlen(m->path);
    uint64_t         total = 0;

    for (uint32_t i = 0; i < p->n_weights; i++) {
        const lm_weight *w = &p->weights[i];
        if (!w->constant && strncmp(w->path, m->path, n) == 0 && (n == 0 || w->path[n] == '.'))
            total += w->elements;
    }
    return total;
}

static bool is_within(const lm_program *p, uint32_t module, uint32_t parent)
{
    while (module != LM_NONE && module > parent)         /* modules follow those that they are in */
        module = p->modules[module].parent;
    return module == parent;
}

uint32_t lm_module_op(const lm_program *p, uint32_t module, uint32_t from)
{
    const lm_module *m = &p->modules[module];

    while (m->first_op == m->end_op && m->parent != LM_NONE)
        m = &p->modules[m->parent];
    for (uint32_t i = from > m->first_op ? from : m->first_op; i < m->end_op; i++)
        if (m == &p->modules[module] || is_within(p, p->nodes[i].module, module))
            return i;
    return LM_NONE;
}

uint32_t lm_program_head(const lm_program *p)
{
    uint32_t i = p->n_nodes;

    while (i > 1 && p->nodes[i - 1].code != LM_OP_LINEAR)
        i--;
    return i - 1;
}

bool lm_only_chooses(const lm_program *p, lm_value v, bool routes)
{
    bool some = false;

    for (uint32_t i = p->values[v].producer + 1; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < p->nodes[i].n_in; k++) {
            const lm_node *n = &p->nodes[i];
            if (n->in[k] != v)
                continue;
            some = (routes && n->code == LM_OP_ROUTE) || n->code == LM_OP_SELECT_KEYS ||
                   ((n->code == LM_OP_ROPE || n->code == LM_OP_LAYER_NORM || n->code == LM_OP_RMS_NORM ||
                     n->code == LM_OP_COMPRESS) &&
                    lm_only_chooses(p, n->out, routes));
            if (!some)
                return false;
        }
    return some;
}

uint32_t lm_program_context(const lm_program *p, uint32_t requested)
{
    return requested ? requested : p->context_length ? p->context_length : LM_DEFAULT_CONTEXT;
}

/* ---- weights as stored ---- */

/* Write the dimensions that Hugging Face checkpoints have, if they are others than those of GGUF. */
static uint32_t folder_dims(const lm_weight *w, uint64_t d[4])
{
    if (w->padded) {
        memcpy(d, (uint64_t[]){ 1, 1, w->elements, 1 }, 4 * sizeof *d);
        return 4;
    }
    if (w->in_row || w->heads) {
        d[0] = w->in_row ? 1 : w->heads;
        d[1] = w->elements / d[0];
        return 2;
    }
    if (w->scalar)
        return 0;
    if (w->flat) {
        d[0] = w->elements;
        return 1;
    }
    if (w->transposed && w->n_dims == 2) {
        d[0] = w->dims[1];
        d[1] = w->dims[0];
    }
    return w->n_dims;
}

uint32_t lm_weight_dims(const lm_weight *w, bool gguf, uint64_t *dims)
{
    uint64_t d[4] = { w->dims[0], w->dims[1], w->dims[2] };
    uint32_t n    = w->n_dims;

    if (w->joint.only && n == 3) {                   /* one after the other */
        d[0] = w->dims[0] * w->dims[1];
        d[1] = w->dims[2];
        n    = 2;
    } else if (w->one_between && (!gguf || w->between_in_gguf)) {
        memcpy(d, (uint64_t[]){ w->dims[0], 1, w->dims[1] }, 3 * sizeof *d);
        n = 3;
    } else if (!gguf) {
        n = folder_dims(w, d);
    }
    memcpy(dims, d, sizeof d);
    return n;
}

/* Return the shortest number whose exponential is `y`, if one is; so numbers of a checkpoint that are stored
 * in 16 bits return as they were. */
static float logarithm(float y)
{
    float x = logf(y);

    for (int bits = 8; bits < 24 && isfinite(x); bits++) {
        int   exponent;
        float part = frexpf(x, &exponent), shortened = ldexpf(rintf(ldexpf(part, bits)), exponent - bits);
        if (expf(shortened) == y)
            return shortened;
    }
    return x;
}

void lm_weight_from_stored(const lm_weight *w, bool gguf, float *x, uint64_t n)
{
    for (uint64_t i = 0; w->plus_one && !gguf && i < n; i++)
        x[i] += 1;
    for (uint64_t i = 0; w->inverse && !gguf && i < n; i++)
        x[i] = 1 / x[i];
    for (uint64_t i = 0; w->exponential && gguf && i < n; i++)
        x[i] = logarithm((float)w->exponential * x[i]);
}

void lm_weight_to_stored(const lm_weight *w, bool gguf, float *x, uint64_t n)
{
    for (uint64_t i = 0; w->plus_one && !gguf && i < n; i++)
        x[i] -= 1;
    for (uint64_t i = 0; w->inverse && !gguf && i < n; i++)
        x[i] = 1 / x[i];
    for (uint64_t i = 0; w->exponential && gguf && i < n; i++)
        x[i] = (float)w->exponential * expf(x[i]);
}

/* ---- order as stored ---- */

static uint64_t ungrouped(const lm_gguf_layout *l, uint64_t i)
{
    uint64_t group = l->parts[0] + l->parts[1] + l->parts[2] + l->parts[3], g = i / group, before = 0;
    uint32_t k = 0;

    for (i %= group; i >= l->parts[k]; k++) {
        i -= l->parts[k];
        before += l->parts[k];
    }
    return l->groups * before + g * l->parts[k] + i;
}

static uint64_t grouped(const lm_gguf_layout *l, uint64_t i)
{
    uint64_t group = l->parts[0] + l->parts[1] + l->parts[2] + l->parts[3], before = 0;
    uint32_t k = 0;

    for (; i >= l->groups * l->parts[k]; k++) {
        i -= l->groups * l->parts[k];
        before += l->parts[k];
    }
    return i / l->parts[k] * group + before + i % l->parts[k];
}

/* Exchange the two counts that make up the number of a head, within every inner * outer heads. */
static uint64_t exchanged(const lm_gguf_layout *l, uint64_t i, uint64_t inner, uint64_t outer)
{
    if (i < l->first)
        return i;
    uint64_t head = (i - l->first) / l->width, lane = (i - l->first) % l->width;
    uint64_t in = head % (inner * outer), before = head - in;
    return l->first + (before + in % inner * outer + in / inner) * l->width + lane;
}

uint64_t lm_gguf_layout_from(const lm_gguf_layout *l, uint64_t i)
{
    return l->width ? exchanged(l, i, l->key_heads, l->each) : grouped(l, i);
}

uint64_t lm_gguf_layout_to(const lm_gguf_layout *l, uint64_t i)
{
    return l->width ? exchanged(l, i, l->each, l->key_heads) : ungrouped(l, i);
}

lm_status lm_weight_fold(const lm_weight *w, uint64_t first, float *x, uint64_t n, lm_error *e)
{
    uint64_t cols = w->n_dims == 1 ? 1 : w->dims[w->n_dims - 1];

    for (uint32_t k = 0; k < w->n_folds; k++) {
        const lm_fold *f    = &w->folds[k];
        uint64_t       from = f->first * cols, to = from + f->n * cols;
        if (isnan(f->factor))
            return lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET,
                           "GGUF has one matrix for embedding and head, but their multipliers differ");
        for (uint64_t i = from > first ? from - first : 0; i < n && first + i < to; i++)
            x[i] *= f->factor;
    }
    return LM_OK;
}

/* ---- caches ---- */

static uint64_t sum_up_to(uint64_t t)
{
    return t % 2 ? (t + 1) / 2 * t : t / 2 * (t + 1);
}

uint64_t lm_keys_seen(uint64_t t, uint64_t window, bool chunked)
{
    if (!window || t <= window)
        return sum_up_to(t);
    if (chunked)
        return t / window * sum_up_to(window) + sum_up_to(t % window);
    return window * (window + 1) / 2 + (t - window) * window;
}

uint64_t lm_keys_at(uint64_t t, uint64_t window, bool chunked)
{
    if (!window || t <= window)
        return t;
    return chunked ? (t - 1) % window + 1 : window;
}

/* Return the number of entries visible to t tokens together: i / rate, at most `max`, to token i. */
static uint64_t entries_seen(uint64_t t, uint64_t rate, uint64_t max)
{
    uint64_t past = t / rate < max ? 0 : t - max * rate + 1, n = t - past, whole = n / rate;

    return (whole ? rate * sum_up_to(whole - 1) : 0) + (n - whole * rate + (whole ? 1 : 0)) * whole +
           past * max;
}

/* Return the largest number of entries that a node sees of those that are visible. */
static uint64_t max_entries(const lm_node *n)
{
    return n->code == LM_OP_ATTENTION && n->attention.spec.top_k ? n->attention.spec.top_k : UINT64_MAX;
}

uint64_t lm_node_keys_seen(const lm_node *n, uint64_t t)
{
    const lm_attention_spec *s = &n->attention.spec;

    if (!lm_node_rate(n))
        return lm_keys_seen(t, lm_node_reach(n), lm_node_chunked(n));
    return (n->code == LM_OP_ATTENTION ? lm_keys_seen(t, s->window, false) : 0) +
           entries_seen(t, s->rate, max_entries(n));
}

uint64_t lm_node_keys_at(const lm_node *n, uint64_t t)
{
    const lm_attention_spec *s = &n->attention.spec;

    if (!lm_node_rate(n))
        return lm_keys_at(t, lm_node_reach(n), lm_node_chunked(n));
    uint64_t max = max_entries(n), whole = t / s->rate;
    return (n->code == LM_OP_ATTENTION ? lm_keys_at(t, s->window, false) : 0) + (whole < max ? whole : max);
}

uint64_t lm_cache_held(const lm_cache *c, uint64_t positions)
{
    if (c->rate)
        return positions / c->rate;
    return c->window && positions > c->window ? c->window : positions;
}

lm_dtype lm_cache_key_type(const lm_cache *c, lm_cache_types types)
{
    return c->rate && lm_dtype_of(types.k)->block > 1 ? LM_F16 : types.k;
}

uint64_t lm_cache_elements(const lm_cache *c)
{
    return (uint64_t)c->n_kv_heads * (c->k_dim + (c->v_in_k ? 0 : c->v_dim));
}

uint64_t lm_elements_bytes(uint64_t elements, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    return elements * t->bytes / t->block;
}

uint64_t lm_cache_bytes(const lm_cache *c, lm_cache_types types)
{
    uint64_t keys = (uint64_t)c->n_kv_heads * c->k_dim, values = lm_cache_elements(c) - keys;

    return lm_elements_bytes(keys, lm_cache_key_type(c, types)) + lm_elements_bytes(values, types.v);
}

const char *lm_cache_types_name(lm_cache_types types, char out[LM_CACHE_TYPES_NAME])
{
    const char *k = lm_dtype_of(types.k)->name, *v = lm_dtype_of(types.v)->name;

    snprintf(out, LM_CACHE_TYPES_NAME, types.k == types.v ? "%s" : "%s/%s", k, v);
    return out;
}
