/* cost.c - compute the cost of a step of a plan. */
#include "plan/cost.h"

#include <math.h>

bool lm_is_product(const lm_step *s)
{
    return s->code == LM_STEP_MATMUL || s->code == LM_STEP_EXPERTS || s->code == LM_STEP_HEADS;
}

/* Return the expected number of matrices that are read: each row is routed to `times` different experts. */
static double matrices_read(const lm_step *s, uint64_t stored, uint64_t rows)
{
    if (s->code != LM_STEP_EXPERTS)
        return rows ? (double)stored : 0;
    return (double)stored * (1 - pow(1 - (double)s->times / (double)stored, (double)rows));
}

static void add_product(const lm_plan *p, const lm_step *s, uint64_t rows, lm_step_costs *out)
{
    const lm_weight *w     = &p->program->weights[s->weight];
    uint64_t         bytes = p->weights[s->weight].bytes;

    out->matrices     = lm_weight_matrices(w);
    out->outs         = w->dims[w->n_dims - 2];
    out->cols         = w->dims[w->n_dims - 1];
    out->arithmetic   = s->matmul->arithmetic;
    out->operations = 2 * (lm_wide)(out->outs * out->cols) * out->rows *
                      (s->code == LM_STEP_HEADS ? out->matrices : 1);
    out->weight_bytes = (lm_wide)((double)(bytes / out->matrices) * matrices_read(s, out->matrices, rows) +
                                  0.5);
}

/* Return the bytes of all keys that the last `rows` of `end` tokens see together. */
static lm_wide bytes_read(const lm_plan *p, const lm_node *n, uint64_t end, uint64_t rows)
{
    const lm_attention_spec *s      = &n->attention.spec;
    const lm_cache          *caches = p->program->caches;
    uint32_t reach = s->rate ? s->window : (uint32_t)lm_node_reach(n);
    uint64_t each  = lm_cache_bytes(&caches[n->attention.cache], p->options.cache),
             held  = end - lm_first_seen(reach, lm_node_chunked(n), (uint32_t)(end - rows));

    if (!s->rate)
        return (lm_wide)each * held;
    if (n->code == LM_OP_SELECT_KEYS)
        return (lm_wide)each * (end / s->rate);
    uint64_t entries = end / s->rate, max = s->top_k * rows;
    return (lm_wide)each * held + (lm_wide)lm_cache_bytes(&caches[n->attention.entries], p->options.cache) *
                                      (s->top_k && max < entries ? max : entries);
}

static void add_attention(const lm_plan *p, const lm_step *s, const lm_forward *f, lm_step_costs *out)
{
    const lm_node *n      = &p->program->nodes[s->node];
    uint64_t       end = f->first + f->rows, rows = f->rows;
    lm_cost        c;

    lm_node_cost(p->program, n, &c);
    out->key_bytes = lm_cache_bytes(&p->program->caches[n->attention.cache], p->options.cache);
    if (!out->rows)
        return;
    if (s->domain == LM_WANTED_ROWS && f->wanted < rows * f->sequences)
        rows = (f->wanted + f->sequences - 1) / f->sequences;
    out->keys        = f->sequences * (lm_node_keys_seen(n, end) - lm_node_keys_seen(n, end - rows));
    out->operations  = 2 * (lm_wide)c.key_mult_adds * out->keys;
    out->cache_bytes = bytes_read(p, n, end, rows) * f->sequences;
}

static uint64_t width_of(const lm_plan *p, const lm_step *s)
{
    if (s->code == LM_STEP_PACK)
        return (uint64_t)s->width * s->groups;
    if (s->code == LM_STEP_GATED)
        return s->width;
    return s->node == LM_NONE ? 0 : p->program->values[p->program->nodes[s->node].out].width;
}

void lm_step_cost(const lm_plan *p, const lm_step *s, const lm_forward *f, lm_step_costs *out)
{
    uint64_t rows = s->domain == LM_WANTED_ROWS ? f->wanted : f->rows * f->sequences;

    *out = (lm_step_costs){ .rows = rows * s->times, .width = width_of(p, s) };
    if (lm_is_product(s))
        add_product(p, s, rows, out);
    else if (s->code == LM_STEP_ATTENTION || s->code == LM_STEP_SELECT)
        add_attention(p, s, f, out);
}
